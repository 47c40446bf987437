#!/bin/bash
# The engine is killed at many points of a run, or stopped, or two of them meet: what is finished stays, nothing is done twice.
. "$(dirname "$0")/../lib.sh"

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: many
steps:
  a:
    matrix: {i: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]}
    run: echo ${{ matrix.i }} >o; sleep 0.01; echo a${{ matrix.i }} >>"$HOME/done"
    outputs: {o: o}
  b:
    matrix: {i: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]}
    run: sed s/^/b/ ${{ inputs.a }} >o; echo b${{ matrix.i }} >>"$HOME/done"
    inputs: {a: "${{ steps.a.outputs.o }}"}
    outputs: {o: o}
  once:
    run: echo once >>"$HOME/done"; date +%N >o
    outputs: {o: o}
    cache: false
  all:
    run: cat ${{ inputs.b }}/* ${{ inputs.once }} | grep -c . >o; echo all >>"$HOME/done"
    inputs: {b: "${{ steps.b.outputs.o }}", once: "${{ steps.once.outputs.o }}"}
    outputs: {o: o}
YAML

# Kills the engine when `done` has N lines, goes on until the run has ended, and looks at what was executed.
killed_at() {
	rm -rf .cairn "$HOME/done"
	: >"$HOME/done"
	start run cairn run pipeline.yaml -q -j2
	wait_until 30 sh -c "[ \$(wc -l <'$HOME/done') -ge $1 ] || [ -e run.rc ]"
	kill -9 "$(cat run.pid)" 2>/dev/null || true
	wait_until 30 test -s run.rc
	# It may have been killed after the run's last word.
	if [ "$(cat run.rc)" -ne 0 ] && { ! cairn runs --json >runs || [ "$(json runs '(d["runs"] or [{"state": ""}])[0]["state"]')" != succeeded ]; }; then
		cairn resume -q --json >out 2>err || { cairn run pipeline.yaml -q --json >out; grep -q 'no run is waiting' err; }
		test_is "$(json out 'd["state"]')" succeeded
	fi
	rm -f run.rc run.pid
	cairn get all/o -o - >n
	test_is "$(cat n)" 13
	# Two tasks can have been at work when it died, and two were taken in; everything else exactly once.
	test_is "$(sort -u "$HOME/done" | wc -l)" 26
	[ "$(wc -l <"$HOME/done")" -le 30 ]
	cairn store verify >v
	cairn doctor >doctor
	# An engine that died in its last moment leaves its trash to the next one; workspaces it never leaves.
	test_is "$(find .cairn/work -mindepth 1 -maxdepth 1 ! -name "trash-*" | wc -l)" 0
}

for n in 0 1 2 3 5 8 11 12 13 14 17 20 23 24 25 26; do
	test_expect "kill -9 after $n tasks, then resume" "killed_at $n"
done

test_expect 'after kill -9 nothing of the tasks is left running' '
	write stray.yaml <<-"YAML"
	pipeline: stray
	steps:
	  s: {run: "(setsid sleep 1000 &) ; echo $$ >\"$HOME/pid\"; sleep 1000"}
	YAML
	start stray cairn run stray.yaml -q
	wait_until 30 test -s "$HOME/pid"
	kill -9 "$(cat stray.pid)"
	wait_until 30 sh -c "[ ! -d /proc/$(cat "$HOME/pid") ]"
	wait_until 30 sh -c "! grep -lz ^CAIRN_ATTEMPT= /proc/[0-9]*/environ 2>/dev/null | xargs -r grep -lzF \"$TRASH\" 2>/dev/null | grep -q ."
'

test_expect 'one Ctrl-C stops gently: the task may save, the run can be resumed' '
	write gentle.yaml <<-"YAML"
	pipeline: gentle
	steps:
	  s: {run: "trap \"echo saved >>$HOME/saved; exit 1\" TERM; echo $$ >\"$HOME/gpid\"; [ -e \"$HOME/saved\" ] || while :; do sleep 0.05; done; echo ok >o", outputs: {o: o}}
	YAML
	start gentle cairn run gentle.yaml
	wait_until 30 test -s "$HOME/gpid"
	kill -INT "$(cat gentle.pid)"
	wait_until 30 test -s gentle.rc
	test_is "$(cat gentle.rc)" 130
	test_is "$(cat "$HOME/saved")" saved
	test_grep "cairn resume" gentle.out
	cairn resume
	cairn get s/o -o - >o
	test_is "$(cat o)" ok
