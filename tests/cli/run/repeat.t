#!/bin/bash
# Loops: a step with `repeat` runs again until a condition holds; each round is a task.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
state() { cairn status --json last | json /dev/stdin "{t['task']: t['state'] for t in d['tasks'] + d['not_executed']}['$1']"; }
# The tasks that the last run executed, sorted.
executed() { cairn status --json last | json /dev/stdin "' '.join(sorted(t['task'] for t in d['tasks'] if t['state'] == 'succeeded'))"; }

mkdir init
echo 40 >init/n
write halve.yaml <<'Y'
pipeline: halve
params: {goal: 6}
steps:
  train:
    repeat: {until: "${{ steps.train.metrics.loss < params.goal }}", max: 4}
    inputs:
      model: {first: init/, then: "${{ steps.train.outputs.model }}"}
    outputs: {model: model/}
    metrics: m.json
    retry: {max: 1, backoff: 10ms..20ms}
    run: |
      n=$(($(cat ${{ inputs.model }}/n) / 2))
      echo $n >model/n
      echo "{\"loss\": $n}" >m.json
      echo "came to $n"
  report:
    inputs: {model: "${{ steps.train.outputs.model }}"}
    outputs: {report: report.txt}
    run: echo "loss ${{ steps.train.metrics.loss }}, n $(cat ${{ inputs.model }}/n)" >report.txt
Y

test_expect 'rounds go on until the condition holds; other steps see the last one' '
	cairn check -q halve.yaml
	cairn plan halve.yaml >plan
	test_grep "run *train.round=1. *first run; at most 3 more rounds" plan
	cairn run -q halve.yaml
	test_is "$(executed)" "report train[round=1] train[round=2] train[round=3]"
	cairn get -q report -o report
	test_is "$(cat report)" "loss 5, n 5"
	cairn get -q "train[round=2]/model" -o second
	test_is "$(cat second/n)" 10
	cairn logs "train[round=1]" >out
	test_grep "came to 20" out
	cairn metrics last >out
	test_grep "train.round=3. *3 *5" out
	cairn graph halve.yaml >out
	test_grep "train ×" out
'

test_expect 'a second run executes nothing; a stricter goal only further rounds' '
	cairn plan halve.yaml >plan
	test_grep "4 hits, 0 to run, 0 waiting" plan
	cairn run -q halve.yaml
	test_is "$(executed)" ""
	cairn plan halve.yaml -p goal=3 >plan
	test_grep "run *train.round=4. .* first run$" plan
	test_grep "3 hits, 1 to run, 1 waiting" plan
	cairn run -q halve.yaml -p goal=3
	test_is "$(executed)" "report train[round=4]"
	cairn why halve.yaml "train[round=4]" -p goal=3 >out
	test_grep "nothing changed" out
'

test_expect 'a loop that comes to max fails with one clear error, again when it is on record, and goes on with a larger one' '
	test_code 1 cairn run halve.yaml -p goal=1 2>err
	test_grep "train.round=4. .its result is on record.: .until. still doesn.t hold after 4 rounds, and .max. of .repeat. allows no more" err
	test_is "$(state "train[round=4]") $(state report)" "failed blocked"
	sed "s/max: 4/max: 9/" halve.yaml >halve9.yaml
	cairn run -q halve9.yaml -p goal=1
	test_is "$(executed)" "report train[round=5] train[round=6]"
	sed "s/max: 4/max: 1/" halve.yaml >halve1.yaml
	test_code 1 cairn run halve1.yaml -p goal=1 --force train 2>err
	test_grep "train.round=1. failed .*until. still doesn.t hold after 1 round," err
	cairn get -q "train[round=1]@metric.loss" >out
	test_is "$(cat out)" 20
'

test_expect '--force takes a round or the loop; a target the loop' '
	cairn run -q halve.yaml --force "train[round=2]"
	test_is "$(executed)" "train[round=2]"
	cairn run -q halve.yaml --force train
	test_is "$(executed)" "train[round=1] train[round=2] train[round=3]"
	test_code 3 cairn run halve.yaml --force "train[round=5]" 2>err
	test_grep "step .train. has no task .train.round=5.." err
	test_code 3 cairn run halve.yaml "train[round=2]" 2>err
	test_grep "is one round of a loop, and needs those before it; name the loop: train" err
'

test_expect 'reproduce makes each round again from what is on record; diff names the rounds that only one run has' '
	cairn run -q halve.yaml
	cairn tag last short
	cairn reproduce short >out
	test_is "$(grep -c "train.round=.. *reproduced" out)" 3
	cairn reproduce --chained short >out
	test_is "$(grep -c "train.round=.. *reproduced" out)" 3
	cairn run -q halve.yaml -p goal=3
	cairn diff short last >out
	test_grep "train.round=4./model differs because task train.round=4. is only in the second run" out
'

write held.yaml <<Y
pipeline: held
steps:
  train:
    repeat: {until: "\${{ round == 4 }}", max: 9}
    cache: false
    inputs: {n: {first: init/n, then: "\${{ steps.train.outputs.n }}"}}
    outputs: {n: n}
    env: {DIR: "$PWD"}
    run: |
      [ \${{ round }} != 3 ] || touch "\$DIR/held"
      while [ \${{ round }} = 3 ] && [ ! -e "\$DIR/go" ]; do sleep 0.05; done
      echo \$((\$(cat \${{ inputs.n }}) + 1)) >n
