#!/bin/bash
# A run in the HTTP API as steps and tasks: graph, rows, timeline; also of a run that goes on, of hits and of what wasn't executed.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'

echo '# project' >cairn.yaml
write data.csv <<<'a,b'
write pipeline.yaml <<'YAML'
pipeline: one
params: {n: 1}
inputs: {raw: data.csv}
steps:
  s:
    run: "cp ${{ inputs.raw }} o; echo ${{ params.n }} >>o"
    inputs: {raw: "${{ inputs.raw }}"}
    outputs: {o: o}
  t:
    run: "cat ${{ inputs.i }} >o; echo ${{ matrix.f }} >>o; echo '{\"acc\": 0.${{ matrix.f }}}' >m.json; test ${{ params.n }} -lt 7 || test ${{ matrix.f }} = 1"
    matrix: {f: [1, 2]}
    inputs: {i: "${{ steps.s.outputs.o }}"}
    outputs: {o: o}
    metrics: m.json
  e: {run: "cp ${{ inputs.i }} o", matrix: {f: [1, 2]}, inputs: {i: "${{ steps.t.outputs.o }}"}, outputs: {o: o}}
  rare: {run: "true", if: "${{ params.n > 100 }}", outputs: {}, needs: [e]}
  all: {run: "ls ${{ inputs.i }} >o", inputs: {i: "${{ steps.e.outputs.o }}"}, outputs: {o: o}}
finally:
  clean: {run: "true", outputs: {}, cache: false}
YAML
write wait.yaml <<'YAML'
pipeline: wait
steps:
  quick: {run: "echo x >o", outputs: {o: o}}
  w:
    run: "cat ${{ inputs.i }}; : >\"$HOME/begun.${{ matrix.k }}\"; while [ ! -e \"$HOME/go\" ]; do sleep 0.02; done"
    matrix: {k: [1, 2]}
    inputs: {i: "${{ steps.quick.outputs.o }}"}
    outputs: {}
    cache: false
    concurrency: {group: one, max: 1}
  after: {run: "true", needs: [w], outputs: {}}
YAML

states() { json body '" ".join(t["task"] + ":" + t["state"] for t in d["tasks"])'; }

# shellcheck disable=SC2034 # the tests use them
ids() { first=$(json runs 'd["runs"][2]["id"]') second=$(json runs 'd["runs"][1]["id"]'); }

