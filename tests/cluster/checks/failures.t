#!/bin/bash
# What goes wrong on a cluster, done to it for real: each has its class, its words in `cairn status`, its retries, and none hangs.
. "$(dirname "$0")/../../lib.sh"
# shellcheck source=tests/cluster/cluster.sh
. "$SRC/tests/cluster/cluster.sh"
cluster_begin s3 registry
cluster_images
cluster_namespace bad restricted || test_bail 'no namespace'
cluster_yaml bad 'schedule_within: 15s' 'image_within: 15s' 'lost_within: 5s' >cairn.yaml

# step COMMAND [LINE…]: a pipeline of one step.
step() {
	local command=$1 line
	shift
	cat >pipeline.yaml <<-E
		pipeline: p
		steps:
		  s:
		    image: $BUSYBOX
		    cache: false
		    run: "$command"
		    outputs: {o: o}
	E
	for line in 'resources: {cpu: 100m, memory: 64Mi}' "$@"; do
		case $line in
		resources:*) sed -i '/^    resources:/d' pipeline.yaml ;;
		esac
		echo "    $line" >>pipeline.yaml
	done
}
# attempts: class and exit of the newest run's attempts, one a line; said: their messages.
attempts() { cairn status --json >status.json; json status.json '"\n".join(str(t["failure"] or "ok") for t in sorted(d["tasks"], key=lambda t: t["attempt"]))'; }
said() { json status.json '"\n".join(str(t["message"]) for t in d["tasks"])'; }
# running: the program of the newest pod runs.
running() { kubectl get pods -o json | python3 -c 'import json, sys
p = sorted(json.load(sys.stdin)["items"], key=lambda p: p["metadata"]["creationTimestamp"])
sys.exit(not p or "deletionTimestamp" in p[-1]["metadata"] or not any(c["name"] == "main" and "running" in c["state"] for c in p[-1]["status"].get("containerStatuses", [])))'; }
# begin: a run in the background; go: until its program runs.
begin() {
	rm -f go.*
	start go timeout 120 cairn run
}
go() {
	begin
	wait_until 60 running
}
ended() { wait_until 130 test -s go.rc; }
pod() { kubectl get pods -o name --sort-by=.metadata.creationTimestamp | tail -n 1; }
all_gone() { test -z "$(kubectl get jobs,pods -o name)"; }

test_expect 'a program that fails: failed, with its exit status and its last words' '
	step "echo that was wrong >&2; exit 3"
	test_code 1 cairn run >out 2>&1
	test_is "$(attempts)" failed
	test_is "$(json status.json "d[\"tasks\"][0][\"exit\"]")" 3
	cairn logs s >log
	test_grep "that was wrong" log
'

test_expect 'an output that is not made is told by name' '
	step "true"
	test_code 1 cairn run >out 2>&1
	attempts >classes
	test_no_grep ok classes
	said >words
	test_grep "\`?o\`?" words
'

test_expect 'killed: failed, with the signal' '
	step "sleep 987; echo x >o"
	go
	wait_until 20 cluster_inside pgrep -f "^sleep 987"
	cluster_inside sh -c "kill -KILL \$(pgrep -f \"^sleep 987\")"
	ended
	attempts >classes
	said >words
	test_grep "failed" classes
'

test_expect 'out of memory: oom, and again with more of it when asked' '
	step "exec tail /dev/zero" "resources: {cpu: 100m, memory: 64Mi}" "retry: {oom: {max: 2, memory: x2}, backoff: 1s..1s}"
	test_code 1 cairn run >out 2>&1
	attempts >classes
	said >words
	test_grep "memory" words
	test_is "$(sort -u classes)" oom
	test_lines 3 classes
'

test_expect 'evicted by a taint: preempted; the program saves when it is told to end, and the next attempt goes on from there' '
	step "save() { echo saved >ckpt/half; exit 9; }; trap save TERM; if [ -e ckpt/half ]; then cp ckpt/half o; exit 0; fi; sleep 90 & wait" \
		"checkpoint: ckpt/" "retry: {max: 0, preempted: 3, backoff: 1s..1s}"
	go
	kubectl taint node node1 maintenance=now:NoExecute >/dev/null
	test_when_finished "kubectl taint node node1 maintenance- >/dev/null 2>&1"
	wait_until 150 sh -c "cairn status --json | grep -q preempted"
	kubectl taint node node1 maintenance- >/dev/null
	ended
	test_is "$(cat go.rc)" 0
	attempts >classes
	test_grep "^preempted" classes
	test_grep "^ok" classes
	said >words
	test_grep "taint" words
	cairn get s/o -o got
	test_is "$(cat got)" saved
'

test_expect 'a pod that somebody deletes: lost or preempted, and tried again' '
	step "sleep 5; echo x >o" "retry: {max: 2, backoff: 1s..1s}"
	go
	kubectl delete "$(pod)" --wait=false >/dev/null
	ended
	test_is "$(cat go.rc)" 0
	attempts >classes
	test_grep "^(lost|preempted)" classes
	test_grep "^ok" classes
'

test_expect 'an image that is not there: image, within seconds, in words' '
	step "echo x >o"
	sed -i "s|image: .*|image: $REGISTRY/busybox@sha256:$(printf %064d 1)|" pipeline.yaml
	begin
	wait_until 30 sh -c "cairn status >now 2>&1; grep -q image now"
	ended
	test_is "$(cat go.rc)" 1
	attempts >classes
	test_grep "^image" classes
'

test_expect 'more than any node has: unschedulable, with the scheduler'"'"'s words' '
	step "echo x >o" "resources: {cpu: 4000, memory: 64Mi}"
	sed -i "/^runner/a resources: {cpu: 5000}" cairn.yaml
	begin
	wait_until 30 sh -c "cairn status >now 2>&1; grep -q \"Insufficient cpu\" now"
	ended
	attempts >classes
	test_grep "^unschedulable" classes
	sed -i "/^resources/d" cairn.yaml
'

test_expect 'a quota: unschedulable, and the quota is named' '
	step "echo x >o"
	kubectl create quota tight --hard=pods=0 >/dev/null
	test_when_finished "kubectl delete quota tight >/dev/null"
	begin
	wait_until 30 sh -c "cairn status >now 2>&1; grep -q quota now"
	ended
	attempts >classes
	test_grep "^unschedulable" classes
'

test_expect 'a store that pods may only read: store, and nothing is said to be done' '
	cluster_serve s3-readonly
	step "echo x >o"
	CLUSTER_STORE=$S3_READONLY_INSIDE cluster_yaml bad "schedule_within: 15s" >ro.yaml
	mkdir -p ro
	cp ro.yaml ro/cairn.yaml
	cp pipeline.yaml ro/
	test_code 4 timeout 100 cairn -C ro run >out 2>&1
	cairn -C ro status --json >status.json
	test_is "$(json status.json "d[\"tasks\"][0][\"failure\"]")" store
'

test_expect 'the sidecar is killed: it comes back and the outputs are kept, or the attempt is lost and tried again' '
	step "sleep 5; echo x >o" "retry: {max: 2, backoff: 1s..1s}"
	go
	cluster_inside sh -c "kill -KILL \$(pgrep -f \"^/usr/bin/cairn pod( |\\\$)\")"
	ended
	test_is "$(cat go.rc)" 0
	cairn get s/o -o - >o
	test_is "$(cat o)" x
'

test_expect 'more on disk than it may: failed, in words, and it does not hang' '
	step "head -c 200m /dev/zero >big; sleep 240; echo x >o" "resources: {cpu: 100m, memory: 128Mi, disk: 50Mi}"
	begin
	ended
	test_is "$(cat go.rc)" 1
	attempts >classes
	test_no_grep "^ok" classes
	said >words
	test_grep "exceeds the limit|disk|space" words
'

test_expect 'a time limit' '
	step "sleep 987" "timeout: 3s"
	test_code 1 cairn run >out 2>&1
	test_is "$(attempts)" timeout
'

test_expect 'a deadline of its Job: timeout, told as what it is, and no loss to be tried again' '
	wait_until 60 all_gone # of the tests before
	step "sleep 987" "retry: {max: 0, lost: 2, preempted: 2, backoff: 1s..1s}"
	go
	kubectl patch "$(kubectl get jobs -o name)" --type=merge -p "{\"spec\":{\"activeDeadlineSeconds\":1}}" >/dev/null
	ended
	test_is "$(cat go.rc)" 1
	test_is "$(attempts)" timeout
	said >words
	test_grep "its Job ran longer than it may" words
'

test_expect 'a container beside main that never ends: the step ends with main, its outputs are kept, the rest of the pod is stopped; time limits hold' '
	beside="kubernetes: {pod_template: {spec: {containers: [{name: proxy, image: \"$BUSYBOX\", command: [sh, -c, \"trap exit TERM; while :; do sleep 1; done\"], securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}}"
	step "sleep 2; echo kept >o" "$beside"
	go
	kubectl get pods -o jsonpath="{range .items[*].spec.containers[*]}{.name} {end}" >names
	test_grep "proxy" names
	ended
	test_is "$(cat go.rc)" 0
	test_is "$(attempts)" ok
	cairn get s/o -o - >o
	test_is "$(cat o)" kept
	wait_until 60 all_gone
	step "sleep 987" "timeout: 3s" "$beside"
	go
	ended
	test_is "$(cat go.rc)" 1
	test_is "$(attempts)" timeout
	wait_until 60 all_gone
'

test_expect 'cancelled: its pod goes' '
	step "sleep 987"
	rm -f go.*
	start go cairn run
	wait_until 60 running
	stop go INT >rc
	test_is "$(cat rc)" 130
	wait_until 60 sh -c "test -z \"\$(kubectl get jobs -o name)\""
'

test_expect 'labels and annotations of cairn.yaml: its Job and its pods have them' '
	cp cairn.yaml cairn.was
	test_when_finished "mv cairn.was cairn.yaml"
	cat >>cairn.yaml <<-E
		  labels: {team: ml, cost.example/center: "7"}
		  annotations: {example.org/why: a test of both}
	E
	wait_until 60 all_gone
	step "sleep 987"
	go
	kubectl get jobs,pods -o json >objects
	stop go INT >rc
	python3 - objects <<-"E"
	import json, sys
	items = json.load(open(sys.argv[1]))["items"]
	assert sorted(i["kind"] for i in items) == ["Job", "Pod"], items
	for m in (i["metadata"] for i in items):
	    assert (m["labels"].get("team"), m["labels"].get("cost.example/center")) == ("ml", "7"), m
	    assert m.get("annotations", {}).get("example.org/why") == "a test of both", m
	E
	wait_until 60 all_gone
'

# as_account VERBS: a kubeconfig of the account of the manifests, whose Role lets it do VERBS with pods.
as_account() {
	sed "s/resources: \[pods\], verbs: \[list, watch, delete\]/resources: [pods], verbs: [$1]/" "$SRC/runners/kubernetes/deploy/role.yaml" >role.yaml
	test_grep "\[pods\], verbs: \[$1\]" role.yaml
	kubectl apply -f role.yaml >/dev/null
	cp "$KUBECONFIG" account.yaml
	kubectl --kubeconfig account.yaml config set-credentials account --token="$(kubectl create token cairn)" >/dev/null
	kubectl --kubeconfig account.yaml config set-context --current --user=account >/dev/null
}
test_expect 'an account that may not list pods, or not watch them: failed, and the right is named' '
	kubectl create serviceaccount cairn >/dev/null
	for verbs in delete "list, delete"; do
		as_account "$verbs"
		step "echo x >o"
		KUBECONFIG=$PWD/account.yaml test_code 1 timeout 120 cairn run >out 2>&1
		test_is "$(attempts)" failed
		said >words
		test_grep "does not let this account watch pods in the namespace bad.*doctor.*cannot (list|watch) resource .?\"pods" words
		wait_until 60 all_gone
	done
'

test_expect 'the log is whole, though the kubelet has cut its own into pieces' '
	step "i=0; while [ \$i -lt 30000 ]; do i=\$((i + 1)); echo line \$i of what it has to say at some length; done; echo x >o"
	cairn run >out 2>&1
	cairn logs s >log
	test_is "$(grep -c "^line" log)" 30000
	test_is "$(grep "^line" log | awk "\$2 != NR" | wc -l)" 0
'

test_expect 'an output of 1 GiB and one of 20,000 files are kept within the memory of the sidecar' '
	step "head -c 1073741824 /dev/zero >o; i=0; while [ \$i -lt 20000 ]; do i=\$((i + 1)); echo \$i >d/\$i; done" "resources: {cpu: 100m, memory: 128Mi}"
	sed -i "s|outputs: .*|outputs: {o: o, d: d/}|" pipeline.yaml
	rm -f watch.*
	start watch kubectl get pods --watch -o json
	timeout 300 cairn run
	test_is "$(attempts)" ok
	stop watch TERM >rc
	python3 - watch.out <<-"E"
	import json, sys
	text, at, seen = open(sys.argv[1]).read(), 0, {}
	while text[at:].strip():
	    pod, n = json.JSONDecoder().raw_decode(text[at:].lstrip())
	    at = len(text) - len(text[at:].lstrip()) + n
	    for kind in "initContainerStatuses", "containerStatuses":
	        for c in pod["status"].get(kind, []):
	            seen[c["name"]] = c
	            assert c["restartCount"] == 0, c
	            assert "OOMKilled" not in json.dumps(c), c
	assert seen["cairn"]["state"]["terminated"]["exitCode"] == 0, seen
	E
'

api_pid() { pgrep -f "kube-apiserver --etcd-servers.*$CLUSTER/" | sed -n 1p; }
test_expect 'an API server that is away for a while' '
	step "sleep 6; echo x >o"
	go
	api=$(cat "$CLUSTER/relay.pid")
	kill -STOP "$(api_pid)"
	test_when_finished "kill -CONT \"\$(api_pid)\" 2>/dev/null"
	wait_until 20 sh -c "! timeout 2 kubectl get --raw /readyz"
	timeout 12 tail -f /dev/null || true # as long as it is away; nothing is waited for
	kill -CONT "$(api_pid)"
	ended
	test_is "$(cat go.rc)" 0
'

unplaced() { kubectl get pods -o json | python3 -c 'import json, sys
sys.exit(not any(c.get("reason") == "Unschedulable" for p in json.load(sys.stdin)["items"] for c in p["status"].get("conditions", [])))'; }
has_failed() { attempts >classes && grep -q -x "$1" classes; }
test_expect 'the object store is away when a pod starts: in words, and tried again' '
	step "echo x >o" "kubernetes: {node_selector: {room: made}}"
	cluster_yaml bad "schedule_within: 5m" >cairn.yaml
	rm -f go.*
	start go timeout 500 cairn run
	wait_until 60 unplaced
	cluster_stop s3
	kubectl label nodes --all room=made >/dev/null
	wait_until 240 has_failed store
	said >words
	cluster_serve s3
	test_grep "the pod does not reach the store s3://tbucket/bad: " words
	wait_until 240 test -s go.rc
	test_is "$(cat go.rc)" 0
'

test_expect 'the object store is away when a step has ended: in words, and the same attempt keeps its outputs when the store is back' '
	step "sleep 986 || true; echo kept >o"
	rm -f go.*
	start go timeout 500 cairn run # the words come 90 s after its sidecar began
	wait_until 60 running
	wait_until 20 cluster_inside pgrep -f "^sleep 986"
	cluster_stop s3
	test_when_finished "cluster_serve s3"
	cluster_inside sh -c "kill \$(pgrep -f \"^sleep 986\")"
	wait_until 150 sh -c "cairn status >now; grep -q \"the store does not accept the outputs of the program; retried for\" now"
	test_missing go.rc
	cluster_serve s3
	ended
	test_is "$(cat go.rc)" 0
	test_is "$(attempts)" ok
	cairn get s/o -o - >o
	test_is "$(cat o)" kept
'

# api_kill: as when its machine dies; api_again: with the same command line, on the node.
api_kill() {
	tr '\0' '\n' <"/proc/$(api_pid)/cmdline" >api.args
	kill -KILL "$(api_pid)"
}
api_again() {
	mapfile -t api_args <api.args
	start "api$RANDOM" env HOME="$test_home" XDG_CACHE_HOME="$test_xdg" "$cluster/inside" "$CLUSTER" "${api_args[@]}"
	wait_until 60 timeout 2 kubectl get --raw /readyz
}
three_run() { test "$(kubectl get pods --field-selector=status.phase=Running -o name | wc -l)" = 3; }
if [ "${CAIRN_TEST_FULL:-0}" = 1 ]; then
	test_expect 'an API server that is dead for three minutes: in words, nothing is lost, no Job is made twice' '
		mkdir away
		cluster_yaml bad >away/cairn.yaml # scheduler and controllers need a while to come back, too
		cd away
		cat >pipeline.yaml <<-E
			pipeline: away
			defaults: {image: $BUSYBOX, resources: {cpu: 50m, memory: 32Mi}}
			steps:
			  early:
			    matrix: {n: [1, 2, 3]}
			    cache: false
			    run: "sleep 40; echo \${{ matrix.n }} >o; echo \${{ matrix.n }} is done"
			    outputs: {o: o}
			  late:
			    inputs: {all: "\${{ steps.early.outputs.o }}"}
			    run: "cat \${{ inputs.all }}/* >o"
			    outputs: {o: o}
		E
		before=$(cluster_count jobs bad)
		rm -f ../go.*
		start go timeout 500 cairn run
		wait_until 60 three_run
		api_kill
		test_when_finished "test -n \"\$(api_pid)\" || api_again"
		died=$SECONDS
		wait_until 60 sh -c "cairn status >now 2>&1; grep -q \"the cluster does not answer; what runs there goes on\" now"
		timeout $((died + 180 - SECONDS)) tail -f /dev/null || true # as long as it is dead, the programs end; nothing is waited for
		test_missing ../go.rc
		cairn status >now
		test_grep "does not answer" now
		api_again
		wait_until 300 test -s ../go.rc
		test_is "$(cat ../go.rc)" 0
		attempts >classes
		test_is "$(sort classes | uniq -c | tr -s " ")" " 4 ok"
		cairn get late/o -o got
		test_is "$(sort got | tr "\n" " ")" "1 2 3 "
		cairn logs "early[n=2]" >log
		test_is "$(cat log)" "2 is done"
		cluster_created jobs bad | tail -n +$((before + 1)) >made
		test_lines 4 made
		sort made | uniq -d >twice
		test_lines 0 twice
		wait_until 60 sh -c "test -z \"\$(kubectl get jobs -o name)\""
	'
else
	test_skip 'an API server that is dead for three minutes' 'takes four minutes: CAIRN_TEST_FULL=1'
fi
test_done
