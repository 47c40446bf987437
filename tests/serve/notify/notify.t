#!/bin/bash
# Notifications of cairn serve: a command, a signed webhook, a mail; of failures, recoveries, successes, metrics and missed runs.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
serve_python || serve_why=$(tail -n 1 "$serve_cache/serve.log")
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'

echo '# project' >cairn.yaml
printf hook-secret | cairn secret set HOOK_KEY
printf mail-password | cairn secret set MAIL_PASSWORD
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
receiver() { # KIND [PORT [CERTIFICATE]]
	local python=python3
	[ "$1" = smtp ] && python=$SERVE_PYTHON
	start "$1" "$python" "$SRC/tests/serve/notify/receivers.py" "$1" "$TRASH/work/$1.log" "${@:2}"
	wait_until 30 test -s "$TRASH/work/$1.out"
}
receiver webhook
HOOK=http://127.0.0.1:$(cat webhook.out)
MAIL_PORT=$(free_port)
[ -n "${serve_why:-}" ] || receiver smtp "$MAIL_PORT"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=mail -addext subjectAltName=IP:127.0.0.1 \
	-keyout tls.pem -out ca.pem 2>/dev/null
cat ca.pem >>tls.pem
SMTPS_PORT=$(free_port)
receiver smtps "$SMTPS_PORT" "$TRASH/work/tls.pem"
export SSL_CERT_FILE=$TRASH/work/ca.pem

pipeline() { # the schedules of pipeline.yaml
	{
		cat <<-'YAML'
			pipeline: told
			steps:
			  s: {run: "cat \"$HOME/acc\" >m.json; test -e \"$HOME/good\"", metrics: m.json, outputs: {}, cache: false}
			schedules:
		YAML
		sed 's/^/  /'
	} >pipeline.yaml
}
pipeline <<YAML
by-command: {cron: "0 0 1 1 *", notify: {command: "cat >>$TRASH/work/told; echo >>$TRASH/work/told; env | grep ^CAIRN_ | sort >$TRASH/work/told.env", when: [failure, recovery, success]}}
by-hook: {cron: "0 0 1 1 *", notify: {webhook: {url: "$HOOK/hook", secret: HOOK_KEY}, when: failure}}
by-metric: {cron: "0 0 1 1 *", notify: {webhook: "$HOOK/metric", when: {metric: "acc < last"}}}
badly: {cron: "0 0 1 1 *", notify: [{webhook: "$HOOK/redirect", when: failure}, {webhook: "$HOOK/refuse", when: failure}, {command: "exit 3", when: failure}]}
by-mail: {cron: "0 0 1 1 *", notify: {email: {to: [a@example.org, b@example.org], smtp: "smtp://me@127.0.0.1:$MAIL_PORT", from: cairn@example.org, secret: MAIL_PASSWORD}, when: failure}}
by-smtps: {cron: "0 0 1 1 *", notify: {email: {to: a@example.org, smtp: "smtps://127.0.0.1:$SMTPS_PORT"}, when: failure}}
to-nobody: {cron: "0 0 1 1 *", notify: {email: {to: a@example.org, smtp: "smtp://127.0.0.1:$(free_port)"}, when: failure}}
YAML
echo '{"acc": 0.9}' >"$HOME/acc"

