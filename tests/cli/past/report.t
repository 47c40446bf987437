#!/bin/bash
# cairn report: a run, or a comparison, as one HTML file. tests/web/hostile.t opens such files in a browser.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
write pipeline.yaml <<'Y'
pipeline: p
params: {n: 1}
steps:
  a: {run: "echo '</script><script>alert(1)</script>'; echo ${{ params.n }} >o", outputs: {o: o}}
  each: {matrix: {i: [1, 2, 3]}, run: "cp ${{ inputs.o }} p", inputs: {o: "${{ steps.a.outputs.o }}"}, outputs: {p: p}}
  judge: {run: "printf \"truth,a,b\\na,${{ params.n }},0\\nb,0,3\\n\" >r/confusion.csv", outputs: {r: r/}}
Y
cairn run -q
cairn run -q -p n=2
cairn report last --html probe.html 2>probe.err || { test_grep 'has no web interface' probe.err && test_skip_all 'this program has no web interface'; }

# data FILE: what the page is made of.
data() { sed -n 's/.*<script type="application\/json" id="data">\(.*\)<\/script>$/\1/p' "$1"; }

test_expect 'one run: facts, tasks, details, logs' '
	cairn report last --html run.html
	data run.html >data.json
	test_is "$(json data.json "[len(d[\"runs\"]), d[\"compare\"], d[\"left_out\"]]")" "[1, null, {\"details\": 0, \"tasks\": 0}]"
	test_is "$(json data.json "[sorted(d[\"of\"][r]) for r in d[\"runs\"]]")" "[[\"details\", \"graph\", \"logs\", \"metrics\", \"run\", \"series\", \"tasks\", \"timeline\"]]"
	test_is "$(json data.json "[len(v[\"tasks\"]) for v in d[\"of\"].values()]")" "[5]"
	test_is "$(json data.json "[sorted(v[\"details\"]) for v in d[\"of\"].values()]")" "[[\"a\", \"each[i=1]\", \"each[i=2]\", \"each[i=3]\", \"judge\"]]"
	test_is "$(json data.json "[v[\"logs\"][\"a\"][\"text\"] for v in d[\"of\"].values()]")" "[\"</script><script>alert(1)</script>\\n\"]"
'
test_expect 'text of others ends no element, and the policy allows one script by its hash' '
	test_is "$(grep -o "</script" run.html | wc -l)" 2
	test_grep "script-src .sha256-[^ ;]*.; style-src .sha256-[^ ;]*.; img-src data: blob:;" run.html
	test_no_grep "<[a-z]*[^>]* src=" <(sed "s/<script.*//" run.html)
'
test_expect 'several runs are compared' '
	first=$(cairn runs --json | json /dev/stdin "d[\"runs\"][1][\"id\"]")
	cairn report last "$first" --html - >both.html
	data both.html >data.json
	test_is "$(json data.json "[len(d[\"runs\"]), d[\"compare\"][\"params\"][\"n\"]]")" "[2, [2, 1]]"
	# The confusion matrix of each, and what the page finds it by.
	test_is "$(json data.json "sorted(k.split()[0] for k in d[\"contents\"])")" "[\"entries\", \"entries\", \"table\", \"table\"]"
	test_is "$(json data.json "sorted(v[\"rows\"][0] for k, v in d[\"contents\"].items() if k.startswith(\"table\"))")" "[[\"a\", \"1\", \"0\"], [\"a\", \"2\", \"0\"]]"
'
test_expect 'what is wrong is said, and nothing is written' '
	test_code 2 cairn report last
	test_code 2 cairn report last last --html x.html
	test_code 4 cairn report nothing --html x.html
	test_missing x.html
	test_code 4 cairn report last --html nowhere/x.html
'
test_done
