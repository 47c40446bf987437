#!/bin/bash
# cairn lineage: up, down, so many steps, from a file, a content id or an output; as text, JSON and DOT.
. "$(dirname "$0")/../../lib.sh"

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
	cairn lineage file >out
	test_grep "no run on record made it" out
	test_code 4 cairn lineage sha256:xyz 2>err
	test_lines 1 err
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

# --- what is meant, and what is said of it -----------------------------------------------------------------------------------

mkdir -p fan
cd fan || exit 1
echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: fan
params: {n: 1, other: x}
inputs: {raw: raw.txt}
steps:
  split:
    run: "sh split.sh ${{ inputs.r }} ${{ outputs.d }} ${{ params.n }}"
    code: [split.sh]
    inputs: {r: "${{ inputs.raw }}"}
    outputs: {d: d/}
  each:
    each: "${{ steps.split.outputs.d }}/*.txt"
    run: "(cat ${{ inputs.x }}; echo e) >o"
    inputs: {x: "${{ item }}"}
    outputs: {o: o}
  join:
    run: "cat ${{ inputs.o }}/* >o; echo '{\"acc\": 0.5}' >m.json"
    inputs: {o: "${{ steps.each.outputs.o }}"}
    outputs: {o: o}
    metrics: m.json
YAML
echo 'mkdir -p $2/deep; for i in 1 2; do (cat $1; echo $i $3) >$2/$i.txt; done; echo deep $3 >$2/deep/er' >split.sh
echo raw >raw.txt

