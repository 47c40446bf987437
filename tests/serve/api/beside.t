#!/bin/bash
# Around runs in the HTTP API: comparing, lineage, pipelines and plans, resume, reproductions with their verdict, calendar, store, home.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'

echo '# project' >cairn.yaml
write data.csv <<<'a,b'
write pipeline.yaml <<'YAML'
pipeline: one
description: Two steps
params: {n: {type: int, default: 1, min: 0, max: 9, help: how many}, opt: {enum: [sgd, adam], default: sgd}, name: {type: string}}
inputs: {raw: data.csv}
steps:
  s: {run: "cp ${{ inputs.raw }} o; echo ${{ params.n }} ${{ params.name }} >>o", inputs: {raw: "${{ inputs.raw }}"}, outputs: {o: o}}
  t: {run: "cat ${{ inputs.i }} >o; echo '{\"acc\": 0.${{ params.n }}}' >m.json; test ! -e \"$HOME/fail\"", inputs: {i: "${{ steps.s.outputs.o }}"}, outputs: {o: {path: o, export: kept/o}}, metrics: m.json}
schedules:
  nightly: {cron: "0 3 * * *", timezone: Europe/Berlin, params: {name: x}}
YAML
write broken.yaml <<'YAML'
pipeline: broken
steps: {a: {run: x, timeuot: 1h}}
YAML
# launched: waits until the launch in `body` has ended.
launched() {
	launch=$(json body 'd["launch"]')
	ended() { get srv "/api/v1/launches/$launch" && test "$(json body 'd["state"]')" = ended; }
	wait_until 60 ended
}

