#!/bin/bash
# What a server tells live (/api/v1/events), and what many readers cost.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'

echo '# project' >cairn.yaml
write wait.yaml <<YAML
pipeline: wait
steps:
  w: {run: "while [ ! -e $PWD/go ]; do sleep 0.02; done", outputs: {}, cache: false}
YAML
write quick.yaml <<'YAML'
pipeline: quick
steps:
  q: {run: "echo x >o", outputs: {o: o}}
schedules:
  nightly: {cron: "0 3 * * *"}
YAML

write large.yaml <<'YAML'
pipeline: large
params: {text: x}
steps:
  l: {run: "echo x >o", outputs: {o: o}}
YAML
write many.yaml <<YAML
pipeline: many
steps:
  first: {run: "while [ ! -e $PWD/start ]; do sleep 0.02; done", outputs: {}, cache: false}
  t: {run: "echo \${{ matrix.i }} >o", needs: [first], matrix: {i: [$(seq -s, 300)]}, outputs: {o: o}}
YAML
# The server itself: start runs it behind env.
srv_pid() { cat "$TRASH/work/srv.pid"; }

test_expect 'runs, tasks and schedules; a broken line goes on where it was' '
	serve srv
	python3 "$SRC/tests/serve/live/live.py" "$(serve_url srv)" "$PWD" "$CAIRN" >said
	test_grep "^told" said
'
test_expect 'wrong: an unknown project, too many runs' '
	get srv "/api/v1/events?project=none"
	status_is 404
	get srv "/api/v1/events?run=$(seq -s, 33)"
	status_is 400
	get srv "/api/v1/events?x=1"
	status_is 400
'
test_expect 'a stream ends with the token that it was begun with' '
	cairn serve token add eve >token 2>/dev/null
	curl -s -N --max-time 600 -H "Authorization: Bearer $(cat token)" "$(serve_url srv)/api/v1/events" >stream &
	pid=$!
	wait_until 30 grep -q "^id:" stream
	cairn serve token revoke eve
	wait_until 30 test ! -e "/proc/$pid"
'
test_expect 'a reader that takes nothing is cut off, and the others go on' '
	before=$(metric srv cairn_http_timeouts_total)
	python3 -c "
import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
s.connect((\"127.0.0.1\", int(sys.argv[1].rsplit(\":\", 1)[1])))
s.sendall(b\"GET /api/v1/events HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n\")
print(\"deaf\", flush=True)
sys.stdin.read()
" "$(serve_url srv)" < <(while [ ! -e heard ]; do sleep 0.1; done) >deaf &
	wait_until 30 grep -q deaf deaf
	curl -s -N --max-time 900 "$(serve_url srv)/api/v1/events" >stream &
	head -c 100000 /dev/zero | tr "\0" x >text
	for _ in $(seq 60); do
		cairn run -q large.yaml -p "text=$(cat text)"
	done
	cut() { test "$(metric srv cairn_http_timeouts_total)" -gt "$before"; }
	wait_until 240 cut
	cairn run -q quick.yaml
	wait_until 120 grep -q "\"pipeline\":\"quick\"" stream
	touch heard
'
test_expect 'two hundred viewers of a run: all see all of it, in 50 MB' '
	cairn run -q many.yaml 2>err &
	begun() { get srv "/api/v1/runs?state=running&pipeline=many" && test "$(json body "len(d[\"runs\"])")" = 1; }
	wait_until 30 begun
	python3 "$SRC/tests/serve/live/viewers.py" "$(serve_url srv)" "$(srv_pid)" 200 "$(json body "d[\"runs\"][0][\"id\"]")" >said &
	viewers=$!
	wait_until 60 grep -q ready said
	touch start
	wait "$viewers"
	read -r memory _ least most < <(tail -n 1 said)
	test "$least" -ge 300
	test "$least" = "$most" || test $((most - least)) -le 2
	test_have SANITIZED || test "$memory" -le 51200 # sanitizers keep freed memory
'
test_expect 'it ends with the server, in order' '
	curl -s -N --max-time 600 "$(serve_url srv)/api/v1/events" >stream &
	wait_until 30 grep -q "^id:" stream
	test_is "$(stop srv TERM)" 0
	test_no_grep " error |Sanitizer" srv.out
'
test_done
