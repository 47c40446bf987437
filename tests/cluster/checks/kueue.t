#!/bin/bash
# Steps that go through a queue of Kueue's, with Kueue's own controllers and webhooks: quota, words, a gang, eviction, preemption, and Kueue away.
. "$(dirname "$0")/../../lib.sh"
# shellcheck source=tests/cluster/cluster.sh
. "$SRC/tests/cluster/cluster.sh"
lacks=$(cluster_do "$cluster/build" --check kueue) || test_skip_all "$lacks"
cluster_begin s3 registry kueue
cluster_images
cluster_namespace other || test_bail 'no namespace'
cluster_namespace queued restricted || test_bail 'no namespace'
cluster_yaml queued 'schedule_within: 4s' 'sidecar: {cpu: 50m}' >cairn.yaml

# quota CPU: of both queues together.
quota() {
	kubectl apply -f - >/dev/null <<-Y
		apiVersion: kueue.x-k8s.io/v1beta2
		kind: ClusterQueue
		metadata: {name: small}
		spec:
		  namespaceSelector: {}
		  preemption: {withinClusterQueue: LowerPriority}
		  resourceGroups:
		  - coveredResources: [cpu, memory, ephemeral-storage]
		    flavors:
		    - name: any
		      resources: [{name: cpu, nominalQuota: "$1"}, {name: memory, nominalQuota: 100Gi}, {name: ephemeral-storage, nominalQuota: 100Gi}]
	Y
}
kubectl apply -f - >/dev/null <<'Y' || test_bail 'no queues'
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 1000
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team-a, namespace: queued}
spec: {clusterQueue: small}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team-b, namespace: other}
spec: {clusterQueue: small}
Y
quota 400m || test_bail 'no quota'

