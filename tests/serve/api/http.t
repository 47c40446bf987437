#!/bin/bash
# cairn serve over HTTP: what it answers, whom, and what it does with clients that are slow, large, many or mad.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
serve_python || serve_why=$(tail -n 1 "$serve_cache/serve.log")
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: one
params: {n: 1}
steps:
  s:
    run: "echo hello ${{ params.n }}; echo '{\"acc\": 0.${{ params.n }}}' >m.json; echo out ${{ params.n }} >o; test ${{ params.n }} -lt 7"
    outputs: {o: o}
    metrics: m.json
  t: {run: "sed s/out/got/ ${{ inputs.i }} >o", inputs: {i: "${{ steps.s.outputs.o }}"}, outputs: {o: o}}
YAML
write wait.yaml <<'YAML'
pipeline: wait
steps:
  w: {run: "echo begun; : >\"$HOME/begun\"; while [ ! -e \"$HOME/go\" ]; do sleep 0.02; done; echo gone on", outputs: {}, cache: false}
YAML

test_expect 'refuses what it must, before it serves' '
	test_code 2 cairn serve --listen 0.0.0.0:0 2>err
	test_grep "needs a token" err
	test_code 2 cairn serve --listen nonsense 2>err
	test_grep "no address to listen at" err
	test_code 2 env CAIRN_SERVE_TOKEN=short cairn serve --listen 127.0.0.1:0 2>err
	test_grep "fewer than 16" err
	test_no_grep short err
	echo "two words that are long enough" >token
	test_code 2 cairn serve --token-file token --listen 127.0.0.1:0 2>err
	test_code 4 cairn serve --token-file nothing --listen 127.0.0.1:0 2>err
	test_code 4 cairn serve /nowhere --listen none 2>err
	test_grep nowhere err
'

