#!/bin/bash
# cairn logs: of what ended and of what runs, whole or its last lines, of each attempt.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: talk
steps:
  many: {run: "seq 1000", outputs: {}}
  silent: {run: "true"}
  noend: {run: "printf \"one\\ntwo\"; echo >&2; printf three"}
  flaky:
    run: "echo x >>\"$HOME/tries\"; echo attempt $(grep -c . \"$HOME/tries\"); [ $(grep -c . \"$HOME/tries\") -ge 3 ]"
    retry: {max: 5, backoff: 1ms}
  wide:
    matrix: {i: [1, 2]}
    run: echo wide ${{ matrix.i }}
YAML

test_expect 'nothing was run: exit 4, one line' '
	test_code 4 cairn logs many 2>err
	test_lines 1 err
'

test_expect 'a log as it was printed, its last lines, and more than there are' '
	cairn run -q
	seq 1000 >want
	cairn logs many >got
	test_cmp want got
	cairn logs -n 3 many >got
	tail -n 3 want >want3
	test_cmp want3 got
	cairn logs --lines=5000 many >got
	test_cmp want got
	cairn logs noend >got
	printf "one\ntwo\nthree" >want
	test_cmp want got
	cairn logs -n 1 noend >got
	test_is "$(cat got)" three
	cairn logs -n 2 noend >got
	printf "two\nthree" >want
	test_cmp want got
	cairn logs silent >got
	test_lines 0 got
'

test_expect 'the last attempt, and each one by number' '
	cairn logs flaky >got
	test_grep "attempt 3" got
	for n in 1 2 3; do
		cairn logs --attempt $n flaky >got
		test_is "$(cat got)" "attempt $n"
	done
	test_code 4 cairn logs --attempt 4 flaky 2>err
	test_lines 1 err
	test_code 2 cairn logs --attempt 0 flaky 2>err
	test_code 2 cairn logs -n x flaky 2>err
'

test_expect 'several tasks have a line above each; a step names all of its tasks' '
	cairn logs wide >got
	printf "==> wide[i=1] <==\nwide 1\n==> wide[i=2] <==\nwide 2\n" >want
	sort want >want.sorted
	sort got >got.sorted
	test_cmp want.sorted got.sorted
	cairn logs "wide[i=2]" >got
	test_is "$(cat got)" "wide 2"
	test_code 4 cairn logs no-such-task 2>err
	test_lines 1 err
	test_grep "no log of that name" err
'

test_expect 'a hit has the log of the execution that made it' '
	cairn run -q many
	cairn logs -n 1 many >got
	test_is "$(cat got)" 1000
	cairn run -q wide silent
	test_is "$(cairn logs "wide[i=1]")" "wide 1"
	cairn logs wide many -n 1 >got
	test_grep "==> wide\[i=2\] <==" got
	test_grep "^wide 1$" got
	test_no_grep "^1000$" got # it is no task of this run
	cairn logs silent >got
	test_lines 0 got
	mkdir turn
	cd turn
	echo "# project" >cairn.yaml
	write pipeline.yaml <<-"Y"
	pipeline: p
	params: {w: one}
	steps: {a: {run: "echo said ${{ params.w }}"}, b: {run: "echo said ${{ params.w }}"}}
	Y
	for w in one two one; do cairn run -q -p w=$w; done
	test_is "$(cairn logs a)" "said one" # not that of the newest execution
	test_is "$(cairn logs a b | sed -n "s/==> \(.*\) <==/\1/p" | xargs)" "a b"
	sed "s/pipeline: p/pipeline: q/" pipeline.yaml >q.yaml
	cairn run -q q.yaml
	test_is "$(cairn logs a)" "said one" # a hit of what the other pipeline executed, or its own
'

test_expect 'of a run that is named' '
	first=$(cairn runs --json >r; json r "d[\"runs\"][-1][\"id\"]")
	cairn logs -r "$first" "wide[i=1]" >got
	test_is "$(cat got)" "wide 1"
	test_code 4 cairn logs -r no-such-run many 2>err
	test_lines 1 err
'

test_expect 'without a name: what failed' '
	write fail.yaml <<-"YAML"
	pipeline: fail
	steps:
	  good: {run: echo good}
	  bad: {run: "echo bad; exit 1", needs: [good]}
	YAML
	test_code 1 cairn run -q fail.yaml 2>err
	cairn logs >got
	test_is "$(cat got)" bad
	cairn run -q many
	test_code 4 cairn logs 2>err
	test_grep "name a task" err
