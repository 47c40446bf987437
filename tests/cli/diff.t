#!/bin/bash
# cairn diff: params, code, inputs, outputs and metrics of two runs.
. "$(dirname "$0")/../lib.sh"

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
test_done