Y

test_expect 'resume after kill -9 in the third round executes that one and those after it' '
	start killed cairn run -q held.yaml
	wait_until 20 test -e held
	kill -9 "$(cat killed.pid)"
	wait_until 20 test -s killed.rc
	touch go
	cairn resume -q last
	test_is "$(executed)" "train[round=1] train[round=2] train[round=3] train[round=4]"
	cairn get -q "train[round=4]/n" -o n
	test_is "$(cat n)" 44
'

test_expect 'a cancelled loop is no success, and goes on where it was' '
	rm go held
	start cancelled cairn run -q held.yaml
	wait_until 20 test -e held
	cairn cancel -q last
	wait_until 20 test -s cancelled.rc
	test_is "$(cat cancelled.rc)" 130
	touch go
	cairn resume -q last
	test_is "$(state "train[round=4]")" succeeded
'

write matrix.yaml <<'Y'
pipeline: matrix
steps:
  tune:
    matrix: {k: [2, 3]}
    repeat: {until: "${{ steps.tune.values.done }}", max: 5}
    values: v.json
    outputs: {o: o.txt}
    run: |
      echo "k ${{ matrix.k }}, round ${{ round }}" >o.txt
      [ ${{ round }} -ge ${{ matrix.k }} ] && done=true || done=false
      echo "{\"done\": $done, \"rounds\": ${{ round }}}" >v.json
  all: {inputs: {o: "${{ steps.tune.outputs.o }}"}, run: "cat ${{ inputs.o }}/*; echo ${{ join(steps.tune.values.rounds, ' and ') }}"}
  one: {matrix: {k: [3]}, inputs: {o: "${{ steps.tune.outputs.o }}"}, run: "cat ${{ inputs.o }}"}
Y

test_expect 'each combination of a matrix loops by itself, and its last round is what others see' '
	cairn run -q matrix.yaml
	test_is "$(executed)" "all one[k=3] tune[k=2,round=1] tune[k=2,round=2] tune[k=3,round=1] tune[k=3,round=2] tune[k=3,round=3]"
	cairn logs all >out
	test_is "$(tr "\n" "|" <out)" "k 2, round 2|k 3, round 3|2 and 3|"
	cairn logs "one[k=3]" >out
	test_grep "k 3, round 3" out
	cairn run -q matrix.yaml "tune[k=2]" --force tune
	test_is "$(executed)" "tune[k=2,round=1] tune[k=2,round=2]"
'

test_expect 'loops work in a pipeline that is used, and around a step file' '
	write step.yaml <<-"Y"
	step: count
	params: {n: 0}
	inputs: [before]
	outputs: {o: o}
	run: echo "${{ params.n }} $(cat ${{ inputs.before }})" >o
	Y
	write inner.yaml <<-"Y"
	pipeline: inner
	steps:
	  count:
	    uses: ./step.yaml
	    repeat: {until: "${{ round == 3 }}", max: 3}
	    with: {n: "${{ round }}"}
	    inputs: {before: {first: init/n, then: "${{ steps.count.outputs.o }}"}}
	outputs: {o: "${{ steps.count.outputs.o }}"}
	Y
	write outer.yaml <<-"Y"
	pipeline: outer
	steps:
	  sub: {uses: ./inner.yaml}
	  show: {inputs: {o: "${{ steps.sub.outputs.o }}"}, run: "cat ${{ inputs.o }}"}
	finally:
	  wait: {run: "echo ${{ round }}", repeat: {until: "${{ round == 2 }}", max: 3}}
	Y
	cairn run -q outer.yaml
	test_is "$(executed)" "show sub/count[round=1] sub/count[round=2] sub/count[round=3] wait[round=1] wait[round=2]"
	cairn logs show >out
	test_is "$(cat out)" "3 2 1 40"
	cairn run -q outer.yaml
	test_is "$(executed)" "wait[round=1] wait[round=2]"
'

test_expect 'a round without the metric that the condition asks for fails; a run on record keeps each round' '
	write none.yaml <<-"Y"
	pipeline: none
	steps:
	  a: {run: "echo {} >m.json", metrics: m.json, repeat: {until: "${{ steps.a.metrics.loss < 1 }}", max: 2}, cache: false}
	Y
	test_code 1 cairn run none.yaml 2>err
	test_grep "task a.round=1. gave no metric of that name" err
	cairn run -q halve.yaml
	cairn get -q last -o kept
	test_is "$(cat "kept/outputs/train[round=1]/model/n" "kept/outputs/train[round=3]/model/n" | tr "\n" " ")" "20 5 "
'

write sweep.yaml <<'Y'
pipeline: sweep
params: {step: 1}
steps:
  walk:
    repeat: {until: "${{ round == 3 }}", max: 3}
    metrics: m.json
    run: |
      echo "{\"far\": $((${{ params.step }} * ${{ round }}))}" >m.json
sweeps:
  far: {params: {step: [1, 2]}, maximize: walk.far, search: grid}
Y

test_expect 'the objective of a sweep is what the last round gave' '
	cairn sweep sweep.yaml >out
	test_grep " 6" out
'

test_done
