#!/bin/bash
# Schedules as cairn serve runs them: once each, whatever is killed or doubled; broken edits; pauses.
# shellcheck source=serve.sh
. "$(dirname "$0")/serve.sh"
. "$(dirname "$0")/../lib.sh"
test_have curl || test_skip_all 'needs curl'

echo '# project' >cairn.yaml
good_pipeline() {
	cat >pipeline.yaml <<-'YAML'
		pipeline: timed
		steps:
		  s: {run: "echo one >>\"$HOME/ran\"; : >\"$HOME/begun\"; while [ ! -e \"$HOME/go\" ]; do sleep 0.02; done", outputs: {}, cache: false}
		schedules:
		  yearly: {cron: "0 0 1 1 *", timezone: Europe/Berlin}
	YAML
}
good_pipeline
write pipelines/often.yaml <<'YAML'
pipeline: often
steps:
  s: {run: "echo ${{ schedule.time }} >>\"$HOME/often\"", outputs: {}, cache: false}
schedules:
  tick: {cron: "@every 1s", overlap: allow, catch_up: all, catch_up_window: 1h}
YAML
firings() { # NAME SCHEDULE EXPR
	get "$1" "/api/v1/schedules/$2/history?limit=500"
	json body "$3"
}
firings_are() { [ "$(firings "$1" "$2" "$3")" = "$4" ]; }

test_expect 'schedules are listed, with what comes next' '
	serve srv
	get srv /api/v1/schedules
	test_is "$(json body "sorted((s[\"schedule\"], s[\"path\"], s[\"broken\"]) for s in d[\"schedules\"])")" "[[\"tick\", \"pipelines/often.yaml\", false], [\"yearly\", \"pipeline.yaml\", false]]"
	get srv "/api/v1/schedules/yearly/next?n=2"
	test_is "$(json body "[t[4:] for t in d[\"next\"]]")" "[\"-12-31T23:00:00.000Z\", \"-12-31T23:00:00.000Z\"]"
	get srv /api/v1/schedules/yearl/next
	status_is 404
	post srv /api/v1/schedules/none/trigger
	status_is 404
'

test_expect 'a pause is a pause for everybody, and its end leaves no backlog' '
	post srv /api/v1/schedules/tick/pause
	status_is 200
	cairn schedule list --json >list
	test_grep "paused" list
	get srv /api/v1/schedules
	test "$(json body "[s[\"paused\"] for s in d[\"schedules\"] if s[\"schedule\"] == \"tick\"][0]")" != null
'

test_expect 'kill -9 of the server in mid-run: it fires once' '
	post srv /api/v1/schedules/yearly/trigger
	status_is 202
	wait_until 60 test -e "$HOME/begun"
	stop srv KILL
	serve_forget srv
	serve srv
	touch "$HOME/go"
	wait_until 60 firings_are srv yearly "[(f[\"state\"], f[\"number\"], f[\"cause\"]) for f in d[\"firings\"]]" "[[\"succeeded\", 1, \"manual\"]]"
	test_lines 1 "$HOME/ran"
	test_is "$(cairn runs --pipeline timed --json | python3 -c "import json, sys; print(len(json.load(sys.stdin)[\"runs\"]))")" 1
'

test_expect 'kill -9 of the server and of the run: it is gone on with, not begun anew' '
	rm -f "$HOME/go" "$HOME/begun"
	post srv /api/v1/schedules/yearly/trigger
	wait_until 60 test -e "$HOME/begun"
	pid=$(sed -n "s/.* run-started .*launch=yearly.* pid=\([0-9]*\).*/\1/p" srv.out | tail -n 1)
	stop srv KILL
	kill -9 "$pid"
	serve_forget srv
	touch "$HOME/go"
	serve srv
	wait_until 60 firings_are srv yearly "[f[\"state\"] for f in d[\"firings\"]]" "[\"succeeded\", \"succeeded\"]"
	test_is "$(cairn runs --pipeline timed --json | python3 -c "import json, sys; print(len(json.load(sys.stdin)[\"runs\"]))")" 2
'

test_expect 'two servers on one project: each firing once' '
	serve other
	touch "$HOME/often"
	before=$(wc -l <"$HOME/often")
	post srv /api/v1/schedules/tick/resume
	enough() { [ "$(wc -l <"$HOME/often")" -ge $((before + 6)) ]; }
	wait_until 120 enough
	post other /api/v1/schedules/tick/pause
	calm() { test "$(metric srv cairn_processes_running)" = 0 && test "$(metric other cairn_processes_running)" = 0; }
	wait_until 60 calm
	wait_until 60 firings_are srv tick "[f[\"state\"] for f in d[\"firings\"] if f[\"state\"] in (\"waiting\", \"started\", \"retrying\")]" "[]"
	sort "$HOME/often" | uniq -d >twice
	test_lines 0 twice
	test_is "$(firings srv tick "len([f for f in d[\"firings\"] if f[\"state\"] == \"succeeded\"])")" "$(wc -l <"$HOME/often")"
	test_is "$(stop other TERM)" 0
'

test_expect 'a broken edit keeps the old schedule, and says so; the next good one counts' '
	echo "schedules: {yearly: {cron: nonsense}}" >>pipeline.yaml
	wait_until 60 grep -q " reload-broken .*path=pipeline.yaml" srv.out
	get srv /api/v1/schedules
	test_is "$(json body "[(s[\"cron\"], s[\"broken\"]) for s in d[\"schedules\"] if s[\"schedule\"] == \"yearly\"]")" "[[\"0 0 1 1 *\", true]]"
	good_pipeline
	sed -i "s/0 0 1 1/0 0 2 1/" pipeline.yaml
	wait_until 60 grep -q " reload-ok .*path=pipeline.yaml" srv.out
	get srv /api/v1/schedules
	test_is "$(json body "[(s[\"cron\"], s[\"broken\"]) for s in d[\"schedules\"] if s[\"schedule\"] == \"yearly\"]")" "[[\"0 0 2 1 *\", false]]"
	test "$(metric srv cairn_schedule_reloads_broken_total)" -ge 1
'

test_expect 'a pipeline that comes and one that goes are noticed' '
	sed "s/timed/late/; s/yearly/later/" pipeline.yaml >pipelines/late.yaml
	rm pipelines/often.yaml
	kill -HUP "$(cat srv.pid)"
	names() { get srv /api/v1/schedules && test "$(json body "sorted(s[\"schedule\"] for s in d[\"schedules\"])")" = "$1"; }
	wait_until 60 names "[\"later\", \"yearly\"]"
	rc=$(stop srv TERM)
	test "$rc" = 0 || tail -n 60 srv.out
	test_is "$rc" 0
'
test_done
