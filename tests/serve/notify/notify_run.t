#!/bin/bash
# `notify` of ordinary runs: what is told when, also without a server; what can't be delivered is seen, and changes no run.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: told
params: {good: true, acc: 0.9, ask: false}
notify:
  - {command: "cat >>\"$HOME/told\"; echo >>\"$HOME/told\"; test -z \"$CAIRN_SECRET_X\""}
  - {command: "cat >>\"$HOME/metric\"", when: {metric: "acc < last"}}
steps:
  s: {run: "echo '{\"acc\": ${{ params.acc }}}' >m.json; test ${{ params.good }} = true", metrics: m.json, cache: false}
  ok: {needs: [s], if: "${{ params.ask }}", approve: {message: "go on?"}, timeout: 60s}
YAML
events() { sed 's/.*"event":"\([a-z]*\)".*/\1/' "$HOME/told" | tr '\n' ' '; }

test_expect 'a failure and the recovery from it are told, a success and what was told already are not' '
	cairn run -q
	test ! -e "$HOME/told"
	test_code 1 cairn run -q -p good=false 2>err
	cairn run -q -p acc=0.8
	cairn run -q
	test_is "$(events)" "failure recovery "
	test_grep "\"message\":\"told: s: exit status 1\"" "$HOME/told"
	test_grep "\"rule\":\"acc < last\",\"value\":0.8" "$HOME/metric"
	cairn schedule notices >out 2>&1
	test_grep "every notice has arrived" out
'
test_expect 'who waits for a person tells so while it waits' '
	start asks cairn run -p ask=true
	wait_until 30 grep -q approval "$HOME/told"
	test_grep "\"message\":\"waiting for approval: ok \(cairn approve told-[a-z0-9]+ ok\): go on\?\"" "$HOME/told"
	cairn approve last ok
	wait_until 30 test -s asks.rc
	test_is "$(cat asks.rc)" 0
	test_is "$(events)" "failure recovery approval "
'
test_expect 'trials, reproductions and interrupted runs tell nobody' '
	rm "$HOME/told"
	cairn reproduce last >out 2>&1
	write slow.yaml <<-Y
	pipeline: slow
	notify: {command: "cat >>\"$HOME/told\""}
	steps: {s: {run: "touch $PWD/begun; sleep 100"}}
	Y
	start slow cairn run slow.yaml
	wait_until 30 test -e begun
	kill -INT "$(cat slow.pid)"
	wait_until 30 test -s slow.rc
	test ! -e "$HOME/told"
'
test_expect 'what cannot be delivered is seen, changes no run, and is sent by a later one' '
	write bad.yaml <<-Y
	pipeline: bad
	params: {url: ""}
	notify: [{command: "exit 3", when: success}, {command: "test -e $PWD/up || exit 75; cat >>$PWD/late", when: success}]
	steps: {s: {run: "true"}}
	Y
	cairn run bad.yaml 2>err
	test_grep "notify-failed .*the command ended with 3" err
	test_grep "1 notice couldn.t be sent yet: the next run" err
	cairn schedule notices --json >out
	test_is "$(json out "sorted(n[\"state\"] for n in d[\"notices\"])")" "[\"given-up\", \"waiting\"]"
	id=$(json out "[n[\"delivery\"] for n in d[\"notices\"] if n[\"state\"] == \"waiting\"][0]")
	touch up
	cairn run bad.yaml 2>err
	late() { test_grep "\"delivery\":\"$id\"" late; }
	again() { late || { cairn run bad.yaml 2>err; late; }; }
	wait_until 60 again
'
test_done
