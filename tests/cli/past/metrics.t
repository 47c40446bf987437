#!/bin/bash
# cairn metrics: columns, order, conditions.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: fit
params:
  lr: {type: float, default: 0.1}
  optimizer: {enum: [sgd, adam], default: sgd}
  same: 1
steps:
  train:
    matrix: {fold: [0, 1]}
    run: "printf '{\"acc\": %s, \"deep\": {\"loss\": -%s}}' ${{ params.lr }} ${{ matrix.fold }} >m.json"
    metrics: m.json
  judge:
    run: "echo '{\"score\": 0.5}' >m.json; echo ${{ params.optimizer }}"
    metrics: m.json
YAML
write plain.yaml <<'YAML'
pipeline: plain
steps:
  s: {run: "true"}
YAML

# accs FILE: "param lr of the line" in order, as the table has it.
column() { # FILE HEADER
	awk -v want="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == want) at = index($0, want) } NR > 1 { print substr($0, at, 8) + 0 }' "$1" | tr '\n' ' ' | sed 's/ $//'
}

test_expect 'no runs, and runs without metrics: said, not failed' '
	test_code 4 cairn metrics 2>err
	test_lines 1 err
	cairn run -q plain.yaml
	cairn metrics >out 2>err
	test_grep "no run has metrics" err
	cairn metrics --json >out
	test_is "$(json out "d[\"runs\"]")" "[]"
'

test_expect 'one line a task, a column a metric; params are shown where they differ' '
	cairn run -q
	cairn metrics >out
	test_lines 4 out
	test_no_grep "lr|optimizer|same" out
	cairn run -q -p lr=0.05
	cairn run -q -p lr=0.2 -p optimizer=adam
	cairn metrics >out
	test_lines 10 out
	test_grep "^run +task +lr +optimizer" out
	test_no_grep "deep.loss|same" out
	cairn metrics --all >out
	test_grep "deep.loss" out
	test_grep "same" out
	cairn metrics --metric deep.loss >out 2>err
	test_grep "^run +task +lr +optimizer +fold +deep.loss$" out
	test_lines 7 out
	test_grep "2 more metrics" err
'

test_expect 'a param that only earlier runs had is shown' '
	mkdir gone
	cd gone
	echo "# project" >cairn.yaml
	write pipeline.yaml <<-Y
	pipeline: g
	params: {lr: 0.1}
	steps:
	  a: {run: "echo \${{ params.lr }} >o; cp x.json m", code: [x.json], outputs: {o: o}, metrics: m}
	Y
	echo "{\"x\": 1}" >x.json
	cairn run -q
	sed -i "/^params/d; s/\${{ params.lr }}//" pipeline.yaml
	cairn run -q
	cairn metrics >out
	test_grep "^run +task +lr +x$" out
'