fire() { # SCHEDULE STATE: fires it and waits until that is over
	post srv "/api/v1/schedules/$1/trigger"
	status_is 202
	nominal=$(json body 'd["nominal"]')
	fired() {
		get srv "/api/v1/schedules/$1/history?limit=1"
		test "$(json body 'd["firings"][0]["nominal"] + d["firings"][0]["state"]')" = "$nominal$2"
	}
	wait_until 60 fired "$1" "$2"
}
# hooks PATH EXPR: of what came to that path, a list
hooks() { python3 -c 'import json, sys
hooks = [x for x in map(json.loads, open("webhook.log")) if x["path"] == sys.argv[1]]
print(json.dumps(eval(sys.argv[2])))' "$@"; }
hooks_are() { [ "$(hooks "$1" "$2" 2>/dev/null)" = "$3" ] || { hooks "$1" "$2"; return 1; }; }

test_expect 'a command learns of the failure, by its environment and its standard input' '
	cairn check
	serve srv
	fire by-command failed
	wait_until 60 test -s told.env
	wait_until 60 test -s told
	test_is "$(json told "[d[\"event\"], d[\"project\"], d[\"schedule\"], d[\"state\"]]")" "[\"failure\", \"work\", \"by-command\", \"failed\"]"
	test_grep "^CAIRN_EVENT=failure" told.env
	test_grep "^CAIRN_RUN=told-" told.env
	test_no_grep "TOKEN|SECRET" told.env
'

test_expect 'the first success after it is a recovery; the next one a success' '
	touch "$HOME/good"
	rm told told.env
	fire by-command succeeded
	wait_until 60 test -s told.env
	test_grep "^CAIRN_EVENT=recovery" told.env
	rm told told.env
	fire by-command succeeded
	wait_until 60 test -s told.env
	test_grep "^CAIRN_EVENT=success" told.env
	rm "$HOME/good"
'

test_expect 'what commands print goes to one log, which begins anew when it has more than 1 MiB' '
	for over in -1 0 1; do
		rm -f told told.env
		truncate -s $((1048576 + over)) .cairn/serve/notify.log
		fire by-command failed
		wait_until 60 test -s told.env
		test_is "$(stat -c %s .cairn/serve/notify.log)" $((over > 0 ? 0 : 1048576 + over))
	done
'

test_expect 'a webhook is signed, and tried again when the receiver was busy' '
	fire by-hook failed
	wait_until 60 hooks_are /hook "[h[\"status\"] for h in hooks]" "[503, 204]"
	hooks_are /hook "len({h[\"headers\"][\"Cairn-Delivery\"] for h in hooks})" 1
	hooks_are /hook "json.loads(hooks[0][\"body\"])[\"event\"]" "\"failure\""
	python3 -c "
import hashlib, hmac, json
for h in map(json.loads, open(\"webhook.log\")):
    parts = dict(p.split(\"=\") for p in h[\"headers\"][\"Cairn-Signature\"].split(\",\"))
    want = hmac.new(b\"hook-secret\", (parts[\"t\"] + \".\" + h[\"body\"]).encode(), hashlib.sha256).hexdigest()
    assert want == parts[\"v1\"], h
"
	test_no_grep hook-secret srv.out
'

test_expect 'a metric that is worse than that of the last run' '
	touch "$HOME/good"
	fire by-metric succeeded
	echo "{\"acc\": 0.95}" >"$HOME/acc"
	fire by-metric succeeded
	echo "{\"acc\": 0.7}" >"$HOME/acc"
	fire by-metric succeeded
	wait_until 60 hooks_are /metric "[h[\"status\"] for h in hooks]" "[503, 204]"
	hooks_are /metric "json.loads(hooks[-1][\"body\"])[\"metrics\"]" "[{\"bound\": 0.95, \"rule\": \"acc < last\", \"value\": 0.7}]"
	rm "$HOME/good"
'

test_expect 'receivers that refuse: said, counted, and nothing else stops' '
	fire badly failed
	counted() { test "$(metric srv "cairn_notifications_total{by=\"$1\",end=\"failed\"}")" = "$2"; }
	wait_until 60 counted webhook 2
	wait_until 60 counted command 1
	hooks_are /redirect "[h[\"status\"] for h in hooks]" "[302]"
	hooks_are /refuse "[h[\"status\"] for h in hooks]" "[400]"
	test_grep "notify-failed .*answered 302, and redirects" srv.out
	test_grep "notify-failed .*answered 400" srv.out
	test_grep "notify-failed .*command ended with 3" srv.out
	get srv /readyz
	status_is 200
'

if [ -n "${serve_why:-}" ]; then
	test_skip 'a mail' "no python packages: $serve_why"
else
	test_expect 'a mail, with login' '
		fire by-mail failed
		wait_until 60 grep -q sender smtp.log
		test_is "$(head -n 1 smtp.log)" "{\"login\": true}"
		tail -n 1 smtp.log >mail
		test_is "$(json mail "[d[\"sender\"], d[\"to\"]]")" "[\"cairn@example.org\", [\"a@example.org\", \"b@example.org\"]]"
		json mail "d[\"text\"]" >text
		test_grep "^Subject: \[cairn\] failure: by-mail of work" text
		test_grep "^To: <a@example.org>," text
		test_grep "^run: told-" text
		test_no_grep mail-password srv.out
	'
fi

test_expect 'a mail over TLS, whose authority SSL_CERT_FILE names' '
	fire by-smtps failed
	wait_until 60 grep -q "Subject: .*by-smtps of work" smtps.log
	test_no_grep problem smtps.log
'

test_expect 'a mail server that is not there is tried again, and blocks nothing' '
	fire to-nobody failed
	wait_until 60 grep -q "notify-again .*by=email" srv.out
	fire by-command failed
	test_is "$(stop srv TERM)" 0
	test_no_grep Sanitizer srv.out
'
test_done
