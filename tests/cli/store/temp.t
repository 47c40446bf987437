#!/bin/bash
# Outputs with `temp: true`: gc frees them though their run is kept, and they are made again when a step needs them.
. "$(dirname "$0")/../../lib.sh"

export CAIRN_STORE=$PWD/store CAIRN_TEST_MARK_GAP=0s
echo '# project' >cairn.yaml
seq 1000 >in.txt
write pipeline.yaml <<'YAML'
pipeline: reads
params: {by: 1}
inputs: {i: in.txt}
steps:
  sort:
    run: "sort ${{ inputs.i }} >d/a; sort -r ${{ inputs.i }} >d/b; wc -l <d/a >count; echo run >>\"$HOME/sorted\""
    inputs: {i: "${{ inputs.i }}"}
    outputs: {sorted: {path: d/, temp: true}, count: count}
  part:
    each: [a, b]
    run: "head -n ${{ params.by }} ${{ inputs.s }}/${{ item }} >o"
    inputs: {s: "${{ steps.sort.outputs.sorted }}"}
    outputs: {o: {path: o, temp: true}}
  sum:
    run: "cat ${{ inputs.all }}/* >r; echo ${{ params.by }} >>r"
    inputs: {all: "${{ steps.part.outputs.o }}"}
    outputs: {r: r}
YAML
gc() {
	find store -type f -exec touch -d "3 days ago" {} +
	cairn store gc --grace 1ms -q
	cairn store gc --grace 1ms -q
}
counts() { cairn status --json last | json /dev/stdin '[d["run"]["counts"]["executed"], d["run"]["counts"]["hits"]]'; }

test_expect 'gc frees what is temporary, keeps the rest, and nothing is executed for it' '
	cairn run -q
	test_is "$(counts)" "[4, 0]"
	cairn get -q last/sort/sorted -o whole
	gc
	test_code 4 cairn get last/sort/sorted -o gone 2>err
	test_grep "freed|gc" err
	cairn get -q last/sort/count -o got-count
	test_is "$(cat got-count)" 1000
	cairn get -q last/sum/r -o got-r
	cairn store verify -q
	cairn run -q
	test_is "$(counts)" "[0, 4]"
	cairn store verify -q
	test_lines 1 "$HOME/sorted"
	gc
	cairn run -q
	test_is "$(counts)" "[0, 4]"
'

test_expect 'what is needed is made again, and only that; the rest stays a hit' '
	gc
	cairn run -q -p by=2
	test_is "$(counts)" "[4, 0]"
	test_lines 2 "$HOME/sorted"
	cairn get -q last/sum/r -o got-r2
	cairn store verify -q
	printf "%s\n" 1 10 999 998 2 >want
	test_cmp want got-r2
	gc
	cairn run -q
	test_is "$(counts)" "[0, 4]"
'

test_expect 'the same content that something else keeps stays' '
	write same.yaml <<-"Y"
	pipeline: same
	steps:
	  a: {run: "echo same >o", outputs: {o: {path: o, temp: true}}}
	  b: {run: "cat ${{ inputs.i }} >o", inputs: {i: "${{ steps.a.outputs.o }}"}, outputs: {o: o}}
	Y
	cairn run -q same.yaml
	gc
	cairn get -q last/b/o -o got-o
	test_is "$(cat got-o)" same
	cairn get -q last/a/o -o got-o2
'

test_expect 'a whole run without its temporary parts; it is reproduced all the same' '
	cairn run -q
	gc
	test_code 1 cairn get -q last -o all 2>err
	test_grep "not restored: outputs/sort/sorted" err
	test_exists all/outputs/sum/r
	cairn reproduce -q last --chained
	cairn store verify -q
	cairn reproduce -q last
'

test_expect 'what temp can not be' '
	write bad.yaml <<-"Y"
	pipeline: bad
	steps:
	  a: {run: "echo >o", outputs: {o: {path: o, temp: true}}}
	  b: {run: "echo >o", outputs: {o: {path: o, temp: maybe}}}
	  c: {run: "echo >o", outputs: {o: {path: o, temp: true, export: out/}}}
	Y
	test_code 3 cairn check bad.yaml 2>err
	test_grep "3:.*output .o. of step .a. is .temp., and no step uses it" err
	test_grep "4:.*.temp. must be true or false" err
	test_grep "5:.*output .o. is exported, so it can.t be .temp." err
	write part.yaml <<-"Y"
	pipeline: part
	steps:
	  a: {run: "echo >d/x", outputs: {d: {path: d/, temp: true}}}
	  b: {run: "cat ${{ inputs.x }}", inputs: {x: "${{ steps.a.outputs.d }}/x"}}
	Y
	cairn check part.yaml 2>err
	test_grep "3:.*warning.*step .b. reads a part of it" err
'
test_done
