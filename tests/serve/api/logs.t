#!/bin/bash
# cairn logs --server: the same words as without it, of what ended and of what runs; parts of logs; logs that break off.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: talk
steps:
  many: {run: "seq 1000"}
  ranks: {run: "for i in 1 2 3; do echo \"[rank 0] zero $i\"; echo \"launcher $i\"; echo \"[rank 1] one $i\"; echo \"[rank 11] eleven $i\"; done; printf \"[rank 1] last\""}
  silent: {run: "true"}
YAML
write live.yaml <<'YAML'
pipeline: live
steps:
  s: {run: "seq -f \"[rank 0] %g\" 10; echo \"[rank 1] x\"; while [ ! -e \"$HOME/go\" ]; do sleep 0.02; done; echo \"[rank 0] end\"; echo \"[rank 1] y\"", cache: false}
YAML
away() { CAIRN_SERVER=$(serve_url srv) cairn logs "$@" --server; }
same() { # ARGS: there as here
	cairn logs "$@" >here
	away "$@" >there
	test_cmp here there
}

test_expect 'the last lines, a rank, both, as without a server' '
	cairn run -q
	serve srv
	same many
	same many -n 3
	test_is "$(tr "\n" " " <there)" "998 999 1000 "
	same many -n 5000
	test_lines 1000 there
	same ranks
	same ranks --rank 1
	printf "one 1\none 2\none 3\nlast" | test_cmp - there
	same ranks --rank 1 -n 2
	printf "one 3\nlast" | test_cmp - there
	same ranks --rank 11 -n 1
	test_is "$(cat there)" "eleven 3"
	same ranks --rank 2
	test_lines 0 there
	same silent -n 1 --rank 0
	test_lines 0 there
	same many ranks silent -n 1
	write said.yaml <<-"YAML"
	pipeline: said
	params: {w: one}
	steps: {a: {run: "echo said ${{ params.w }}", matrix: {i: [1, 2]}}}
	YAML
	for w in one two one; do cairn run -q said.yaml -p w=$w; done
	same "a[i=1]" # a hit: of the execution whose result it was, not the newest
	test_is "$(cat there)" "said one"
	mkdir elsewhere # another project, whose run is a hit of what it never executed
	echo "store: $PWD/.cairn/store" >elsewhere/cairn.yaml
	cp said.yaml elsewhere
	serve other elsewhere
	cairn -C elsewhere run -q said.yaml -p w=two --json >hit.json
	test_is "$(json hit.json "d[\"counts\"][\"hits\"]")" 2
	cairn -C elsewhere logs "a[i=2]" >here
	test_is "$(cat here)" "said two"
	get other "/api/v1/runs/last/log?task=a%5Bi%3D2%5D"
	status_is 200
	test_cmp here body
	test_is "$(stop other TERM)" 0
	same a # a step of several tasks: each of them
	test_is "$(grep -c "^==> a\[i=[12]\] <==$" there)" 2
	cairn run -q many ranks silent
'

test_expect 'without a name: what failed; one wording of what is not there' '
	cat >fail.yaml <<-"YAML"
	pipeline: fail
	steps:
	  good: {run: echo good}
	  bad: {run: "echo bad $X; exit 1", matrix: {x: [1, 2]}, env: {X: "${{ matrix.x }}"}}
	  late:
	    run: "echo x >>\"$HOME/tries\"; echo try $(grep -c . \"$HOME/tries\"); [ $(grep -c . \"$HOME/tries\") -ge 2 ]"
	    retry: {max: 2, backoff: 1ms}
	YAML
	test_code 1 cairn run -q --keep-going fail.yaml 2>err
	same
	test_is "$(grep -c "^==> bad\[x=[12]\] <==$" there)" 2
	test_no_grep try there # it went well in the end
	same late good
	test_is "$(sed -n "s/^==> \(.*\) <==$/\1/p" there | xargs)" "late (again) good"
	same late --attempt 1
	test_is "$(cat there)" "try 1"
	for a in "no-such" "late --attempt 3"; do
		# shellcheck disable=SC2086
		test_code 4 cairn logs $a 2>here
		# shellcheck disable=SC2086
		test_code 4 away $a 2>there
		sed "s/ --server//" there | test_cmp here -
		test_grep "cairn status -v .* --server" there
	done
	cairn run -q many ranks silent
	test_code 4 cairn logs 2>here
	test_code 4 away 2>there
	test_cmp here there
'

