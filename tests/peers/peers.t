#!/bin/bash
# Pipelines of peers in Cairn's words, run for real. README.md names the originals.
. "$(dirname "$0")/../lib.sh"

echo '# project' >cairn.yaml
cp "$SRC"/tests/peers/*.yaml .

# states RUN: how each task ended.
states() { cairn status --json "$1" | json /dev/stdin '{t["task"]: t["state"] for t in d["tasks"] + d["not_executed"]}'; }
state() { cairn status --json last | json /dev/stdin "{t['task']: t['state'] for t in d['tasks'] + d['not_executed']}['$1']"; }

test_expect 'all of them are valid' '
	for f in *.yaml; do
		[ "$f" = cairn.yaml ] || cairn check -q "$f"
	done
'

test_expect 'exit-handlers: after a success, celebrate and no crying' '
	cairn run -q exit-handlers.yaml
	test_is "$(state celebrate)" succeeded
	test_is "$(state cry)" skipped
	cairn get -q send-email/mail -o mail
	test_grep "workflow succeeded: failed .., publish succeeded" mail
	test_grep data mail
'

test_expect 'exit-handlers: after a failure, the mail names it, and the failure stays' '
	test_code 1 cairn run -q exit-handlers.yaml -p outcome=badly
	test_is "$(state celebrate)" skipped
	test_is "$(state cry)" succeeded
	test_is "$(state publish)" blocked
	cairn get -q send-email/mail -o mail2
	test_grep "workflow failed: failed .work., publish blocked" mail2
'

test_expect 'enhanced-depends: alternatives, and a failure that another step asks about' '
	cairn run -q enhanced-depends.yaml
	for t in should-execute-1 should-execute-2 should-execute-3 after-b-failed; do
		test_is "$t $(state $t)" "$t succeeded"
	done
	test_is "$(state should-not-execute)" skipped
	test_is "$(state b)" failed
	cairn status >out
	test_grep "failed, but .continue_on_error.: b" out
'

test_expect 'coinflip: one branch runs, what reads the other is skipped' '
	cairn run -q coinflip.yaml
	test_is "$(state heads) $(state tails) $(state read-tails) $(state either) $(state neither)" "succeeded skipped skipped succeeded skipped"
	cairn logs read-heads >out
	test_grep "it was heads" out
	cairn run -q coinflip.yaml -p coin=tails
	test_is "$(state heads) $(state tails) $(state read-heads) $(state either) $(state neither)" "skipped succeeded skipped hit skipped"
	cairn logs read-tails >out
	test_grep "it was tails" out
'

test_expect 'coinflip-recursive: flips until it is heads, each flip on record; and gives up where Argo would not' '
	cairn run -q coinflip-recursive.yaml
	test_is "$(state "flip[round=1]") $(state "flip[round=2]") $(state "flip[round=3]") $(state heads)" "succeeded succeeded succeeded succeeded"
	cairn logs "flip[round=2]" >out
	test_is "$(cat out)" tails
	cairn get -q heads/side -o side
	test_grep "it was heads at last" side
	sed "s/max: 20/max: 2/" coinflip-recursive.yaml >twice.yaml
	test_code 1 cairn run -q twice.yaml
	test_is "$(state "flip[round=2]") $(state heads)" "failed blocked"
'

test_expect 'retry-backoff: the third attempt succeeds' '
	cairn run -q retry-backoff.yaml -p "tries=$PWD/tries"
	test_is "$(wc -l <tries)" 3
	test_is "$(cairn status --json last | json /dev/stdin "[t[\"state\"] for t in d[\"tasks\"]]")" "[\"failed\", \"failed\", \"succeeded\"]"
'

test_expect 'matrix-failures: siblings go on, tolerated failures leave a gap, and the others fail the run' '
	test_code 1 cairn run -q matrix-failures.yaml
	test_is "$(state "test[os=linux]") $(state "test[os=macos]") $(state "test[os=windows]")" "failed succeeded succeeded"
	test_is "$(state "lint[tool=strict]") $(state reports) $(state release)" "failed succeeded blocked"
	cairn logs reports >out
	test_is "$(cat out)" "tool=lax.txt"
	cairn logs alarm >out
	test_grep "^failed test.os=linux.$" out
'

test_done
