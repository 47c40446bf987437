#!/bin/bash
# cairn sweep: searches over params on real pipelines: what is on record, going on after kill -9, failing trials, bad declarations.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
write bowl.py <<'P'
import json, os, sys, time
x, k, kind, out = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
with open(os.path.join(out, "ran"), "a") as f:
    f.write(f"{x} {k} {kind}\n")
while os.path.exists(os.path.join(out, "hold")) and sum(1 for _ in open(os.path.join(out, "ran"))) > 3:
    time.sleep(0.02)
if kind == "bad":
    sys.exit("no such kind")
json.dump({"loss": (x - 1.5) ** 2 + (k - 3) ** 2 + (kind == "a"), "size": k}, open("m.json", "w"))
P
write pipeline.yaml <<'Y'
pipeline: bowl
params:
  x: {type: float, default: 0, min: -5, max: 5}
  k: 1
  kind: {enum: [a, b, bad], default: a}
  note: none
steps:
  prepare:
    run: echo p >>"$HOME/prepared"; echo 1 >${{ outputs.d }}
    outputs: {d: d}
  score:
    run: python3 bowl.py ${{ params.x }} ${{ params.k }} ${{ params.kind }} "$HOME"
    env: {NOTE: "${{ params.note }}"}
    inputs: {d: "${{ steps.prepare.outputs.d }}"}
    metrics: m.json
sweeps:
  grid: {params: {k: [1, 2, 3], kind: [a, b]}, minimize: score.loss, search: grid}
  random: {params: {x: {min: -5, max: 5}, k: {min: 1, max: 5}, kind: [a, b]}, minimize: score.loss, search: random, trials: 8, seed: 3}
  tune: {params: {x: {min: -5, max: 5}, k: {min: 1, max: 5}}, minimize: score.loss, search: tpe, trials: 12, seed: 1, parallel: 2}
  rungs: {params: {x: {min: -5, max: 5}}, minimize: score.loss, search: halving, trials: 6, rungs: {param: k, min: 1, max: 4, factor: 2}}
  asha: {params: {x: {min: -5, max: 5}}, minimize: score.loss, search: asha, trials: 6, parallel: 2, rungs: {param: k, min: 1, max: 4, factor: 2}}
  fails: {params: {x: [1, 2, 3], kind: [a, bad]}, minimize: score.loss, search: grid}
  stops: {params: {x: [1, 2, 3], kind: [bad]}, minimize: score.loss, search: grid, max_failures: 1}
  silent: {params: {k: [1, 2]}, maximize: score.accuracy, search: grid}
Y
ran() { wc -l <"$HOME/ran"; }
: >"$HOME/ran"

