#!/bin/bash
# What cairn serve sends out: webhooks, mails, metrics, answers of the API. However a project is called and whatever its
# steps print, each is well-formed, and no secret is in it.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
serve_python || serve_why=$(tail -n 1 "$serve_cache/serve.log")
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'
[ -z "${serve_why:-}" ] || test_skip_all "no python packages: $serve_why"

# A name that means something in JSON, in mail headers, in OpenMetrics, to a terminal; and is no UTF-8.
project=$PWD/$'p"\n<b>%0d\\ {x}\e]0;t\a\xff\xe2\x80\xae'
mkdir "$project"
cd "$project" || test_bail 'no such name here'
echo '# project' >cairn.yaml
export TOKEN='Leak"me/0123+4567 é\x'
printf %s "$TOKEN" | cairn secret set TOKEN
printf hook-secret-0123 | cairn secret set HOOK_KEY
printf mail-password | cairn secret set MAIL_PASSWORD
receiver() { # KIND [PORT]
	start "$1" "$SERVE_PYTHON" "$SRC/tests/serve/notify/receivers.py" "$1" "$TRASH/work/$1.log" "${@:2}"
	wait_until 30 test -s "$TRASH/work/$1.out"
}
receiver webhook
HOOK=http://127.0.0.1:$(cat "$TRASH/work/webhook.out")
MAIL_PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
receiver smtp "$MAIL_PORT"
cat >pipeline.yaml <<YAML
pipeline: outward
steps:
  leak:
    uses: train
    secrets: [TOKEN]
    cache: false
    matrix: {exit: [0, 3]}
    run: |
      echo "loss=0.5 step=1"
      printf 'loss=0.25 a\$x=1 step=2 %s=3\n' "\$TOKEN"
      python3 - <<'P'
      import base64, json, os, sys, urllib.parse
      v = os.environ["TOKEN"]
      print(v, json.dumps({v: 1, "step": 3, "loss": 2}), urllib.parse.quote(v), base64.b64encode(v.encode()).decode())
      print(json.dumps({v: 1, "step": 4, "loss": 2}))
      print("fatal:", v, file=sys.stderr)
      P
      exit \${{ matrix.exit }}
schedules:
  tell:
    cron: "0 0 1 1 *"
    notify:
      - {webhook: {url: "$HOOK/late", secret: HOOK_KEY}, when: failure}
      - {email: {to: a@example.org, smtp: "smtp://me@127.0.0.1:$MAIL_PORT", from: c@example.org, secret: MAIL_PASSWORD}, when: failure}
YAML
cd "$TRASH/work" || exit 1
P() { cd "$project" || exit; }
export ANSWERS=$PWD/answers

# clean FILE...: no form of a secret in any of them, nor in what lies below; .cairn/secrets is where they belong.
clean() {
	python3 - "$@" <<-'E'
		import base64, json, os, sys, urllib.parse
		words = set()
		for v in (os.environ["TOKEN"], "hook-secret-0123", "mail-password"):
		    b = v.encode()
		    words |= {b, json.dumps(v)[1:-1].encode(), json.dumps(v, ensure_ascii=False)[1:-1].encode()}
		    words |= {urllib.parse.quote(v).encode(), urllib.parse.quote(v, safe="").encode(), base64.b64encode(b).rstrip(b"=")}
		bad, seen = [], 0
		for top in map(os.fsencode, sys.argv[1:]):
		    files = [top] if os.path.isfile(top) else [os.path.join(d, f) for d, _, fs in os.walk(top) for f in fs]
		    for f in files:
		        if b"/.cairn/secrets/" in f:
		            continue
		        with open(f, "rb") as h:
		            data = h.read()
		        seen += 1
		        bad += [f"{f}: {w}" for w in words if w in data]
		print(f"{seen} files looked at")
		sys.exit("\n".join(bad) if bad or not seen else 0)
	E
}

test_expect 'the search finds what it is for' '
	mkdir planted
	printf "x%sy" "$TOKEN" >planted/a
	test_must_fail clean planted
	printf %s "$TOKEN" | base64 >planted/a
	test_must_fail clean planted
	echo nothing >planted/a
	clean planted
