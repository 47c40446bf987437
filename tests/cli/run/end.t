#!/bin/bash
# How a run ends: never as a success with a task that has no end, and who waits for it is not held up.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
counts() { json "$1" '[d["counts"][k] for k in ("total", "executed", "hits")]'; }

test_expect --needs LOCAL_STORE 'the store is lost: each task comes to an end, also where a step expands beside one that is made again' '
	write lost.yaml <<-"Y"
	pipeline: lost
	steps:
	  base: {run: "echo base >o", outputs: {o: o}}
	  left: {run: "cat ${{ inputs.b }} >o; echo left >>o", inputs: {b: "${{ steps.base.outputs.o }}"}, outputs: {o: o}}
	  parts: {run: "for i in 1 2 3; do echo $i >d/$i; done", outputs: {d: d/}}
	  each: {run: "cat ${{ inputs.i }} >o; echo each >>o", each: "${{ steps.parts.outputs.d }}/*", inputs: {i: "${{ item }}"}, outputs: {o: o}}
	  early: {run: "sleep 1; cat ${{ inputs.l }} >o; echo early >>o", inputs: {l: "${{ steps.left.outputs.o }}"}, outputs: {o: o}}
	  train:
	    run: "cat ${{ inputs.e }}/* ${{ inputs.l }} >o; echo ${{ matrix.x }} >>o"
	    matrix: {x: [0, 1]}
	    inputs: {e: "${{ steps.each.outputs.o }}", l: "${{ steps.left.outputs.o }}"}
	    outputs: {o: o}
	Y
	cairn run -q lost.yaml --json >out
	test_is "$(counts out)" "[9, 9, 0]"
	rm -rf .cairn/store
	cairn run -q lost.yaml --json >out
	test_is "$(counts out)" "[9, 9, 0]"
	test_is "$(cairn status --json last | json /dev/stdin "sorted(set(t[\"state\"] for t in d[\"tasks\"]))")" "[\"succeeded\"]"
	cairn get -q "train[x=1]" -o got
	test_is "$(tail -n 1 got/o 2>/dev/null || tail -n 1 got)" 1
'

test_expect --needs LOCAL_STORE 'one result of many is lost: what looked like a run without work makes it again' '
	{ printf "pipeline: many\nsteps:\n"; for i in $(seq 700); do printf "  s%d: {run: \"echo $i >o\", outputs: {o: o}}\n" "$i"; done; } >many.yaml
	cairn run -q many.yaml --json >out
	test_is "$(counts out)" "[700, 700, 0]"
	cairn run -q many.yaml --json >out
	test_is "$(counts out)" "[700, 0, 700]"
	rm -f .cairn/store/blobs/*/"$(echo 350 | sha256sum | cut -d" " -f1)"
	cairn plan many.yaml >out
	test_grep "s350" out
	cairn run -q many.yaml --json >out
	test_is "$(counts out)" "[700, 1, 699]"
	cairn run -q many.yaml --json >out
	test_is "$(counts out)" "[700, 0, 700]"
'

test_expect --needs LOCAL_STORE 'after a loss, plan calls nothing a hit that run executes' '
	sed -e "/^  early:/d" -e "s/: lost/: planned/" lost.yaml >planned.yaml
	cairn run -q planned.yaml
	rm -rf .cairn/store
	cairn plan planned.yaml --json >out
	test_is "$(json out "d[\"counts\"][\"hits\"]")" 0
	test_grep "content is gone from the store" out
	cairn run -q planned.yaml --json >out
	test_is "$(counts out)" "[8, 8, 0]"
	cairn plan planned.yaml --json >out
	test_is "$(json out "d[\"counts\"][\"hits\"]")" 8
'

test_expect --needs LOCAL_STORE 'a run that fails only because of the store is a matter of the environment: exit 4' '
	write gone.yaml <<-Y
	pipeline: gone
	steps:
	  a: {run: "echo gone-for-ever >o", outputs: {o: o}}
	  b: {run: "grep -rlx gone-for-ever $PWD/.cairn/store/blobs | xargs rm -f", needs: [a]}
	  c: {run: "cat \${{ inputs.o }} >p", inputs: {o: "\${{ steps.a.outputs.o }}"}, needs: [b], outputs: {p: p}, retry: {store: 0}}
	Y
	test_code 4 cairn run -q gone.yaml 2>err
	test_is "$(cairn status --json last | json /dev/stdin "d[\"run\"][\"state\"]")" failed
	write both.yaml <<-"Y"
	pipeline: both
	steps:
	  a: {run: "exit 3"}
	Y
	test_code 1 cairn run -q both.yaml
'

test_expect 'several take up a run at once: one executes it, the others say so' '
	write killed.yaml <<-Y
	pipeline: killed
	steps:
	  a: {run: "echo x >>$PWD/executed; while [ ! -e $PWD/go ]; do sleep 0.05; done", cache: false}
	Y
	start killed cairn run killed.yaml
	wait_until 20 test -s executed
	kill -9 "$(cat killed.pid)"
	wait_until 20 test -s killed.rc
	: >executed
	python3 - >said <<-PY
	import fcntl, os, subprocess, time
	lock = open(".cairn/cairn.db.lock", "r+")
	fcntl.lockf(lock, fcntl.LOCK_EX)  # all three have read that the run is free before the first one can take it
	ino = os.fstat(lock.fileno()).st_ino
	runs = [subprocess.Popen(["cairn", "resume", "last:killed"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(3)]
	end = time.monotonic() + 30
	while sum("->" in line and f":{ino} " in line for line in open("/proc/locks")) < 3 and time.monotonic() < end:
	    time.sleep(0.02)
	fcntl.lockf(lock, fcntl.LOCK_UN)
	while sum(r.poll() is not None for r in runs) < 2 and time.monotonic() < end:
	    time.sleep(0.02)
	open("go", "w")
	for r in runs:
	    print(r.wait(), r.stdout.read().replace("\n", " | "))
	PY
	test_is "$(cut -d " " -f 1 said | sort | tr "\n" " ")" "0 4 4 "
	test_is "$(grep -c "was taken up by another process" said)" 2
	test_lines 1 executed
'

test_expect 'who reads the database, and who prints into a pager that nobody reads, holds up no run' '
	write many.yaml <<-"Y"
	pipeline: many
	steps:
	  t: {run: "echo ${{ item }} >o", each: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40], outputs: {o: o}}
	Y
	for i in 1 2 3 4 5 6; do cairn run -q many.yaml; done
	python3 - <<-"PY"
	import fcntl, os, sqlite3, subprocess, time
	read, write = os.pipe()
	fcntl.fcntl(write, 1031, 4096)  # F_SETPIPE_SZ
	pager = subprocess.Popen(["cairn", "runs", "-n", "0", "--json"], stdout=write)
	os.close(write)
	end = time.monotonic() + 20
	def waits():  # in write(2), for us
	    try:
	        return open(f"/proc/{pager.pid}/wchan").read().startswith(("pipe_write", "anon_pipe_write"))
	    except OSError:
	        return False
	while not waits() and pager.poll() is None and time.monotonic() < end:
	    time.sleep(0.02)
	assert pager.poll() is None, "it was to wait for its reader"
	db = sqlite3.connect(".cairn/cairn.db", timeout=0)
	db.execute("create table if not exists unused_by_cairn (x)"); db.commit()
	busy = db.execute("pragma wal_checkpoint(truncate)").fetchone()[0]
	assert busy == 0, "it reads the database while it prints"
	pager.kill()
	db.execute("drop table unused_by_cairn"); db.commit()
	# And a reader that stays: the log of what is written grows over what a checkpoint is due at.
	db.execute("begin"); db.execute("select count(*) from run").fetchone()
	at = time.monotonic()
	subprocess.run(["cairn", "run", "-q", "many.yaml", "--force"], check=True)
	assert os.path.getsize(".cairn/cairn.db-wal") > 256 * 1024, "too little was written to prove anything"
	took = time.monotonic() - at
	assert took < 20, took
	PY
'
test_expect 'a record that lost an end while the run went: an internal error with the list, exit 4, and nothing says succeeded' '
	write proof.yaml <<-Y
	pipeline: proof
	steps:
	  a: {run: "echo a >o", outputs: {o: o}}
	  b: {run: "test ! -e $PWD/harm || python3 $PWD/harm", needs: [a], cache: false}
	Y
	cat >harm <<-PY
	import sqlite3
	db = sqlite3.connect("$PWD/.cairn/cairn.db")
	db.execute("UPDATE attempt SET ended_ns = 0 WHERE pipeline = '"'"'proof'"'"' AND task = '"'"'a'"'"'")
	db.commit()
	PY
	test_code 4 cairn run -v proof.yaml >out 2>err
	test_grep "internal error: the run came to its end, but the record does not say so of 1 of its tasks: a .its attempt has no end on record." err
	test_no_grep "run succeeded|proof-[a-z0-9]* succeeded" out
	test_no_grep "proof-[a-z0-9]* succeeded" err
	test_is "$(cairn status --json last | json /dev/stdin "[d[\"run\"][\"state\"], d[\"run\"][\"hash\"]]")" "[\"interrupted\", null]"
	test_code 4 cairn run --force proof.yaml --json >out 2>err
	test_no_grep "\"state\": \"succeeded\"" out
	rm harm
	cairn resume -q last
	test_is "$(cairn status --json last | json /dev/stdin "d[\"run\"][\"state\"]")" succeeded
'
test_expect 'what is said while the store does not answer says so: it may be there' '
	mkdir away
	cd away
	echo "store: s3://away/x" >cairn.yaml
	echo "{pipeline: p, steps: {a: {run: \"echo 1 >\${{ outputs.o }}\", outputs: {o: o}}}}" >pipeline.yaml
	export AWS_ENDPOINT_URL=http://127.0.0.1:1 AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b AWS_MAX_ATTEMPTS=1
	unset CAIRN_STORE
	test_code 4 cairn plan >out 2>err
	test_grep "^run  *a " out
	test_grep "the store s3://away/x doesn.t answer, so its content counts as missing" err
	test_code 4 cairn plan --json >out 2>err
	test_is 1 "$(json out "d[\"counts\"][\"run\"]")"
	test_code 4 cairn why a >out 2>err
	test_grep "would run" out
	test_grep "doesn.t answer" err
	echo "kubernetes: {store_secret: s, image: \"r.example/x@sha256:$(printf "%064d" 0)\"}" >>cairn.yaml
	sed "s|a: {run|a: {image: \"r.example/y@sha256:$(printf "%064d" 0)\", run|" pipeline.yaml >pods.yaml
	test_code 4 cairn run --on kubernetes --dry-run=client pods.yaml >out 2>err
	test_grep "^kind: Job" out
	test_grep "doesn.t answer" err
	test_code 4 cairn run -q 2>err
	test_grep "^cairn: the store s3://away/x can.t be reached: .*; --cache off goes on without it, and .cairn store push. sends the results later$" err
	test_is "$(wc -l <err)" 1
	cairn run -q --cache off
	cairn plan >out 2>err
	test_grep "^1 hit, 0 to run" out
	test_cmp /dev/null err
'

test_done