'

test_expect 'the end of a run names the command that fetches its result' '
	write result.yaml <<-"YAML"
	pipeline: result
	steps:
	  a: {run: "echo 1 >${{ outputs.o }}", outputs: {o: o}}
	  b: {run: "cat ${{ inputs.i }} >${{ outputs.model }}", inputs: {i: "${{ steps.a.outputs.o }}"}, outputs: {model: m, log: l}}
	YAML
	sed -i "s/outputs.model }}\"/outputs.model }}; touch l\"/" result.yaml
	cairn run result.yaml >out 2>err
	command=$(sed -n "s/^ *next: //p" out)
	test_grep "^cairn get result-[a-z0-9]*/b/model$" <(echo "$command")
	eval "$command -o got-model -q"
	test_is "$(cat got-model)" 1
	cairn run result.yaml --until a >out 2>err
	test_no_grep "cairn get" out
'

test_expect '-f shows what comes while it runs, and ends with the task' '
	write live.yaml <<-"YAML"
	pipeline: live
	steps:
	  s: {run: "seq 10; while [ ! -e \"$HOME/go\" ]; do sleep 0.02; done; echo last", cache: false}
	YAML
	start run cairn run -q live.yaml
	wait_until 30 sh -c "cairn logs s | grep -qx 10"
	start follow cairn logs -f s
	start short cairn logs -f -n 2 s
	wait_until 30 grep -qx 10 follow.out
	wait_until 30 grep -qx 10 short.out
	cairn logs -n 2 s >now
	printf "9\n10\n" >want
	test_cmp want now
	test_no_grep last follow.out
	touch "$HOME/go"
	wait_until 30 test -s run.rc
	wait_until 30 test -s follow.rc
	wait_until 30 test -s short.rc
	test_is "$(cat follow.rc)" 0
	{ seq 10; echo last; } >want
	test_cmp want follow.out
	printf "9\n10\nlast\n" >want
	test_cmp want short.out
'

test_expect '-f follows all running tasks of a step, each line behind its name' '
	write two.yaml <<-"YAML"
	pipeline: two
	steps:
	  s: {run: "echo begin ${{ matrix.n }}; while [ ! -e \"$HOME/go${{ matrix.n }}\" ]; do sleep 0.02; done; echo last", matrix: {n: [1, 2, 3]}, cache: false}
	YAML
	rm -f run.rc run.pid follow.rc follow.pid "$HOME"/go?
	touch "$HOME/go3"
	start run cairn run -q -j 3 two.yaml
	wait_until 30 sh -c "cairn logs -r last \"s[n=1]\" | grep -q begin"
	wait_until 30 sh -c "cairn logs -r last \"s[n=2]\" | grep -q begin"
	wait_until 30 sh -c "cairn logs -r last \"s[n=3]\" | grep -q last"
	wait_until 30 sh -c "cairn status --json last | grep -q succeeded"
	start follow cairn logs -f s
	wait_until 30 grep -q "n=1. | begin 1" follow.out
	wait_until 30 grep -q "n=2. | begin 2" follow.out
	touch "$HOME/go2"
	wait_until 30 grep -q "n=2. | last" follow.out
	test_no_grep "n=1. . last" follow.out
	touch "$HOME/go1"
	wait_until 30 test -s run.rc
	wait_until 30 test -s follow.rc
	test_is "$(cat follow.rc)" 0
	sort follow.out >got
	cat >want <<-E2
	==> s[n=3] <==
	begin 3
	last
	s[n=1] | begin 1
	s[n=1] | last
	s[n=2] | begin 2
	s[n=2] | last
	E2
	test_cmp want got
'

test_expect '-f of an engine that is killed ends too' '
	rm -f "$HOME/go" run.rc run.pid follow.rc follow.pid
	start run cairn run -q live.yaml
	wait_until 30 sh -c "cairn logs -n 1 s | grep -qx 10" # not that of the run before
	start follow cairn logs -f s
	wait_until 30 grep -qx 10 follow.out
	kill -9 "$(cat run.pid)"
	wait_until 30 test -s follow.rc
	test_is "$(cat follow.rc)" 0
'