test_expect 'health, readiness, projects' '
	cairn run -q
	cairn run -q -p n=2
	test_code 1 cairn run -q -p n=7 2>/dev/null
	serve srv
	get srv /healthz
	status_is 200
	test_is "$(json body "d[\"status\"]")" alive
	get srv /readyz
	status_is 200
	test_is "$(json body "d[\"ready\"]")" true
	get srv /api/v1/projects
	test_is "$(json body "[p[\"project\"] for p in d[\"projects\"]]")" "[\"work\"]"
	test_no_grep "$SERVE_TOKEN" srv.out
	tr "\0" "\n" <"/proc/$(cat srv.pid)/cmdline" >cmdline
	test_no_grep "$SERVE_TOKEN" cmdline
'

test_expect 'runs: as cairn runs says it, by filters, in pages' '
	cairn runs --json >want
	get srv /api/v1/runs
	status_is 200
	test_is "$(json body "d[\"runs\"]")" "$(json want "d[\"runs\"]")"
	test_is "$(json body "d[\"next\"]")" null
	get srv "/api/v1/runs?state=failed&pipeline=one"
	test_is "$(json body "[r[\"params\"][\"n\"] for r in d[\"runs\"]]")" "[7]"
	get srv "/api/v1/runs?pipeline=two"
	test_is "$(json body "d[\"runs\"]")" "[]"
	get srv "/api/v1/runs?param=n%3E%3D2"
	test_is "$(json body "[r[\"params\"][\"n\"] for r in d[\"runs\"]]")" "[7, 2]"
	cairn tag "$(json want "d[\"runs\"][1][\"id\"]")" good/two -q
	get srv "/api/v1/runs?tag=good/two"
	test_is "$(json body "[(r[\"params\"][\"n\"], r[\"tags\"]) for r in d[\"runs\"]]")" "[[2, [\"good/two\"]]]"
	cairn runs --json >want
	get srv "/api/v1/runs?since=2100-01-01"
	test_is "$(json body "d[\"runs\"]")" "[]"
	get srv "/api/v1/runs?limit=2"
	test_is "$(json body "[r[\"params\"][\"n\"] for r in d[\"runs\"]]")" "[7, 2]"
	get srv "/api/v1/runs?limit=2&cursor=$(json body "d[\"next\"]")"
	test_is "$(json body "[[r[\"params\"][\"n\"] for r in d[\"runs\"]], d[\"next\"]]")" "[[1], null]"
	get srv /api/v1/runs/last
	test_is "$(json body "d[\"state\"]")" failed
	get srv "/api/v1/runs/$(json want "d[\"runs\"][1][\"hash\"][:10]")"
	test_is "$(json body "d[\"params\"][\"n\"]")" 2
'

test_expect 'tasks, attempts, metrics, logs, lineage of a run' '
	id=$(json want "d[\"runs\"][1][\"id\"]")
	get srv "/api/v1/runs/$id/tasks"
	test_is "$(json body "[(t[\"task\"], t[\"state\"], t[\"metrics\"]) for t in d[\"tasks\"]]")" "[[\"s\", \"executed\", {\"acc\": 0.2}], [\"t\", \"executed\", {}]]"
	json body "d[\"tasks\"][0][\"outputs\"][\"o\"][\"id\"]" >content
	get srv "/api/v1/runs/$id/tasks?limit=1"
	test_is "$(json body "[[t[\"task\"] for t in d[\"tasks\"]], d[\"next\"]]")" "[[\"s\"], \"1\"]"
	get srv "/api/v1/runs/$id/tasks?limit=1&cursor=1"
	test_is "$(json body "[[t[\"task\"] for t in d[\"tasks\"]], d[\"next\"]]")" "[[\"t\"], null]"
	get srv "/api/v1/runs/$id/metrics"
	test_is "$(json body "d[\"metrics\"]")" "{\"s\": {\"acc\": 0.2}}"
	get srv "/api/v1/runs/$id/attempts?task=s"
	test_is "$(json body "[(t[\"task\"], t[\"state\"], t[\"exit\"]) for t in d[\"attempts\"]]")" "[[\"s\", \"succeeded\", 0]]"
	get srv "/api/v1/runs/$id/log?task=s"
	status_is 200
	test_grep "^[Cc]ontent-[Tt]ype: text/plain" headers
	test_is "$(cat body)" "hello 2"
	get srv "/api/v1/lineage?content=$(cat content)&direction=down"
	test_is "$(json body "sorted(n[\"task\"] for n in d[\"nodes\"] if n[\"kind\"] == \"attempt\")")" "[\"t\"]"
	get srv "/api/v1/lineage?content=$(cat content)"
	test_is "$(json body "sorted(n[\"task\"] for n in d[\"nodes\"] if n[\"kind\"] == \"attempt\")")" "[\"s\"]"
'

test_expect 'a run is started, followed and cancelled, with the token only' '
	get srv /api/v1/runs -X POST -H "Content-Type: application/json" --data "{}"
	status_is 401
	test_grep "^WWW-Authenticate: Bearer" headers
	get srv /api/v1/runs -X POST -H "Authorization: Bearer wrong" -H "Content-Type: application/json" --data "{}"
	status_is 401
	test_no_grep wrong body
	post srv /api/v1/runs "{\"pipeline\": \"wait.yaml\"}"
	status_is 202
	launch=$(json body "d[\"launch\"]")
	test_grep "^Location: /api/v1/launches/$launch" headers
	wait_until 60 test -e "$HOME/begun"
	get srv "/api/v1/launches/$launch"
	test_is "$(json body "[d[\"state\"], d[\"run_state\"], d[\"run\"][:5]]")" "[\"running\", \"running\", \"wait-\"]"
	curl -s -N --max-time 60 "$(serve_url srv)/api/v1/runs/last/log?task=w&follow=true" >followed &
	wait_until 30 grep -q begun followed
	touch "$HOME/go"
	wait
	test_is "$(tr "\n" " " <followed)" "begun gone on "
	ended() { get srv "/api/v1/launches/$launch" && test "$(json body "d[\"state\"]")" = ended; }
	wait_until 60 ended
	test_is "$(json body "[d[\"exit\"], d[\"run_state\"]]")" "[0, \"succeeded\"]"
	rm "$HOME/go" "$HOME/begun"
	post srv /api/v1/runs "{\"pipeline\": \"wait.yaml\"}"
	wait_until 60 test -e "$HOME/begun"
	post srv /api/v1/runs/last/cancel "{\"now\": true}"
	status_is 202
	cancelled() { get srv "/api/v1/runs/last" && test "$(json body "d[\"state\"]")" = cancelled; }
	wait_until 60 cancelled
	post srv /api/v1/runs/last/cancel "{}"
	status_is 409
	post srv /api/v1/runs "{\"pipeline\": \"pipeline.yaml\", \"params\": {\"n\": 2}, \"steps\": [\"s\"]}"
	status_is 202
'

bad() { # PATH STATUS WORDS
	test_expect "wrong: $1" "
		get srv '$1'
		status_is $2
		test_grep '^Content-Type: application/problem\\+json' headers
		test_is \"\$(json body 'd[\"status\"]')\" $2
		test_grep '$3' body
	"
}
bad /nope 404 'nothing at this path'
bad /api/v1/runs/ 404 'nothing at this path'
bad /api/v1/runs/none 404 'no run'
bad '/api/v1/runs?limt=1' 400 'did you mean .limit'
bad '/api/v1/runs?limit=1&limit=2' 400 'twice'
bad '/api/v1/runs?limit=0' 400 'whole number from 1 to 500'
bad '/api/v1/runs?limit=x' 400 'whole number'
bad '/api/v1/runs?cursor=-1' 400 'cursor'
bad '/api/v1/schedules/none/history?cursor=4611686018427387904' 400 'cursor'
bad '/api/v1/runs?state=odd' 400 'state'
bad '/api/v1/runs?since=then' 400 'since'
bad '/api/v1/runs?project=other' 404 'no project'
bad '/api/v1/runs/last/log' 400 'task. is missing'
bad '/api/v1/runs/last/log?task=none' 404 'no log'
bad '/api/v1/runs?param=lr' 400 'param.*NAME, an operator'
bad '/api/v1/runs?sort=-' 400 'sort'
bad '/api/v1/runs?sort=x&cursor=3' 400 'cursor'
bad '/api/v1/lineage' 400 'content. is missing'
bad '/api/v1/lineage?content=xyz' 400 'content id'
bad '/api/v1/lineage?content=sha256:00000000' 404 'no attempt'
bad '/api/v1/schedules/none/next' 404 'no schedule'
bad '/api/v1/launches/none' 404 'no launch'

refused() { # BODY STATUS WORDS
	test_expect "a run that is refused: $1" "
		post srv /api/v1/runs '$1'
		status_is $2
		test_grep '$3' body
	"
}
refused '{' 400 'body'
refused '[]' 400 'must be an object'
refused '{"pipelin": "x"}' 400 'did you mean .pipeline'
refused '{"pipeline": 3}' 400 'must be a string'
refused '{"pipeline": "../x.yaml"}' 400 'in the project'
refused '{"pipeline": "/etc/x.yaml"}' 400 'in the project'
refused '{"pipeline": "none.yaml"}' 404 'no pipeline'
refused '{"params": {"m": 1}}' 400 'm'
refused '{"params": {"n": "x"}}' 400 'n'
refused '{"params": {"n": {}}}' 400 'params.n'
refused '{"steps": ["-x"]}' 400 'no such step'
refused '{"steps": ["s[x"]}' 400 'pair of brackets'
refused '{"steps": ["s[x]y"]}' 400 'pair of brackets'
refused '{"steps": ["s[]"]}' 400 'pair of brackets'
refused '{"steps": "s"}' 400 'array'

test_expect 'methods, types, tags of answers' '
	get srv /api/v1/runs -X DELETE
	status_is 405
	test_grep "^Allow: GET, HEAD, POST" headers
	get srv /healthz -I
	status_is 200
	get srv /api/v1/runs -X POST -H "Authorization: Bearer $SERVE_TOKEN" -H "Content-Type: text/plain" --data x
	status_is 415
	get srv /api/v1/runs
	test_grep "^Cache-Control: no-store" headers
	test_grep "^X-Content-Type-Options: nosniff" headers
	test_no_grep "^Access-Control" headers
	etag=$(sed -n "s/^ETag: \([^\r]*\).*/\1/p" headers)
	get srv /api/v1/runs -H "If-None-Match: $etag"
	status_is 304
	test ! -s body
'

test_expect 'a web page that calls us by a name of its own is refused (DNS rebinding)' '
	get srv /api/v1/runs -H "Host: evil.example"
	status_is 421
	get srv /api/v1/runs -H "Host: localhost:1"
	status_is 200
	get srv /api/v1/runs -H "Host: 127.0.0.1.evil.example"
	status_is 421
	get srv /api/v1/runs -H "Host: [::1]:80"
	status_is 200
'

test_expect 'bytes in which two readers could see different requests: 400, and the connection ends' '
	url=$(serve_url srv)
	python3 "$SRC/tests/serve/api/framing.py" "${url##*:}"
'

test_expect 'too large: body, header, address' '
	head -c 1100000 /dev/zero | tr "\0" " " >large
	get srv /api/v1/runs -X POST -H "Authorization: Bearer $SERVE_TOKEN" -H "Content-Type: application/json" -H "Expect:" --data-binary @large
	status_is 413
	get srv /api/v1/runs -X POST -H "Authorization: Bearer $SERVE_TOKEN" -H "Content-Type: application/json" -H "Transfer-Encoding: chunked" -H "Expect:" --data-binary @large
	status_is 413
	get srv /healthz -H "X: $(head -c 40000 /dev/zero | tr "\0" x)"
	status_is 431
	get srv "/$(head -c 40000 /dev/zero | tr "\0" x)" || true
	test_grep "^4(14|31)" status
	get srv /healthz
	status_is 200
'

test_expect 'who sends all of a body before reading gets the answer, whatever is wrong; one that is far too long is not waited for' '
	cat >sends.py <<-"P"
	import socket, sys
	host, port = sys.argv[1].rsplit("/", 1)[1].rsplit(":", 1)
	length, body, token = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
	s = socket.create_connection((host, int(port)), 60)
	s.sendall(f"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n".encode())
	s.sendall(b" " * body)
	print(s.recv(12).decode())
	P
	test_is "$(python3 sends.py "$(serve_url srv)" 12000000 12000000 "$SERVE_TOKEN")" "HTTP/1.1 413"
	test_is "$(python3 sends.py "$(serve_url srv)" 900000 900000 wrong)" "HTTP/1.1 401"
	test_is "$(python3 sends.py "$(serve_url srv)" 20000000 0 "$SERVE_TOKEN")" "HTTP/1.1 413"
'

test_expect 'wrong tokens: after many of them, 429; the right one still works' '
	# The minute may end on the way, and another one begin.
	for i in $(seq 130); do
		get srv /api/v1/runs -X POST -H "Authorization: Bearer wrong$i"
		test "$(cat status)" = 401 || break
	done
	status_is 429
	test_grep "^Retry-After: 60" headers
	post srv /api/v1/runs "{\"pipeline\": \"none.yaml\"}"
	status_is 404
'

test_expect 'garbage, half requests, and clients that go away: it goes on' '
	python3 "$SRC/tests/serve/api/garbage.py" "$(serve_url srv)"
	get srv /healthz
	status_is 200
	test_no_grep " error " srv.out
'

test_expect 'slow clients are shut out in time, the others are answered meanwhile' '
	python3 "$SRC/tests/serve/api/slow.py" "$(serve_url srv)" >said
	test_grep "^closed 40 of 40" said
	test "$(metric srv cairn_http_timeouts_total)" -ge 40
'

test_expect 'more connections than it takes: 503, and then again 200' '
	start few bash -c "ulimit -n 300; exec cairn serve --listen 127.0.0.1:0"
	wait_until 60 serve_is_up few
	python3 "$SRC/tests/serve/api/many.py" "$(serve_url few)" 190 >said
	test_grep "^503 for those over" said
	get few /healthz
	status_is 200
	test_is "$(stop few TERM)" 0
'

if [ -n "${serve_why:-}" ]; then
	test_skip 'metrics are OpenMetrics' "no python packages: $serve_why"
	test_skip 'the description is OpenAPI 3.1' "no python packages: $serve_why"
else
	test_expect 'metrics are OpenMetrics' '
		get srv /metrics
		status_is 200
		test_grep "^Content-Type: application/openmetrics-text; version=1.0.0" headers
		"$SERVE_PYTHON" -c "
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
families = {f.name: f for f in parse(open(\"body\").read())}
states = {s.labels[\"state\"]: s.value for s in families[\"cairn_runs\"].samples if s.labels[\"pipeline\"] == \"one\"}
assert states[\"succeeded\"] >= 2 and states[\"failed\"] == 1, states
tasks = sum(s.value for s in families[\"cairn_tasks\"].samples if s.labels[\"result\"] == \"executed\")
assert tasks >= 5, tasks
for name in (\"cairn_run_duration_seconds\", \"cairn_schedule_missed\", \"cairn_schedule_lateness_seconds\", \"cairn_loop_lag_seconds\", \"process_open_fds\", \"process_resident_memory_bytes\", \"cairn_http_requests\"):
    assert families[name].samples, name
"
	'
	test_expect 'the description is OpenAPI 3.1' '
		get srv /api/v1/openapi.json
		"$SERVE_PYTHON" -m openapi_spec_validator body
	'
fi

test_expect 'it ends in order, and says so' '
	rc=$(stop srv TERM)
	test "$rc" = 0 || tail -n 60 srv.out
	test_is "$rc" 0
	test_grep " draining " srv.out
	test_grep " ended$" srv.out
	test_no_grep "Sanitizer" srv.out
'

test_expect 'a Unix socket, and one that a killed server left behind' '
	start unix env CAIRN_SERVE_TOKEN="$SERVE_TOKEN" cairn serve --listen "unix:$TRASH/work/s.sock" --log json
	wait_until 60 grep -q "\"serving\"" unix.out
	test_is "$(curl -s --unix-socket s.sock http://any.example/healthz | tr -d " \n")" "{\"status\":\"alive\"}"
	test_is "$(stat -c %a s.sock)" 660
	stop unix KILL
	serve_forget unix
	start unix env CAIRN_SERVE_TOKEN="$SERVE_TOKEN" cairn serve --listen "unix:$TRASH/work/s.sock" --log json
	wait_until 60 grep -q "\"serving\"" unix.out
	test_is "$(stop unix TERM)" 0
	test_missing s.sock
	python3 -c "import json; [json.loads(x) for x in open(\"unix.out\")]"
'

test_expect 'another machine reaches only health without the token' '
	start open env CAIRN_SERVE_TOKEN="$SERVE_TOKEN" cairn serve --listen 0.0.0.0:0
	wait_until 60 grep -q " serving " open.out
	url=http://127.0.0.1:$(sed -n "s/.*address=0.0.0.0:\([0-9]*\).*/\1/p" open.out)
	test_is "$(curl -s -o /dev/null -w "%{http_code}" "$url/healthz")" 200
	test_is "$(curl -s -o /dev/null -w "%{http_code}" "$url/metrics")" 401
	test_is "$(curl -s -o /dev/null -w "%{http_code}" "$url/api/v1/runs")" 401
	test_is "$(curl -s -o /dev/null -w "%{http_code}" -H "Authorization: Bearer $SERVE_TOKEN" "$url/api/v1/runs")" 200
	test_is "$(stop open INT)" 0
'

test_expect 'two projects: each by its name; without one it asks' '
	mkdir -p a/p b/p
	echo "# a" >a/p/cairn.yaml
	echo "# b" >b/p/cairn.yaml
	serve two a/p b/p
	get two /api/v1/projects
	test_is "$(json body "[p[\"project\"] for p in d[\"projects\"]]")" "[\"p\", \"p-2\"]"
	get two /api/v1/runs
	status_is 400
	test_grep "several projects are served here: p, p-2; name one" body
	get two "/api/v1/runs?project=q"
	status_is 404
	test_grep "no project .q. is served here: there is p, p-2" body
	get two "/api/v1/runs?project=p-2"
	status_is 200
	test_is "$(stop two TERM)" 0
'
test_done
