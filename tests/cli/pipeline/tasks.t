#!/bin/bash
# Which tasks a run has: nothing that was asked for is left out, and nothing is made up.
. "$(dirname "$0")/../../lib.sh"

count() { json out "d['counts']['$1']"; } # of tasks, in the run whose --json is `out`

echo '# project' >cairn.yaml
mkdir lib
echo 1 >lib/part
write code.yaml <<'YAML'
pipeline: code
steps:
  look: {run: "test ! -e lib; echo >${{ outputs.o }}", outputs: {o: o}}
  use: {run: "cat */part >${{ outputs.o }}", code: [lib/], outputs: {o: o}, needs: [look]}
YAML

test_expect 'a directory that a command only names is code where a later step says so' '
	cairn run code.yaml -q
	cairn get use/o -o - >got
	test_is "$(cat got)" 1
	echo 2 >lib/part
	cairn run code.yaml -q
	cairn get use/o -o - >got
	test_is "$(cat got)" 2
'

write some.yaml <<'YAML'
pipeline: some
steps:
  make:
    matrix: {x: [1, 2, 3]}
    if: "${{ matrix.x > 1 }}"
    run: echo ${{ matrix.x }} >${{ outputs.o }}
    outputs: {o: o.txt}
  each:
    each: "${{ steps.make.outputs.o }}/*"
    run: cat ${{ inputs.f }} >${{ outputs.o }}
    inputs: {f: "${{ item }}"}
    outputs: {o: o.txt}
YAML

test_expect 'each goes over what was made where some of it was left out' '
	cairn run some.yaml --json >out
	test_is "$(count executed)" 4
	test_is "$(count skipped)" 1
'

write fails.yaml <<'YAML'
pipeline: fails
steps:
  make:
    matrix: {x: [1, 2]}
    run: echo ${{ matrix.x }} >${{ outputs.o }}; test ${{ matrix.x }} = 1
    outputs: {o: o.txt}
  each:
    each: "${{ steps.make.outputs.o }}/*"
    if: "${{ always() }}"
    run: echo ${{ item.name }} >>"$SEEN"
    env: {SEEN: "${{ params.seen }}"}
params: {seen: /dev/null}
YAML

test_expect 'each over something that failed executes nothing for an item that is none' '
	test_code 1 cairn run fails.yaml -k -p seen="$PWD/seen" --json >out
	test_missing seen
	test_is "$(count blocked)" 1
'

mkdir pics none
touch pics/a.png pics/b.png
write glob.yaml <<'YAML'
pipeline: glob
inputs: {pics: pics/, none: none/}
params: {n: 0}
steps:
  of_input: {each: "${{ inputs.pics }}/*.jpg", run: "true"}
  of_empty: {each: "${{ inputs.none }}/*", run: "true"}
  make:
    run: mkdir -p d; for i in $(seq ${{ params.n }}); do echo $i >d/$i.txt; done
    outputs: {d: d/}
  of_output: {each: "${{ steps.make.outputs.d }}/*.csv", run: "true"}
YAML

test_expect 'a pattern that matches nothing is an error that says what is there; only an empty output has no items' '
	test_code 3 cairn plan glob.yaml of_input 2>err
	test_grep "of_input.: .\*.jpg. matches nothing in input .pics., which has a.png, b.png" err
	test_code 3 cairn run glob.yaml of_empty 2>err
	test_grep "matches nothing in input .none., which is empty" err
	test_code 3 cairn run glob.yaml of_output -p n=5 2>err
	test_grep "in output .d., which has 1.txt, 2.txt, 3.txt and 2 more" err
	cairn run glob.yaml of_output -p n=0 --json >out
	test_is "$(count executed)" 1
'

test_expect 'a target that is no task is an error, not a run of nothing' '
	test_code 3 cairn run some.yaml "make[x=9]" 2>err
	test_grep "step .make. has no task .make\[x=9\]." err
	test_code 3 cairn plan some.yaml "make[x=2" 2>err
	test_code 3 cairn run some.yaml "make[x=9]" each 2>err
	test_grep "the first of its tasks is make\[x=1\]" err
	cairn run some.yaml "make[x=2]" --json >out
	test_is "$(count hits)" 1
'

