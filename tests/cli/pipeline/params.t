#!/bin/bash
# Params in groups, and files of params: how they are given, what reads them, which keys have them.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
write m.yaml <<'YAML'
pipeline: m
params:
  model: {lr: 0.1, depth: {type: int, default: 3, min: 1}, head: {type: {default: mlp}}}
  data: {seed: 7}
steps:
  prep: {run: "echo ${{ params.data.seed }} >o", outputs: {o: o}}
  train:
    run: "echo ${{ params.model.lr }} ${{ params.model.head.type }} | cat ${{ inputs.o }} - >m; echo '{\"acc\": ${{ params.model.depth * 1.5 }}}' >j"
    inputs: {o: "${{ steps.prep.outputs.o }}"}
    outputs: {m: m}
    metrics: j
schedules:
  nightly: {cron: "0 3 * * *", params: {model: {lr: 0.5, head: {type: cnn}}}}
YAML
write w.yaml <<YAML
pipeline: w
params: {deep: {er: {go: nowhere}}}
steps:
  wait:
    run: |
      touch '$PWD/begun'
      while ! test -e \${{ params.deep.er.go }}; do sleep 0.05; done
      printf %s \${{ params.deep.er.go }} >o
    outputs: {o: o}
YAML
write prod.yaml <<'YAML'
model:
  depth: 5
  head: {type: cnn}
YAML
write wrong.yaml <<'YAML'
model:
  head: {typ: cnn}
  lr: {x: 1}
lr: 3
data: 4
YAML

test_expect 'a param of a group is given by its path, or by a file in groups; -p wins over files, the last file over others' '
	cairn run m.yaml -q
	cairn get train/m -o - >got
	test_is "$(tr "\n" " " <got)" "7 0.1 mlp "
	cairn run m.yaml -q -p model.depth=6 -P prod.yaml -p model.lr=0.2
	cairn get train/m -o - >got
	test_is "$(tr "\n" " " <got)" "7 0.2 cnn "
	echo "model: {depth: 8, lr: 0.3}" >more.yaml
	cairn run m.yaml -q -P prod.yaml -P more.yaml --json >run.json
	test_grep "\"executed\": 1" run.json
	cairn runs --json >runs.json
	test_grep "\"model.depth\": 8" runs.json
	test_grep "\"model.head.type\": \"cnn\"" runs.json
'

write named.yaml <<'YAML'
pipeline: named
params: {lr: 0.1, other: 1, model: {depth: 3, name: 'a "b" $x'}}
steps:
  list: {run: 'printf %s "$CAIRN_PARAMS" >o', params: [model, lr], outputs: {o: o}}
  map: {run: 'printf %s "$CAIRN_PARAMS" >o', matrix: {m: [x, y]}, params: {m: "${{ matrix.m }}", n: 2}, outputs: {o: o}}
  facts: {run: 'echo {} >"$CAIRN_METRICS"', metrics: m.json}
YAML

test_expect 'a step gets the params that it names as JSON, in an order of its own; others are not in its key' '
	cairn run -q named.yaml
	cairn get -q list -o list.json
	test_is "$(cat list.json)" "{\"lr\":0.1,\"model.depth\":3,\"model.name\":\"a \\\"b\\\" \$x\"}"
	cairn get -q "map[m=y]" -o map.json
	test_is "$(cat map.json)" "{\"m\":\"y\",\"n\":2}"
	sed -i "s/\[model, lr\]/[lr, model]/" named.yaml
	cairn run named.yaml -p other=2 --json >run.json
	test_grep "\"hits\": 4" run.json
	cairn why named.yaml list -p lr=0.2 >why.out
	test_is "$(cat why.out)" "list: would run: param lr changed: 0.1 → 0.2"
	sed -i "s/n: 2/n: 3/" named.yaml
	cairn why named.yaml map >why.out
	test_grep "env CAIRN_PARAMS changed: {\"m\":\"x\",\"n\":2} → {\"m\":\"x\",\"n\":3}" why.out
'

test_expect 'a key has only those params of a group that its step names, and their records have their paths' '
	cairn plan m.yaml -p model.depth=4 >plan
	test_no_grep "prep" plan
	cairn why m.yaml train -p model.lr=0.9 >why
	test_grep "param model.lr changed: 0.1 → 0.9|param model.lr changed" why
	cairn runs -p "model.lr>0.25" --json >runs.json
	test_is "$(grep -c "\"id\"" runs.json)" 1
	cairn metrics --sort=-model.depth >metrics
	test_grep "model.depth +model.head.type +model.lr" metrics
	sed -n 2p metrics >first
	test_grep "train +8 +cnn +0.3" first
	first=$(cairn runs --json | sed -n "s/.*\"id\": \"\([^\"]*\)\".*/\1/p" | tail -n 1)
	cairn diff "$first" last >diff
	test_grep "model.lr" diff
	cairn reproduce last -q
'

test_expect 'a wrong name in a file has its place, and what it most likely means' '
	test_code 3 cairn plan m.yaml -P wrong.yaml 2>err
	test_grep "wrong.yaml:2:10: .*no param .model.head.typ. .did you mean .model.head.type." err
	test_grep "wrong.yaml:3:8: .*no param .model.lr.x. ..model.lr. is a param, not a group" err
	test_grep "wrong.yaml:4:1: .*no param .lr. .did you mean .model.lr." err
	test_grep "wrong.yaml:5:1: .*no param .data. .it is a group: data.seed" err
	test_code 3 cairn run m.yaml -P wrong.yaml 2>err
	test_grep "wrong.yaml:5:1: .*it is a group: data.seed" err
	test_code 3 cairn run m.yaml -p model=3 2>err
	test_grep "no param .model. .it is a group: model.lr, model.depth, model.head.type" err
	test_code 3 cairn run m.yaml -p model.depth=0 2>err
	test_grep "param .model.depth. must be at least 1" err
'

test_expect 'a schedule gives params in groups; a run that goes on keeps them' '
	cairn run m.yaml -q --schedule nightly
	cairn get train/m -o - >got
	test_is "$(tr "\n" " " <got)" "7 0.5 cnn "
	start engine cairn run w.yaml -q -p deep.er.go="$PWD/go"
	wait_until 60 test -e begun
	stop engine KILL
	touch go
	cairn resume -q
	cairn get wait/o -o - >got
	test_is "$(cat got)" "$PWD/go"
'

test_done