test_expect '--sort by a metric or a param, both ways; what has none goes last' '
	cairn metrics --step train --sort acc >out
	test_is "$(column out acc)" "0.05 0.05 0.1 0.1 0.2 0.2"
	cairn metrics --step train --sort=-acc >out
	test_is "$(column out acc)" "0.2 0.2 0.1 0.1 0.05 0.05"
	cairn metrics --step train --sort lr >out
	test_is "$(column out acc)" "0.05 0.05 0.1 0.1 0.2 0.2"
	cairn metrics --sort=-acc >out
	test_is "$(tail -n 3 out | grep -c judge)" 3
	cairn metrics --sort score >out
	test_is "$(sed -n 2,4p out | grep -c judge)" 3
	cairn metrics --sort=-acc --json >out
	test_is "$(json out "[r[\"params\"][\"lr\"] for r in d[\"runs\"]][:3]")" "[0.2, 0.1, 0.05]"
'

test_expect '--sort by what no run has is an error, not any order' '
	test_code 4 cairn metrics --sort no-such 2>err
	test_lines 1 err
	test_grep "no-such" err
'

# rows CONDITION... : how many lines pass
rows() { local a=(); for c; do a+=(--filter "$c"); done; cairn metrics --json "${a[@]}" >rows.json && json rows.json 'sum(len(r["metrics"]) for r in d["runs"])'; }

test_expect '--per: the best of each group; --pareto: what no other line beats' '
	cairn metrics --step train --sort=-acc --per lr >out
	test_is "$(column out acc)" "0.2 0.1 0.05"
	cairn metrics --step train --sort acc --per fold >out
	test_is "$(column out acc)" "0.05 0.05"
	cairn metrics --step train --sort acc --per fold --per lr >out
	test_lines 7 out
	# A small acc and a small deep.loss: the loss is 0 or -1 by fold, whatever acc is.
	cairn metrics --pareto acc --pareto deep.loss >out
	test_is "$(column out acc)" "0.05"
	test_grep "fold=1" out
	cairn metrics --pareto=-acc --pareto=-deep.loss --json >out
	test_is "$(json out "[[r[\"params\"][\"lr\"], r[\"metrics\"]] for r in d[\"runs\"]]")" "[[0.2, {\"train[fold=0]\": {\"acc\": 0.2, \"deep.loss\": 0.0}}]]"
	cairn metrics --pareto acc --pareto=-acc >out
	test_lines 7 out
	test_code 4 cairn metrics --pareto no-such 2>err
	test_grep "^cairn: --pareto: none of these tasks has .* .no-such." err
	test_code 4 cairn metrics --per no-such 2>err
	test_lines 1 err
'

test_expect '--filter: every operator, on metrics and params; several hold together' '
	test_is "$(rows "acc>=0.1")" 4
	test_is "$(rows "acc>0.1")" 2
	test_is "$(rows "acc<=0.1")" 4
	test_is "$(rows "acc<0.1")" 2
	test_is "$(rows "acc=0.1")" 2
	test_is "$(rows "acc==0.1")" 2
	test_is "$(rows "acc!=0.1")" 4
	test_is "$(rows "acc>0.01" "acc<0.2")" 4
	test_is "$(rows "optimizer=adam")" 3
	test_is "$(rows "optimizer!=adam")" 6
	test_is "$(rows "lr=0.2" "score>0")" 1
	test_is "$(rows "deep.loss<0")" 3
	test_is "$(rows "no-such>0")" 0
	for bad in "acc" ">1" "acc>" "" "acc~1"; do
		test_code 2 cairn metrics --filter "$bad" 2>err
		test_lines 1 err
	done
'

test_expect '--limit, --pipeline, and runs by name' '
	cairn metrics -n 1 --json >out
	test_is "$(json out "[r[\"params\"][\"lr\"] for r in d[\"runs\"]]")" "[0.2]"
	cairn metrics --pipeline plain --json >out
	test_is "$(json out "d[\"runs\"]")" "[]"
	cairn runs --json --pipeline fit >runs
	cairn metrics "$(json runs "d[\"runs\"][2][\"id\"]")" --json >out
	test_is "$(json out "[r[\"params\"][\"lr\"] for r in d[\"runs\"]]")" "[0.1]"
	test_code 4 cairn metrics no-such-run 2>err
	test_lines 1 err
'

test_expect 'the newest N that have metrics: runs without any are not counted' '
	for i in 1 2 3; do cairn run -q plain.yaml; done
	cairn metrics -n 3 --json >out
	test_is "$(json out "[r[\"params\"][\"lr\"] for r in d[\"runs\"]]")" "[0.2, 0.05, 0.1]"
'

test_expect 'the end of a run names this command when there is something to see' '
	cairn run >out
	test_grep "next: cairn metrics fit-" out
	cairn run plain.yaml >out
	test_grep "succeeded" out
	test_no_grep "cairn metrics" out
'

test_expect 'a step that failed at its gate shows its metrics' '
	write gate.yaml <<-"YAML"
	pipeline: gated
	steps:
	  g: {run: "echo {\\\"acc\\\": 0.25} >m.json", metrics: m.json, gate: {acc: ">= 0.5"}}
	YAML
	test_code 1 cairn run -q gate.yaml 2>err
	cairn metrics --pipeline gated >out
	test_grep "0.25" out
'
test_expect '--sort --json: each run once, whatever lies between its lines' '
	mkdir mixed
	cd mixed
	echo "# project" >cairn.yaml
	write pipeline.yaml <<-"Y"
	pipeline: m
	params: {n: 1}
	steps:
	  a: {run: "sed s/N/${{ params.n }}/ m.json >m", code: [m.json], metrics: m}
	  b: {run: "sed s/N/1${{ params.n }}/ m.json >m", code: [m.json], metrics: m}
	Y
	echo "{\"x\": N}" >m.json
	cairn run -q
	cairn run -q -p n=2
	cairn metrics --sort x --json >out
	test_is "$(json out "[r[\"params\"][\"n\"] for r in d[\"runs\"]]")" "[1, 2]"
	test_is "$(json out "[len(r[\"metrics\"]) for r in d[\"runs\"]]")" "[2, 2]"
'
test_expect 'values of a matrix are columns, and can be sorted by and filtered' '
	mkdir matrix
	cd matrix
	echo "# project" >cairn.yaml
	write pipeline.yaml <<-"Y"
	pipeline: m
	params: {lr: 0.1, depth: 7}
	steps:
	  train:
	    matrix: {depth: [2, 10, 1], opt: ["a,b", c]}
	    run: echo "{\"cost\":$((12-${{ matrix.depth }}))}" >m.json; echo ${{ matrix.opt }} ${{ params.lr }}
	    metrics: m.json
	  files:
	    each: [x, y]
	    run: echo "{\"cost\":1}" >m.json; echo ${{ item }}
	    metrics: m.json
	Y
	cairn run -q
	cairn metrics --step train --sort=-depth >out
	test_is "$(sed -n 1p out | xargs)" "run task depth opt cost"
	test_is "$(sed 1d out | awk "{print \$3, \$4}" | xargs)" "10 a,b 10 c 2 a,b 2 c 1 a,b 1 c"
	cairn metrics --filter "depth<10" --filter opt=a,b --sort depth >out
	test_is "$(sed 1d out | awk "{print \$2}" | xargs)" "train[depth=1,opt=a,b] train[depth=2,opt=a,b]"
	cairn metrics --json >out
	test_is "$(json out "d[\"runs\"][0][\"params\"]")" "{\"depth\": 7, \"lr\": 0.1}"
	test_code 4 cairn metrics --sort=width 2>err
	test_grep "none of these tasks has a metric, a param or a matrix value .width." err
'
test_expect '--plot shows the newest run, whatever --sort puts first' '
	mkdir plot
	cd plot
	echo "# project" >cairn.yaml
	write pipeline.yaml <<-"Y"
	pipeline: m
	params: {n: 1}
	steps:
	  a:
	    uses: train
	    run: for i in 1 2 3; do echo "loss=${{ params.n }} step=$i"; done
	Y
	for n in 1 2 3; do cairn run -q -p n=$n; done
	cairn metrics --plot loss --json >want
	test_is "$(json want "d[\"series\"][0][\"points\"][0][1]")" 3.0
	cairn metrics --plot loss --json --sort n >out
	test_cmp want out
'
test_expect 'series of any step: JSON lines, CSV, event files' '
	mkdir over
	cd over
	echo "# project" >cairn.yaml
	write lines.py <<-"P"
	for i in range(3):
	    print(f"{{\"epoch\": {i}, \"loss\": {i / 10}, \"note\": \"x\"}}")
	P
	write pipeline.yaml <<-"Y"
	pipeline: over
	params: {tb: true}
	steps:
	  lines: {run: python3 lines.py >log.jsonl, series: log.jsonl}
	  table: {run: "echo step,loss >log.csv; echo 1,5 >>log.csv; echo 2,3 >>log.csv", series: log.csv}
	  none: {run: "echo nothing >log.csv", series: log.csv}
	Y
	cairn run -q
	cairn metrics --plot --json >out 2>err
	test_is "$(json out "sorted([s[\"task\"], s[\"metric\"], s[\"points\"]] for s in d[\"series\"])")" \
		"[[\"lines\", \"loss\", [[0.0, 0.0], [1.0, 0.1], [2.0, 0.2]]], [\"table\", \"loss\", [[1.0, 5.0], [2.0, 3.0]]]]"
	test_grep "none in .* is left out: line 1 of the series: .*column .step. or .epoch." err
	cairn metrics --tensorboard tb 2>err
	cat >>pipeline.yaml <<-"Y"
	  events: {run: "cp -r ${{ inputs.tb }}/*/table tb", inputs: {tb: "${{ inputs.tb }}"}, series: tb/}
	inputs: {tb: tb/}
	Y
	cairn run -q
	cairn metrics --step events --plot --json >out 2>err
	test_is "$(json out "[[s[\"metric\"], s[\"points\"]] for s in d[\"series\"]]")" "[[\"table/loss\", [[1.0, 5.0], [2.0, 3.0]]]]"
	sed -i "s/series: log.csv/series: gone.csv/" pipeline.yaml
	test_code 1 cairn run -q 2>err
	test_grep "gone.csv" err
'
test_expect '--html: the table as a page, in which names are only text' '
	write odd.yaml <<-"Y"
	pipeline: odd
	steps:
	  a:
	    matrix: {name: ["<b>", "a & b"]}
	    run: "echo \"{\\\"n\\\": 1}\" >m; echo ${{ matrix.name }}"
	    metrics: m
	Y
	cairn run -q odd.yaml
	cairn metrics --pipeline odd --html page.html >out
	test_lines 0 out
	test_grep "a\[name=a &amp; b\]" page.html
	test_grep "name=&lt;b" page.html
	test_no_grep "<b>" page.html
	python3 -c "import html.parser; html.parser.HTMLParser().feed(open(\"page.html\").read())"
	cairn metrics --pipeline odd --html - >out
	test_cmp page.html out
	test_code 2 cairn metrics --html page.html --plot n 2>err
	test_code 4 cairn metrics --html no/such/dir/page.html 2>err
'

test_expect 'text is no metric, and that is said once' '
	write text.yaml <<-"Y"
	pipeline: text
	steps:
	  a:
	    matrix: {k: [1, 2]}
	    run: "echo \"{\\\"n\\\": ${{ matrix.k }}, \\\"of\\\": {\\\"model\\\": \\\"big\\\"}}\" >m.json"
	    metrics: m.json
	Y
	cairn run text.yaml >out 2>err
	cat out err >both
	test_is "$(grep -c "of.model. in m.json is text" both)" 1
	cairn metrics --pipeline text --json >out
	test_is "$(json out "d[\"runs\"][0][\"metrics\"]")" "{\"a[k=1]\": {\"n\": 1.0}, \"a[k=2]\": {\"n\": 2.0}}"
'

test_done
