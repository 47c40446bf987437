#!/bin/bash
# cairn lineage: up, down, so many steps, from a file, a content id or an output; as text, JSON and DOT.
. "$(dirname "$0")/../lib.sh"

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: chain
inputs: {raw: raw.txt}
steps:
  a: {run: "cat ${{ inputs.r }} >o; echo a >>o", inputs: {r: "${{ inputs.raw }}"}, outputs: {o: o}}
  b: {run: "cat ${{ inputs.o }} >o; echo b >>o", inputs: {o: "${{ steps.a.outputs.o }}"}, outputs: {o: o}}
  c: {run: "cat ${{ inputs.o }} >o; echo c >>o", inputs: {o: "${{ steps.b.outputs.o }}"}, outputs: {o: o}}
  other: {run: "echo z >o", outputs: {o: o}}
YAML
echo raw >raw.txt

# The line of the attempt with each quoted string of the DOT language made Q.
write quoted.py <<'PY'
import re, sys
line = next(l for l in open(sys.argv[1]) if l.startswith('  "attempt:'))
print(re.sub(r'"(?:[^"\\]|\\.)*"', "Q", line).strip())
PY

# tasks FILE: the tasks of the attempts in a --json graph
tasks() { json "$1" '" ".join(sorted({n["task"] for n in d["nodes"] if n["kind"] == "attempt"}))'; }

test_expect 'up to the inputs, and down to what was made' '
	cairn run -q
	cairn lineage c/o --json >up
	test_is "$(tasks up)" "a b c"
	cairn lineage a/o --json >up
	test_is "$(tasks up)" "a"
	cairn lineage --down a/o --json >down
	test_is "$(tasks down)" "b c"
	cairn lineage --down raw.txt --json >down
	test_is "$(tasks down)" "a b c"
	cairn lineage other/o --json >up
	test_is "$(tasks up)" "other"
'

test_expect 'every edge has both of its nodes, and leads from what is read to what is made' '
	cairn lineage c/o --json >up
	test_is "$(json up "all(e[k] in [n[\"id\"] for n in d[\"nodes\"]] for e in d[\"edges\"] for k in (\"from\", \"to\"))")" true
	test_is "$(json up "len(d[\"nodes\"]), len(d[\"edges\"])")" "[7, 6]"
	test_is "$(json up "all(e[\"from\"].startswith(\"attempt:\") != e[\"to\"].startswith(\"attempt:\") for e in d[\"edges\"])")" true
	test_is "$(json up "d[\"artifact\"] in [n[\"id\"] for n in d[\"nodes\"]]")" true
'

test_expect '--depth: so many steps, in text and in JSON' '
	cairn lineage c/o --depth 1 >out
	test_grep "made by c" out
	test_no_grep "made by (a|b)" out
	cairn lineage c/o --depth 2 >out
	test_grep "made by b" out
	test_no_grep "made by a" out
	cairn lineage c/o --depth 1 --json >up
	test_is "$(tasks up)" "c"
	cairn lineage c/o --depth 2 --json >up
	test_is "$(tasks up)" "b c"
	cairn lineage --down raw.txt --depth 2 --json >down
	test_is "$(tasks down)" "a b"
	test_code 2 cairn lineage c/o --depth 0 2>err
'

test_expect 'by content id, its beginning, and a file with these bytes' '
	cairn lineage c/o --json >up
	id=$(json up "d[\"artifact\"]")
	cairn get c/o -o file
	for what in "$id" "${id:0:15}" "${id:7:8}" file; do
		cairn lineage "$what" --json >out
		test_is "$(tasks out)" "a b c"
	done
	echo unknown >file
	cairn lineage file --json >out
	test_is "$(tasks out)" ""
	test_code 4 cairn lineage sha256:ffffffff 2>err
	test_lines 1 err
	test_code 3 cairn lineage sha256:xyz 2>err
	test_grep "hex digits" err
	test_code 4 cairn lineage no/such 2>err
	test_lines 1 err
'

test_expect 'DOT: the same graph' '
	cairn lineage c/o --dot >out.dot
	test_grep "^digraph " out.dot
	test_is "$(grep -c -- " -> " out.dot)" 6
	test_grep "label=\"c" out.dot
	test_is "$(grep -Ec "^  \"attempt:[0-9]+\" \[" out.dot)" 3
	cairn lineage c/o --dot --depth 1 >out.dot
	test_is "$(grep -c -- " -> " out.dot)" 2
	test_code 2 cairn lineage c/o --dot --json 2>err
'
test_expect --needs dot 'Graphviz reads it' 'cairn lineage c/o --dot >out.dot; dot -Tsvg out.dot >dot.svg'

test_expect 'hostile names stay inside of their quotes' '
	write odd.yaml <<-"YAML"
	pipeline: odd
	steps:
	  s:
	    each: ["\" ]; x [ \\", "plain"]
	    run: echo ${{ item }} >o
	    outputs: {o: o}
	YAML
	cairn run -q odd.yaml
	cairn lineage "s[\" ]; x [ \\]/o" --dot >odd.dot
	test_is "$(python3 quoted.py odd.dot)" "Q [label=Q];"
'
test_done
