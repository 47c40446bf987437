#!/bin/bash
# Hostile parameters, captures and bodies at every path of the API: no 5xx, no answer that isn't what it says, no crash (hostile.py).
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: one
params: {n: 1}
steps:
  s: {run: "printf 'a,b\\n1,2\\n' >o/t.csv; tar cf o/s.tar o/t.csv; echo ValueError: x; for n in 30 1000 60000 200000; do head -c $n /dev/zero | tr '\\0' a; echo; done; echo '{\"acc\": 0.5}' >m.json", outputs: {o: o/}, metrics: m.json}
  t: {run: "printf '{\"step\": 1, \"loss\": 2}\\n' >m.jsonl; cp ${{ inputs.i }}/t.csv o", inputs: {i: "${{ steps.s.outputs.o }}"}, outputs: {o: o}, series: m.jsonl}
schedules:
  yearly: {cron: "0 0 1 1 *"}
YAML

test_expect 'no path of the API is impressed' '
	cairn run -q
	cairn run -q
	serve srv
	python3 "$SRC/tests/serve/access/hostile.py" "$(serve_url srv)" "$SERVE_TOKEN" "${CAIRN_TEST_SEED:-1}" "${CAIRN_TEST_API_EXAMPLES:-$([ "${CAIRN_TEST_FULL:-0}" = 1 ] && echo 400 || echo 40)}" >said || { cat said; return 1; }
	test_grep "requests: .* × 200.* × 400.* × 404" said
	get srv /healthz
	status_is 200
'
test_expect 'it ends in order' '
	rc=$(stop srv TERM)
	test "$rc" = 0 || tail -n 60 srv.out
	test_is "$rc" 0
	test_no_grep "request-failed" srv.out
'
test_done