write names.yaml <<'YAML'
pipeline: names
params: {v: [a/b, a_b]}
steps:
  axis: {matrix: {x: "${{ params.v }}"}, run: "echo ${{ matrix.x }}"}
  item: {each: "${{ params.v }}", run: "echo ${{ item }}"}
YAML

test_expect 'values whose tasks would have one name are refused before anything runs' '
	test_code 3 cairn run names.yaml axis 2>err
	test_grep "matrix.x of step .axis. lists .a/b. and .a_b., whose tasks would both be named .a_b." err
	test_code 3 cairn run names.yaml item 2>err
	cairn run names.yaml -q -p "v=[a/b, a_c]"
'

test_expect 'include adds what is not there yet, also what was excluded, and within the bound of a step' '
	python3 - >many.yaml <<-"P"
	print("pipeline: many\nparams: {l: {type: list, default: [%s]}}" % ", ".join(map(str, range(1024))))
	print("steps:\n  many:\n    run: echo\n    matrix:\n      x: \"${{ params.l }}\"\n      y: \"${{ params.l }}\"")
	print("      include: [{x: a, y: b}]")
	P
	write include.yaml <<-Y
	pipeline: include
	steps:
	  few:
	    run: echo
	    matrix:
	      x: [1, 2]
	      y: [a, b]
	      exclude: [{x: 1, y: a}]
	      include: [{x: 1, y: b}, {x: 1, y: a}, {x: 3, y: a}, {x: 3, y: a}, {x: 1, y: c}, {x: 1, y: a}]
	Y
	cairn plan include.yaml --json >plan
	test_is "$(json plan "\" \".join(t[\"task\"][6] + t[\"task\"][10] for t in d[\"tasks\"])")" "1b 2a 2b 1a 3a 1c"
	test_code 3 cairn plan many.yaml 2>err
	test_grep "the matrix of step .many. makes more than 1048576 tasks" err
'

write uncached.yaml <<'YAML'
pipeline: uncached
steps:
  now: {run: "echo x >>$COUNT; echo >${{ outputs.o }}", outputs: {o: o}, env: {COUNT: "${{ params.count }}"}, cache: false}
params: {count: /dev/null}
YAML

test_expect 'what was made under cache: false is no answer later' '
	cairn run uncached.yaml -q -p count="$PWD/count"
	sed "s/, cache: false//" <uncached.yaml >cached.yaml
	cairn run cached.yaml -q -p count="$PWD/count"
	cairn run cached.yaml -q -p count="$PWD/count"
	test_is "$(wc -l <count)" 2
'

odd="item$(printf '\377')"
mkdir items
touch "items/$odd" items/other
write odd.yaml <<'YAML'
pipeline: odd
params: {flag: /nowhere}
inputs: {items: items/}
steps:
  each: {each: "${{ inputs.items }}/*", run: "test -e ${{ params.flag }}"}
YAML

test_expect 'a run of one task is resumed as that, whatever bytes are in its name' '
	test_code 1 cairn run odd.yaml -p flag="$PWD/flag" "each[$odd]" --json >run
	touch flag
	cairn resume "$(json run "d[\"id\"]")" --json >out
	test_is "$(count total)" 1
	test_is "$(count executed)" 1
'

test_expect 'what a record can not hold as it is, is refused at the start' '
	test_code 3 cairn run odd.yaml -p flag="$odd" 2>err
	test_grep "param .flag. must be UTF-8 text" err
	cp odd.yaml "two
lines.yaml"
	test_code 3 cairn run "two
lines.yaml" 2>err
	test_grep "can.t have a line break in its name" err
	mkdir ../outside
	sed "s/pipeline: odd/pipeline: other/" <odd.yaml >../outside/odd.yaml
	test_code 3 cairn run ../outside/odd.yaml 2>err
	test_grep "odd.yaml lies outside of the project" err
'

write ends.yaml <<'YAML'
pipeline: ends
steps:
  good: {run: "true"}
  bad: {run: "exit 3"}
YAML

test_expect 'ends are seen, also by an engine whose parent ignores those of its children' '
	test_code 1 timeout 60 python3 -c "
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execvp(sys.argv[1], sys.argv[1:])" cairn run ends.yaml -k --json >out
	test_is "$(count executed) $(count failed)" "1 1"
'
test_done
