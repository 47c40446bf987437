#!/bin/bash
# cairn status: every task of a run, also one that wasn't executed.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: all
params: {fail: 1}
steps:
  train: {run: "echo \"{\\\"acc\\\": 1}\" >m.json; echo 1 >${{ outputs.o }}", outputs: {o: o}, metrics: m.json}
  same: {run: "echo \"{\\\"acc\\\": 1}\" >m.json; echo 1 >${{ outputs.o }}", outputs: {o: o}, metrics: m.json}
  print: {if: "${{ steps.train.metrics.acc > 2 }}", run: "cat ${{ inputs.o }} >${{ outputs.o }}", inputs: {o: "${{ steps.train.outputs.o }}"}, outputs: {o: o}}
  after: {run: "cat ${{ inputs.o }}", inputs: {o: "${{ steps.print.outputs.o }}"}}
  bad: {run: "exit ${{ params.fail }}", matrix: {k: [1, 2]}, needs: [after]}
  next: {run: "true", needs: [bad]}
  last: {run: "true", needs: [next]}
YAML
spared() { json status "sorted((t['task'], t['state'], t['reason'], t['made_by']) for t in d['not_executed'])"; }

test_expect 'hits with the run that made the result, skipped and blocked tasks with the reason' '
	test_code 1 cairn run -q -k --json >first 2>err
	first=$(json first "d[\"id\"]")
	cairn status --json >status
	test_is "$(spared | tr -d "\n")" "$(cat <<-WANT
	[["after", "skipped", "\`print\` was skipped", null], ["last", "blocked", "\`next\` wasn'"'"'t run", null], ["next", "blocked", "a task of \`bad\` failed", null], ["print", "skipped", "its \`if\` was false", null], ["same", "hit", null, "$first"]]
	WANT
	)"
	test_is "$(json status "len(d[\"tasks\"]) + len(d[\"not_executed\"])")" "$(json status "d[\"run\"][\"counts\"][\"total\"]")"
	cairn run -q -p fail=0 >out
	cairn status -v >out
	test_grep "^hit  *train  *made by run $first" out
	test_grep "^skipped  *print  *its .if. was false" out
	test_grep "4 hits" out
	cairn status >out
	test_no_grep "made by" out
'
test_expect 'why of a task that was not executed says where the reason is' '
	test_code 4 cairn why print --run last 2>err
	test_grep "cairn status -v all-.* lists hits, skipped and blocked" err
'
test_done
