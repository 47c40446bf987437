#!/bin/bash
# cairn store reindex: the database built anew from the store answers as the one that was lost.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
write pipeline.yaml <<'Y'
pipeline: one
params:
  word: {type: string, default: hello}
  bar: {type: float, default: 0.1}
inputs: {raw: data/}
steps:
  prepare:
    run: for i in 1 2 3; do echo "${{ params.word }} $i" >parts/$i.txt; done; cat ${{ inputs.raw }}/*
    inputs: {raw: "${{ inputs.raw }}"}
    outputs: {parts: parts/}
  each:
    run: sh work.sh ${{ inputs.part }} ${{ params.bar }}
    code: [work.sh]
    tools: ["echo tool 1.0"]
    each: "${{ steps.prepare.outputs.parts }}/*.txt"
    inputs: {part: "${{ item }}"}
    outputs: {o: o.txt}
  train:
    run: "echo fold ${{ matrix.fold }}; printf '{\"score\":0.%d5, \"val\":{\"loss\":1.5}}' ${{ matrix.fold }} >m.json; cat ${{ inputs.d }}/*/* >model 2>/dev/null || cat ${{ inputs.d }}/* >model"
    matrix: {fold: [0, 1, 2]}
    inputs: {d: "${{ steps.each.outputs.o }}"}
    outputs: {model: model}
    metrics: m.json
  gate:
    run: "printf '{\"best\":0.25}' >m.json; cat ${{ inputs.m }}/* >report 2>/dev/null || cat ${{ inputs.m }}/*/* >report"
    inputs: {m: "${{ steps.train.outputs.model }}"}
    outputs: {report: report}
    metrics: m.json
    gate: {best: ">= 0.2"}
  random: {run: "head -c 8 /dev/urandom >o", outputs: {o: o}}
  never: {run: "date >o", outputs: {o: o}, cache: false}
Y
write flaky.yaml <<'Y'
pipeline: flaky
steps:
  retried: {run: "[ -e \"$HOME/flag\" ] || { touch \"$HOME/flag\"; echo not yet >&2; exit 5; }; echo done >o", outputs: {o: o}, retry: {max: 2, backoff: 1ms}}
  fails: {run: "echo no >&2; exit 3", needs: [retried]}
  after: {run: "true", needs: [fails]}
Y
mkdir data
echo raw >data/a
echo 'cat "$1" >o.txt' >work.sh

# Everything that the query commands say. In JSON, but for why and logs of each attempt.
answers() { # DIR
	mkdir "$1"
	cairn runs --json -n 0 >"$1/runs"
	cairn runs | grep nondeterministic >"$1/nondeterminism"
	for run in $(json "$1/runs" '" ".join(r["id"] for r in d["runs"])'); do
		cairn status --json "$run" >"$1/status-$run"
		for task in $(json "$1/status-$run" '" ".join(sorted(set(t["task"] for t in d["tasks"])))'); do
			cairn why "$task" --run "$run" --json >"$1/why-$run-${task//\//_}"
			cairn logs -r "$run" "$task" >"$1/logs-$run-${task//\//_}" 2>&1 || true
		done
		cairn lineage --json --run "$run" gate/report >"$1/up-$run" 2>&1 || true
		cairn lineage --json --down --run "$run" prepare/parts >"$1/down-$run" 2>&1 || true
	done
	cairn metrics --json -n 0 >"$1/metrics"
	cairn diff --json >"$1/diff"
	cairn tag --json >"$1/tags"
	cairn tag --history best --json >"$1/history"
	for q in "--metric score>=0.25" "--metric train.score<0.1" "--param word=other" "--param bar>0.05" "--state failed" "--tag best" "--sort=-score"; do
		cairn runs --json -n 0 $q >"$1/query${q//[ \/]/_}"
	done
	cairn plan --json >"$1/plan"
	cairn why each --json >"$1/why-now"
}