test_expect 'runs side by side: params, metrics, and why they differ' '
	cairn run -q -p name=x
	cairn run -q -p name=x -p n=2
	cairn run -q -p name=y -p n=2 -p opt=adam
	cairn runs --json >runs
	a=$(json runs "d[\"runs\"][2][\"id\"]") b=$(json runs "d[\"runs\"][1][\"id\"]") c=$(json runs "d[\"runs\"][0][\"id\"]")
	serve srv
	get srv "/api/v1/compare?runs=$a,$b,$c"
	status_is 200
	test_is "$(json body "[[r[\"id\"] for r in d[\"runs\"]], d[\"params\"], d[\"metrics\"]]")" "[[\"$a\", \"$b\", \"$c\"], {\"n\": [1, 2, 2], \"name\": [\"x\", \"x\", \"y\"], \"opt\": [\"sgd\", \"sgd\", \"adam\"]}, {\"t/acc\": [0.1, 0.2, 0.2]}]"
	cairn diff "$a" "$b" --json >diff
	test_is "$(json body "d[\"causes\"][0][\"because\"]")" "$(json diff "d[\"because\"]")"
	test_is "$(json body "d[\"causes\"][0][\"first\"]")" "$(json diff "d[\"first\"]")"
	test_is "$(json body "[(c[\"a\"], c[\"b\"]) for c in d[\"causes\"]]")" "[[\"$a\", \"$b\"], [\"$a\", \"$c\"]]"
	for bad in "" "runs=$a" "runs=$a,none" "runs=,," "runs=$(seq -s, 60 | sed "s/[0-9]*/last/g")"; do
		get srv "/api/v1/compare?$bad"
		test "$(cat status)" -ge 400 && test "$(cat status)" -lt 500 || { echo "$bad"; return 1; }
	done
'

test_expect 'lineage begins at a content, at a task, or at an output' '
	get srv "/api/v1/lineage?run=last&task=t&output=o"
	status_is 200
	test_is "$(json body "sorted(n[\"task\"] for n in d[\"nodes\"] if n[\"kind\"] == \"attempt\")")" "[\"s\", \"t\"]"
	get srv "/api/v1/lineage?run=last&task=t&output=o&limit=1"
	test_is "$(json body "[len([n for n in d[\"nodes\"] if n[\"kind\"] == \"attempt\"]), d[\"truncated\"]]")" "[1, true]"
	get srv "/api/v1/lineage?run=last&task=t&depth=0"
	status_is 400
	get srv "/api/v1/lineage?run=last&task=s&direction=down"
	test_is "$(json body "sorted(n[\"task\"] for n in d[\"nodes\"] if n[\"kind\"] == \"attempt\")")" "[\"s\", \"t\"]"
	get srv "/api/v1/lineage?run=last&task=t&output=none"
	status_is 404
	get srv "/api/v1/lineage?run=last"
	status_is 400
	get srv "/api/v1/lineage?run=last&metric=acc"
	test_is "$(json body "sorted(n[\"task\"] for n in d[\"nodes\"] if n[\"kind\"] == \"attempt\")")" "[\"s\", \"t\"]"
	cairn tag "$(json runs "d[\"runs\"][0][\"id\"]")" best/one -q
	get srv "/api/v1/lineage?run=best/one&task=t&metric=acc"
	status_is 200
	# A file is what the newest run read there, or wrote; so is what lies in a directory of such.
	for file in data.csv ./data.csv "$PWD/data.csv" data.csv/ "data.csv&run=last" kept/o "$PWD/kept/o"; do
		case $file in
		*o) way=up ;;
		*) way=down ;;
		esac
		get srv "/api/v1/lineage?direction=$way&file=$file"
		test_is "$file $(json body "sorted({n[\"task\"] for n in d[\"nodes\"] if n[\"kind\"] == \"attempt\"})")" "$file [\"s\", \"t\"]"
	done
	get srv "/api/v1/lineage?file=data.cs"
	status_is 404
	test_grep "no run on record read or wrote .data.cs.: name" body
	for bad in "file=data.csv&run=last&task=t" "file=data.csv&content=sha256:abcd"; do
		get srv "/api/v1/lineage?$bad"
		status_is 400
	done
	for bad in "run=last&metric=none" "run=last&input=none"; do
		get srv "/api/v1/lineage?$bad"
		status_is 404
	done
	for bad in "metric=acc" "run=last&output=o" "run=last&task=t&input=x" "content=sha256:abcd&run=last&task=t"; do
		get srv "/api/v1/lineage?$bad"
		status_is 400
	done
'

test_expect 'pipelines: what a form needs, and what is wrong' '
	get srv /api/v1/pipelines
	status_is 200
	test_is "$(json body "[(p[\"path\"], p[\"valid\"]) for p in d[\"pipelines\"]]")" "[[\"broken.yaml\", false], [\"pipeline.yaml\", true]]"
	test_is "$(json body "[(q[\"line\"], q[\"column\"]) for q in d[\"pipelines\"][0][\"problems\"]]")" "[[2, 21]]"
	get srv "/api/v1/pipelines?path=pipeline.yaml"
	test_is "$(json body "[d[\"pipelines\"][0][k] for k in (\"pipeline\", \"description\", \"steps\", \"schedules\")]")" "[\"one\", \"Two steps\", [\"s\", \"t\"], [\"nightly\"]]"
	test_is "$(json body "[[q[k] for k in (\"name\", \"type\", \"required\", \"default\", \"min\", \"max\", \"enum\", \"help\")] for q in d[\"pipelines\"][0][\"params\"]]")" "[[\"n\", \"int\", false, 1, 0.0, 9.0, null, \"how many\"], [\"opt\", \"string\", false, \"sgd\", null, null, [\"sgd\", \"adam\"], null], [\"name\", \"string\", true, null, null, null, null, null]]"
'

test_expect 'a plan says what a run would do, and starts nothing' '
	get srv /api/v1/plans -X POST -H "Content-Type: application/json" --data "{\"params\": {\"name\": \"y\", \"n\": 5}}"
	status_is 401
	post srv /api/v1/plans "{\"params\": {\"name\": \"y\", \"n\": 5}}"
	status_is 202
	launched
	get srv "/api/v1/plans/$launch"
	test_is "$(json body "[d[\"state\"], d[\"exit\"], [(t[\"task\"], t[\"state\"], t[\"reason\"]) for t in d[\"plan\"][\"tasks\"]]]")" "[\"ended\", 0, [[\"s\", \"run\", \"param n changed: 2 \\u2192 5\"], [\"t\", \"waiting\", \"needs s\"]]]"
	get srv /api/v1/runs
	test_is "$(json body "d[\"total\"]")" 3
	post srv /api/v1/plans "{\"params\": {\"n\": 50}}"
	status_is 400
	get srv /api/v1/plans/none
	status_is 404
'

test_expect 'a failed run is resumed; a run is reproduced, and its verdict read' '
	touch "$HOME/fail"
	test_code 1 cairn run -q -p name=z 2>/dev/null
	get srv /api/v1/home
	test_is "$(json body "[(x[\"kind\"], x[\"pipeline\"]) for x in d[\"attention\"]]")" "[[\"failed\", \"one\"]]"
	test_is "$(json body "[d[\"running\"], d[\"week\"][\"runs\"], d[\"week\"][\"failed\"]]")" "[0, 4, 1]"
	rm "$HOME/fail"
	post srv /api/v1/runs/last/resume "{}"
	status_is 202
	launched
	get srv /api/v1/runs/last
	test_is "$(json body "d[\"state\"]")" succeeded
	post srv /api/v1/runs/last/resume "{\"x\": 1}"
	status_is 400
	get srv /api/v1/runs/last/verdict
	status_is 404
	id=$(cairn runs --json >runs && json runs "d[\"runs\"][0][\"id\"]")
	post srv /api/v1/reproductions "{\"run\": \"$id\"}"
	status_is 202
	launched
	test_is "$(json body "d[\"exit\"]")" 0
	new=$(json body "d[\"run\"]")
	get srv "/api/v1/runs/$new/verdict"
	status_is 200
	test_is "$(json body "[d[\"verdict\"], d[\"mode\"], d[\"first\"], d[\"was\"][\"id\"], d[\"is\"][\"id\"]]")" "[\"identical\", \"isolated\", null, \"$id\", \"$new\"]"
	post srv /api/v1/reproductions "{}"
	status_is 400
	post srv /api/v1/reproductions "{\"run\": \"none\"}"
	status_is 404
'

test_expect 'calendar, store, cluster' '
	get srv "/api/v1/schedules/nightly/calendar?from=2031-03-29T00:00:00Z&to=2031-04-01T00:00:00Z"
	status_is 200
	test_is "$(json body "[d[\"timezone\"], d[\"planned\"], d[\"firings\"]]")" "[\"Europe/Berlin\", [\"2031-03-29T02:00:00.000Z\", \"2031-03-30T01:00:00.000Z\", \"2031-03-31T01:00:00.000Z\"], []]"
	post srv /api/v1/schedules/nightly/trigger ""
	status_is 202
	fired() { get srv /api/v1/schedules/nightly/calendar && test "$(json body "[f[\"cause\"] for f in d[\"firings\"] if f[\"state\"] == \"succeeded\"]")" = "[\"manual\"]"; }
	wait_until 60 fired
	test_is "$(json body "30 <= len(d[\"planned\"]) <= 32")" true
	get srv "/api/v1/schedules/nightly/calendar?from=2031-01-02&to=2031-01-01"
	status_is 400
	get srv /api/v1/store
	status_is 200
	test_is "$(json body "[d[\"shared\"], d[\"spaces\"][\"blobs\"][\"objects\"] > 3, len(d[\"weeks\"]) >= 1, d[\"weeks\"][-1][\"executed\"] > 0]")" "[false, true, true, true]"
	get srv /api/v1/cluster
	test_is "$(json body "[d[\"configured\"], d[\"attempts\"]]")" "[false, []]"
'

test_done