test_expect 'of the API, with plain HTTP' '
	get srv "/api/v1/runs/last/log?task=ranks&rank=0&lines=2"
	status_is 200
	printf "zero 2\nzero 3\n" | test_cmp - body
	get srv "/api/v1/runs/last/log?task=ranks&rank=0&lines=2&follow=true"
	printf "zero 2\nzero 3\n" | test_cmp - body
	for p in lines=0 lines=x lines=-1 lines= lines=4294967296 rank=-1 rank=x rank= rank=4294967296; do
		get srv "/api/v1/runs/last/log?task=ranks&$p"
		status_is 400
		test_grep "parameter .${p%=*}. must be a whole number from . to 4294967295" body
	done
	get srv /api/v1/openapi.json
	test_is "$(json body "[p[\"name\"] for p in d[\"paths\"][\"/api/v1/runs/{run}/log\"][\"get\"][\"parameters\"]][-4:]")" "[\"lines\", \"rank\", \"offset\", \"bytes\"]"
'

test_expect 'bad values are one clear error, before anything is asked' '
	for o in "-n 0" "-n x" "--rank -1" "--rank x" "--attempt 0"; do
		# shellcheck disable=SC2086
		test_code 2 cairn logs many --server http://127.0.0.1:1 $o 2>err
		test_lines 1 err
		test_grep "whole number" err
	done
'

test_expect 'while it runs: so far, and on' '
	start live cairn run -q live.yaml
	so_far() { cairn logs s >seen && grep -q "rank 1. x" seen; }
	wait_until 30 so_far
	same s -n 2
	same s -n 2 --rank 0
	printf "9\n10\n" | test_cmp - there
	start tail env "CAIRN_SERVER=$(serve_url srv)" cairn logs s -f -n 2 --rank 0 --server
	start one env "CAIRN_SERVER=$(serve_url srv)" cairn logs s -f --rank 1 --server
	start near cairn logs s -f -n 2 --rank 0
	wait_until 30 grep -q 10 tail.out
	wait_until 30 grep -q 10 near.out
	wait_until 30 grep -q x one.out
	touch "$HOME/go"
	for f in live tail one near; do wait_until 30 test -s $f.rc; done
	printf "9\n10\nend\n" | test_cmp - tail.out
	printf "9\n10\nend\n" | test_cmp - near.out
	printf "x\ny\n" | test_cmp - one.out
	same s -n 1 --rank 1
	test_is "$(cat there)" y
'

test_expect 'all running tasks of a step are followed, each line behind its name' '
	write two.yaml <<-"YAML"
	pipeline: two
	steps:
	  s: {run: "echo begin; while [ ! -e \"$HOME/both\" ]; do sleep 0.02; done; echo end", matrix: {n: [1, 2]}, cache: false}
	YAML
	rm -f run.rc run.pid both.rc both.pid
	start run cairn run -q -j 2 two.yaml
	wait_until 30 sh -c "cairn logs s 2>/dev/null | grep -c begin | grep -qx 2"
	start both env CAIRN_SERVER="$(serve_url srv)" cairn logs -f s --server
	wait_until 30 sh -c "grep -c begin both.out | grep -qx 2"
	touch "$HOME/both"
	wait_until 30 test -s both.rc
	test_is "$(cat both.rc)" 0
	sort both.out >got
	printf "s[n=%s] | %s\n" 1 begin 1 end 2 begin 2 end >want
	test_cmp want got
	wait_until 30 test -s run.rc
'

test_expect 'a server that is stopped while a log is followed: the follower says so' '
	rm -f "$HOME/go" live.rc live.pid
	start live cairn run -q live.yaml
	so_far() { cairn logs s >seen && grep -q "rank 1. x" seen; }
	wait_until 30 so_far
	serve second
	start left sh -c "cairn logs s -f --server $(serve_url second) 2>left.err"
	wait_until 30 grep -q "rank 1. x" left.out
	test_is "$(stop second TERM)" 0
	wait_until 30 test -s left.rc
	test_is "$(cat left.rc)" 4
	test_lines 1 left.err
	test_grep "the log breaks off: the server is stopping" left.err
	touch "$HOME/go"
	wait_until 30 test -s live.rc
'

test_expect --needs script 'hostile bytes reach no terminal from there either' '
	write odd.yaml <<-"YAML"
	pipeline: odd
	steps:
	  s: {run: "printf \"a\\033]0;title\\007b\\n\""}
	YAML
	cairn run -q odd.yaml
	same s
	CAIRN_SERVER=$(serve_url srv) TERM=xterm script -qec "cairn logs s --server" /dev/null </dev/null >tty
	test_no_grep "$(printf "\033]0")" tty
	test_grep title tty
	test_is "$(stop srv TERM)" 0
'
test_done
