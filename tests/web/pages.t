#!/bin/bash
# Every page of the web interface and what can be done there, in a real browser, on real runs; axe on each; the keyboard alone.
# shellcheck source=web.sh
. "$(dirname "$0")/web.sh"
web_needs
web_project
web_serve
web_browser
RUNS=$PWD/runs.json
# Pictures of the pages stay: beside the program, or where the caller says.
WEB_SHOTS=${WEB_SHOTS:-$(dirname "$(command -v "$CAIRN")")/web-shots}
mkdir -p "$WEB_SHOTS/looks" 2>/dev/null || WEB_SHOTS=$TRASH/shots
mkdir -p "$WEB_SHOTS/looks"
export RUNS WEB_SHOTS

the_run() { json last.json 'd["id"]'; }
test_expect 'runs of every kind' '
	# Beside the others: one waits for its retry, one is long.
	start failing sh -c "exec cairn run --json failing.yaml >failed.json"
	start slow cairn run slow.yaml
	cairn run --json shapes.yaml >last.json
	first=$(the_run)
	cairn run --json shapes.yaml -p lr=0.3 >last.json
	other=$(the_run)
	cairn run --json shapes.yaml >last.json
	again=$(the_run)
	cairn run --json outer.yaml >last.json
	outer=$(the_run)
	cairn run --json ranks.yaml >last.json
	ranks=$(the_run)
	cairn tag "$first" baseline
	# What fires by itself, at a quarter past, would be in the way of what counts runs.
	cairn schedule pause hourly -q
	wait_until 60 test -s failing.rc
	test_is "$(cat failing.rc)" 1
	failed=$(json failed.json "d[\"id\"]")
	wait_until 30 grep -q "slow-" slow.out
	slow=$(curl -s "$WEB_URL/api/v1/runs?pipeline=slow" | python3 -c "import json, sys; print(json.load(sys.stdin)[\"runs\"][0][\"id\"])")
	printf "{\"first\": \"%s\", \"other\": \"%s\", \"again\": \"%s\", \"failed\": \"%s\", \"outer\": \"%s\", \"ranks\": \"%s\", \"slow\": \"%s\"}\n" \
		"$first" "$other" "$again" "$failed" "$outer" "$ranks" "$slow" >"$RUNS"
'
test_expect 'the client is what the server describes' 'node "$SRC/web/tools/client.mjs" "$WEB_URL/api/v1/openapi.json" --check'
test_expect 'the list: search, filters and columns are in the address' 'web pages.mjs runs'
test_expect 'two runs are selected and compared' 'web pages.mjs select'
test_expect 'the graph folds, opens, and is a tree for the keyboard' 'web pages.mjs graph'
test_expect 'timeline, tasks, metrics, about' 'web pages.mjs views'
test_expect 'a task: reason, command, inputs, attempts, metrics' 'web pages.mjs task'
test_expect 'a failed run begins with its first failure' 'web pages.mjs failure'
test_expect 'the log: colours, search, first error, links to lines' 'web pages.mjs log'
test_expect 'the log of a running task is followed, and lets go of who scrolls' 'web pages.mjs follow'
test_expect 'the log of one rank, and what a regular expression finds in it' 'web pages.mjs ranks'
test_expect 'curves of a task that still runs grow by themselves' 'web pages.mjs curves'
test_expect 'what happens is shown as it happens, by one connection a browser; a question is answered' 'web pages.mjs live'
test_expect 'how long a run still takes, from past runs, counted down' 'mkdir -p "$PWD/go" && GO=$PWD/go web pages.mjs left'
test_expect 'a run of 10,000 tasks: folded, opened, live to its end, filtered, scrolled' 'mkdir -p "$PWD/go" && GO=$PWD/go web pages.mjs wide'
test_expect 'a viewer sees what he may not do, and why' 'web pages.mjs viewer'
test_expect 'artifacts of every kind, HTML in its sandbox' 'web pages.mjs artifacts'
test_expect 'lineage folds, opens, goes both ways' 'web pages.mjs lineage'
test_expect 'schedules: calendar, pause, resume' 'web pages.mjs schedules'
test_expect 'a run is cancelled' 'web pages.mjs actions'
test_expect 'a run from a form: checked, planned, run' 'web pages.mjs start'
test_expect 'a run is reproduced, with its verdict' 'web pages.mjs reproduce'
test_expect 'compared: curves, scatter, parallel coordinates, confusion matrices' 'web pages.mjs compare'
test_expect 'store and cluster: a run on record at a cluster, what waits and why' '
	python3 "$SRC/tests/web/recorded.py" .cairn/cairn.db
	web pages.mjs store
'
test_expect 'home: what needs attention, what runs, what comes' 'web pages.mjs home'
test_expect 'the audit log has what was done' 'web pages.mjs audit'
test_expect 'the calendar: what is planned, and runs behind what was' 'web pages.mjs calendar'
test_expect 'a backfill: its times are shown first, and each fires once' 'web pages.mjs backfill'
test_expect 'the calendar says what was missed, skipped and replaced, what waits, and what is tried again' '
	mkdir states
	cd states
	echo "# project" >cairn.yaml
	cp "$SRC"/tests/web/states/*.yaml .
	serve states
	test_is "$(stop states TERM)" 0
	# As if that server had last looked five hours ago.
	python3 -c "import sqlite3; d = sqlite3.connect(\".cairn/cairn.db\"); d.execute(\"UPDATE schedule SET seen_ns = seen_ns - 5 * 3600000000000 WHERE name = ?\", (\"misses\",)); d.commit()"
	serve_forget states
	serve states
	WEB_URL=$(serve_url states)
	fire() { curl -f -s -X POST -H "Authorization: Bearer $SERVE_TOKEN" "$WEB_URL/api/v1/schedules/$1/trigger"; }
	fire tries
	fire waits
	fire waits
	WEB_URL=$WEB_URL web pages.mjs states
	touch "$HOME/states-go"
	stop states TERM
'
test_expect 'a page that is left open holds no more after thousands of events' 'web pages.mjs left_open'
test_expect 'who is signed out elsewhere is asked to sign in' 'web pages.mjs session_ends'
test_expect 'the keyboard alone' 'web pages.mjs keyboard'
test_expect 'every page: axe finds nothing, light, dark and on a phone, where nothing is wider; by Tab alone through its accessibility tree' 'web pages.mjs places'
test_expect 'the menu of a phone' 'web pages.mjs phone'
test_expect 'sign in, sign out' 'web pages.mjs sign_in'
test_expect 'pages look as they did' 'web looks.mjs looks'
# Last: its runs would be the newest of every page.
test_expect 'all that match are selected, also those that the list has not read' '
	start bulk1 cairn run bulk.yaml -p n=1
	start bulk2 cairn run bulk.yaml -p n=2
	running() { curl -s "$WEB_URL/api/v1/runs?pipeline=bulk&state=running" | python3 -c "import json, sys; print(len(json.load(sys.stdin)[\"runs\"]))"; }
	both() { test "$(running)" = 2; }
	wait_until 60 both
	python3 "$SRC/tests/web/recorded.py" .cairn/cairn.db ended bulk 300
	web pages.mjs bulk
'
test_done
