#!/bin/bash
# The API by its own description: schemathesis makes requests of it, right and wrong ones, and looks at every answer. Then load.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
serve_python || serve_why=$(tail -n 1 "$serve_cache/serve.log")
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'
# Requests of each path that are made up; --full goes deeper.
if [ "${CAIRN_TEST_FULL:-0}" = 1 ]; then examples=400; else examples=40; fi
examples=${CAIRN_TEST_API_EXAMPLES:-$examples}

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: one
params: {n: 1}
steps:
  s: {run: "echo ${{ params.n }} >o", outputs: {o: o}}
schedules:
  yearly: {cron: "0 0 1 1 *"}
YAML

# How much memory the server takes: with sanitizers freed memory stays for a while.
rss() { metric srv process_resident_memory_bytes; }
fds() { metric srv process_open_fds; }

test_expect 'it serves' '
	cairn run -q
	serve srv --max-runs 2
'

if [ -n "${serve_why:-}" ]; then
	test_skip 'schemathesis finds nothing' "no python packages: $serve_why"
else
	test_expect 'schemathesis finds nothing' '
		HOME=$TRASH/home "$SERVE_PYTHON" -m schemathesis.cli run "$(serve_url srv)/api/v1/openapi.json" --url "$(serve_url srv)" \
			-H "Authorization: Bearer $SERVE_TOKEN" --seed 7 --max-examples "$examples" --phases examples,coverage,fuzzing --workers 2 \
			--checks not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,unsupported_method \
			--exclude-operation-id events --request-timeout 30 --no-color >said 2>&1 || { tail -n 120 said; exit 1; }
		get srv /healthz
		status_is 200
		test_is "$(metric srv "cairn_http_requests_total{code=\"500\"}")" 0
		test "$(metric srv "cairn_http_requests_total{code=\"200\"}")" -gt 100
		test "$(metric srv "cairn_http_requests_total{code=\"400\"}")" -gt 100
	'
	test_expect 'without the token nothing is changed' '
		before=$(cairn runs --json -n 0 | wc -l)
		idle() { test "$(metric srv cairn_processes_running)" = 0; }
		wait_until 60 idle
		HOME=$TRASH/home "$SERVE_PYTHON" -m schemathesis.cli run "$(serve_url srv)/api/v1/openapi.json" --url "$(serve_url srv)" --seed 8 --max-examples 5 \
			--include-method POST --exclude-operation-id view --checks not_a_server_error,ignored_auth --phases coverage,fuzzing --no-color >said 2>&1 || { tail -n 60 said; exit 1; }
		test "$(metric srv "cairn_http_requests_total{code=\"401\"}")" -gt 10
	'
fi

test_expect --needs wrk 'load: every request is answered, memory and descriptors stay' '
	wrk -t 2 -c 32 -d 2s "$(serve_url srv)/api/v1/runs" >/dev/null
	before=$(rss) open=$(fds)
	for path in /healthz /api/v1/runs /api/v1/runs/last/tasks /metrics "/api/v1/runs/last/log?task=s"; do
		wrk -t 2 -c 64 -d "${CAIRN_TEST_LOAD_SECONDS:-3}s" --timeout 20s "$(serve_url srv)$path" >said
		cat said
		test_grep "requests in" said
		test_no_grep "Non-2xx" said
		test_no_grep "Socket errors: .*(connect|timeout) [1-9]" said
	done
	calm() { test "$(metric srv cairn_http_connections_open)" -le 2; }
	wait_until 60 calm
	test "$(fds)" -le $((open + 20))
	echo "$before $(rss)"
	test_have SANITIZED || test "$(rss)" -le $((before + 64 * 1024 * 1024))
'

test_expect 'it ends in order' '
	rc=$(stop srv TERM)
	test "$rc" = 0 || tail -n 60 srv.out
	test_is "$rc" 0
	test_no_grep "request-failed" srv.out
'
test_done
