#!/bin/bash
# cairn serve as a daemon: signals, runs that outlive it or crash, what systemd and it tell each other.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: wait
params: {n: 1}
steps:
  first: {run: "echo first >>\"$HOME/firsts\"; echo ${{ params.n }} >o", outputs: {o: o}}
  w: {run: "cat ${{ inputs.i }}; : >\"$HOME/begun\"; while [ ! -e \"$HOME/go\" ]; do sleep 0.02; done; echo done >o", inputs: {i: "${{ steps.first.outputs.o }}"}, outputs: {o: o}}
YAML

begin() { # N: a run that waits for $HOME/go
	rm -f "$HOME/go" "$HOME/begun"
	post srv /api/v1/runs "{\"params\": {\"n\": $1}}"
	status_is 202
	wait_until 60 test -e "$HOME/begun"
}
last_state() { cairn runs --json -n 1 >last.json && json last.json 'd["runs"][0]["state"]'; }
last_is() { [ "$(last_state)" = "$1" ]; }

test_expect 'a crash of a run is the run'"'"'s own' '
	serve srv
	begin 1
	kill -9 "$(json <(curl -s "$(serve_url srv)/api/v1/launches/$(json body "d[\"launch\"]")") "d[\"pid\"]")"
	wait_until 60 grep -q " run-ended .*exit=137" srv.out
	get srv /api/v1/runs/last
	test_is "$(json body "d[\"state\"]")" died
	get srv /readyz
	status_is 200
'

test_expect 'SIGTERM drains: nothing begins, what runs ends' '
	begin 2
	kill -TERM "$(cat srv.pid)"
	wait_until 30 grep -q " draining runs=1" srv.out
	post srv /api/v1/runs "{}"
	status_is 503
	get srv /readyz
	status_is 503
	test_missing srv.rc
	touch "$HOME/go"
	wait_until 60 test -s srv.rc
	test_is "$(cat srv.rc)" 0
	test_is "$(last_state)" succeeded
'

test_expect 'a second signal stops them at once, and they can be resumed' '
	serve_forget srv
	serve srv
	begin 3
	kill -INT "$(cat srv.pid)"
	wait_until 30 grep -q " draining runs=1" srv.out
	kill -INT "$(cat srv.pid)"
	wait_until 60 test -s srv.rc
	test_is "$(cat srv.rc)" 0
	test_grep " stopping-runs " srv.out
	test_is "$(last_state)" interrupted
	touch "$HOME/go"
	cairn resume -q
	test_is "$(last_state)" succeeded
	test_is "$(wc -l <"$HOME/firsts")" 3
'

test_expect 'the drain has an end: then runs are asked to stop' '
	serve_forget srv
	start srv env CAIRN_SERVE_TOKEN="$SERVE_TOKEN" cairn serve --listen 127.0.0.1:0 --drain-timeout 300ms
	wait_until 60 serve_is_up srv
	begin 4
	test_is "$(stop srv TERM)" 0
	test_is "$(last_state)" interrupted
'

test_expect 'kill -9: the run goes on, and the next server sees it' '
	serve_forget srv
	serve srv
	begin 5
	stop srv KILL
	serve_forget srv
	serve srv
	get srv /api/v1/runs/last
	test_is "$(json body "d[\"state\"]")" running
	touch "$HOME/go"
	wait_until 60 last_is succeeded
	test_is "$(stop srv TERM)" 0
'

test_expect 'an address that is taken is said, and nothing is left behind' '
	serve_forget srv
	serve srv
	test_code 4 cairn serve --listen "$(serve_url srv | cut -c 8-)" 2>err
	test_grep "somebody listens there already" err
	test_is "$(stop srv TERM)" 0
'

test_expect 'what systemd is told: ready, reloading, alive, stopping' '
	start sd python3 "$SRC/tests/serve/daemon/systemd.py" notify "$TRASH/work/sd.log" cairn serve --listen none
	wait_until 60 grep -q "^READY=1" sd.log
	wait_until 60 grep -q "^WATCHDOG=1" sd.log
	wait_until 60 grep -q "^STATUS=0 schedules, 0 runs" sd.log
	pid=$(sed -n "s/^PID=//p" sd.log)
	tr "\0" "\n" <"/proc/$pid/environ" >/dev/null
	kill -HUP "$pid"
	wait_until 60 grep -Eq "^RELOADING=1\|MONOTONIC_USEC=[0-9]+$" sd.log
	again() { [ "$(grep -c "^READY=1" sd.log)" = 2 ]; }
	wait_until 60 again
	test_grep " reloaded broken=0" sd.out
	kill -TERM "$pid"
	wait_until 60 test -s sd.rc
	test_is "$(cat sd.rc)" 0
	test_grep "^STOPPING=1" sd.log
'

test_expect 'sockets of systemd are used, and no others' '
	start act python3 "$SRC/tests/serve/daemon/systemd.py" listen cairn serve
	wait_until 60 grep -q " serving " act.out
	test_is "$(curl -s -o /dev/null -w "%{http_code}" "http://127.0.0.1:$(head -n 1 act.out)/healthz")" 200
	test_is "$(grep -c " listening " act.out)" 1
	test_is "$(stop act TERM)" 0
	serve_forget act
	start act python3 "$SRC/tests/serve/daemon/systemd.py" listen cairn serve $(printf -- "--listen 127.0.0.1:0 %.0s" 1 2 3 4 5 6 7 8)
	wait_until 60 grep -q " serving " act.out
	test_is "$(grep -c " listening " act.out)" 9
	for url in $(sed -n "s/.* listening address=\(127[^ ]*\).*/\1/p" act.out); do
		test_is "$(curl -s -o /dev/null -w "%{http_code}" "http://$url/healthz")" 200
	done
	test_is "$(stop act TERM)" 0
'

test_expect 'a unit for systemd' '
	cairn serve --unit >cairn.service
	test_grep "^Type=notify$" cairn.service
	test_grep "^ExecStart=.*cairn serve .*--token-file %d/token" cairn.service
	sed -e "s|/usr/local/bin/cairn|$CAIRN|" -e "s|^User=.*|User=nobody|" cairn.service >/tmp/cairn-check-$$.service
	test_when_finished "rm -f /tmp/cairn-check-$$.service"
	if command -v systemd-analyze; then systemd-analyze verify "/tmp/cairn-check-$$.service"; fi
'

test_expect 'logs of runs are kept, so many' '
	for i in $(seq 450); do : >".cairn/serve/old-$i.log"; done
	touch -d 2001-01-01 .cairn/serve/old-*.log
	serve_forget srv
	serve srv
	post srv /api/v1/runs "{\"params\": {\"n\": 5}}"
	wait_until 60 grep -q " run-ended " srv.out
	few() { [ "$(find .cairn/serve -name "*.log" -o -name "*.json" | wc -l)" -le 400 ]; }
	wait_until 30 few
	test_is "$(stop srv TERM)" 0
'
test_done
