#!/bin/bash
# No failure that nobody hears of: notices outlive kill -9, SIGTERM, receivers that are away, and servers that die before their runs.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'

echo '# project' >cairn.yaml
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
PORT=$(free_port)
receiver() {
	start webhook python3 "$SRC/tests/serve/notify/receivers.py" webhook "$TRASH/work/webhook.log" "$PORT"
	wait_until 30 test -s webhook.out
}
cat >pipeline.yaml <<YAML
pipeline: told
steps:
  s: {run: "touch \$HOME/began; while [ ! -e \$HOME/go ]; do sleep 0.1; done; exit 1", outputs: {}, cache: false}
schedules:
  late: {cron: "0 0 1 1 *", notify: {webhook: "http://127.0.0.1:$PORT/late", when: failure}}
  again: {cron: "0 0 1 1 *", retry: {max: 1, backoff: 1s}, notify: {webhook: "http://127.0.0.1:$PORT/late", when: failure}}
  refused: {cron: "0 0 1 1 *", notify: [{webhook: "http://127.0.0.1:$PORT/refuse?key=hidden", when: failure}, {command: "exit 75", when: failure}]}
YAML
cat >measured.yaml <<YAML
pipeline: measured
steps:
  s: {run: "touch \$HOME/began; while [ ! -e \$HOME/go ]; do sleep 0.1; done; echo '{\"acc\": 0.9}' >m.json", metrics: m.json, outputs: {}, cache: false}
schedules:
  high: {cron: "0 0 1 1 *", notify: {webhook: "http://127.0.0.1:$PORT/high", when: {metric: "acc >= 0.5"}}}
  low: {cron: "0 0 1 1 *", notify: {webhook: "http://127.0.0.1:$PORT/low", when: {metric: "acc < 0.5"}}}
YAML
# A program whose version is asked before there is a run: there its process waits.
write "$HOME/slow" <<'SH'
#!/bin/sh
echo $PPID >>"$HOME/asked"
while [ -e "$HOME/hold" ]; do sleep 0.1; done
echo 1.0
SH
chmod +x "$HOME/slow"
cat >early.yaml <<YAML
pipeline: early
steps:
  s: {run: "true", tools: ["$HOME/slow"], outputs: {}, cache: false}
schedules:
  killed: {cron: "0 0 1 1 *", retry: {max: 1, backoff: 1s}, notify: {webhook: "http://127.0.0.1:$PORT/killed", when: [failure, recovery]}}
YAML
touch "$HOME/go"