'
test_expect 'a run that prints its secret fails, and people are told' '
	P
	serve srv
	post srv /api/v1/schedules/tell/trigger
	status_is 202
	wait_until 60 grep -q /late "$TRASH/work/webhook.log"
	wait_until 60 grep -q sender "$TRASH/work/smtp.log"
'
test_expect 'the webhook is JSON, and names the project as it is' '
	python3 - "$project" <<-"E"
	import json, os, sys
	hook = [h for h in map(json.loads, open("webhook.log")) if h["path"] == "/late"][0]
	body = json.loads(hook["body"])
	assert body["event"] == "failure" and body["schedule"] == "tell", body
	name = os.fsencode(os.path.basename(sys.argv[1]))
	said = body["project"].replace("\\\\", "\0")
	import re
	back = re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes.fromhex(m[1].decode()), said.encode()).replace(b"\0", b"\\")
	assert back == name, (back, name)
	assert not any(ord(c) < 32 or ord(c) > 126 for v in hook["headers"].values() for c in v), hook["headers"]
	E
'
test_expect 'the mail has the headers that it is meant to have, and no more' '
	python3 - <<-"E"
	import email, email.policy, json
	mail = [m for m in map(json.loads, open("smtp.log")) if "sender" in m][0]
	assert mail["to"] == ["a@example.org"], mail
	m = email.message_from_string(mail["text"], policy=email.policy.default)
	want = "Date From To Subject Message-ID MIME-Version Content-Type Content-Transfer-Encoding Auto-Submitted".split()
	assert [k for k in m.keys() if not k.startswith(("X-", "Received"))] == want, m.keys()
	assert not m.defects and m["Subject"].startswith("[cairn] failure: tell of p\""), m["Subject"]
	assert all(c == "\n" or (c.isprintable() and c != "\u202e") for c in m.get_content().replace("\r", "")), m.get_content()
	assert max(map(len, mail["text"].encode().splitlines())) <= 998
	E
'
test_expect 'the metrics are OpenMetrics' '
	P
	counted() {
		get srv /metrics
		grep -q "^cairn_runs{.*failed" body
	}
	wait_until 30 counted
	"$SERVE_PYTHON" - body <<-"E"
	import sys
	from prometheus_client.openmetrics.parser import text_string_to_metric_families
	families = text_string_to_metric_families(open(sys.argv[1], encoding="utf-8").read())
	names = {s.labels["project"] for f in families for s in f.samples if "project" in s.labels}
	assert names == {"p\"\\n<b>%0d\\\\ {x}\\e]0;t\\x07\\xff\\u202e"}, names
	E
'
test_expect 'no secret in a webhook, a mail, an answer of the API, a log, the state, or what TensorBoard reads' '
	P
	get srv /api/v1/openapi.json
	status_is 200
	python3 - body >"$TRASH/work/paths" <<-"E"
	import json, sys
	for path, item in json.load(open(sys.argv[1]))["paths"].items():
	    if "get" in item and "stream" not in path and "events" not in path:
	        print(path)
	E
	get srv "/api/v1/runs?limit=5"
	run=$(json body "d[\"runs\"][0][\"id\"]")
	mkdir "$ANSWERS"
	n=0
	while read -r path; do
		path=${path//\{run\}/$run}
		path=${path//\{task\}/leak[exit=0]}
		path=${path//\{schedule\}/tell}
		case $path in *"{"*) continue ;; esac
		case $path in /api/*) ;; *) path=/api/v1$path ;; esac
		get srv "$path" -H "Authorization: Bearer $SERVE_TOKEN"
		n=$((n + 1))
		cp body "$ANSWERS/$n"
		echo "$path $(cat status)"
	done <"$TRASH/work/paths"
	grep -l "loss" "$ANSWERS"/* # numbers of the run are among them
	cairn metrics --tensorboard "$TRASH/work/board" last
	cairn metrics -a --json >"$ANSWERS/metrics"
	cairn logs "leak[exit=3]" >"$ANSWERS/log"
	test_grep "fatal: [*][*][*]" "$ANSWERS/log"
	cd "$TRASH/work"
	clean answers webhook.log smtp.log srv.out board "$project/.cairn"
	test_is "$(stop srv TERM)" 0
'
test_done
