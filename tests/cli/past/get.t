#!/bin/bash
# What is on record, read back: get, logs, runs, status, metrics, diff, lineage, cancel.
. "$(dirname "$0")/../../lib.sh"

touch cairn.yaml
echo in >in.txt
write pipeline.yaml <<'Y'
pipeline: two
params:
  word: {type: string, default: hello}
inputs: {in: in.txt}
steps:
  a:
    inputs: {x: "${{ inputs.in }}"}
    run: echo said ${{ params.word }}; echo ${{ params.word }} >${{ outputs.o }}
    outputs: {o: o.txt}
  b:
    run: printf '{"score":0.5}' >m.json; cat ${{ inputs.i }} >${{ outputs.p }}
    inputs: {i: "${{ steps.a.outputs.o }}"}
    outputs: {p: p.txt}
    metrics: m.json
Y

json() { # FILE EXPRESSION over d: prints it
	python3 -c 'import json,sys; d=json.load(open(sys.argv[1])); r=eval(sys.argv[2]); print(*(r if isinstance(r,(tuple,list)) else [r]))' "$1" "$2"
}

old() {
	json runs.json 'd["runs"][1]["id"]'
}

test_expect 'nothing was run yet: exit 4 or 2 by kind, one line' '
	test_code 4 cairn get a >out 2>err
	test_lines 0 out
	test_lines 1 err
