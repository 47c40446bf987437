#!/bin/bash
# Several clusters by name, each played by kubeapi.py: which one a run takes, and that whoever comes to the run later finds the same one.
# shellcheck disable=SC2016 # expansions are the tests'
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/net/kubernetes/kube.sh"

for name in one two; do
	kube_api $name --cluster "$TRASH/work/store" || test_bail 'the API server does not start'
done
port() { cat "$1/port"; }
# One kubeconfig with two contexts, as users have it.
kubeconfig() { # CURRENT
	cat <<-E
		apiVersion: v1
		kind: Config
		current-context: $1
		clusters: [{name: a, cluster: {server: "http://127.0.0.1:$(port one)/"}}, {name: b, cluster: {server: "http://127.0.0.1:$(port two)/"}}]
		users: [{name: u, user: {}}]
		contexts: [{name: first, context: {cluster: a, user: u, namespace: lab}}, {name: prod_gpu, context: {cluster: b, user: u, namespace: lab}}]
	E
}
kubeconfig first >kubeconfig
digest=$(printf '%064d' 7)
config() { # [YAML]: cairn.yaml, with these entries of `contexts`
	cat <<-E
		store: $TRASH/work/store
		kubernetes:
		  kubeconfig: kubeconfig
		  image: registry.test/cairn@sha256:$digest
		  store_claim: store
		  labels: {team: a}
		  requests: {per_second: 500, burst: 500}
		  contexts:
		    first: {}
		    gpu: {context: prod_gpu, namespace: gpus, labels: {team: b}}
	E
}
config >cairn.yaml
pipeline() { # NAME
	cat <<-E
		pipeline: $1
		defaults: {image: "registry.test/x@sha256:$digest"}
		steps:
		  t:
		    run: echo $1 says; echo $1 > \${{ outputs.o }}
		    outputs: {o: o.txt}
		    retry: {max: 0, backoff: 10ms, lost: 0}
	E
}
jobs() { # CLUSTER NAMESPACE
	kube_ask "$1" GET "/apis/batch/v1/namespaces/$2/jobs" >jobs.json
	json jobs.json 'len(d["items"])'
}
no_jobs() { test "$(jobs "$1" "$2")" = 0; }
state() { cairn status --json >status.json && json status.json 'd["run"]["state"]'; }
is_state() { test "$(state)" = "$1"; }
fresh() {
	for name in one two; do
		rm -rf $name/go
		: >$name/made
		: >$name/executed
	done
}
made() { printf '%s %s\n' "$(wc -l <one/made)" "$(wc -l <two/made)"; }

test_expect '--on NAME takes that cluster, its namespace and its keys; without it, the current context' '
	fresh
	pipeline a >a.yaml
	cairn run -q --on gpu a.yaml
	test_is "$(made)" "0 1"
	grep -q "POST /apis/batch/v1/namespaces/gpus/jobs\|namespaces/gpus/jobs.*POST\|POST.*namespaces/gpus/jobs" two/log
	pipeline b >b.yaml
	cairn run -q --on first b.yaml
	test_is "$(made)" "1 1"
	pipeline c >c.yaml
	cairn run -q --on kubernetes c.yaml
	test_is "$(made)" "2 1"
	cairn run --on gpu -q c.yaml # a hit, wherever it was made
	test_is "$(made)" "2 1"
'

test_expect 'runner: NAME in cairn.yaml, CAIRN_RUNNER, and what --dry-run and doctor say of it' '
	fresh
	pipeline d >d.yaml
	CAIRN_RUNNER=gpu cairn run -q d.yaml
	test_is "$(made)" "0 1"
	pipeline e >e.yaml
	(config; echo "runner: gpu") >cairn.yaml
	cairn run --dry-run=client -o yaml e.yaml >objects
	test_grep "namespace: gpus" objects
	test_grep "team: b" objects
	cairn run -q e.yaml
	test_is "$(made)" "0 2"
	config >cairn.yaml
	cairn doctor --on gpu >doctor || :
	test_grep "context prod_gpu: http://127.0.0.1:$(port two), .*namespace gpus" doctor
	cairn doctor --on first >doctor || :
	test_grep "context first: http://127.0.0.1:$(port one), .*namespace lab" doctor
'

test_expect 'a name that is nowhere, and a context that the kubeconfig lacks' '
	test_code 2 cairn run --on gup a.yaml 2>err
	test_grep "^cairn: --on: must be local, kubernetes, first or gpu, not .gup. .did you mean .gpu" err
	(config; echo "    other: {}") >cairn.yaml
	pipeline f >f.yaml
	test_code 4 cairn run --on other f.yaml 2>err
	test_grep "no context .other.*first.*prod_gpu" err
	config >cairn.yaml
	cairn names runners >names
	test_grep gpu names
'

held() { # NAME ON CLUSTER: a run there whose program does not end
	fresh
	mkdir "$3/go"
	pipeline "$1" >"$1.yaml"
	start "$1" cairn run -q --on "$2" "$1.yaml"
	wait_until 60 test -s "$3/executed"
}

test_expect 'kill -9: resume finds the cluster of the run, and refuses another one' '
	held killed gpu two
	stop killed KILL
	test_code 3 cairn resume -q --on first 2>err
	test_grep "executes on the cluster gpu, and what it started may go on there: cairn resume --on gpu" err
	rm -r two/go
	timeout 60 cairn resume -q
	test_is "$(made)" "0 1"
	test_is "$(state)" succeeded
	wait_until 30 no_jobs two gpus
'

test_expect 'kill -9, then another current context and another namespace: the run stays where it is' '
	held moved kubernetes one
	stop moved KILL
	kubeconfig prod_gpu >kubeconfig
	sed "s/^  image:/  namespace: elsewhere\n  image:/" cairn.yaml >new
	mv new cairn.yaml
	test_when_finished "kubeconfig first >kubeconfig; config >cairn.yaml"
	rm -r one/go
	timeout 60 cairn resume -q
	test_is "$(made)" "1 0"
	test_is "$(state)" succeeded
	wait_until 30 no_jobs one lab
'

test_expect 'logs -f and cancel find it, too' '
	held followed gpu two
	timeout 60 cairn logs -f t >log &
	logs=$!
	wait_until 30 test -s log
	test_grep "followed says" log
	stop followed KILL
	is_state running || :
	cairn cancel "$(json status.json "d[\"run\"][\"id\"]")" >said
	test_grep "cancelled; 1 Job deleted" said
	wait "$logs" || :
	wait_until 30 no_jobs two gpus
	test_is "$(state)" cancelled
'

test_expect 'a cluster that cairn.yaml no longer names' '
	held gone gpu two
	stop gone KILL
	config | sed "/gpu:/d" >cairn.yaml
	test_when_finished "config >cairn.yaml"
	test_code 3 cairn resume -q 2>err
	test_grep "the run is on the cluster gpu, which .kubernetes.contexts. in cairn.yaml doesn.t name any more" err
	config >cairn.yaml
	is_state running || :
	cairn cancel "$(json status.json "d[\"run\"][\"id\"]")"
	wait_until 30 no_jobs two gpus
'

test_done