test_expect 'rows of a run that executed all, of one that executed nothing, of one that failed' '
	cairn run -q
	cairn run -q
	test_code 1 cairn run -q -p n=7 2>/dev/null
	cairn runs --json >runs
	ids
	serve srv
	get srv "/api/v1/runs/$first/tasks"
	status_is 200
	test_is "$(states)" "s:executed t[f=1]:executed t[f=2]:executed e[f=1]:executed e[f=2]:executed rare:skipped all:executed clean:executed"
	test_is "$(json body "[d[\"total\"], d[\"next\"]]")" "[8, null]"
	test_is "$(json body "[[t[\"reason\"], t[\"attempts\"], t[\"metric\"]] for t in d[\"tasks\"] if t[\"task\"] == \"t[f=2]\"]")" "[[\"first run\", 1, {\"name\": \"acc\", \"value\": 0.2}]]"
	test_is "$(json body "[t[\"reason\"] for t in d[\"tasks\"] if t[\"task\"] == \"rare\"]")" "[\"its \`if\` was false\"]"
	get srv "/api/v1/runs/$second/tasks?state=hit"
	test_is "$(json body "[(t[\"task\"], t[\"hit_of\"], t[\"attempts\"], t[\"started\"], t[\"saved_ns\"] > 0) for t in d[\"tasks\"]][0]")" "[\"s\", \"$first\", 0, null, true]"
	test_is "$(json body "d[\"total\"]")" 6
	get srv "/api/v1/runs/last/tasks"
	test_is "$(states | tr " " "\n" | grep -v "e\[f=1" | paste -sd " ")" "s:executed t[f=1]:executed t[f=2]:failed e[f=2]:blocked rare:blocked all:blocked clean:executed"
	test_is "$(json body "[(t[\"failure\"], t[\"message\"]) for t in d[\"tasks\"] if t[\"state\"] == \"failed\"]")" "[[\"failed\", \"exit status 1\"]]"
'

test_expect 'they are filtered, sorted and cut into pages' '
	ids
	get srv "/api/v1/runs/$first/tasks?step=t&sort=-task"
	test_is "$(json body "[t[\"task\"] for t in d[\"tasks\"]]")" "[\"t[f=2]\", \"t[f=1]\"]"
	get srv "/api/v1/runs/$first/tasks?q=F%3D1"
	test_is "$(json body "[t[\"task\"] for t in d[\"tasks\"]]")" "[\"t[f=1]\", \"e[f=1]\"]"
	get srv "/api/v1/runs/$first/tasks?sort=started&limit=3"
	test_is "$(json body "[d[\"tasks\"][0][\"task\"], d[\"next\"]]")" "[\"s\", \"3\"]"
	get srv "/api/v1/runs/$first/tasks?sort=started&limit=5&cursor=3"
	test_is "$(json body "[d[\"tasks\"][-1][\"task\"], len(d[\"tasks\"]), d[\"next\"]]")" "[\"rare\", 5, null]"
	get srv "/api/v1/runs/$first/tasks?state=odd"
	status_is 400
	get srv "/api/v1/runs/$first/tasks?sort=odd"
	status_is 400
	test_grep "started, duration or task" body
'

test_expect 'the graph has steps with counts, edges and inputs; the timeline says who waited for whom' '
	ids
	get srv "/api/v1/runs/$first/graph"
	status_is 200
	test_is "$(json body "[(s[\"step\"], s[\"tasks\"], s[\"needs\"], s[\"finally\"]) for s in d[\"steps\"]]")" "[[\"s\", 1, [], false], [\"t\", 2, [\"s\"], false], [\"e\", 2, [\"t\"], false], [\"rare\", 1, [\"e\"], false], [\"all\", 1, [\"e\"], false], [\"clean\", 1, [], true]]"
	test_is "$(json body "[s[\"counts\"][\"executed\"] for s in d[\"steps\"]]")" "[1, 2, 2, 0, 1, 1]"
	test_is "$(json body "[(e[\"from\"], e[\"to\"], e[\"data\"], e[\"tasks\"]) for e in d[\"edges\"]]")" "[[\"s\", \"t\", true, 1], [\"t\", \"e\", true, 2], [\"e\", \"rare\", false, 2], [\"e\", \"all\", true, 2]]"
	test_is "$(json body "[(i[\"name\"], i[\"origin\"], i[\"steps\"], i[\"content\"][\"size\"]) for i in d[\"inputs\"]]")" "[[\"raw\", \"path:data.csv\", [\"s\"], 4]]"
	get srv "/api/v1/runs/$second/graph"
	test_is "$(json body "[s[\"counts\"][\"hits\"] for s in d[\"steps\"]]")" "[1, 2, 2, 0, 1, 0]"
	get srv "/api/v1/runs/$first/timeline"
	status_is 200
	test_is "$(json body "[r[0] for r in d[\"rows\"]]")" "[\"s\", \"t[f=1]\", \"t[f=2]\", \"e[f=1]\", \"e[f=2]\", \"rare\", \"all\", \"clean\"]"
	test_is "$(json body "all(0 <= r[2] <= r[3] and r[5] >= 0 and r[4] == \"executed\" for r in d[\"rows\"] if r[0] != \"rare\")")" true
	# Who waited for whom, by the number of the row; what never began has no times.
	test_is "$(json body "[r[6] for r in d[\"rows\"][:5]]")" "[null, 0, 0, 1, 2]"
	test_is "$(json body "d[\"rows\"][5][2:5]")" "[null, null, \"skipped\"]"
	test_is "$(json body "[d[\"critical\"][0], d[\"critical\"][-2:], d[\"steps\"]]")" "[\"s\", [\"all\", \"clean\"], [\"s\", \"t\", \"e\", \"rare\", \"all\", \"clean\"]]"
	# A path goes from a task to the one of the same fold.
	test_is "$(json body "d[\"critical\"][1][1:] == d[\"critical\"][2][1:]")" true
	get srv "/api/v1/runs/$second/timeline"
	test_is "$(json body "[[r[0] for r in d[\"rows\"] if r[2] is not None], d[\"saved_ns\"] > 0]")" "[[\"clean\"], true]"
	test_is "$(json body "[r[0] for r in d[\"rows\"] if r[4] == \"hit\" and r[7] > 0]")" "[\"s\", \"t[f=1]\", \"t[f=2]\", \"e[f=1]\", \"e[f=2]\", \"all\"]"
	test_is "$(json body "sum(r[7] for r in d[\"rows\"]) == d[\"saved_ns\"]")" true
'

test_expect 'a task: why, what it was made of, what it read and made, attempts, neighbours' '
	ids
	write secret.yaml <<-YAML
	pipeline: secret
	steps:
	  a: {run: "echo \$WORD; test -n \"\$CAIRN_SECRET_KEY\" || test -n \"\$KEY\"; echo x >o", env: {WORD: hi}, secrets: [KEY], outputs: {o: o}}
	YAML
	get srv "/api/v1/runs/last/task?task=t%5Bf%3D2%5D"
	status_is 200
	test_is "$(json body "[d[\"state\"], d[\"attempts\"], d[\"params\"], d[\"upstream\"], d[\"downstream\"]]")" "[\"failed\", 1, {\"n\": \"7\"}, [\"s\"], [\"e[f=2]\"]]"
	test_grep "test 7 -lt 7" body
	test_is "$(json body "d[\"why\"][\"causes\"]")" "$(cairn why --run last "t[f=2]" --json >why && json why "d[\"tasks\"][0][\"causes\"]")"
	test_is "$(json body "[(c[\"what\"], c[\"name\"], c[\"was\"], c[\"now\"]) for c in d[\"why\"][\"changes\"] if c[\"what\"] == \"param\"]")" "[[\"param\", \"n\", \"1\", \"7\"]]"
	test_is "$(json body "d[\"why\"][\"since\"]")" "$first"
	test_is "$(json body "[(i[\"name\"], i[\"from\"]) for i in d[\"inputs\"]]")" "[]"
	test_is "$(json body "[(a[\"attempt\"], a[\"exit\"], a[\"log\"][\"size\"] if a[\"log\"] else 0, a[\"max_rss_bytes\"] > 0) for a in d[\"attempts_list\"]]")" "[[1, 1, 0, true]]"
	get srv "/api/v1/runs/$second/task?task=t%5Bf%3D2%5D"
	test_is "$(json body "[d[\"state\"], d[\"hit_of\"], d[\"why\"][\"causes\"], [(i[\"name\"], i[\"from\"]) for i in d[\"inputs\"]], [o[\"name\"] for o in d[\"outputs\"]], d[\"metrics\"]]")" "[\"hit\", \"$first\", [\"nothing changed since its result was recorded\"], [[\"i\", {\"output\": \"o\", \"task\": \"s\"}]], [\"o\"], {\"acc\": 0.2}]"
	get srv "/api/v1/runs/$first/task?task=s"
	test_is "$(json body "[(i[\"name\"], i[\"from\"]) for i in d[\"inputs\"]]")" "[[\"raw\", {\"input\": \"raw\", \"origin\": \"path:data.csv\"}]]"
	get srv "/api/v1/runs/$first/task?task=all"
	test_is "$(json body "sorted((i[\"name\"], i[\"from\"][\"task\"]) for i in d[\"inputs\"] if i[\"from\"])")" "[[\"i:e[f=1]\", \"e[f=1]\"], [\"i:e[f=2]\", \"e[f=2]\"]]"
	get srv "/api/v1/runs/$first/task?task=t"
	status_is 400
	test_grep "several tasks" body
	get srv "/api/v1/runs/$first/task?task=nothing"
	status_is 404
	get srv "/api/v1/runs/$first/task"
	status_is 400
	echo -n sesame-open-42 | cairn secret set KEY -q
	cairn run -q secret.yaml
	get srv "/api/v1/runs/last/task?task=a"
	test_is "$(json body "[d[\"secrets\"], d[\"env\"]]")" "[[\"KEY\"], {\"WORD\": \"hi\"}]"
	test_no_grep sesame body
'

test_expect 'series: all points of a short one, peaks of a long one, none of a step without' '
	write series.yaml <<-"YAML"
	pipeline: series
	steps:
	  a: {run: "seq 1 5000 | sed \"s/.*/{\\\"step\\\": &, \\\"loss\\\": 0.5}/; 777s/0.5/99/\" >m.jsonl", outputs: {}, series: m.jsonl}
	  b: {run: "printf \"step,acc\\n1,0.5\\n2,\\n\" >m.csv", outputs: {}, series: m.csv}
	  c: {run: "echo nonsense >m.csv", outputs: {}, series: m.csv}
	YAML
	cairn run -q series.yaml
	get srv "/api/v1/runs/last/series"
	status_is 200
	test_is "$(json body "[(s[\"task\"], s[\"metric\"], s[\"n\"], s[\"downsampled\"], len(s[\"points\"]) <= 1000) for s in d[\"series\"]]")" "[[\"a\", \"loss\", 5000, true, true], [\"b\", \"acc\", 2, false, true]]"
	test_is "$(json body "[max(p[1] for p in d[\"series\"][0][\"points\"]), d[\"series\"][1][\"points\"]]")" "[99.0, [[1.0, 0.5], [2.0, null]]]"
	get srv "/api/v1/runs/last/series?task=a&metric=loss&points=10"
	test_is "$(json body "len(d[\"series\"][0][\"points\"]) <= 10")" true
	get srv "/api/v1/runs/last/task?task=a"
	test_is "$(json body "d[\"series\"]")" "[\"loss\"]"
	get srv "/api/v1/runs/last/series?points=1"
	status_is 400
'

test_expect 'series: times where the program writes them, and of a task that still runs' '
	write timed.yaml <<-"YAML"
	pipeline: timed
	steps:
	  a:
	    run: |
	      printf "{\"step\": 1, \"loss\": 0.5, \"wall_time\": 1000.5}\n{\"step\": 2, \"loss\": 0.25, \"wall_time\": 1003}\n{\"step\": 3, \"lo" >m.jsonl
	      while [ ! -e "$GO" ]; do sleep 0.02; done
	      printf "step,acc,wall_time\n1,0.5,10\n2,0.7,11\n" >c.csv
	      printf "ss\": 0.125}\n" >>m.jsonl
	    env: {GO: "${{ params.go }}"}
	    series: m.jsonl
	    cache: false
	  c: {run: "printf \"step,acc,wall_time\\n1,0.5,10\\n2,0.7,11\\n\" >m.csv", series: m.csv}
	params: {go: {type: string}}
	YAML
	start timed cairn run -q timed.yaml -p "go=$HOME/timed"
	points() { get srv "/api/v1/runs?pipeline=timed" && id=$(json body "d[\"runs\"][0][\"id\"]") && get srv "/api/v1/runs/$id/series?task=a" && test_is "$(json body "d[\"series\"][0][\"points\"]")" "[[1.0, 0.5, 0], [2.0, 0.25, 2500000000]]"; }
	wait_until 60 points
	# What is half there is left out, and a link leads nowhere.
	test_is "$(json body "[s[\"metric\"] for s in d[\"series\"]]")" "[\"loss\"]"
	touch "$HOME/timed"
	wait_until 60 test -s timed.rc
	get srv "/api/v1/runs/last/series"
	test_is "$(json body "[(s[\"task\"], s[\"metric\"], s[\"points\"]) for s in d[\"series\"]]")" "[[\"a\", \"loss\", [[1.0, 0.5, 0], [2.0, 0.25, 2500000000], [3.0, 0.125]]], [\"c\", \"acc\", [[1.0, 0.5, 0], [2.0, 0.7, 1000000000]]]]"
	write linked.yaml <<-"YAML"
	pipeline: linked
	steps:
	  a: {run: "ln -s /etc/passwd m.jsonl; : >\"$GO.on\"; while [ ! -e \"$GO\" ]; do sleep 0.02; done; rm m.jsonl; echo >m.jsonl", env: {GO: "${{ params.go }}"}, series: m.jsonl, cache: false}
	params: {go: {type: string}}
	YAML
	start linked cairn run -q linked.yaml -p "go=$HOME/linked"
	wait_until 60 test -e "$HOME/linked.on"
	get srv "/api/v1/runs?pipeline=linked"
	get srv "/api/v1/runs/$(json body "d[\"runs\"][0][\"id\"]")/series"
	test_is "$(json body "d[\"series\"]")" "[]"
	touch "$HOME/linked"
	wait_until 60 test -s linked.rc
'

test_expect 'series: event files of TensorBoard, also while the directory still grows' '
	get srv "/api/v1/runs?pipeline=timed"
	cairn metrics "$(json body "d[\"runs\"][0][\"id\"]")" --tensorboard "$HOME/tb" >/dev/null
	events=$(find "$HOME/tb" -name "*tfevents*" | grep "/a/")
	write board.yaml <<-"YAML"
	pipeline: board
	steps:
	  a:
	    run: |
	      mkdir -p tb/train; head -c -3 "$FROM" >tb/train/events.out.tfevents.1; ln -s /etc tb/train/deep
	      while [ ! -e "$GO" ]; do sleep 0.02; done
	      rm tb/train/deep; cp "$FROM" tb/train/events.out.tfevents.1
	    env: {GO: "${{ params.go }}", FROM: "${{ params.from }}"}
	    series: tb/
	    cache: false
	params: {go: {type: string}, from: {type: string}}
	YAML
	start board cairn run -q board.yaml -p "go=$HOME/board" -p "from=$events"
	seen() { get srv "/api/v1/runs?pipeline=board" && id=$(json body "d[\"runs\"][0][\"id\"]") && get srv "/api/v1/runs/$id/series?task=a" && json body "[[p[:2] for p in s[\"points\"]] for s in d[\"series\"] if s[\"metric\"] == \"train/loss\"][0]" >curve 2>/dev/null; }
	# The last record is cut off: the curve ends before it.
	grows() { seen && test_is "$(cat curve)" "[[1.0, 0.5], [2.0, 0.25]]"; }
	wait_until 60 grows
	touch "$HOME/board"
	wait_until 60 test -s board.rc
	seen
	test_is "$(cat curve)" "[[1.0, 0.5], [2.0, 0.25], [3.0, 0.125]]"
'

test_expect 'runs: found by text, with columns and a total; a running one has its counts' '
	ids
	get srv "/api/v1/runs?q=SERIES&metrics=acc,none"
	test_is "$(json body "[(r[\"pipeline\"], r[\"metrics\"]) for r in d[\"runs\"]]")" "[[\"series\", {\"acc\": null, \"none\": null}]]"
	get srv "/api/v1/runs?q=100%25"
	test_is "$(json body "[len(d[\"runs\"]), d[\"next\"], d[\"total\"]]")" "[0, null, null]"
	cairn tag "$first" best/one -q
	get srv "/api/v1/runs?q=best/&metrics=acc"
	test_is "$(json body "[(r[\"id\"], r[\"metrics\"]) for r in d[\"runs\"]]")" "[[\"$first\", {\"acc\": 0.2}]]"
	get srv "/api/v1/runs?pipeline=one&limit=1"
	test_is "$(json body "[d[\"total\"], len(d[\"runs\"])]")" "[3, 1]"
	get srv "/api/v1/runs?q=%25"
	test_is "$(json body "len(d[\"runs\"])")" 0
'

test_expect 'a run that goes on: its hits, what runs, what waits and why; and after it was killed' '
	cairn run -q wait.yaml quick
	start run cairn run wait.yaml -q
	run=$(cat run.pid)
	wait_until 60 eval "test -e \"$HOME/begun.1\" || test -e \"$HOME/begun.2\""
	# The engine says now and then what its tasks do.
	told() { get srv "/api/v1/runs/last/tasks" && test_is "$(json body "sorted((t[\"state\"], t[\"step\"]) for t in d[\"tasks\"])")" "[[\"hit\", \"quick\"], [\"running\", \"w\"], [\"waiting\", \"after\"], [\"waiting\", \"w\"]]"; }
	wait_until 30 told
	test_is "$(json body "{t[\"step\"]: t[\"phase\"] for t in d[\"tasks\"] if t[\"state\"] == \"waiting\"}")" "{\"after\": \"needs w\", \"w\": \"waits for a place in its concurrency group\"}"
	test_is "$(json body "[t[\"duration_ns\"] > 0 for t in d[\"tasks\"] if t[\"state\"] == \"running\"]")" "[true]"
	get srv "/api/v1/runs/last"
	test_is "$(json body "[d[\"counts\"][\"total\"], d[\"counts\"][\"hits\"]]")" "[4, 1]"
	get srv "/api/v1/runs/last/graph"
	test_is "$(json body "[(s[\"step\"], s[\"counts\"][\"hits\"], s[\"counts\"][\"running\"], s[\"counts\"][\"waiting\"], s[\"ended\"]) for s in d[\"steps\"]]")" "[[\"quick\", 1, 0, 0, null], [\"w\", 0, 1, 1, null], [\"after\", 0, 0, 1, null]]"
	ls .cairn/live >live
	test_is "$(wc -l <live)" 1
	kill -9 "$run"
	died() { get srv "/api/v1/runs/last" && test "$(json body "d[\"state\"]")" = died; }
	wait_until 30 died
	settled() { get srv "/api/v1/runs/last/tasks?state=running" && test "$(json body "d[\"total\"]")" = 0; }
	wait_until 30 settled
	get srv "/api/v1/runs/last/tasks"
	test_is "$(json body "sorted((t[\"state\"], t[\"step\"]) for t in d[\"tasks\"])")" "[[\"hit\", \"quick\"], [\"waiting\", \"after\"], [\"waiting\", \"w\"], [\"waiting\", \"w\"]]"
	touch "$HOME/go"
	cairn resume -q
	test_is "$(ls .cairn/live)" ""
	get srv "/api/v1/runs/last/tasks"
	test_is "$(json body "sorted((t[\"state\"], t[\"step\"]) for t in d[\"tasks\"])")" "[[\"executed\", \"after\"], [\"executed\", \"w\"], [\"executed\", \"w\"], [\"hit\", \"quick\"]]"
'

test_expect 'a damaged file of a running engine is no error' '
	rm "$HOME"/begun.*  "$HOME/go"
	start again cairn run wait.yaml -q
	again=$(cat again.pid)
	wait_until 60 eval "test -e \"$HOME/begun.1\" || test -e \"$HOME/begun.2\""
	kill -9 "$again"
	id=$(ls .cairn/live)
	[ -n "$id" ] || { cairn status --json >status.json; id=$(json status.json "d[\"run\"][\"id\"]"); }
	mkdir -p .cairn/live
	for text in "" "cairn-live/1 1 1" "cairn-live/1 1 0 0 0 0 0 0
S 1 99 w" "cairn-live/1 1 0 0 0 0 0 0
S 1 1 w
T h 0 0 - 99999999999999999999 w"; do
		printf %s "$text" >".cairn/live/$id"
		get srv "/api/v1/runs/$id/tasks"
		status_is 200
		get srv "/api/v1/runs/$id/graph"
		status_is 200
		test_is "$(json body "[s[\"step\"] for s in d[\"steps\"]]")" "[\"quick\", \"w\", \"after\"]"
	done
'

test_expect 'files of cancelled runs make room for newer ones' '
	rm -f "$HOME"/begun.* "$HOME/go" .cairn/live/*
	for i in $(seq 10 49); do
		touch -d "2020-01-01 00:00:$i" ".cairn/live/old-$i"
	done
	start third cairn run wait.yaml -q
	shows() { ls .cairn/live | grep -vc "^old-" >count; test "$(cat count)" = 1; }
	wait_until 60 shows
	test_is "$(ls .cairn/live | wc -l)" 32
	test ! -e .cairn/live/old-18
	test -e .cairn/live/old-19
	cairn cancel last
	wait_until 60 test -s third.rc
	# What it did stays to be seen.
	get srv /api/v1/runs/last/tasks
	test_is "$(json body "sorted(t[\"state\"] for t in d[\"tasks\"] if t[\"step\"] == \"quick\")")" "[\"hit\"]"
'

test_expect 'a run that goes on tells when it should end, from past runs, also live; nothing without them' '
	write pace.yaml <<-YAML
	pipeline: pace
	steps:
	  first: {run: "test -e \"\$HOME/fast\" || while [ ! -e \"\$HOME/paced\" ]; do sleep 0.02; done", cache: false, outputs: {}}
	  second: {needs: [first], run: "sleep 1", cache: false, outputs: {}}
	YAML
	sed 1s/pace/new/ pace.yaml >new.yaml
	touch "$HOME/fast"
	cairn run pace.yaml -q
	rm "$HOME/fast"
	curl -s -N --max-time 300 "$(serve_url srv)/api/v1/events" >stream &
	listener=$!
	wait_until 30 grep -q "^id:" stream
	start paced cairn run pace.yaml -q
	of() { get srv "/api/v1/runs?pipeline=$1&state=running" && test "$(json body "d[\"runs\"][0][\"counts\"][\"total\"]" 2>/dev/null)" = 2; }
	wait_until 60 of pace
	# Two steps, of which the second took a second; the first has no time to speak of.
	test_is "$(json body "(lambda r, t: 0.9 <= (t(r[\"expected_end\"]) - t(r[\"started\"])).total_seconds() < 120)(d[\"runs\"][0], __import__(\"datetime\").datetime.fromisoformat)" 2>&1)" true
	wait_until 60 grep -q "\"expected_end\":\"20.*\"pipeline\":\"pace\"" stream
	start fresh cairn run new.yaml -q
	wait_until 60 of new
	test_is "$(json body "d[\"runs\"][0][\"expected_end\"]")" null
	touch "$HOME/paced"
	wait_until 60 test -s paced.rc
	wait_until 60 test -s fresh.rc
	kill "$listener"
	get srv "/api/v1/runs?pipeline=pace"
	test_is "$(json body "[r.get(\"expected_end\") for r in d[\"runs\"]]")" "[null, null]"
'

test_done
