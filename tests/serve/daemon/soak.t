#!/bin/bash
# cairn serve under work for a while: flat memory, no descriptor lost, nothing left undone. Short here; the long form:
#   CAIRN=build/cairn CAIRN_TEST_SOAK_SECONDS=1800 CAIRN_TEST_SOAK_RUNS=1000 bash tests/serve/daemon/soak.t
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: soak
params: {n: 0}
steps:
  s: {run: "echo ${{ params.n }}; echo '{\"n\": ${{ params.n }}}' >m.json; echo ${{ params.n }} >o", outputs: {o: o}, metrics: m.json}
schedules:
  a: {cron: "@every 5s", notify: {command: "true", when: [failure, success, recovery]}}
  b: {cron: "0 0 1 1 *", overlap: queue}
YAML

test_expect 'flat memory, no descriptor lost' '
	cairn run -q
	serve srv --max-runs 4
	if test_have SANITIZED; then export SOAK_SANITIZED=1; fi
	python3 "$SRC/tests/serve/daemon/soak.py" "$(serve_url srv)" "$(cat srv.pid)" "${CAIRN_TEST_SOAK_SECONDS:-60}" "${CAIRN_TEST_SOAK_RUNS:-40}" "$SERVE_TOKEN" >said || { cat said; tail -n 20 srv.out; exit 1; }
	tail -n 1 said | sed "s/^/# /" >>"$TRASH/summary"
'
[ ! -s "$TRASH/summary" ] || cat "$TRASH/summary" >&3
[ -z "${CAIRN_TEST_SOAK_SERIES:-}" ] || cp said "$CAIRN_TEST_SOAK_SERIES"

test_expect 'nothing is left undone, and it ends in order' '
	post srv /api/v1/schedules/a/pause
	status_is 200
	calm() { [ "$(metric srv cairn_schedule_open)" = 0 ] && [ "$(metric srv cairn_processes_running)" = 0 ]; }
	wait_until 600 calm
	test_is "$(metric srv cairn_schedule_failed_total)" 0
	test_is "$(metric srv "cairn_http_requests_total{code=\"500\"}")" 0
	test_is "$(cairn runs --state running --json | python3 -c "import json, sys; print(len(json.load(sys.stdin)[\"runs\"]))")" 0
	rc=$(stop srv TERM)
	test "$rc" = 0 || tail -n 60 srv.out
	test_is "$rc" 0
'
test_done