test_expect 'a grid: each point is a run of its own; steps that do not depend on it are executed once' '
	cairn sweep grid --json >out 2>err
	test_is "$(json out "d[\"counts\"]")" "{\"ended\": 6, \"failed\": 0, \"trials\": 6, \"with_value\": 6}"
	test_is "$(json out "[[t[\"params\"][\"k\"], t[\"params\"][\"kind\"]] for t in d[\"trials\"]]")" "[[1, \"a\"], [1, \"b\"], [2, \"a\"], [2, \"b\"], [3, \"a\"], [3, \"b\"]]"
	test_is "$(json out "[d[\"best\"][\"number\"], d[\"best\"][\"value\"]]")" "[6, 2.25]"
	test_is "$(ran)" 6
	test_is "$(wc -l <"$HOME/prepared")" 1
	test_is "$(cairn runs --json | json /dev/stdin "len(d[\"runs\"])")" 6
'
test_expect 'it is on record: cairn runs finds the trials, and the best one first' '
	cairn runs --sweep grid --json >runs
	test_is "$(json runs "[r[\"trial\"] for r in d[\"runs\"]][0]")" "{\"number\": 6, \"sweep\": \"grid\"}"
	cairn runs --sweep grid --sort=loss -n 1 --json >runs
	test_is "$(json runs "d[\"runs\"][0][\"id\"]")" "$(json out "d[\"best\"][\"run\"]")"
	test_is "$(json runs "d[\"runs\"][0][\"metrics\"]")" "{\"loss\": 2.25}"
	cairn runs --sweep grid --sort=loss >table
	test_is "$(sed -n 1p table | xargs)" "run hash state started took executed hits k kind loss"
	test_grep " 3 +b +2.25 +grid, trial 6" table
	cairn runs -m "loss<3" -p "k>=2" >table
	test_is "$(sed -n 1p table | xargs)" "run hash state started took executed hits k loss"
	cairn runs --sweep nosuch --json >runs
	test_is "$(json runs "d[\"runs\"]")" "[]"
	cairn store reindex -q
	test_is "$(cairn runs --sweep grid --json | json /dev/stdin "len(d[\"runs\"])")" 6
'
test_expect 'the same command again starts nothing, and says the same' '
	cairn sweep grid --json >again 2>err
	test_cmp out again
	test_is "$(ran)" 6
	cairn sweep pipeline.yaml grid >text 2>err
	test_grep "best: trial 6, score.loss 2.25" text
	test_grep "k=3 kind=b" text
	test_grep "6 trials, 6 on record" err
	test_grep "next: cairn get" err
'
test_expect 'a seed gives the same trials; another seed gives others, as another sweep' '
	cairn sweep random --json >one 2>err
	rm -rf .cairn
	cairn sweep random --json >two 2>err
	test_is "$(json one "[t[\"params\"] for t in d[\"trials\"]]")" "$(json two "[t[\"params\"] for t in d[\"trials\"]]")"
	cairn sweep random --seed 4 --json >three 2>err
	test_is "$(json three "len(d[\"trials\"])")" 8
	[ "$(json one "[t[\"params\"] for t in d[\"trials\"]]")" != "$(json three "[t[\"params\"] for t in d[\"trials\"]]")" ]
'
test_expect 'more trials go on from those that are there' '
	: >"$HOME/ran"
	cairn sweep random --trials 10 --json >more 2>err
	test_is "$(ran)" 2
	test_is "$(json more "[t[\"params\"] for t in d[\"trials\"]][:8]")" "$(json two "[t[\"params\"] for t in d[\"trials\"]]")"
'
test_expect 'tpe: two at once gives the same trials every time, and goes on after kill -9' '
	cairn sweep tune --json >whole 2>err
	test_is "$(json whole "d[\"counts\"][\"with_value\"]")" 12
	rm -rf .cairn
	: >"$HOME/ran"
	: >"$HOME/hold"
	rm -f sweep.rc
	start sweep cairn sweep tune
	wait_until 60 sh -c "[ \$(wc -l <\"$HOME/ran\") -ge 4 ]"
	kill -9 "$(cat sweep.pid)"
	rm "$HOME/hold"
	wait_until 30 test -s sweep.rc
	cairn sweep tune --json >rest 2>err
	test_is "$(json rest "[t[\"params\"] for t in d[\"trials\"]]")" "$(json whole "[t[\"params\"] for t in d[\"trials\"]]")"
	test_is "$(json rest "[t[\"value\"] for t in d[\"trials\"]]")" "$(json whole "[t[\"value\"] for t in d[\"trials\"]]")"
	test_is "$(cairn runs -n 0 --json | json /dev/stdin "len(d[\"runs\"])")" 12
	test_is "$(sort -u "$HOME/ran" | wc -l)" 12
	[ "$(ran)" -le 14 ]
'
test_expect 'halving: the best run again with more' '
	cairn sweep rungs --json >out 2>err
	test_is "$(json out "[t[\"params\"][\"k\"] for t in d[\"trials\"]]")" "[1, 1, 1, 1, 1, 1, 2, 2, 2, 4]"
	test_is "$(json out "d[\"best\"][\"number\"]")" 10
	test_is "$(json out "sorted(d[\"trials\"][:6], key=lambda t: t[\"value\"])[0][\"params\"][\"x\"] == d[\"best\"][\"params\"][\"x\"]")" true
'
test_expect 'asha: promotes without waiting for a rung; the same command says the same, and more trials go on' '
	cairn sweep asha --json >out 2>err
	test_is "$(json out "len([t for t in d[\"trials\"] if t[\"params\"][\"k\"] == 1])")" 6
	test_is "$(json out "[t for t in d[\"trials\"] if t[\"run\"] == d[\"best\"][\"run\"]][0][\"params\"][\"k\"]")" 4
	test_is "$(json out "d[\"counts\"][\"trials\"] == len(d[\"trials\"]) and d[\"counts\"][\"ended\"] == len(d[\"trials\"])")" true
	: >"$HOME/ran"
	cairn sweep asha --json >again 2>err
	test_cmp out again
	cairn sweep asha >text 2>err
	test_grep "at most 18 trials" err
	cairn sweep asha -j 1 --trials 7 --json >more 2>err
	test_is "$(json more "len([t for t in d[\"trials\"] if t[\"params\"][\"k\"] == 1])")" 7
	test_is "$(json more "[t[\"run\"] for t in d[\"trials\"]]" | cut -c 1-99)" "$(json out "[t[\"run\"] for t in d[\"trials\"]]" | cut -c 1-99)"
'
test_expect 'a failed trial is on record and has no value; too many end the sweep' '
	cairn sweep fails --json >out 2>err
	test_is "$(json out "[t[\"state\"] for t in d[\"trials\"]]")" "[\"succeeded\", \"failed\", \"succeeded\", \"failed\", \"succeeded\", \"failed\"]"
	test_is "$(json out "[t[\"value\"] for t in d[\"trials\"]]")" "[5.25, null, 5.25, null, 7.25, null]"
	test_is "$(json out "[(t[\"run\"][:5], t[\"problem\"] is None) for t in d[\"trials\"]][:2]")" "[[\"bowl-\", true], [\"bowl-\", false]]"
	test_code 1 cairn sweep stops --json >out 2>err
	test_is "$(json out "len(d[\"trials\"])")" 2
	test_grep "max_failures" err
'
test_expect 'a metric that never comes is told with those that came' '
	test_code 1 cairn sweep silent >out 2>err
	test_grep "step score gave no metric .accuracy.; it gave loss, size" err
'
test_expect 'a step that failed without failing its run gives no value' '
	sed "s/    metrics: m.json/    metrics: m.json\n    continue_on_error: true\n    gate: {loss: \"< 5\"}/" pipeline.yaml >goes-on.yaml
	cairn sweep goes-on.yaml grid --json >out 2>err
	test_is "$(json out "[t[\"state\"] for t in d[\"trials\"]]")" "[\"succeeded\", \"succeeded\", \"succeeded\", \"succeeded\", \"succeeded\", \"succeeded\"]"
	test_is "$(json out "[t[\"value\"] for t in d[\"trials\"]]")" "[null, null, 4.25, 3.25, 3.25, 2.25]"
'
test_expect 'changed code is another sweep; a fixed param, too' '
	rm -rf .cairn
	cairn sweep grid -q >out
	: >"$HOME/ran"
	cairn sweep grid -p note=x --json >out 2>err
	test_is "$(ran)" 6
	echo "# changed" >>bowl.py
	cairn sweep grid --json >out 2>err
	test_is "$(ran)" 12
	test_grep "12 trials of an earlier form of this sweep are on record" err
	test_code 2 cairn sweep grid -p k=1 2>err
	test_grep "searches over param .k., so it can.t be fixed" err
'
test_expect 'code that is edited meanwhile ends the sweep' '
	: >"$HOME/ran"
	: >"$HOME/hold"
	rm -f sweep.rc
	start sweep cairn sweep tune -j 1
	wait_until 60 sh -c "[ \$(wc -l <\"$HOME/ran\") -ge 4 ]"
	test_code 4 cairn sweep tune 2>err
	test_grep "another .cairn sweep tune. is going on" err
	echo "# again" >>bowl.py
	rm "$HOME/hold"
	wait_until 30 test -s sweep.rc
	test_is "$(cat sweep.rc)" 3
	test_is "$(ran)" 4
'
test_expect 'Ctrl-C stops running trials in order; the same command goes on' '
	: >"$HOME/ran"
	: >"$HOME/hold"
	rm -f sweep.rc
	start sweep cairn sweep tune -j 1
	wait_until 60 sh -c "[ \$(wc -l <\"$HOME/ran\") -ge 4 ]"
	kill -INT "$(cat sweep.pid)"
	wait_until 30 test -s sweep.rc
	test_is "$(cat sweep.rc)" 130
	rm "$HOME/hold"
	test_is "$(cairn runs --sweep tune -n 1 --json | json /dev/stdin "d[\"runs\"][0][\"state\"]")" interrupted
	cairn sweep tune -j 1 --json >out 2>err
	test_is "$(json out "d[\"counts\"][\"with_value\"]")" 12
	test_is "$(sort -u "$HOME/ran" | wc -l)" 12
	[ "$(ran)" -le 13 ]
'
test_expect 'wrong use' '
	test_code 3 cairn runs --sweep grid --server http://127.0.0.1:1 2>err
	test_grep "a server doesn.t select the trials of a sweep" err
	test_code 2 cairn sweep 2>err
	test_grep "name one of the sweeps of .*: grid, random, tune" err
	test_code 2 cairn sweep nosuch 2>err
	test_grep "has no sweep .nosuch." err
	test_code 2 cairn sweep grid --trials 0 2>err
	test_code 2 cairn sweep grid tune 2>err
	sed "/^sweeps/,\$d" pipeline.yaml >none.yaml
	test_code 3 cairn sweep none.yaml 2>err
	test_grep "declares no .sweeps." err
	sed "s/k: .1, 2, 3./k: {min: 1, max: 1001}/" pipeline.yaml >large.yaml
	test_code 3 cairn sweep large.yaml grid 2>err
	test_grep "this grid has 2002 points; at most 1000 are allowed" err
	sed "s/max: 5}, k/max: 6}, k/" pipeline.yaml >outside.yaml
	test_code 3 cairn check outside.yaml 2>err
	test_grep "param .x. must be at most 5, not 6" err
'
write curve.py <<'P'
import json, os, sys, time
bad = float(sys.argv[1])
with open("s.jsonl", "w") as f:
    for step in range(1, 7):
        f.write(json.dumps({"step": step, "loss": bad + 1 / step}) + "\n")
        f.flush()
        # A trial that nobody stops waits for as long as the test does.
        while bad > 2 and step == 4 and not os.path.exists(os.path.join(os.environ["GO"], "go")):
            time.sleep(0.02)
json.dump({"loss": bad + 1 / 6}, open("m.json", "w"))
P
write early.yaml <<'Y'
pipeline: early
params: {bad: {type: float, default: 0}, go: "/"}
steps:
  train:
    run: python3 curve.py ${{ params.bad }}
    code: [curve.py]
    env: {GO: "${{ params.go }}"}
    series: s.jsonl
    metrics: m.json
sweeps:
  stop:
    params: {bad: [0, 1, 0.5, 3, 0.7]}
    minimize: train.loss
    search: grid
    max_failures: 0
    early_stop: {after: 2, trials: 2}
Y
test_expect 'early_stop: a trial that is worse than half of those before is stopped, has no value, and is no failure' '
	cairn sweep early.yaml stop -p "go=$PWD" --json >out 2>err
	test_is "$(json out "d[\"counts\"]")" "{\"ended\": 5, \"failed\": 0, \"stopped\": 1, \"trials\": 5, \"with_value\": 4}"
	test_is "$(json out "[t[\"number\"] for t in d[\"trials\"] if t[\"value\"] is None]")" "[4]"
	test_is "$(json out "[t[\"state\"] for t in d[\"trials\"] if t[\"value\"] is None]")" "[\"cancelled\"]"
	json out "[t[\"problem\"] for t in d[\"trials\"]][3]" >problem
	test_grep "^stopped early: the best loss up to step 4 is 3.25, half of the trials before had at most 0.75 by then$" problem
	test_is "$(json out "d[\"best\"][\"params\"][\"bad\"]")" 0.0
	cairn sweep early.yaml stop -p "go=$PWD" >out 2>err
	test_grep "5 on record" err
	test_grep "0 without a value, 1 stopped early" out
'
# The same curve in TensorBoard's event files, a record a scalar (runners/series/tensorboard.h).
write events.py <<'P'
import json, os, struct, sys, time
bad = float(sys.argv[1])
def checksum(data):
    c = 0xFFFFFFFF
    for x in data:
        c ^= x
        for _ in range(8):
            c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
    c ^= 0xFFFFFFFF
    return struct.pack("<I", ((c >> 15 | c << 17) + 0xA282EAD8) & 0xFFFFFFFF)
with open("tb/events.out.tfevents.1", "wb") as f:
    for step in range(1, 7):
        value = b"\n\4loss\x15" + struct.pack("<f", bad + 1 / step)
        event = bytes([0x10, step, 0x2A, len(value) + 2, 10, len(value)]) + value
        size = struct.pack("<Q", len(event))
        f.write(size + checksum(size) + event + checksum(event))
        f.flush()
        while bad > 2 and step == 4 and not os.path.exists(os.path.join(os.environ["GO"], "go")):
            time.sleep(0.02)
json.dump({"loss": bad + 1 / 6}, open("m.json", "w"))
P
test_expect 'early_stop: event files of TensorBoard, too' '
	sed "s/curve/events/; s/series: .*/series: tb\//; s/code: .*/code: [events.py]/; s/bad: .0, 1.*/bad: [0, 1, 3]}/; s/^pipeline: .*/pipeline: board/" early.yaml >board.yaml
	cairn sweep board.yaml stop -p "go=$PWD" --json >out 2>err
	test_is "$(json out "[t[\"state\"] for t in d[\"trials\"]]")" "[\"succeeded\", \"succeeded\", \"cancelled\"]"
	json out "[t[\"problem\"] for t in d[\"trials\"]][2]" >problem
	test_grep "^stopped early: the best loss up to step 4 is 3.25, half of the trials before had at most 1.25 by then$" problem
'
test_expect 'what early_stop can not be' '
	for bad in "early_stop: {trials: 0}" "early_stop: {aftr: 2}" "early_stop: 3" "early_stop: [1]"; do
		sed "s/early_stop: .*/$bad/" early.yaml >bad.yaml
		test_code 3 cairn check bad.yaml 2>err
	done
	sed "/series:/d" early.yaml >bad.yaml
	test_code 3 cairn check bad.yaml 2>err
	test_grep "early_stop. looks at metrics over time .* step .train. has no .series." err
	sed "s/    series:/    matrix: {k: [1, 2]}\n    series:/" early.yaml >bad.yaml
	test_code 3 cairn check bad.yaml 2>err
	test_grep "needs one task to look at" err
'

test_done
