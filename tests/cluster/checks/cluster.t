#!/bin/bash
# The test cluster itself: it comes up, runs a Job with a sidecar and an Indexed Job, refuses what isn't restricted where that is asked; `cairn doctor` finds it fit;
# it goes away without a trace.
cluster=$(cd "$(dirname "$0")/.." && pwd)
lacks=$("$cluster/build" --check)
programs=${XDG_CACHE_HOME:-$HOME/.cache} # lib.sh takes both away
. "$cluster/../lib.sh"
[ -z "$lacks" ] || test_skip_all "$lacks"
export cluster XDG_CACHE_HOME=$programs PATH=$programs/cairn-tests/cluster/bin:$PATH

settings() { sysctl -n vm.overcommit_memory kernel.panic; }
# Of this cluster alone: others may come and go beside it.
traces() { # GROUP
	find /sys/fs/cgroup -maxdepth 3 -type d -name "$1"
	grep -F "$PWD/c/" /proc/self/mounts || true
	ip -o link | grep cni0 || true
	grep -l -s -z -F "$PWD/c/" /proc/[0-9]*/cmdline || true
}
settings >before
test_when_over '"$cluster/down" "$PWD/c" >/dev/null 2>&1'
"$cluster/up" "$PWD/c" >up.out 2>&1 || { test_say <up.out; test_say <c/log/node.log; test_bail 'the cluster does not come up'; }
export KUBECONFIG=$PWD/c/kubeconfig
ended() { kubectl wait --for="condition=$2" "job/$1" --timeout=120s >/dev/null; }

test_expect 'a real API server, reached from outside' '
	kubectl get nodes -o name >out
	test_is "$(cat out)" node/node1
	kubectl version -o json >out
	test_grep "v1.34" out
'

test_expect 'a Job with a sidecar that outlives its main container' '
	kubectl apply -f - <<-E >/dev/null
		apiVersion: batch/v1
		kind: Job
		metadata: {name: side}
		spec:
		  backoffLimit: 0
		  template:
		    spec:
		      restartPolicy: Never
		      automountServiceAccountToken: false
		      initContainers:
		      - {name: helper, image: "cairn.test/busybox:1", imagePullPolicy: Never, restartPolicy: Always, command: [sh, -c, "trap \"echo told; exit 0\" TERM; while :; do sleep 0.1; done"]}
		      containers:
		      - {name: main, image: "cairn.test/busybox:1", imagePullPolicy: Never, command: [sh, -c, "echo from main"]}
	E
	ended side Complete
	kubectl logs job/side -c main >out
	test_is "$(cat out)" "from main"
	kubectl logs job/side -c helper >out
	test_is "$(cat out)" told
'

test_expect 'an Indexed Job whose pods find each other by name' '
	kubectl apply -f - <<-E >/dev/null
		apiVersion: v1
		kind: Service
		metadata: {name: pair}
		spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {batch.kubernetes.io/job-name: pair}}
		---
		apiVersion: batch/v1
		kind: Job
		metadata: {name: pair}
		spec:
		  completions: 2
		  parallelism: 2
		  completionMode: Indexed
		  backoffLimit: 0
		  template:
		    spec:
		      subdomain: pair
		      restartPolicy: Never
		      containers:
		      - {name: main, image: "cairn.test/busybox:1", imagePullPolicy: Never, command: [sh, -c, "until nslookup pair-0.pair.default.svc.cluster.local >/dev/null; do sleep 0.2; done; echo found"]}
	E
	ended pair Complete
	kubectl logs -l batch.kubernetes.io/job-name=pair >out
	test_is "$(sort out | uniq -c | tr -s " ")" " 2 found"
'

test_expect 'out of memory is told as such' '
	kubectl apply -f - <<-E >/dev/null
		apiVersion: batch/v1
		kind: Job
		metadata: {name: oom}
		spec:
		  backoffLimit: 0
		  template:
		    spec:
		      restartPolicy: Never
		      containers:
		      - {name: main, image: "cairn.test/busybox:1", imagePullPolicy: Never, command: [sh, -c, "tail /dev/zero"], resources: {limits: {memory: 32Mi}}}
	E
	ended oom Failed
	kubectl get pod -l batch.kubernetes.io/job-name=oom -o json >out
	test_is "$(json out "d[\"items\"][0][\"status\"][\"containerStatuses\"][0][\"state\"][\"terminated\"][\"reason\"]")" OOMKilled
'

test_expect 'cairn doctor: fit, and what an account lacks' '
	touch cairn.yaml
	cairn doctor --on kubernetes >out
	test_grep "^ok  *version  *v1.34" out
	test_grep "^ok  *rights" out
	test_grep "^ok  *jobs" out
	test_grep "^ok  *nodes  *1" out
	kubectl create serviceaccount weak >/dev/null
	kubectl create role weak --verb=get,list,watch --resource=jobs,pods >/dev/null
	kubectl create rolebinding weak --role=weak --serviceaccount=default:weak >/dev/null
	sed "/^users:/d" c/kubeconfig >weak.yaml
	echo "users: [{name: user, user: {token: $(kubectl create token weak)}}]" >>weak.yaml
	KUBECONFIG=weak.yaml test_code 1 cairn doctor --on kubernetes >out
	test_grep "^problem  *rights .*these are missing: create jobs, delete jobs, delete pods, get pods/log, list events, create services, create networkpolicies" out
	test_grep "^problem  *jobs .*forbidden" out
	kubectl create quota tight --hard=count/jobs.batch=0 >/dev/null
	test_code 1 cairn doctor --on kubernetes >out
	test_grep "^problem  *jobs .*exceeded quota: tight" out
	test_grep "^ok  *quota .*count/jobs.batch [0-9]* of 0" out
	kubectl delete quota tight >/dev/null
'

test_expect 'a restricted namespace takes our kind of Job' '
	kubectl create namespace locked >/dev/null
	kubectl label namespace locked pod-security.kubernetes.io/enforce=restricted >/dev/null
	printf "kubernetes: {namespace: locked}\n" >cairn.yaml
	cairn doctor --on kubernetes >out
	test_grep "^ok  *jobs" out
'

test_expect 'down leaves nothing' '
	group=$(cat c/group)
	traces "$group" >there
	test_grep "/$group\$" there
	test_grep "^/proc/[0-9]*/cmdline" there
	"$cluster/down" "$PWD/c"
	test_missing c
	traces "$group" >left
	test_lines 0 left
	settings >after
	test_cmp before after
'
test_done
