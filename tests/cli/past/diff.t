#!/bin/bash
# cairn diff: params, code, inputs, outputs and metrics of two runs.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: two
params: {n: 1, same: x}
inputs: {raw: raw.txt}
steps:
  make:
    run: sh make.sh ${{ inputs.raw }} ${{ params.n }} >o; echo "{\"m\":${{ params.n }}}" >m.json
    code: [make.sh]
    inputs: {raw: "${{ inputs.raw }}"}
    outputs: {o: o}
    metrics: m.json
  check:
    run: "[ $(grep -c . ${{ inputs.o }}) -lt 3 ]; echo ok >c"
    inputs: {o: "${{ steps.make.outputs.o }}"}
    outputs: {c: c}
YAML
echo 'cat "$1"; echo "$2"' >make.sh
echo a >raw.txt

test_expect 'one run: there is none to hold it against' '
	test_code 4 cairn diff 2>err
	cairn run -q
	test_code 4 cairn diff 2>err
	test_lines 1 err
	test_grep "first of pipeline two" err
'

test_expect 'nothing differs: said so; --all shows it all the same' '
	cairn run -q
	cairn diff >out
	test_lines 1 out
	test_grep "are the same" out
	cairn diff --all >out
	test_grep "^param +n +1 +1" out
	test_grep "^output +make/o" out
	test_grep "^metric +make m +1 +1" out
	cairn diff --json >out
	test_is "$(json out "[len(d[k]) for k in (\"params\", \"code\", \"inputs\", \"tasks\", \"metrics\")]")" "[0, 0, 0, 0, 0]"
'

test_expect 'a param: it, the outputs and the metric that follow, nothing else' '
	cairn run -q -p n=2
	cairn diff >out
	test_grep "^param +n +1 +2" out
	test_grep "^output +make/o" out
	test_grep "^metric +make m +1 +2" out
	test_no_grep "^code|^input|check|same" out
	cairn diff --json >out
	test_is "$(json out "d[\"params\"]")" "[{\"a\": 1, \"b\": 2, \"name\": \"n\"}]"
	test_is "$(json out "d[\"metrics\"]")" "[{\"a\": 1.0, \"b\": 2.0, \"name\": \"m\", \"task\": \"make\"}]"
	test_is "$(json out "[t[\"output\"] for t in d[\"tasks\"]]")" "[\"make/o\"]"
'

test_expect 'code and inputs, by name, with both ids' '
	echo "# a comment" >>make.sh
	cairn run -q -p n=2
	cairn diff >out
	test_grep "^code +make" out
	test_no_grep "^param|^output|^metric|^input" out
	cairn diff --json >out
	test_is "$(json out "[c[\"name\"] for c in d[\"code\"]]")" "[\"make\"]"
	test_is "$(json out "d[\"code\"][0][\"a\"][:7] + d[\"code\"][0][\"b\"][:7]")" "sha256:sha256:"
	echo b >raw.txt
	cairn run -q -p n=2
	cairn diff >out
	test_grep "^input +raw" out
	test_no_grep "^code|^param" out
	cairn diff --json >out
	test_is "$(json out "[c[\"name\"] for c in d[\"inputs\"]]")" "[\"raw\"]"
'

test_expect 'two runs that are named, in that order; a failed one too' '
	printf "b\nc\nd\n" >raw.txt
	test_code 1 cairn run -q -p n=2 2>err
	cairn runs --json >runs
	cairn diff >out
	test_grep "^task +check +succeeded +failed" out
	test_grep "^output +check/c +[0-9a-f]+ +-" out
	cairn diff last "$(json runs "d[\"runs\"][-1][\"id\"]")" >out
	test_grep "^param +n +2 +1" out
	test_grep "^task +check +failed +succeeded" out
	cairn diff "$(json runs "d[\"runs\"][-1][\"id\"]")" "$(json runs "d[\"runs\"][-1][\"id\"]")" >out
	test_grep "are the same" out
	test_code 4 cairn diff no-such last 2>err
	test_lines 1 err
'

test_expect 'a step that one of them does not have' '
	sed -i "/^  check:/,\$d" pipeline.yaml
	cairn run -q -p n=2
	cairn diff >out
	test_grep "^task +check +failed +-" out
	test_no_grep "^task +make" out
'

# --- because --------------------------------------------------------------------------------------------------------------------

mkdir -p chain
cd chain || exit 1
echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: chain
params: {lr: 0.1, n: 1}
inputs: {raw: raw.txt}
steps:
  split:
    run: "mkdir -p ${{ outputs.d }}; for i in 1 2; do cat ${{ inputs.r }} >${{ outputs.d }}/$i; done; echo ${{ params.n }} >${{ outputs.d }}/2"
    inputs: {r: "${{ inputs.raw }}"}
    outputs: {d: d/}
  each:
    each: "${{ steps.split.outputs.d }}/*"
    run: "cat ${{ inputs.x }} >o"
    inputs: {x: "${{ item }}"}
    outputs: {o: o}
  train:
    run: "sh train.sh ${{ params.lr }} >model; cat ${{ inputs.o }}/* >>model"
    code: [train.sh]
    inputs: {o: "${{ steps.each.outputs.o }}"}
    outputs: {model: model}
  report:
    run: "cat ${{ inputs.m }} >report; grep -c . report >n; echo \"{\\\"lines\\\": $(cat n)}\" >m.json"
    inputs: {m: "${{ steps.train.outputs.model }}"}
    outputs: {report: report}
    metrics: m.json
YAML
echo 'echo trained with $1' >train.sh
echo raw >raw.txt

# first FILE: kind, what and name of the first cause, and the task
first() { json "$1" '" ".join([str(d["first"][k]) for k in ("kind", "what", "name", "task")])'; }
# held FILE: the second to last run against the last
test_expect 'a param: from where it began, down to the last output' '
	cd chain
	cairn run -q
	cairn run -q -p lr=0.2
	cairn diff >out
	test_is "$(head -n 1 out)" "first difference: param lr 0.1 → 0.2, in train"
	test_grep "^report/report differs because train/model differs because param lr 0.1 → 0.2$" out
	test_no_grep "^(split|each).*differs" out
	cairn diff --json >out
	test_is "$(first out)" "fact param lr train"
	test_is "$(json out "[b[\"task\"] for b in d[\"because\"]]")" "[\"train\", \"report\"]"
'
test_expect 'a param of the first step: through a list, only the member that it changes' '
	cd chain
	cairn run -q -p lr=0.2 -p n=2
	cairn diff >out
	test_is "$(head -n 1 out)" "first difference: param n 1 → 2, in split"
	test_grep "^each\[2\]/o differs because split/d differs because param n 1 → 2$" out
	test_no_grep "^each\[1\]/o" out
	test_grep "^train/model differs because each\[2\]/o differs because split/d" out
'
test_expect 'code, with the file; an input, by name; both at once' '
	cd chain
	echo "echo more" >>train.sh
	cairn run -q -p lr=0.2 -p n=2
	cairn diff >out
	test_is "$(head -n 1 out)" "first difference: code changed: train.sh, in train"
	echo other >raw.txt
	cairn run -q -p lr=0.2 -p n=2
	cairn diff >out
	test_is "$(head -n 1 out)" "first difference: input raw changed, in split"
	cairn diff --json >out
	test_is "$(first out)" "pinned input raw split"
	test_is "$(json out "d[\"first\"][\"a\"] != d[\"first\"][\"b\"]")" true
	echo "echo yet more" >>train.sh
	cairn run -q
	cairn diff >out
	test_grep "^train/model differs because param lr 0.2 → 0.1 and code changed: train.sh$" out
'
test_expect 'two paths: an output that two causes reach' '
	cd chain
	cairn runs --json >runs
	cairn diff "$(json runs "d[\"runs\"][-1][\"id\"]")" last --json >out
	test_is "$(first out)" "pinned input raw split"
	test_is "$(json out "{c[\"what\"] for b in d[\"because\"] if b[\"task\"] == \"train\" for c in b[\"causes\"]} == {\"code\", \"input\"}")" true
'
test_expect 'a step that is not deterministic is called so' '
	mkdir -p odd
	cd odd
	echo "# p" >cairn.yaml
	write pipeline.yaml <<-"YAML"
	pipeline: odd
	steps:
	  dice: {run: "date +%s%N >o", outputs: {o: o}}
	  next: {run: "cat ${{ inputs.o }} >o", inputs: {o: "${{ steps.dice.outputs.o }}"}, outputs: {o: o}}
	YAML
	cairn run -q
	cairn run -q --force dice
	cairn diff >out
	test_is "$(head -n 1 out)" "first difference: dice is not deterministic: the same key gave other bytes, in dice"
	test_grep "^next/o differs because dice/o differs because dice is not deterministic" out
	cairn diff --json >out
	test_is "$(first out)" "nondeterminism task dice dice"
'
test_expect 'env and a tool, with both values; a task that failed; one that only one run has' '
	mkdir -p tools
	cd tools
	echo "# p" >cairn.yaml
	printf "#!/bin/sh\necho tool 1.0\n" >tool
	chmod +x tool
	write pipeline.yaml <<-"YAML"
	pipeline: tools
	steps:
	  a: {run: "./tool >o; echo $V >>o", code: [tool], env: {V: "1"}, outputs: {o: o}}
	  b: {run: "grep -q 1 ${{ inputs.o }}; cp ${{ inputs.o }} o", inputs: {o: "${{ steps.a.outputs.o }}"}, outputs: {o: o}}
	YAML
	cairn run -q
	sed -i "s/V: .1./V: \"2\"/" pipeline.yaml
	cairn run -q
	cairn diff >out
	test_is "$(head -n 1 out)" "first difference: env V 1 → 2, in a"
	sed -i "s/grep -q 1/grep -q 9/" pipeline.yaml
	test_code 1 cairn run -q 2>err
	cairn diff >out
	test_grep "^first difference: command changed, in b|^first difference: script.*changed, in b" out
	test_grep "b succeeded → failed" out
	sed -i "/^  b:/d" pipeline.yaml
	cairn run -q
	cairn diff >out
	test_is "$(head -n 1 out)" "first difference: task b is only in the first run, in b"
'
test_expect 'an output and a metric that only the second run has, or only the first' '
	mkdir more
	cd more
	echo "# project" >cairn.yaml
	write base.yaml <<-"Y"
	pipeline: p
	steps:
	  a:
	    run: "echo 1 >o; echo 2 >q; cp x.json m"
	    code: [x.json]
	    outputs: {OUTPUTS}
	    metrics: m
	Y
	one() { sed "s/OUTPUTS/$1/" base.yaml >pipeline.yaml; }
	echo "{}" >x.json
	one "o: o"
	cairn run -q
	one "o: o, q: q"
	cairn run -q
	cairn diff >out
	test_grep "^output +a/q +- +[0-9a-f]+" out
	test_no_grep "a/o|the same" out
	cairn diff --json >out
	test_is "$(json out "[(t[\"output\"], t[\"a\"]) for t in d[\"tasks\"]]")" "[[\"a/q\", null]]"
	test_is "$(json out "[b[\"differs\"] for b in d[\"because\"]]")" "[\"a/q\"]"
	one "q: q"
	cairn run -q
	cairn diff >out
	test_grep "^output +a/o +[0-9a-f]+ +-" out
	echo "{\"n\": 1}" >x.json
	cairn run -q
	cairn diff >out
	test_grep "^metric +a n +- +1" out
	test_grep "a@metric.n differs because" out
'
test_expect --needs script 'where the locale is not UTF-8, no sign is' '
	cd chain
	cairn run -q -p lr=0.7
	cairn run -q -p lr=0.8
	for c in "diff" "diff --all" "why report" "lineage report/report"; do
		LC_ALL=C TERM=xterm COLUMNS=50 script -qec "cairn $c" /dev/null </dev/null >out
		LC_ALL=C cairn $c >>out 2>&1
		python3 -c "assert open(\"out\", \"rb\").read().isascii()"
	done
	LC_ALL=C cairn diff >out
	test_grep "param lr 0.7 -> 0.8" out
	cairn diff >out
	test_grep "param lr 0.7 → 0.8" out
'
test_done