test_expect 'runs of every kind: hits, failures, retries, a matrix, a gate, two pipelines, one stopped and resumed' '
	cairn run -q
	cairn run -q
	cairn run -q -p word=other
	cairn run -q --force random
	test_code 1 cairn run -q flaky.yaml 2>err
	sed "s/>= 0.2/>= 0.9/" pipeline.yaml >strict.yaml
	test_code 1 cairn run -q strict.yaml 2>err
	echo more >>data/a
	cairn run -q -p bar=0.2
	cairn tag last:one best
	cairn tag "$(json <(cairn runs --json -n 0) "d[\"runs\"][-1][\"id\"]")" best -m "the first one after all"
	cairn tag last:flaky bad/one
	cairn tag --delete bad/one
	answers before
	test_is "$(json before/runs "len(d[\"runs\"])")" 7
	test_is "$(json before/runs "[r[\"state\"] for r in d[\"runs\"]].count(\"failed\")")" 2
	cairn runs >out
	test_grep "nondeterministic: random" out
'
test_expect 'the database is lost: all answers are the same again' '
	rm .cairn/cairn.db*
	cairn store reindex >out 2>err
	test_grep "^7 runs" out
	answers after
	diff -r before after
'
test_expect 'a second time changes nothing; the old one stays beside' '
	cairn store reindex --json >out
	test_is "$(json out "[d[\"runs\"], d[\"carried\"], d[\"damaged\"], d[\"renumbered\"]]")" "[7, 0, 0, false]"
	test_exists .cairn/cairn.db.before-reindex
	test_missing .cairn/cairn.db.reindex
	rm -rf after
	answers after
	diff -r before after
	cairn doctor >out
	cairn run -q
	test_is "$(cairn runs --json -n 1 | json /dev/stdin "d[\"runs\"][0][\"counts\"][\"executed\"]")" 1
'
test_expect 'what only the database has is taken along: a run that was not ended, in its place' '
	write hang.yaml <<-Y
	pipeline: hang
	steps:
	  quick: {run: "echo quick >o", outputs: {o: o}}
	  hang: {run: "echo hi; touch \"\$HOME/started\"; while [ ! -e \"\$HOME/go\" ]; do sleep 0.02; done; echo done >o", needs: [quick], outputs: {o: o}}
	Y
	start run cairn run -q hang.yaml
	wait_until 30 test -e "$HOME/started"
	test_code 4 cairn store reindex 2>err
	test_grep "is going on" err
	kill -KILL "$(cat run.pid)"
	wait_until 30 test -s run.rc
	cairn runs --json -n 0 >runs.1
	test_is "$(json runs.1 "d[\"runs\"][0][\"state\"]")" died
	cairn run -q flaky.yaml >err 2>&1 || true
	cairn runs --json -n 0 >runs.1
	cairn store reindex --json >out
	test_is "$(json out "d[\"carried\"]")" 1
	cairn runs --json -n 0 >runs.2
	test_cmp runs.1 runs.2
	touch "$HOME/go"
	cairn resume -q "$(json runs.1 "d[\"runs\"][1][\"id\"]")"
	cairn runs --json -n 2 >runs.3
	test_is "$(json runs.3 "[d[\"runs\"][1][\"state\"], d[\"runs\"][1][\"counts\"][\"executed\"]]")" "[\"succeeded\", 1]"
'
test_expect 'a run that was stopped in order can go on after a reindex; its last manifest counts' '
	rm -f "$HOME/go" "$HOME/started"
	start stopped cairn run -q --force "*" hang.yaml
	wait_until 30 test -e "$HOME/started"
	kill -TERM "$(cat stopped.pid)"
	wait_until 30 test -s stopped.rc
	cairn runs --json -n 1 >runs.1
	test_is "$(json runs.1 "d[\"runs\"][0][\"state\"]")" interrupted
	rm .cairn/cairn.db*
	cairn store reindex -q >out
	cairn runs --json -n 1 >runs.2
	test_cmp runs.1 runs.2
	id=$(json runs.1 "d[\"runs\"][0][\"id\"]")
	test_is "$(cairn get "$id/quick" -o -)" quick
	touch "$HOME/go"
	# What only the store says of it may be anybody'"'"'s.
	test_code 3 cairn resume -q "$id" 2>err
	test_grep "[-][-]trust" err
	test_is "$(cairn status --json "$id" | json /dev/stdin "d[\"run\"][\"state\"]")" interrupted
	cairn resume --trust -q "$id"
	cairn runs --json -n 1 >runs.1
	test_is "$(json runs.1 "[d[\"runs\"][0][\"id\"], d[\"runs\"][0][\"state\"], d[\"runs\"][0][\"counts\"][\"executed\"]]")" "[\"$id\", \"succeeded\", 1]"
	rm .cairn/cairn.db*
	cairn store reindex --json >out
	test_is "$(json out "d[\"superseded\"]")" 1
	cairn runs --json -n 1 >runs.2
	test_cmp runs.1 runs.2
'
test_expect 'a manifest that was tampered with is found when it is read, and left out' '
	hash=$(cairn runs --json -n 1 | json /dev/stdin "d[\"runs\"][0][\"hash\"]")
	f=.cairn/store/runs/${hash:0:2}/$hash
	chmod u+w "$f"
	sed -i "s/\"state\":\"succeeded\"/\"state\":\"failed\",,,/" "$f"
	test_code 4 cairn get "$hash" -o stolen 2>err
	test_missing stolen
	cp -a .cairn/cairn.db keep.db
	rm .cairn/cairn.db*
	cairn runs --json >out 2>err || true
	cairn store reindex >out 2>err || true
	test_no_grep "$hash" out
	cairn runs --json -n 0 >runs.2
	test_is "$(json runs.2 "\"$hash\" in [r[\"hash\"] for r in d[\"runs\"]]")" false
'
test_expect 'not under a server that is at work' '
	start serve cairn serve --listen none
	wait_until 60 grep -q " serving " serve.out
	test_code 4 cairn store reindex 2>err
	test_grep "cairn serve. .* is at work in this project" err
	test_is "$(stop serve)" 0
	cairn store reindex >out
'
test_expect 'a database that is damaged is set aside and built anew' '
	cairn runs --json -n 0 >runs.1
	head -c 20000 /dev/urandom >.cairn/cairn.db
	rm -f .cairn/cairn.db-wal .cairn/cairn.db-shm
	test_code 4 cairn runs 2>err
	cairn store reindex >out 2>err || true
	test_grep "can.t be read" err
	cairn runs --json -n 0 >runs.2
	test_cmp runs.1 runs.2
	test_exists .cairn/cairn.db.before-reindex
'
test_expect 'runs of two projects in one store: each known once, attempts in order of time' '
	mkdir p1 p2
	for p in p1 p2; do
		printf "store: ../both\n" >$p/cairn.yaml
		printf "pipeline: $p\nsteps:\n  a: {run: echo $p >o, outputs: {o: o}}\n  b: {run: \"cat \${{ inputs.i }} >o\", inputs: {i: \"\${{ steps.a.outputs.o }}\"}, outputs: {o: o}}\n" >$p/pipeline.yaml
		(cd $p; cairn run -q)
	done
	(cd p1; cairn run -q --force a)
	mkdir third
	printf "store: ../both\n" >third/cairn.yaml
	cd third
	cairn store reindex --json >out
	test_is "$(json out "[d[\"runs\"], d[\"attempts\"], d[\"renumbered\"]]")" "[3, 5, true]"
	test_is "$(cairn runs --json | json /dev/stdin "[r[\"pipeline\"] for r in d[\"runs\"]]")" "[\"p1\", \"p2\", \"p1\"]"
	test_is "$(cairn get last:p2/b -o -)" p2
	cairn lineage --json --run last:p2 b/o >lin
	test_is "$(json lin "sorted(n[\"task\"] for n in d[\"nodes\"] if n[\"kind\"] == \"attempt\")")" "[\"a\", \"b\"]"
'
test_done