fire() { post srv "/api/v1/schedules/$1/trigger" && status_is 202; }
notices() { cairn schedule notices --json >notices; json notices "$1"; }
notices_are() { [ "$(notices "$1")" = "$2" ]; }
# got EXPR: of what came, a list
got() { python3 -c 'import json, sys
hooks = [json.loads(line) for line in open("webhook.log")]
taken = lambda h, path: h["path"] == path and h["status"] == 204
print(json.dumps(eval(sys.argv[1])))' "$1" 2>/dev/null; }
got_is() { [ "$(got "$1")" = "$2" ]; }
# Of the last firing of `killed`.
state() { cairn schedule history killed -n 1 --json >h && json h '[d["firings"][0][k] for k in ("state", "starts", "run")]'; }
state_is() { [ "$(state)" = "$1" ]; }
kill9() { kill -9 "$(cat srv.pid)"; wait_until 30 test -s srv.rc; serve_forget srv; }

test_expect 'a notice whose receiver is away waits in the database' '
	serve srv
	fire late
	wait_until 60 grep -q "notify-again .*by=webhook" srv.out
	notices_are "[[n[\"state\"], n[\"schedule\"], n[\"event\"], n[\"ended\"]] for n in d[\"notices\"]]" "[[\"waiting\", \"late\", \"failure\", null]]"
	notices "d[\"notices\"][0][\"delivery\"]" >delivery
	one_waits() { test "$(metric srv cairn_notifications_waiting)" = 1; }
	wait_until 60 one_waits
'

test_expect 'kill -9 and another server later it is still tried, under the same id' '
	kill9
	serve srv
	wait_until 60 grep -q "notify-again .*delivery=$(cat delivery)" srv.out
'

test_expect 'so it is after SIGTERM; when the receiver is there it comes once, and the row goes' '
	test_is "$(stop srv TERM)" 0
	serve_forget srv
	receiver
	serve srv
	wait_until 60 got_is "[h[\"headers\"][\"Cairn-Delivery\"] for h in hooks]" "[\"$(cat delivery)\"]"
	got_is "json.loads(hooks[0][\"body\"])[\"delivery\"]" "\"$(cat delivery)\""
	wait_until 60 notices_are "d[\"notices\"]" "[]"
'

test_expect 'a run that fails after its server was killed: the next server tells of it' '
	rm "$HOME/go" "$HOME/began"
	fire late
	wait_until 60 test -e "$HOME/began"
	kill9
	touch "$HOME/go"
	failed() { cairn schedule history late -n 1 --json >h && test "$(json h "d[\"firings\"][0][\"state\"]")" = failed; }
	wait_until 60 failed
	test_is "$(got "len(hooks)")" 1
	serve srv
	wait_until 60 got_is "len(hooks)" 2
	got_is "json.loads(hooks[1][\"body\"])[\"run\"]" "\"$(json h "d[\"firings\"][0][\"run\"]")\""
'

test_expect 'and tries again where the schedule says so' '
	rm "$HOME/go" "$HOME/began"
	fire again
	wait_until 60 test -e "$HOME/began"
	kill9
	touch "$HOME/go"
	failed() { cairn schedule history again -n 1 --json >h && test "$(json h "d[\"firings\"][0][\"state\"]")" = failed; }
	wait_until 60 failed
	serve srv
	wait_until 60 got_is "len(hooks)" 3
	cairn schedule history again -n 1 --json >h
	test_is "$(json h "[d[\"firings\"][0][\"state\"], d[\"firings\"][0][\"starts\"]]")" "[\"failed\", 2]"
'

test_expect 'a metric rule whose store is away waits through kill -9 and SIGTERM; one that holds not goes' '
	rm "$HOME/go" "$HOME/began"
	fire high
	wait_until 60 test -e "$HOME/began"
	kill9
	touch "$HOME/go"
	ended() { cairn schedule history high -n 1 --json >h && test "$(json h "d[\"firings\"][0][\"state\"]")" = succeeded; }
	wait_until 60 ended
	mv .cairn/store away
	serve srv
	wait_until 60 grep -q "notify-again .*schedule=high" srv.out
	notices_are "[[n[\"state\"], n[\"event\"]] for n in d[\"notices\"]]" "[[\"waiting\", \"metric\"]]"
	notices "d[\"notices\"][0][\"delivery\"]" >delivery
	kill9
	serve srv
	wait_until 60 grep -q "notify-again .*delivery=$(cat delivery)" srv.out
	test_is "$(stop srv TERM)" 0
	serve_forget srv
	rm -rf .cairn/store
	mv away .cairn/store
	serve srv
	high() { got_is "[json.loads(h[\"body\"])[\"metrics\"] for h in hooks if taken(h, \"/high\")]" "[[{\"bound\": 0.5, \"rule\": \"acc >= 0.5\", \"value\": 0.9}]]"; }
	wait_until 60 high
	got_is "[h[\"headers\"][\"Cairn-Delivery\"] for h in hooks if taken(h, \"/high\")]" "[\"$(cat delivery)\"]"
	fire low
	low() { cairn schedule history low -n 1 --json >h && test "$(json h "d[\"firings\"][0][\"state\"]")" = succeeded; }
	wait_until 60 low
	wait_until 60 notices_are "d[\"notices\"]" "[]"
	test_is "$(got "[h for h in hooks if h[\"path\"] == \"/low\"]")" "[]"
'

test_expect 'a run that is killed before it is on record fails, is tried again, and is told' '
	rm -f "$HOME/asked"
	touch "$HOME/hold"
	run_of() { sed -n "s/.*run-started .*launch=killed-.* pid=//p" srv.out | sed -n "$1p"; }
	asked() { test -s "$HOME/asked" && test -n "$(run_of "$1")"; }
	kill_it() { rm "$HOME/asked"; kill -9 "$(run_of "$1")"; }
	fire killed
	wait_until 60 asked 1
	test_is "$(state)" "[\"started\", 1, null]"
	kill_it 1
	wait_until 60 asked 2
	kill_it 2
	wait_until 60 state_is "[\"failed\", 2, null]"
	killed() { got_is "[json.loads(h[\"body\"])[\"message\"] for h in hooks if taken(h, \"/killed\")]" "$1"; }
	wait_until 60 killed "[\"its process was killed by SIGKILL\"]"
	fire killed
	wait_until 60 asked 3
	kill_it 3
	wait_until 60 asked 4
	rm "$HOME/hold"
	ended() { state >now && grep -q "\"succeeded\", 2, \"early-" now; }
	wait_until 60 ended
	wait_until 60 killed "[\"its process was killed by SIGKILL\", \"it works again\"]"
'

test_expect 'a run that cannot be started fails, is tried again, and is told' '
	test_is "$(stop srv TERM)" 0
	serve_forget srv
	mkdir "$HOME/bin"
	cp "$CAIRN" "$HOME/bin/cairn"
	start srv env CAIRN_SERVE_TOKEN="$SERVE_TOKEN" "$HOME/bin/cairn" serve --listen 127.0.0.1:0
	wait_until 60 serve_is_up srv
	rm "$HOME/bin/cairn"
	fire killed
	wait_until 60 state_is "[\"failed\", 2, null]"
	cannot() { got_is "\"No such file\" in json.loads([h for h in hooks if taken(h, \"/killed\")][2][\"body\"])[\"message\"]" true; }
	wait_until 60 cannot
	test_is "$(stop srv TERM)" 0
	serve_forget srv
	serve srv
'

test_expect 'what was given up is shown, without what its address hides; a command that ends with 75 is tried again' '
	fire refused
	wait_until 60 notices_are "sorted(n[\"state\"] for n in d[\"notices\"])" "[\"given-up\", \"waiting\"]"
	notices_are "[n[\"receiver\"] for n in d[\"notices\"] if n[\"state\"] == \"given-up\"]" "[\"http://127.0.0.1:$PORT\"]"
	cairn schedule list >out 2>err
	grep "1 notice could not be delivered: cairn schedule notices" out err
	given_up() { test "$(metric srv cairn_notifications_given_up)" = 1; }
	wait_until 60 given_up
	cairn schedule notices >out
	grep "given up" out
	test_no_grep hidden out
	test_is "$(stop srv TERM)" 0
	test_no_grep Sanitizer srv.out
'
test_done