test_expect --needs script 'hostile bytes reach no terminal, but every other reader' '
	write odd.yaml <<-"YAML"
	pipeline: odd
	steps:
	  s: {run: "printf \"a\\033]0;title\\007b\\n\""}
	YAML
	cairn run -q odd.yaml
	cairn logs s >got
	printf "a\033]0;title\007b\n" >want
	test_cmp want got
	TERM=xterm script -qec "cairn logs s" /dev/null </dev/null >tty
	test_no_grep "$(printf "\033]0")" tty
	test_grep title tty
'
test_expect --needs script 'a terminal gets whole what lies where two pieces of a log meet' '
	python3 - <<-"P"
	pieces = [(65535, "\u00e9\n".encode()), (131071, b"\r\n"), (196606, b"\x1b[31mred\n"),
	          (262143, b"blue\x1b[0m\n")]
	out = b""
	for at, what in pieces:
	    while len(out) + 80 < at:
	        out += b"x" * 60 + b"\n"
	    out += b"x" * (at - len(out)) + what
	open("bytes", "wb").write(out + b"end\xc3")
	P
	write pieces.yaml <<-"YAML"
	pipeline: pieces
	steps: {s: {run: cat bytes, code: [bytes]}}
	YAML
	cairn run -q pieces.yaml
	cairn logs s | test_cmp bytes -
	TERM=xterm script -qec "cairn logs s" /dev/null </dev/null >tty
	python3 - <<-"P"
	tty = open("tty", "rb").read()
	assert "\u00e9".encode() in tty
	assert tty.count(b"\\x") == 1 and b"end\\xc3" in tty, tty[-99:]
	assert b"\\r" not in tty and b"\\e" not in tty
	assert b"\x1b[31mred" in tty and b"\x1b[0m" in tty
	P
'
write live.yaml <<'YAML'
pipeline: live
steps:
  two:
    matrix: {k: [a, b]}
    run: |
      printf '10%%\r50%%\r100%%\r\n\033[31m%s\033[0m says\033]0;title\007 x\n' ${{ matrix.k }}
      until test -e "$GO"; do sleep 0.1; done
      printf '%s ends' ${{ matrix.k }}
    env: {GO: "${{ params.go }}"}
  flood: {run: "seq 3000000; echo the last line", needs: [two]}
  left: {if: "${{ params.go == '' }}", run: "true"}
params: {go: ""}
YAML

test_expect 'run -v prints what tasks print while they run, in whole lines, also in a pipe; a flood only at its end' '
	start live sh -c "cairn run -v -j 2 live.yaml -p go=$PWD/live.go >live.out 2>live.err"
	wait_until 30 grep -qx "two.k=a. | a says x" live.err
	wait_until 30 grep -qx "two.k=b. | b says x" live.err
	begin=$SECONDS
	touch live.go
	wait_until 30 test -s live.rc
	looks=$(((SECONDS - begin + 1) * 5 + 1)) # five a second
	test_is "$(cat live.rc)" 0
	test_is "$(grep -c "^two.k=[ab]. | 100%$" live.err)" 2
	test_is "$(grep -c "^two.k=[ab]. | [ab] ends$" live.err)" 2
	test_grep "^flood | (.*MiB not shown: .cairn logs. has all)$" live.err
	test_grep "^flood | the last line$" live.err
	test "$(wc -c <live.err)" -lt $((looks * 2 * 65536)) # a line and its step have the same length
	test_grep "left skipped" live.err
	test_no_grep "$(printf "\033")" live.err
	test_no_grep "title" live.err
	cairn run -v live.yaml -p go=$PWD/live.go >out 2>err
	test_grep "flood on record" err
	cairn run live.yaml -p go=$PWD/live.go --force >out 2>err
	test_no_grep "flood [|]" err
'

test_expect '-f of a step prints its tasks that begin later, too, and ends with the run' '
	write later.yaml <<-Y
	pipeline: later
	steps:
	  t: {matrix: {k: [1, 2, 3]}, run: "echo says \${{ matrix.k }}; touch \$MARK.\${{ matrix.k }}; while [ ! -e \$MARK.go ]; do sleep 0.05; done", env: {MARK: "$PWD/mark"}}
	Y
	start later cairn run -q -j1 later.yaml
	wait_until 20 sh -c "ls mark.[123]"
	start listen cairn logs -f -r last:later t
	wait_until 20 test -s listen.out
	touch mark.go
	wait_until 30 test -s listen.rc
	test_is "$(cat listen.rc)" 0
	test_is "$(sort listen.out | tr "\n" ";")" "t[k=1] | says 1;t[k=2] | says 2;t[k=3] | says 3;"
'

test_done
