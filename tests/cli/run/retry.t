#!/bin/bash
# Retries by class of failure, their pauses, and what limits how much goes at once: -j, slots, concurrency groups.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml

# most FILE: FILE has "+" and "-" lines as tasks begin and end; prints how many were at work at once, at most.
most() { awk '/\+/ { if (++n > max) max = n } /-/ { n-- } END { print max + 0 }' "$1"; }

test_expect 'a budget of one class is no budget of another' '
	write classes.yaml <<-"YAML"
	pipeline: classes
	steps:
	  slow: {run: "exec sleep 1000", timeout: 50ms, retry: {max: 0, timeout: 2, backoff: 1ms}}
	  bad: {run: "echo x >>\"$HOME/bad\"; exit 7", retry: {max: 1, timeout: 5, backoff: 1ms}}
	YAML
	test_code 1 cairn run classes.yaml -k 2>err
	# By the record: a busy machine ends an attempt before its program has done anything.
	test_is "$(cairn status --json last | json /dev/stdin "max(t[\"attempt\"] for t in d[\"tasks\"] if t[\"task\"] == \"slow\")")" 3
	test_is "$(wc -l <"$HOME/bad")" 2
	test_grep "took longer than its timeout" err
	test_grep "exit status 7" err
'

test_expect 'a retry waits for its pause, which grows' '
	write pause.yaml <<-"YAML"
	pipeline: pause
	steps:
	  p: {run: "date +%s%N >>\"$HOME/pause\"; exit 1", retry: {max: 2, backoff: 200ms..10s}}
	YAML
	test_code 1 cairn run pause.yaml 2>err
	test_lines 3 "$HOME/pause"
	python3 - "$HOME/pause" <<-"PY"
	import sys
	a, b, c = (int(x) for x in open(sys.argv[1]))
	assert b - a >= 100e6, (b - a)
	assert c - b >= b - a or c - b >= 200e6, (b - a, c - b)
	PY
'

test_expect 'a failed attempt leaves nothing for the next one: a fresh workspace each time' '
	write fresh.yaml <<-"YAML"
	pipeline: fresh
	steps:
	  f: {run: "[ ! -e left ] || exit 9; : >left; echo x >>\"$HOME/fresh\"; [ \"$(wc -l <\"$HOME/fresh\")\" -ge 2 ]; echo ok >o", outputs: {o: o}, retry: {max: 3, backoff: 1ms}}
	YAML
	cairn run fresh.yaml -q
	test_is "$(wc -l <"$HOME/fresh")" 2
'

test_expect 'a failure is never cached: the next run tries again, and only that' '
	write again.yaml <<-"YAML"
	pipeline: again
	steps:
	  a: {run: "echo a >o", outputs: {o: o}}
	  b: {run: "echo x >>\"$HOME/again\"; [ -e \"$HOME/mended\" ]; cp ${{ inputs.o }} p", inputs: {o: "${{ steps.a.outputs.o }}"}, outputs: {p: p}}
	YAML
	test_code 1 cairn run again.yaml -q 2>err
	: >"$HOME/mended"
	cairn run again.yaml --json >out
	test_is "$(json out "[d[\"counts\"][\"executed\"], d[\"counts\"][\"hits\"]]")" "[1, 1]"
	test_is "$(wc -l <"$HOME/again")" 2
'

test_expect '-j 1 runs one at a time, -j 3 at most three' '
	write many.yaml <<-"YAML"
	pipeline: many
	steps:
	  t: {matrix: {i: [1, 2, 3, 4, 5, 6]}, run: "echo + >>\"$HOME/many\"; sleep 0.05; echo - >>\"$HOME/many\"; echo ${{ matrix.i }} >o", outputs: {o: o}, resources: {cpu: 0.01, memory: 1Mi}}
	YAML
	cairn run many.yaml -q -j1
	test_is "$(most "$HOME/many")" 1
	rm "$HOME/many"
	cairn run many.yaml -q -j3 --force t
	[ "$(most "$HOME/many")" -le 3 ]
'

test_expect 'a concurrency group lets one in at a time, also of two engines' '
	write group.yaml <<-"YAML"
	pipeline: group
	params: {w: 0}
	steps:
	  g: {matrix: {i: [1, 2, 3, 4]}, concurrency: {group: only, max: 1}, run: "echo + >>\"$HOME/group\"; sleep 0.05; echo - >>\"$HOME/group\"; echo ${{ params.w }}${{ matrix.i }} >o", outputs: {o: o}}
	YAML
	start one cairn run group.yaml -q -j4 -p w=1
	start two cairn run group.yaml -q -j4 -p w=2
	wait_until 60 test -s one.rc
	wait_until 60 test -s two.rc
	test_is "$(cat one.rc) $(cat two.rc)" "0 0"
	test_is "$(wc -l <"$HOME/group")" 16
	test_is "$(most "$HOME/group")" 1
'

test_expect 'more cpus than there are is cut down to the machine; gpus that are not there are an error, at once' '
	write huge.yaml <<-"YAML"
	pipeline: huge
	steps:
	  h: {run: "true", resources: {cpu: 100000}}
	YAML
	cairn run huge.yaml -q
	write gpu.yaml <<-"YAML"
	pipeline: gpu
	steps:
	  g: {run: "echo gpu", resources: {gpu: 1000}, retry: {max: 5, backoff: 1h}}
	YAML
	test_code 1 timeout 20 cairn run gpu.yaml 2>err
	test_grep "asks for 1000 GPUs; this machine has" err
'

test_expect 'what a step leaves in the background goes with it' '
	write stray.yaml <<-"YAML"
	pipeline: stray
	steps:
	  s: {run: "setsid sleep 1000 & echo $! >\"$HOME/straypid\"; echo ok >o", outputs: {o: o}}
	YAML
	cairn run stray.yaml -q
	wait_until 10 test_gone "$(cat "$HOME/straypid")"
'
test_done
