#!/bin/bash
# Schedules with `on`: a run after a run, and signed deliveries to the server, each once, whatever is killed when.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'

echo '# project' >cairn.yaml
write prepare.yaml <<'YAML'
pipeline: prepare
params: {n: 1}
steps:
  s: {run: "test ${{ params.n }} -lt 5; echo ${{ params.n }} >o", outputs: {o: o}, cache: false}
YAML
write train.yaml <<'YAML'
pipeline: train
params: {source: {type: string, default: none}}
steps:
  s: {run: "echo ${{ params.source }} >o", outputs: {o: o}, cache: false}
schedules:
  after: {on: {pipeline: prepare.yaml}, params: {source: "${{ schedule.run }}"}}
YAML
write report.yaml <<'YAML'
pipeline: report
steps:
  s: {run: "echo r >o; while [ -e \"$HOME/hold\" ]; do sleep 0.02; done", outputs: {o: o}, cache: false}
schedules:
  chain: {on: {pipeline: ./train.yaml, state: any}}
  failed: {on: {pipeline: prepare.yaml, state: failed}}
  pushed: {on: {webhook: push, secret: HOOK_KEY}}
YAML
export HOOK_KEY=the-key-of-the-hook
printf %s "$HOOK_KEY" | cairn secret set HOOK_KEY

runs() { cairn runs -n 0 --pipeline "$1" --json >all; json all 'len(d["runs"])'; }
runs_are() { test "$(runs "$1")" = "$2"; }
last_cause() { cairn status "last:$1" --json >one; json one 'd["run"]["caused_by"]'; }
ended() { cairn status "last:$1" --json >one; test "$(json one 'd["run"]["state"]')" = succeeded; }
# send ID BODY-FILE [CURL OPTION...]: a delivery, signed now.
send() {
	local id=$1 body=$2 at signature
	shift 2
	at=${SENT_AT:-$(date +%s)}
	signature=$({ printf '%s.%s.' "$id" "$at"; cat "$body"; } | openssl dgst -sha256 -hmac "${SENT_KEY:-$HOOK_KEY}" -binary | base64)
	get srv "${SENT_TO:-/api/v1/hooks/push}" -X POST -H "webhook-id: $id" -H "webhook-timestamp: $at" \
		-H "webhook-signature: v1,$signature" --data-binary "@$body" "$@"
}
echo '{"after": "1f2e"}' >push.json

test_expect 'a secret that is not set is told by check, and by the server' '
	cairn check report.yaml 2>err
	test_no_grep "is not set" err
	sed "s/HOOK_KEY/NOT_SET/" report.yaml >other.yaml
	cairn check other.yaml 2>err
	test_grep "secret NOT_SET is not set" err
	rm other.yaml
'

test_expect 'a run after a run, whoever started it, and one after that; the cause is on record' '
	serve srv
	cairn run -q prepare.yaml
	prepared=$(cairn runs --pipeline prepare --json | python3 -c "import json, sys; print(json.load(sys.stdin)[\"runs\"][0][\"id\"])")
	wait_until 60 runs_are report 1
	test_is "$(last_cause train)" "{\"run\": \"$prepared\"}"
	test_is "$(json one "d[\"run\"][\"params\"][\"source\"]")" "$prepared"
	trained=$(json one "d[\"run\"][\"id\"]")
	test_is "$(last_cause report)" "{\"run\": \"$trained\"}"
	cairn status last:report >out
	test_grep "caused by run $trained" out
	cairn runs >out
	test_grep "caused by run $prepared" out
	test_code 1 cairn run -q prepare.yaml -p n=7 2>err
	failed=$(cairn runs --pipeline prepare --json | python3 -c "import json, sys; print(json.load(sys.stdin)[\"runs\"][0][\"id\"])")
	wait_until 60 runs_are report 2
	test_is "$(last_cause report)" "{\"run\": \"$failed\"}"
	test_is "$(runs train)" 1
	cairn schedule history after --json >out
	test_is "$(json out "[f[\"event\"] for f in d[\"firings\"]]")" "[\"run:$prepared\"]"
	get srv /api/v1/runs/last
	test_is "$(json body "d[\"caused_by\"][\"run\"]")" "$failed"
'

test_expect 'a delivery starts a run, and its repetition names the same one' '
	send one push.json
	status_is 202
	run=$(json body "d[\"run\"]")
	wait_until 60 ended report
	test_is "$(last_cause report)" "{\"delivery\": \"one\"}"
	test_is "$(json one "d[\"run\"][\"id\"]")" "$run"
	send one push.json
	status_is 202
	test_is "$(json body "d[\"run\"]")" "$run"
	test_is "$(runs report)" 3
'

test_expect 'what is not signed, is too old, too large or for nobody starts nothing' '
	SENT_KEY=wrong send two push.json
	status_is 401
	SENT_AT=$(($(date +%s) - 400)) send two push.json
	status_is 401
	SENT_TO=/api/v1/hooks/pusch send two push.json
	status_is 401
	SENT_TO="/api/v1/hooks/push?project=other" send two push.json
	status_is 401
	get srv /api/v1/hooks/push -X POST --data-binary @push.json
	status_is 401
	post srv /api/v1/hooks/push "{}"
	status_is 401
	get srv /api/v1/hooks/push
	status_is 405
	head -c 10485760 /dev/zero >large
	send two large -H Expect:
	status_is 413
	send "two of them" push.json
	status_is 401
	test_is "$(runs report)" 3
	get srv /healthz
	status_is 200
'

test_expect 'kill -9 after the answer, with one that runs and one that waits: each runs once' '
	touch "$HOME/hold"
	send three push.json
	status_is 202
	third=$(json body "d[\"run\"]")
	send four push.json
	status_is 202
	test_is "$(json body "[d[\"state\"], d[\"run\"]]")" "[\"waiting\", null]"
	stop srv KILL
	cairn run -q prepare.yaml
	rm "$HOME/hold"
	wait_until 60 ended report
	serve_forget srv
	serve srv
	wait_until 60 runs_are report 6
	wait_until 60 ended report
	send three push.json
	status_is 202
	test_is "$(json body "d[\"run\"]")" "$third"
	send four push.json
	test_is "$(json body "d[\"state\"]")" succeeded
	test_is "$(runs train)" 2
	test_is "$(runs report)" 6
	cairn schedule history chain --json >out
	test_is "$(json out "[f[\"state\"] for f in d[\"firings\"]]")" "[\"succeeded\", \"succeeded\"]"
'

test_expect 'a pause; and an edit that closes a circle keeps the old schedules' '
	cairn schedule pause pushed
	send five push.json
	status_is 503
	cairn schedule resume pushed
	cat >>prepare.yaml <<-YAML
		schedules:
		  again: {on: {pipeline: report.yaml}}
	YAML
	test_code 3 cairn check prepare.yaml 2>err
	test_grep "pipelines start each other in a circle, without an end: prepare.yaml starts" err
	cairn schedule history >out
	test_no_grep again out
	test_is "$(stop srv TERM)" 0
'

test_done
