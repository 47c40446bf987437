#!/bin/bash
# A step that waits for a person: the answer by `cairn approve` and by the API, once, by who may, also while no engine lives.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: release
steps:
  evaluate:
    run: "echo '{\"accuracy\": 0.93}' >m.json; echo model >o"
    outputs: {o: o}
    metrics: m.json
  ok:
    needs: [evaluate]
    approve: {message: "accuracy ${{ steps.evaluate.metrics.accuracy }}: release?", by: [ada, api]}
  deploy: {needs: [ok], run: "echo deployed >o", outputs: {o: o}}
finally:
  tell: {run: "echo \"failed: ${{ join(failed.tasks, ' ') }}\""}
YAML
export USER=ada

asks() { cairn status --json >status.json 2>/dev/null && test_grep 'waiting for approval: ok' status.json 2>/dev/null; }
begin() { # NAME COMMAND...
	rm -f "$1".{pid,rc,sid,out} status.json
	start "$@"
	wait_until 30 asks
}
ended() { wait_until 30 test -s "$1.rc"; } # NAME

test_expect 'plan, check and graph show who is waited for' '
	cairn plan >out
	test_grep "^waiting +ok" out
	cairn graph >out
	test_grep "ok: approval" out
	cairn graph --json >out
	test_is "$(json out "[n[\"name\"] for n in d[\"nodes\"] if n[\"approval\"]]")" "[\"ok\"]"
'

test_expect 'a run asks, and says what to type' '
	begin one cairn run
	id=$(json status.json "d[\"run\"][\"id\"]")
	test_grep "waiting for approval: ok \(cairn approve $id ok\): accuracy 0.93: release\?" one.out
	cairn status >out
	test_grep "^  waiting for approval: ok \(cairn approve $id ok\)" out
	cairn runs >out
	test_grep "waiting for approval: ok \(cairn approve $id ok\)" out
	cairn logs ok >out
	test_grep "waiting for approval" out
	test_is "$(json status.json "[(a[\"task\"], a[\"step\"], a[\"approval\"][\"message\"], a[\"approval\"][\"by\"]) for a in d[\"run\"][\"approvals\"]]")" \
		"[[\"ok\", \"ok\", \"accuracy 0.93: release?\", [\"ada\", \"api\"]]]"
'

test_expect 'only who may can answer, what waits only, and each run by its name' '
	test_code 3 env USER=mallory cairn approve last ok 2>err
	test_grep "mallory@.* may not answer for ok: that may ada, api" err
	test_code 4 cairn approve nobody-22222 ok 2>err
	test_code 4 cairn approve last evaluate 2>err
	test_grep "doesn.t wait for approval; what does: ok" err
	test_code 2 cairn approve last 2>err
	test_no_grep deploy one.out
'

test_expect 'an answer lets the run go on, and stays on record' '
	cairn approve last ok -m "looks good" >out
	test_grep "^ok of release-.*: approved by ada@.*: looks good" out
	ended one
	test_is "$(cat one.rc)" 0
	test_code 4 cairn approve last ok --refuse 2>err
	test_grep "has its answer: approved by ada@.*: looks good" err
	cairn status -v >out
	test_grep "succeeded +ok +.*approved by ada@.*: looks good" out
	cairn status --json >out
	test_is "$(json out "d[\"run\"][\"approvals\"]")" "[]"
	test_is "$(json out "[(t[\"approval\"][\"answer\"], t[\"approval\"][\"way\"], t[\"approval\"][\"said\"]) for t in d[\"tasks\"] if t[\"task\"] == \"ok\"]")" "[[\"approved\", \"cli\", \"looks good\"]]"
	cairn logs ok >out
	test_grep "^accuracy 0.93: release\?" out
	test_grep "approved by ada@.*: looks good \(cli\)" out
'

test_expect 'a reproduction asks nobody: it takes the recorded answer' '
	cairn reproduce last >out 2>err
	test_grep "^ok +reproduced" out
	test_no_grep "waiting for approval" err
	cairn status -v >out
	test_grep "ok .*approved by ada@.*: looks good" out
'

test_expect 'the next run asks again; kill -9 of its engine loses neither the question nor an answer that comes meanwhile' '
	begin two cairn run
	first=$(json status.json "d[\"run\"][\"id\"]")
	kill -9 "$(cat two.pid)"
	ended two
	cairn status "$first" >out
	test_grep died out
	test_grep "waiting for approval: ok" out
	begin three cairn resume "$first"
	kill -9 "$(cat three.pid)"
	ended three
	cairn approve "$first" ok -m meanwhile >out
	test_grep "cairn resume $first goes on" out
	cairn resume "$first" 2>err
	cairn status -v "$first" >out
	test_grep "succeeded +ok +.*approved by ada@.*: meanwhile" out
	test_is "$(cairn status --json "$first" | json /dev/stdin "len([t for t in d[\"tasks\"] if t[\"task\"] == \"ok\"])")" 1
'

test_expect 'the database that is made again from the manifests has the answers' '
	mv .cairn/cairn.db old.db
	cairn store reindex >out 2>&1
	cairn status --json last >out
	test_is "$(json out "[t[\"approval\"][\"said\"] for t in d[\"tasks\"] if t[\"task\"] == \"ok\"]")" "[\"meanwhile\"]"
'

test_expect 'a refusal fails the step, blocks what needs it, and comes by the API as well' '
	serve srv
	begin four cairn run
	get srv /api/v1/runs/last
	test_grep "waiting for approval: ok" body
	get srv /api/v1/runs/last/approve -X POST -H "Content-Type: application/json" --data "{\"task\": \"ok\", \"approve\": true}"
	status_is 401
	post srv /api/v1/runs/last/approve "{\"task\": \"ok\"}"
	status_is 400
	post srv /api/v1/runs/last/approve "{\"task\": \"ok\", \"approve\": true, \"who\": \"ada\"}"
	status_is 400
	post srv /api/v1/runs/nobody-22222/approve "{\"task\": \"ok\", \"approve\": true}"
	status_is 404
	post srv /api/v1/runs/last/approve "{\"task\": \"deploy\", \"approve\": true}"
	status_is 404
	post srv /api/v1/runs/last/approve "{\"task\": \"ok\", \"approve\": false, \"message\": \"not on a Friday\"}"
	status_is 200
	test_is "$(json body "[d[\"approval\"][\"answer\"], d[\"approval\"][\"who\"], d[\"approval\"][\"way\"]]")" "[\"refused\", \"api\", \"api\"]"
	ended four
	test_is "$(cat four.rc)" 1
	test_grep "ok failed after .*: refused by api: not on a Friday" four.out
	post srv /api/v1/runs/last/approve "{\"task\": \"ok\", \"approve\": true}"
	status_is 409
	cairn status -v >out
	test_grep "^  ok: refused by api: not on a Friday" out
	test_grep "blocked +deploy" out
	cairn logs tell >out
	test_is "$(cat out)" "failed: ok"
'

test_expect 'who resumes a run that was refused is asked again; --server answers from elsewhere; interrupting stops the waiting' '
	refused=$(cairn status --json | json /dev/stdin "d[\"run\"][\"id\"]")
	begin five cairn resume "$refused"
	kill -INT "$(cat five.pid)"
	ended five
	test_code 4 cairn approve "$refused" ok 2>err
	test_grep "doesn.t wait for approval any more: the run is interrupted" err
	begin six cairn resume "$refused"
	CAIRN_SERVE_TOKEN=$SERVE_TOKEN cairn approve "$refused" ok --server "$(serve_url srv)" >out
	test_grep "ok of $refused: approved" out
	ended six
	test_is "$(cat six.rc)" 0
	kill -TERM "$(cat srv.pid)"
	ended srv
'

write limit.yaml <<'YAML'
pipeline: limit
steps:
  sub: {uses: ./inner.yaml}
  many: {matrix: {r: [eu, us]}, approve: {message: "${{ matrix.r }}?", by: ada}, needs: [sub]}
YAML
write inner.yaml <<'YAML'
pipeline: inner
steps:
  strict: {approve: true, timeout: 100ms, continue_on_error: true}
  lax: {approve: {default: approve}, timeout: 100ms}
  ok: {approve: true}
YAML

test_expect 'time limits decide, tasks of a fan-out are answered one by one, and steps of a used pipeline by their names' '
	asks() { cairn status --json >status.json 2>/dev/null && test_grep "waiting for approval: sub/ok" status.json 2>/dev/null; }
	begin seven cairn run -j 1 limit.yaml
	cairn approve last sub/ok
	many() { cairn status --json >status.json && test_grep "approval: many" status.json; }
	wait_until 30 many 2>/dev/null
	test_code 4 cairn approve last many 2>err
	test_grep "several tasks of .many. wait for approval: name one \(many\[r=eu\], many\[r=us\]\)" err
	cairn approve last "many[r=eu]"
	cairn approve last many
	ended seven
	test_is "$(cat seven.rc)" 0
	cairn status -v >out
	test_grep "timeout +sub/strict .*refused: nobody answered within its time limit" out
	test_grep "succeeded +sub/lax .*approved: nobody answered within its time limit" out
'
test_done
