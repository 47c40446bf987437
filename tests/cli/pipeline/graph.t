#!/bin/bash
# cairn graph: the same pipeline in the terminal, as DOT, Mermaid, SVG and JSON.
. "$(dirname "$0")/../../lib.sh"

touch cairn.yaml
write pipeline.yaml <<'Y'
pipeline: sample
inputs: {raw: data/}
steps:
  prepare:
    run: x ${{ inputs.r }} ${{ outputs.o }}
    inputs: {r: "${{ inputs.raw }}"}
    outputs: {o: o}
  train:
    matrix: {c: [1, 10]}
    run: x ${{ inputs.d }} ${{ outputs.m }} ${{ matrix.c }}
    inputs: {d: "${{ steps.prepare.outputs.o }}"}
    outputs: {m: m}
    metrics: m.json
  report:
    run: x ${{ inputs.m }} ${{ inputs.d }}
    inputs: {m: "${{ steps.train.outputs.m }}", d: "${{ steps.prepare.outputs.o }}"}
  publish:
    run: x
    needs: [report]
Y

test_expect 'in the terminal, with box-drawing characters' '
	LC_ALL=C.UTF-8 cairn graph >out
	cat >want <<-E2
	  (raw)
	    │
	 prepare
	    ├──────┐
	 train ×2  │
	    ├──────┘
	  report
	    │
	 publish
	E2
	test_cmp want out
'
test_expect 'in plain ASCII where there is nothing else' '
	LC_ALL=C cairn graph >out
	test_grep "train x2" out
	test_code 1 env LC_ALL=C grep -q "[^ -~]" out
'
test_expect 'DOT' '
	cairn graph --format dot >out
	test_grep "^digraph \"sample\" {" out
	test_grep "\"inputs.raw\" -> \"prepare\";" out
	test_grep "\"report\" -> \"publish\" \[style=dotted\];" out
	cairn graph -o out.dot
	test_cmp out out.dot
'
test_expect --needs dot 'Graphviz reads it' 'dot -Tsvg out.dot >dot.svg'
test_expect 'Mermaid' '
	cairn graph --format=mermaid >out
	test_is "$(head -n 1 out)" "flowchart TD"
	test_grep "n2\[\"train ×2\"\]" out
'
test_expect 'SVG is well-formed XML and holds every step' '
	cairn graph -o out.svg
	python3 -c "
import sys, xml.etree.ElementTree as e
t = e.parse(\"out.svg\").getroot()
texts = [x.text for x in t.iter(\"{http://www.w3.org/2000/svg}text\")]
assert texts == [\"(raw)\", \"prepare\", \"train ×2\", \"report\", \"publish\"], texts
assert len([p for p in t.iter(\"{http://www.w3.org/2000/svg}path\") if p.get(\"marker-end\")]) == 5
"
	test_no_grep "http[^\"]*//[^w]" out.svg
'
test_expect '--tasks draws each' '
	cairn graph --tasks --format dot >out
	test_grep "\"prepare\" -> \"train\[c=10\]\"" out
	test_grep "\"train\[c=1\]\" -> \"report\"" out
'
test_expect '--json' '
	test_code 2 cairn graph --json -o not.json 2>err
	test_grep "json is a format of its own" err
	test_missing not.json
	cairn graph --json >out
	test_is "$(json out "[n[\"name\"] for n in d[\"nodes\"] if not n[\"input\"]]")" "[\"prepare\", \"train\", \"report\", \"publish\"]"
	test_is "$(json out "len(d[\"edges\"])")" 5
'
test_expect 'an invalid pipeline is exit 3, a place that cannot be written exit 4' '
	echo "pipeline: x" >bad.yaml
	test_code 3 cairn graph bad.yaml 2>err
	test_code 3 cairn graph none.yaml 2>err
	test_code 4 cairn graph -o no/such/dir.svg 2>err
	test_code 2 cairn graph --format png 2>err
'
test_done