'
test_expect 'two runs that differ in a param' '
	cairn -q run >out 2>err
	cairn -q run -p word=other >out 2>err
	cairn runs --json >runs.json
	test_is "$(json runs.json "len(d[\"runs\"])")" 2
	test_is "$(json runs.json "[r[\"params\"][\"word\"] for r in d[\"runs\"]]")" "other hello"
'
test_expect 'get gives the bytes of the run that is named, and replaces only when told' '
	cairn get a -o - >out
	test_is "$(cat out)" other
	cairn -q get a -r "$(old)" -o mine.txt
	test_is "$(cat mine.txt)" hello
	test_must_fail cairn -q get a -o mine.txt 2>err
	test_is "$(cat mine.txt)" hello
	cairn -q get a -o mine.txt --replace
	test_is "$(cat mine.txt)" other
'
test_expect 'a directory that is not there is not taken for content that is not there' '
	test_must_fail cairn get a -o nowhere/n 2>err
	test_code 2 cairn get a -o nowhere/ 2>err.slash
	test_grep "is a file: give -o PATH without a slash" err.slash
	test_grep "nowhere: No such file or directory" err
	test_no_grep "no longer in the store" err
'

test_expect 'a copy is the own one of who asked: the store keeps its bytes' '
	echo spoilt >mine.txt
	test_is "$(cairn get a -o -)" other
'
test_expect 'logs of a task of the run that is named' '
	cairn logs a >out
	test_is "$(grep -c "said other" out)" 1
	cairn logs -r "$(old)" a >out
	test_is "$(grep -c "said hello" out)" 1
'
test_expect 'status counts; metrics has the value; diff names the param; lineage leads back' '
	cairn status --json >status.json
	test_is "$(json status.json "d[\"run\"][\"counts\"][\"total\"]")" 2
	cairn metrics >out
	grep -q "0\.5" out
	cairn diff "$(old)" last >out
	grep -q word out
	cairn lineage b/p >out
	grep -qw b out
	grep -qw a out
	cairn lineage a/o >out
	test_no_grep "\bb\b" out
	cairn lineage --down a/o >out
	grep -qw b out
'
test_expect 'one grammar of what is meant: RUN/TASK/OUTPUT, RUN:TASK.OUTPUT, an output alone, @log, content ids' '
	run=$(old)
	hash=$(json runs.json "d[\"runs\"][1][\"hash\"]")
	test_is "$(cairn get "$run/a/o" -o -)" hello
	test_is "$(cairn get "$run:a.o" -o -)" hello
	test_is "$(cairn get "$hash:a" -o -)" hello
	test_is "$(cairn get "${hash:0:12}/o" -o -)" hello
	test_is "$(cairn get last:two/a/o -o -)" other
	test_is "$(cairn get a.o -o - --run "$run")" hello
	test_is "$(cairn get p -o -)" other
	test_is "$(cairn get "$run/a@log" -o - | grep -c "said hello")" 1
	test_is "$(cairn get "a@log" -o - | grep -c "said other")" 1
	cairn get "$run/a/o" -o hello.txt
	id=$(sha256sum hello.txt | cut -c1-12)
	test_is "$(cairn get "sha256:$id" -o -)" hello
	test_is "$(cairn get "$id" -o -)" hello
	for c in "$run/nosuch" "$run/a/nosuch" "nosuch/a/o" "a@input.x" "$run@input.x" "sha256:00000000" "a@nothing"; do
		test_must_fail cairn get "$c" -o - >out 2>err
		test_lines 0 out
		test_lines 1 err
	done
'
test_expect 'a whole run as a directory: of a run with hits too; its manifest is what the run hash is of' '
	cairn run -q -p word=third --until a 2>err
	cairn run -q -p word=third
	cairn -q get last -o run/ --inputs
	test_is "$(cd run; find . -type f | sort | tr "\n" " ")" \
		"./inputs/in ./logs/a.log ./manifest.json ./metrics.json ./outputs/a/o ./outputs/b/p ./pipeline/pipeline.yaml "
	test_is "$(cat run/outputs/b/p)" third
	test_is "$(grep -c "said third" run/logs/a.log)" 1
	test_cmp pipeline.yaml run/pipeline/pipeline.yaml
	cairn runs --json -n 1 >out
	test_is "$(sha256sum <run/manifest.json | cut -c1-64)" "$(json out "d[\"runs\"][0][\"hash\"]")"
	test_is "$(json run/metrics.json "d[\"b\"][\"score\"]")" 0.5
	test_is "$(cairn get last@metric.score)" 0.5
	test_is "$(cairn get last@input.in -o -)" in
	test_code 4 cairn get last -o run 2>err
	cairn -q get last -o run --replace
	test_missing run/inputs
	test_code 2 cairn get last -o - 2>err
'
test_expect '--replace: what was there goes when the new one is in place; nothing is left' '
	mkdir place
	cd place
	echo mine >file
	test_code 4 cairn get a -r last -o . --replace 2>err
	test_lines 1 err
	test_code 4 cairn get last -o . --replace 2>err
	test_is "$(find . -mindepth 1 | sort | xargs)" "./err ./file"
	mkdir -p dir/sub
	echo mine >dir/sub/file
	cairn -q get a -o dir --replace
	test -f dir
	cairn -q get last -o dir --replace
	cairn -q get last -o dir --replace
	test_exists dir/manifest.json
	cairn -q get a -o dir --replace
	test_is "$(cat dir)" "$(cairn get a -o -)"
	test_is "$(find . -mindepth 1 | sort | xargs)" "./dir ./err ./file"
'
test_expect --needs LOCAL_STORE 'a metric that is no number, of a foreign run: null in JSON' '
	cairn runs --json -n 1 >got
	hash=$(json got "d[\"runs\"][0][\"hash\"]")
	forged=$(python3 -B "$SRC/tests/cli/run/attack_store.py" .cairn/store "$hash" metric 0.5)
	cairn get "$forged@metric.score" --json >got
	test_is "$(json got "d[\"value\"]")" None
	test_is "$(cairn get "$forged@metric.score")" nan
	cairn diff "$hash" "$forged" --json >got
	test_is "$(json got "[(m[\"a\"], m[\"b\"]) for m in d[\"metrics\"]]")" "(0.5, None)"
	cairn diff "$forged" "$forged" >got
	test_grep "are the same" got
	cairn lineage "$forged@metric.score" --json >got
	test_is "$(json got "d[\"metric\"][\"value\"]")" None
	cairn metrics "$forged" --json >got
	test_is "$(json got "d[\"runs\"][0][\"metrics\"][\"b\"][\"score\"]")" None
'
test_expect --needs LOCAL_STORE 'content that is gone is named, and the rest restored' '
	f=$(sha256sum run/outputs/b/p | cut -c1-64)
	rm -f ".cairn/store/blobs/${f:0:2}/$f"
	test_code 1 cairn get last -o part 2>err
	test_grep "outputs/b/p" err
	test_grep "outputs/a/o" err
	test_exists part/logs/a.log
	test_missing part/outputs/b/p
'
test_expect 'a manifest that was edited is not believed' '
	hash=$(json out "d[\"runs\"][0][\"hash\"]")
	chmod u+w ".cairn/store/runs/${hash:0:2}/$hash"
	sed -i s/third/fourt/ ".cairn/store/runs/${hash:0:2}/$hash"
	test_code 4 cairn get "$hash" -o edited 2>err
	test_grep "manifest of run" err
	test_missing edited
'
test_expect 'an output of all tasks of a step, named as in the directory that a step gets' '
	write many.yaml <<-Y
	pipeline: many
	steps:
	  t: {matrix: {k: [a, "b c"]}, run: "mkdir -p \${{ outputs.d }}; echo \${{ matrix.k }} >\${{ outputs.d }}/x; echo \${{ matrix.k }} >\${{ outputs.o }}", outputs: {o: o.csv, d: d/}}
	  g: {run: "ls \${{ inputs.i }} >\${{ outputs.l }}", inputs: {i: "\${{ steps.t.outputs.o }}"}, outputs: {l: l.txt}}
	  one: {matrix: {k: [1, 2]}, run: "test \${{ matrix.k }} = 1; echo \${{ matrix.k }} >\${{ outputs.o }}", outputs: {o: o}}
	Y
	test_code 1 cairn -q run -k many.yaml
	cairn get g/l -o - >want
	cairn -q get t/o
	ls o >got
	test_cmp want got
	test_is "$(cat "o/k=b c.csv")" "b c"
	cairn get last/t/d -o "all é" --json >out
	test_is "$(cat "all é/k=a/x") $(json out "[d[\"contents\"], d[\"path\"]]")" "a 2 all é"
	cairn get one -o "one of two" 2>err
	test_is "$(ls "one of two")" "k=1"
	test_grep "1 of 2 tasks have no such output" err
	test_code 2 cairn get t/o -o - 2>err
	test_grep "2 tasks have this output: name one" err
	test_code 4 cairn get -r last t 2>err
	test_grep "name one as t.k=" err
	test_must_fail cairn lineage t/o 2>err
	test_grep "name the task" err
'
test_expect 'what is not there is one error' '
	for c in "get nosuch" "logs nosuch" "status nosuch-run" "lineage nosuch" "cancel nosuch-run"; do
		test_must_fail cairn $c >out 2>err
		test_lines 0 out
	done
'
test_done
