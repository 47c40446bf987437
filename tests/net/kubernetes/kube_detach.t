#!/bin/bash
# A run that was handed to a server and can't begin on the cluster: it is told, and counted, at once.
# shellcheck source=../../serve/serve.sh
. "$(dirname "$0")/../../serve/serve.sh"
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/net/kubernetes/kube.sh"
test_have curl || test_skip_all 'needs curl'

kube_api api --cluster "$TRASH/work/store" || test_bail 'the API server does not start'
kube_config api >kubeconfig
mkdir registry
openssl req -x509 -newkey rsa:2048 -nodes -keyout registry/key.pem -out registry/cert.pem -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null
start registry python3 "$SRC/tests/net/registry/registryd.py" "$PWD/registry"
wait_until 20 test -s registry/port || test_bail 'the registry does not start'
echo >registry/mode
read -r port _ <registry/port
digest=$(printf '%064d' 7)
cat >cairn.yaml <<E
store: $TRASH/work/store
runner: kubernetes
kubernetes:
  kubeconfig: kubeconfig
  image: registry.test/cairn@sha256:$digest
  store_claim: store
E
cat >pipeline.yaml <<E
pipeline: away
defaults: {image: "127.0.0.1:$port/team/nothing:1"}
steps:
  a: {run: "echo made > \${{ outputs.o }}", outputs: {o: o.txt}}
E
(git init -q . && git config user.email a@b && git config user.name a && git add cairn.yaml pipeline.yaml && git commit -qm one) || test_bail 'no git'


detach() { CAIRN_SERVE_TOKEN=$SERVE_TOKEN CAIRN_SERVER=$(serve_url srv) cairn run --json --detach >handed.json; }
run() { json handed.json 'd["run"]'; }
message() { cairn status --json "$(run)" >status.json && json status.json 'd["run"]["message"]'; }
says() { message >message; grep -q -E -- "$1" message; }
# A busy machine may see the second try before it looks for the first.
tries() { message | sed -nE "s/.*could not begin, try ([0-9]) of 8.*/\1/p"; }
more_tries_than() { test "$(tries)" -gt "$1"; }

test_expect 'an image that cannot be resolved is told within seconds, by status and in the log' '
	serve srv
	detach
	wait_until 90 says "could not begin, try [12] of 8, .*127.0.0.1:$port/team/nothing:1"
	test_is "$(json status.json "d[\"run\"][\"state\"]")" interrupted
	cairn status "$(run)" >out
	test_grep "could not begin, try [123] of 8" out
	test_grep "run-not-begun .*run=$(run) " srv.out
'

test_expect 'the next server goes on counting' '
	kill -9 "$(cat srv.pid)"
	wait_until 30 test -s srv.rc
	serve_forget srv
	before=$(tries)
	serve srv
	wait_until 90 more_tries_than "$before"
	test_is "$(stop srv TERM)" 0
	serve_forget srv
	tries >tries
'

test_expect 'it can be cancelled while it waits' '
	serve srv
	wait_until 90 more_tries_than "$(cat tries)"
	post srv "/api/v1/runs/$(run)/cancel" "{}"
	status_is 202
	gone() { cairn status --json "$(run)" >status.json && test "$(json status.json "d[\"run\"][\"state\"]")" = cancelled; }
	wait_until 90 gone
	test_is "$(message)" null
	test_is "$(stop srv TERM)" 0
	test_no_grep Sanitizer srv.out
'
test_done