test_expect 'all the way up, through lists and gathered directories, to the input with its origin, params and code' '
	cd fan
	cairn run -q
	cairn lineage join/o >out
	test_grep "made by join in fan-" out
	test_grep "made by each\[2\.txt\] in fan-" out
	test_is "$(grep -c "made by split" out)" 2
	test_is "$(grep -c "made by split.*(above)" out)" 1
	test_grep "params n=1 · code sha256:" out
	test_no_grep "other=" out
	test_grep "input raw: path:raw.txt" out
	cairn lineage join/o --json >up
	test_is "$(json up "[n[\"origin\"][\"uri\"] for n in d[\"nodes\"] if n.get(\"origin\")]")" "[\"path:raw.txt\"]"
	test_is "$(json up "[n[\"params\"] for n in d[\"nodes\"] if n.get(\"task\") == \"split\"]")" "[{\"n\": \"1\"}]"
	test_is "$(json up "d[\"truncated\"]")" false
	cairn lineage raw.txt >out
	test_grep "raw.txt .* input raw: path:raw.txt" out
'
test_expect 'a task, a metric, an output of a named run' '
	cd fan
	cairn lineage join@metric.acc >out
	test_grep "^acc = 0.5$" out
	test_grep "^ +made by join" out
	test_grep "path:raw.txt" out
	cairn lineage join@metric.acc --json >up
	test_is "$(json up "d[\"metric\"]")" "{\"name\": \"acc\", \"value\": 0.5}"
	test_is "$(json up "d[\"nodes\"][0][\"task\"]")" join
	cairn lineage split --json >up
	test_is "$(json up "d[\"nodes\"][0][\"task\"]")" split
	run=$(cairn runs --json | python3 -c "import json,sys; print(json.load(sys.stdin)[\"runs\"][0][\"id\"])")
	cairn run -q -p n=2
	cairn lineage "$run/join.o" >out
	test_grep "made by join in $run" out
	cairn lineage "$run/split" >out
	test_grep "params n=1" out
	cairn lineage split/d >out
	test_grep "params n=2" out
	# a hit: made by the run that executed it
	cairn run -q -p n=1
	cairn lineage last/join@metric.acc >out
	test_grep "made by join in $run" out
'
test_expect 'a file inside of a directory that a task made' '
	cd fan
	cairn get split/d -o copy
	cairn lineage copy/deep/er >out
	test_grep "which holds copy/deep/er as deep/er" out
	test_grep "made by split" out
	cairn lineage copy/deep/er --json >up
	test_is "$(json up "d[\"member\"]")" deep/er
	cairn lineage copy/2.txt >out
	test_grep "made by split" out
	cairn lineage copy >out
	test_grep "made by split" out
'
test_expect 'down: everything that is affected, in all runs, with the names of runs that hold it' '
	cd fan
	cairn lineage --down raw.txt >out
	test_grep "^affected: 8 outputs" out
	test_is "$(grep -c "join/o" out)" 2
	cairn lineage --down copy/2.txt >out
	test_grep "^affected: 2 outputs" out
	test_no_grep "each\[1" out
	cairn lineage --down raw.txt --json >down
	test_is "$(json down "sorted({a[\"task\"] for a in d[\"affected\"]})")" "[\"each[1.txt]\", \"each[2.txt]\", \"join\", \"split\"]"
	cairn lineage --down join/o >out
	test_grep "no run on record read it" out
	test_grep "nothing was made of it" out
'
test_expect 'down: a name of a run that took the result from the cache is told too' '
	cd fan
	cairn tag last good/one
	cairn lineage --down raw.txt >out
	test_grep "join/o .* good/one" out
	cairn lineage --down raw.txt --json >down
	test_is "$(json down "{a[\"task\"] for a in d[\"affected\"] if a[\"tags\"] == [\"good/one\"]} >= {\"join\", \"split\"}")" true
'
test_expect 'down: a name that another one begins with or ends with is told beside it' '
	cd fan
	cairn tag last one
	cairn tag last good
	cairn lineage --down raw.txt --json >down
	test_is "$(json down "sorted({t for a in d[\"affected\"] for t in a[\"tags\"]})")" "[\"good\", \"good/one\", \"one\"]"
'
test_expect 'down: the 700th name is told like the first' '
	cd fan
	python3 - <<-PY
	import os, sqlite3
	db = sqlite3.connect(".cairn/cairn.db")
	run = db.execute("select run from tag where name = ? order by at_ns desc", ("one",)).fetchone()[0]
	rows = [(os.urandom(32), "many/%04d" % i, run, 1000 + i) for i in range(700)]
	db.executemany("insert into tag (digest, name, run, at_ns) values (?, ?, ?, ?)", rows)
	db.commit()
	PY
	cairn lineage --down raw.txt --json >down
	test_is "$(json down "len([a for a in d[\"affected\"] if a[\"task\"] == \"join\" and a[\"tags\"][-1:] == [\"one\"] and len(a[\"tags\"]) == 703])")" 1
	sqlite3 .cairn/cairn.db "delete from tag where name like \"many/%\""
'
test_expect 'down: of two attempts that made the same, each is told with its names' '
	cd fan
	cairn run -q --force join
	cairn lineage --down raw.txt --json >down
	test_is "$(json down "[a[\"tags\"] for a in d[\"affected\"] if a[\"task\"] == \"join\" and a[\"id\"] == [b[\"id\"] for b in d[\"affected\"] if \"one\" in b[\"tags\"] and b[\"task\"] == \"join\"][0]]")" \
		"[[\"good\", \"good/one\", \"one\"], [\"good\", \"good/one\", \"one\"]]"
'
test_expect 'a file that is in none of the directories that are looked through: that more were not is told' '
	mkdir -p wide
	cd wide
	echo "# project" >cairn.yaml
	cat >pipeline.yaml <<-"YAML"
	pipeline: wide
	steps:
	  make: {run: "for i in $(seq 2100); do mkdir -p d/$i; echo $i >d/$i/f; done", outputs: {d: d/}}
	YAML
	cairn run -q
	echo nowhere >lone.txt
	cairn lineage lone.txt >out 2>err || :
	test_grep "only the newest directories were searched for lone.txt" err
'
test_expect 'SVG: well-formed, every node once, on standard output too' '
	cd fan
	cairn lineage join/o --svg out.svg
	python3 -c "import xml.dom.minidom as m; d = m.parse(\"out.svg\"); assert len(d.getElementsByTagName(\"rect\")) >= 10"
	cairn lineage join/o --svg - >again.svg
	cmp out.svg again.svg
	test_grep "join in fan-" out.svg
	test_code 2 cairn lineage join/o --svg x.svg --json 2>err
'
test_done
