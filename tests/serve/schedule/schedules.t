#!/bin/bash
# Schedules as cairn serve runs them: once each, whatever is killed or doubled; broken edits; pauses.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'

echo '# project' >cairn.yaml
good_pipeline() {
	cat >pipeline.yaml <<-'YAML'
		pipeline: timed
		steps:
		  s: {run: "echo one >>\"$HOME/ran\"; : >\"$HOME/begun\"; while [ ! -e \"$HOME/go\" ]; do sleep 0.02; done", outputs: {}, cache: false}
		schedules:
		  yearly: {cron: "0 0 1 1 *", timezone: Europe/Berlin, notify: {command: "cat >>\"$HOME/notices\"", when: failure}}
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

test_expect 'a pause by the command line is seen at once: listed, and told live' '
	paused() { json body "[s[\"paused\"] is not None for s in d[\"schedules\"] if s[\"schedule\"] == \"yearly\"][0]"; }
	start live curl -sN "$(serve_url srv)/api/v1/events"
	wait_until 30 test -s live.out
	cairn schedule pause yearly
	get srv /api/v1/schedules
	test_is "$(paused)" true
	cairn schedule resume yearly
	get srv /api/v1/schedules
	test_is "$(paused)" false
	cairn schedule pause yearly
	wait_until 30 grep -q "\"paused\":\"[^}]*\"schedule\":\"yearly\"" live.out
	cairn schedule resume yearly
	stop live
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

test_expect 'the files of a run stay while it runs, however long it has said nothing' '
	rm -f "$HOME/go" "$HOME/begun"
	post srv /api/v1/schedules/yearly/trigger
	wait_until 60 test -e "$HOME/begun"
	name=$(sed -n "s/.* run-started .*launch=\(yearly[^ ]*\).*/\1/p" srv.out | tail -n 1)
	touch -d "2 hours ago" ".cairn/serve/$name.log" ".cairn/serve/$name.json"
	for i in $(seq 400); do : >".cairn/serve/other-$i.log"; done
	post srv /api/v1/schedules/tick/trigger
	forgotten() { test "$(find .cairn/serve -type f | wc -l)" -le 402; }
	wait_until 60 forgotten
	test_exists ".cairn/serve/$name.log" ".cairn/serve/$name.json"
	touch "$HOME/go"
	wait_until 60 firings_are srv yearly "[f[\"state\"] for f in d[\"firings\"]][0]" succeeded
	rm .cairn/serve/other-*
'

test_expect 'pages of a history lose nothing where pipelines fire at one time' '
	python3 -c "import sqlite3; d = sqlite3.connect(\".cairn/cairn.db\"); d.executemany(\"INSERT INTO firing (path, schedule, nominal_ns, cause, state, claimed_ns) VALUES (?, \x27paged\x27, 5, 0, 3, 5)\", [(\"a b&c.yaml\",), (\"d.yaml\",), (\"e.yaml\",)]); d.commit()"
	at=
	for want in "[\"a b&c.yaml\"]" "[\"d.yaml\"]" "[\"e.yaml\"]" "[]"; do
		get srv "/api/v1/schedules/paged/history?limit=1$at"
		test_is "$(json body "[f[\"path\"] for f in d[\"firings\"]]")" "$want"
		at="&cursor=$(json body "__import__(\"urllib.parse\").parse.quote(d[\"next\"] or \"\")")"
	done
	get srv "/api/v1/schedules/paged/history?limit=2&cursor=6"
	test_is "$(json body "len(d[\"firings\"])")" 2
	for bad in 0 -1 5/ x/y; do
		get srv "/api/v1/schedules/paged/history?cursor=$bad"
		status_is 400
	done
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
	wait_until 60 test -s "$HOME/notices"
	test_is "$(json "$HOME/notices" "[d[k] for k in (\"event\", \"pipeline\", \"path\", \"schedule\", \"run\")]")" "[\"failure\", \"timed\", \"pipeline.yaml\", \"yearly\", null]"
	test_grep "given twice" "$HOME/notices"
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
'

test_expect 'a directory that cannot be read takes no schedule away' '
	names() { get srv /api/v1/schedules && test "$(json body "sorted(s[\"schedule\"] for s in d[\"schedules\"])")" = "$1"; }
	mv pipelines real
	ln -s pipelines pipelines
	sed "s/timed/a/; s/yearly/a/" pipeline.yaml >a.yaml
	kill -HUP "$(cat srv.pid)"
	wait_until 60 names "[\"a\", \"later\", \"yearly\"]"
	sed "s/timed/b/; s/yearly/b/" pipeline.yaml >b.yaml
	kill -HUP "$(cat srv.pid)"
	wait_until 60 names "[\"a\", \"b\", \"later\", \"yearly\"]"
	test_is "$(grep -c pipelines-unread srv.out)" 1
	test_code 3 cairn schedule list 2>err
	test_grep "cannot read .*pipelines" err
	rm pipelines
	mv real pipelines
	rm a.yaml b.yaml
	kill -HUP "$(cat srv.pid)"
	wait_until 60 names "[\"later\", \"yearly\"]"
	rc=$(stop srv TERM)
	test "$rc" = 0 || tail -n 60 srv.out
	test_is "$rc" 0
'

if test_have git; then
	export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a.test GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a.test
	test_expect 'what a pipeline uses of a git commit is fetched beside the work of the server' '
		git init -q ../shared
		write ../shared/inner.yaml <<-Y
		pipeline: inner
		steps: {w: {run: "echo \$HOME >o", outputs: {o: o}}}
		Y
		git -C ../shared add -A
		git -C ../shared commit -qm one
		commit=$(git -C ../shared rev-parse HEAD)
		mv ../shared ../away
		for name in uses asks; do
			write $name.yaml <<-Y
			pipeline: $name
			steps: {sub: {uses: "git+file://$(realpath ..)/shared@$commit#inner.yaml"}}
			schedules:
			  $name: {cron: "0 0 1 1 *"}
			Y
		done
		mv asks.yaml asks
		rm -rf .cairn/uses
		serve_forget srv
		serve srv
		wait_until 60 grep -q " reload-broken .*path=uses.yaml.*can.t be fetched" srv.out
		mv ../away ../shared
		touch seen
		wait_until 60 grep -q " reload-ok\|path=uses.yaml.*loaded" srv.out
		post srv /api/v1/schedules/uses/trigger
		status_is 202
		wait_until 60 firings_are srv uses "[f[\"state\"] for f in d[\"firings\"]]" "[\"succeeded\"]"
		# A run that is asked for fetches what it needs itself.
		mv asks asks.yaml
		rm -rf .cairn/uses
		post srv /api/v1/runs "{\"pipeline\": \"asks.yaml\"}"
		status_is 202
		rc=$(stop srv TERM)
		test_is "$rc" 0
	'
fi
test_done