# step NAME COMMAND [CPU [LINE…]]: one of a pipeline, in the queue.
step() {
	local name=$1 command=$2 cpu=${3:-200m} line
	cat <<-Y
		  $name:
		    image: $BUSYBOX
		    cache: false
		    run: "$command"
		    resources: {cpu: $cpu, memory: 64Mi}
		    kubernetes: {queue: team-a}
	Y
	for line in "${@:4}"; do
		echo "    $line"
	done
}
# pipeline NAME: of the steps that it is given, in a file of this name.
pipeline() {
	{ printf 'pipeline: %s\nsteps:\n' "$1"; cat; } >"$1.yaml"
}
says() { cairn status >status && grep -q "$1" status; }
is_queued() { says 'its queue has not let it in yet'; }
# attempts: how each of the newest run's ended, one a line; message N: what is said of one.
attempts() { cairn status --json >status.json; json status.json '"\n".join(str(t["failure"] or "ok") for t in sorted(d["tasks"], key=lambda t: t["attempt"]))'; }
message() { json status.json "[t[\"message\"] for t in d[\"tasks\"] if t[\"attempt\"] == $1][0]"; }
nothing_left() { [ -z "$(kubectl get jobs,pods,workloads,services,networkpolicies -o name)" ]; }
# workload: the one that lives: its name, whether the queue let it in, how many pods it wants.
workload() { kubectl get workloads -o json | python3 -c 'import json, sys
(one,) = (w for w in json.load(sys.stdin)["items"] if "deletionTimestamp" not in w["metadata"])
admitted = any(c["type"] == "Admitted" and c["status"] == "True" for c in one.get("status", {}).get("conditions", []))
print(one["metadata"]["name"], "in" if admitted else "waits", sum(p["count"] for p in one["spec"]["podSets"]))'; }
workload_is() { [ "$(workload | cut -d ' ' -f 2-)" = "$1" ]; }
runs() { cluster_inside pgrep -f "^sleep $1\$"; }
# begin NAME: its run in the background; what a test that fails leaves of it is no other test's.
begin() {
	test_when_finished tidy
	start "$1" cairn run "$1.yaml"
}
tidy() {
	test_kill_sessions
	kubectl delete jobs --all --all-namespaces --cascade=foreground >/dev/null
	quota 400m
}
ended() { # NAME EXIT
	wait_until 120 test -s "$1.rc"
	test_is "$(cat "$1.rc")" "$2" || { cat "$1.out"; kubectl get workloads,jobs,pods; return 1; }
}

test_expect 'quota for one: two steps run one after the other; the second says why, and its wait is not held against it' '
	{ step a "sleep 7"; step b "sleep 7"; } | pipeline two
	cluster_count jobs queued >before
	begin two
	wait_until 60 is_queued
	wait_until 30 says "its queue has not let it in yet .*: couldn.t assign flavors to pod set main: insufficient unused quota for cpu in flavor any, 100m more needed"
	ended two 0
	cairn status --json >status.json
	python3 -c "if True:
		import json
		from datetime import datetime
		a, b = sorted((datetime.fromisoformat(t[\"started\"]), t[\"duration_ns\"] / 1e9) for t in json.load(open(\"status.json\"))[\"tasks\"])
		assert (b[0] - a[0]).total_seconds() >= a[1] >= 6.9, (a, b)"
	test_is "$(cluster_count jobs queued)" "$(($(cat before) + 2))"
	wait_until 60 nothing_left
'

test_expect 'a step that the quota can never hold waits in words; an engine that comes back finds it; cancelled, it leaves nothing' '
	step a "echo x" 3 | pipeline huge
	cluster_count pods queued >before
	cluster_count jobs queued >jobs
	begin huge
	wait_until 30 says "its queue has not let it in yet .*: couldn.t assign flavors to pod set main: insufficient quota for cpu in flavor any"
	wait_until 30 workload_is "waits 1"
	stop huge KILL >/dev/null
	start again cairn resume
	wait_until 60 grep -q "its queue has not let it in yet" again.out
	test_is "$(cluster_count jobs queued)" "$(($(cat jobs) + 1))" # the same Job
	cairn cancel
	ended again 130
	test_is "$(attempts)" cancelled
	test_is "$(kubectl get pods -o name)" ""
	wait_until 60 nothing_left
	test_is "$(cluster_count pods queued)" "$(cat before)"
'

test_expect 'a gang is let in as a whole or not at all' '
	step train "echo here is \$RANK" 200m "distributed: {framework: torch, nodes: 2}" | pipeline gang
	cluster_count pods queued >before
	begin gang
	wait_until 60 is_queued
	test_no_grep "node [01] of 2" status # it is said of the Job, not of each
	wait_until 30 workload_is "waits 2"
	test_is "$(cluster_count pods queued)" "$(cat before)" # there was room for one
	quota 800m
	ended gang 0
	cairn logs train >log
	for r in 0 1; do test_grep "^\[rank $r\] here is $r$" log; done
	test_is "$(cluster_count pods queued)" "$(($(cat before) + 2))"
	wait_until 60 nothing_left
'

test_expect 'thrown out of its queue while it runs: preempted, and goes on from its checkpoint; one commit' '
	step a "if [ -e ckpt/half ]; then cat ckpt/half >o; else echo half >ckpt/half; sleep 985; fi" 200m "outputs: {o: o}" "checkpoint: ckpt/" \
		"retry: {max: 0, preempted: 2, backoff: 1s..1s}" | pipeline out
	cluster_count jobs queued >before
	begin out
	wait_until 60 runs 985
	kubectl patch workload "$(workload | cut -d " " -f 1)" --type=merge -p "{\"spec\":{\"active\":false}}" >/dev/null
	ended out 0
	attempts >classes
	printf "preempted\nok\n" >want
	test_cmp want classes
	test_is "$(message 1)" "its queue took its place back (the Job was suspended)"
	cairn get a/o -o got
	test_is "$(cat got)" half
	test_is "$(cluster_count jobs queued)" "$(($(cat before) + 2))"
	wait_until 60 nothing_left
'

test_expect 'a gang is thrown out: all of it, one failure' '
	step train "if [ -e ckpt/half ]; then echo again \$RANK; else echo half >ckpt/half; sleep 984; fi" 100m "distributed: {framework: torch, nodes: 2}" "checkpoint: ckpt/" \
		"retry: {max: 0, preempted: 2, backoff: 1s..1s}" | pipeline gangout
	begin gangout
	wait_until 60 eval "[ \$(runs 984 | wc -l) -eq 2 ]"
	kubectl patch workload "$(workload | cut -d " " -f 1)" --type=merge -p "{\"spec\":{\"active\":false}}" >/dev/null
	ended gangout 0
	attempts >classes
	printf "preempted\nok\n" >want
	test_cmp want classes
	message 1 >said
	test_grep "^(node [01] of 2: )?its queue took its place back" said
	wait_until 60 nothing_left
'

test_expect 'pushed out by what is more urgent: preempted, waits in words until that is over, and ends well' '
	step a "if [ -e ckpt/half ]; then echo again; else echo half >ckpt/half; sleep 983; fi" 200m "checkpoint: ckpt/" "retry: {max: 0, preempted: 2, backoff: 1s..1s}" | pipeline low
	begin low
	wait_until 60 runs 983
	kubectl -n other apply -f - >/dev/null <<-Y
		apiVersion: batch/v1
		kind: Job
		metadata: {name: high, labels: {kueue.x-k8s.io/queue-name: team-b, kueue.x-k8s.io/priority-class: urgent}}
		spec:
		  template:
		    spec:
		      restartPolicy: Never
		      terminationGracePeriodSeconds: 0
		      containers: [{name: main, image: $BUSYBOX, command: [sleep, "982"], resources: {requests: {cpu: 300m}}}]
	Y
	wait_until 60 runs 982
	wait_until 60 grep -q "attempt 2 follows" low.out
	wait_until 60 is_queued
	wait_until 30 workload_is "waits 1"
	kubectl -n other delete job high --cascade=foreground --wait=false >/dev/null
	ended low 0
	attempts >classes
	printf "preempted\nok\n" >want
	test_cmp want classes
	wait_until 60 nothing_left
'

test_expect 'Kueue is away: a Job that its webhook should see is made when it is back, and until then the words say so' '
	cluster_stop kueue
	cluster_yaml queued "schedule_within: 5m" "sidecar: {cpu: 50m}" >cairn.yaml # else its time would be up
	step a "echo x" | pipeline away
	begin away
	wait_until 60 says "failed calling webhook"
	cluster_serve kueue
	ended away 0
	wait_until 60 nothing_left
'
test_done
