#!/bin/bash
# cairn serve with a Lease: one of several servers acts, the others stand by; what it had is taken up by the next. The API server is tests/net/kubernetes/kubeapi.py.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/net/kubernetes/kube.sh"
test_have curl || test_skip_all 'needs curl'

kube_api api || test_bail 'the API server does not start'
kube_config api >kubeconfig
export KUBECONFIG=$PWD/kubeconfig CAIRN_TEST_KUBE_LEASE=3s

echo 'serve: {lease: engine}' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: wait
params: {n: 1}
steps:
  first: {run: "echo first >>\"$HOME/firsts\"; echo ${{ params.n }} >o", outputs: {o: o}}
  w: {run: "cat ${{ inputs.i }}; echo begun >>\"$HOME/begun\"; while [ ! -e \"$HOME/go\" ]; do sleep 0.02; done; echo done >o", inputs: {i: "${{ steps.first.outputs.o }}"}, outputs: {o: o}}
YAML

# standby NAME: one that isn't expected to serve.
standby() { start "$1" env CAIRN_SERVE_TOKEN="$SERVE_TOKEN" cairn serve --listen 127.0.0.1:0 --drain-timeout 20s && wait_until 60 grep -q " standing-by .*holder=." "$1.out"; }
serves() { wait_until 60 grep -q " serving " "$1.out"; }
begun() { [ "$(cat "$HOME/begun" 2>/dev/null | wc -l)" -ge "$1" ]; }
last_state() { cairn runs --json -n 1 >last.json && json last.json 'd["runs"][0]["state"]'; }
last_is() { [ "$(last_state)" = "$1" ]; }

test_expect 'the first one serves, the second stands by and says so' '
	serve one
	get one /readyz
	status_is 200
	test_is "$(json body "[c[\"ok\"] for c in d[\"checks\"] if c[\"name\"] == \"lease held\"][0]")" true
	standby two
	get two /healthz
	status_is 200
	get two /readyz
	status_is 503
	json body "[c[\"detail\"] for c in d[\"checks\"] if c[\"name\"] == \"lease held\"][0]" >detail
	test_grep "^standing by for [^ ]*_[0-9a-f]{16}$" detail
	for path in /api/v1/runs /metrics /api/v1/projects; do
		get two $path
		status_is 503
		test_grep "stands by: the lease is held by" body
	done
	post two /api/v1/runs "{}"
	status_is 503
'

test_expect 'the holder is killed: its run dies with it, and the next one goes on with it: nothing is done twice' '
	rm -f "$HOME/go"
	post one /api/v1/runs "{\"params\": {\"n\": 5}}"
	status_is 202
	wait_until 60 begun 1
	kill -9 "$(cat one.pid)"
	serves two
	wait_until 60 begun 2
	touch "$HOME/go"
	wait_until 60 last_is succeeded
	test_is "$(wc -l <"$HOME/firsts")" 1
	test_is "$(cairn runs --json | json /dev/stdin "len(d[\"runs\"])")" 1
'

test_expect 'one that is told to end gives the Lease back: the next needn'"'"'t wait' '
	serve_forget one
	standby one
	kill -TERM "$(cat two.pid)"
	wait_until 60 test -s two.rc
	test_is "$(cat two.rc)" 0
	serves one
'

test_expect 'an API server that is away: the holder stops its runs and ends; when it is back, one goes on' '
	rm -f "$HOME/go" "$HOME/begun"
	post one /api/v1/runs "{\"params\": {\"n\": 6}}"
	status_is 202
	wait_until 60 begun 1
	faults <<<"{\"match\": \"* *leases*\", \"do\": \"reset\", \"times\": 1000000}"
	wait_until 60 test -s one.rc
	test_is "$(cat one.rc)" 4
	test_grep " lease-lost .*in time" one.out
	test_grep "cairn: the Lease engine was lost: " one.out
	[[ $(last_state) =~ ^(died|interrupted)$ ]] # by whether the server still had the time to write it
	serve_forget one
	start one env CAIRN_SERVE_TOKEN="$SERVE_TOKEN" cairn serve --listen 127.0.0.1:0
	wait_until 60 grep -q " listening " one.out
	get one /readyz
	status_is 503
	faults </dev/null
	serves one
	wait_until 60 begun 2
	touch "$HOME/go"
	wait_until 60 last_is succeeded
	test_is "$(wc -l <"$HOME/firsts")" 2
'

test_expect 'what engines of other hosts left, which nobody could tell to be dead, is taken over by the holder' '
	rm -f "$HOME/go" "$HOME/begun"
	post one /api/v1/runs "{\"params\": {\"n\": 7}}"
	wait_until 60 begun 1
	kill -9 "$(cat one.pid)"
	wait_until 60 test -s one.rc
	sqlite3 .cairn/cairn.db "UPDATE run SET host = \"a-pod-that-was\" WHERE state = 0; SELECT changes()" >n
	test_is "$(cat n)" 1
	test_is "$(last_state)" running
	serve_forget one
	serve one
	test_grep " taken-over .*runs=1" one.out
	wait_until 60 begun 2
	touch "$HOME/go"
	wait_until 60 last_is succeeded
'

test_expect 'stood by for nothing: SIGTERM ends it' '
	serve_forget two
	standby two
	kill -TERM "$(cat two.pid)"
	wait_until 60 test -s two.rc
	test_is "$(cat two.rc)" 0
	get one /readyz
	status_is 200
'

test_expect 'a Lease by option; a name that is none' '
	test_code 4 env KUBECONFIG=/nowhere cairn serve --lease other --listen none 2>err
	test_grep "cairn: the Lease other: no kubeconfig was found" err
	echo "serve: {lease: No_Name, url: ftp://x, lesae: 1}" >cairn.yaml
	test_code 3 cairn status 2>err
	test_grep "cairn.yaml:1:16: .lease.: .No_Name. can.t be the name of an object" err
	test_grep "cairn.yaml:1:30: .url.: .ftp://x. must be http" err
	test_grep "unknown key .lesae. .did you mean .lease." err
'

test_done