'

test_expect 'cairn cancel stops a run of another process' '
	write long.yaml <<-"YAML"
	pipeline: long
	steps:
	  s: {run: "echo $$ >\"$HOME/lpid\"; sleep 1000"}
	YAML
	start long cairn run long.yaml
	wait_until 30 test -s "$HOME/lpid"
	cairn status >status
	test_grep running status
	cairn cancel
	wait_until 30 test -s long.rc
	test_is "$(cat long.rc)" 130
	cairn runs --json >runs
	test_is "$(json runs "d[\"runs\"][0][\"state\"]")" cancelled
'

test_expect 'a run that is alive is not resumed' '
	rm -f long.rc long.pid "$HOME/lpid"
	start long cairn run long.yaml
	wait_until 30 test -s "$HOME/lpid"
	test_code 4 cairn resume "$(cairn runs --json >r; json r "d[\"runs\"][0][\"id\"]")" 2>err
	test_grep "still running" err
	kill -INT "$(cat long.pid)"
	wait_until 30 test -s long.rc
'

test_expect 'a damaged and a newer database: one clear error, and results are found in the store without it' '
	rm -rf .cairn
	cairn run pipeline.yaml -q
	python3 -c "import sqlite3; c = sqlite3.connect(\".cairn/cairn.db\"); c.execute(\"PRAGMA user_version=99\"); c.commit()"
	test_code 4 cairn run pipeline.yaml 2>err
	test_lines 1 err
	test_grep "newer cairn" err
	rm .cairn/cairn.db-wal .cairn/cairn.db-shm
	head -c 8192 /dev/urandom >.cairn/cairn.db
	test_code 4 cairn run pipeline.yaml 2>err
	test_grep "move it away" err
	rm .cairn/cairn.db
	cairn run pipeline.yaml --json >out
	test_is "$(json out "d[\"counts\"][\"hits\"]")" 24
'

test_expect --needs ROOT 'a full disk: one clear error, and the run goes on when there is room' '
	mkdir small
	mount -t tmpfs -o size=600k none small
	test_when_finished "umount -l \"$TRASH/work/small\""
	cp cairn.yaml small
	write small/pipeline.yaml <<-"YAML"
	pipeline: big
	steps:
	  b: {matrix: {i: [1, 2, 3, 4]}, run: "head -c 15000${{ matrix.i }} /dev/urandom >o", outputs: {o: o}}
	YAML
	cd small
	rc=0
	cairn run pipeline.yaml -q 2>../err || rc=$?
	[ "$rc" -eq 4 ] || [ "$rc" -eq 1 ]
	test_grep "[Nn]o space" ../err
	mount -o remount,size=20m none .
	cairn run pipeline.yaml -q
	cairn store verify
'

test_expect --needs ROOT 'a program that meets the full disk first, and a log that does not fit: the error says what its own words could not' '
	mkdir -p full/.cairn/work # only these: the database has room
	mount -t tmpfs -o size=1m none full/.cairn/work
	test_when_finished "umount -l \"$TRASH/work/full/.cairn/work\""
	cp cairn.yaml full
	write full/pipeline.yaml <<-"YAML"
	pipeline: fills
	steps:
	  f: {run: "cat /dev/zero >o"}
	YAML
	write full/room.yaml <<-"YAML"
	pipeline: room
	steps:
	  f: {run: "exit 3"}
	YAML
	write full/log.yaml <<-"YAML"
	pipeline: log
	steps:
	  f: {run: "seq 500000", secrets: [WORD], retry: {store: 0}}
	YAML
	cd full
	test_code 1 cairn run room.yaml -q 2>../err
	test_grep "f failed .*: exit status 3$" ../err
	test_code 1 cairn run pipeline.yaml -q 2>../err
	test_grep "f failed .*: exit status 1; no space is left on the device that holds .*/full/.cairn" ../err
	CAIRN_SECRET_WORD=something test_code 4 cairn run log.yaml -q 2>../err
	test_grep "keeping the log: .*[Nn]o space" ../err
'

test_expect 'a store that cannot be written to: one clear error' '
	mkdir ro
	cp cairn.yaml ro
	write ro/pipeline.yaml <<-"YAML"
	pipeline: ro
	steps:
	  b: {run: "echo x >o", outputs: {o: o}}
	YAML
	cd ro
	mkdir .cairn
	: >.cairn/store
	test_code 4 cairn run pipeline.yaml 2>err
	test_lines 1 err
'
test_done
