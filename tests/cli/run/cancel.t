#!/bin/bash
# cairn cancel: stops the engine that runs, and nothing else.
. "$(dirname "$0")/../../lib.sh"

touch cairn.yaml
write pipeline.yaml <<'Y'
pipeline: slow
steps:
  a:
    run: touch "$MARK"; sleep 1000
    env: {MARK: "MARKPATH"}
Y
sed -i "s|MARKPATH|$PWD/started|" pipeline.yaml

row() { # SQL
	python3 -c 'import sqlite3,sys; c=sqlite3.connect(".cairn/cairn.db"); c.execute(sys.argv[1]); c.commit()' "$1"
}

test_expect 'a running run is asked to stop, and says that it was cancelled' '
	cairn -q run >out 2>err &
	engine=$!
	wait_until 10 test -e started
	cairn cancel >said
	grep -q "asked to stop" said
	test_code 130 wait $engine
	cairn status >out
	grep -q "cancelled" out
'
test_expect 'a terminal that closes is a wish to stop: running tasks get their grace time' '
	write hup.yaml <<-Y
	pipeline: hup
	steps:
	  a: {run: "trap \"echo in peace >$PWD/peace; exit 0\" TERM; touch $PWD/hup-started; while :; do sleep 0.05; done"}
	Y
	start hup env --default-signal=HUP cairn run hup.yaml # whoever runs the tests may ignore it (nohup)
	wait_until 20 test -e hup-started
	kill -HUP "$(cat hup.pid)"
	kill -HUP "$(cat hup.pid)" # it comes by several ways, and still means it once
	wait_until 20 test -s hup.rc
	test_is "$(cat hup.rc)" 130
	test_is "$(cat peace)" "in peace"
	test_is "$(cairn status --json last:hup | json /dev/stdin "d[\"run\"][\"state\"]")" interrupted
'
test_expect 'what is over is not cancelled' '
	test_must_fail cairn cancel last >out 2>err
	grep -q "not running" err
'
test_expect 'a row of another host with pid 0 signals nobody: not the group of who asks' '
	row "update run set state=0, host=\"elsewhere.invalid\", pid=0, pid_start=0"
	setsid bash -c "cairn cancel last >said 2>err; echo \$? >alive" || :
	test_is "$(cat alive)" 3
	test_lines 1 err
	test_grep "started on elsewhere.invalid; cancel it there" err
	test_lines 0 said
'
test_done
