#!/bin/bash
# A node that is deleted under a running pod: its attempt ends in words, is tried again, and runs once there is a node.
. "$(dirname "$0")/../../lib.sh"
# shellcheck source=tests/cluster/cluster.sh
. "$SRC/tests/cluster/cluster.sh"
cluster_begin s3 registry
cluster_images
cluster_namespace lost restricted || test_bail 'no namespace'
cluster_yaml lost 'lost_within: 5s' >cairn.yaml
kubectl create configmap speed --from-literal=seconds=600 >/dev/null || test_bail 'no ConfigMap'

test_expect 'a node is deleted: preempted or lost, tried again, and it waits in words for a node' '
	write pipeline.yaml <<-E
		pipeline: p
		steps:
		  s:
		    image: $BUSYBOX
		    run: "sleep \$(cat /conf/seconds); echo x >o"
		    outputs: {o: o}
		    resources: {cpu: 100m, memory: 64Mi}
		    volumes: {conf: {config_map: speed, mount: /conf}}
		    retry: {preempted: 3, lost: 3, backoff: 1s..1s}
	E
	start go timeout 300 cairn run
	wait_until 60 sh -c "kubectl get pods -o json | grep -q \"\\\"startedAt\\\"\" && kubectl get pods | grep -q 2/2"
	kubectl get node node1 -o json | python3 -c "import json, sys
n = json.load(sys.stdin)
n[\"metadata\"] = {k: n[\"metadata\"][k] for k in (\"name\", \"labels\", \"annotations\")}
n[\"spec\"].pop(\"taints\", None)
json.dump(n, sys.stdout)" >node.json
	kubectl create configmap speed --from-literal=seconds=0 --dry-run=client -o yaml | kubectl replace -f - >/dev/null
	kubectl delete node node1 --wait=false >/dev/null
	wait_until 120 sh -c "cairn status --json | grep -qE \"preempted|lost\""
	wait_until 60 sh -c "cairn status | grep -q \"no node\""
	kubectl create -f node.json >/dev/null
	wait_until 120 test -s go.rc
	test_is "$(cat go.rc)" 0
	cairn status --json >status.json
	json status.json "\"\n\".join(str(t[\"failure\"] or \"ok\") for t in d[\"tasks\"])" | sort | uniq -c | tr -s " " >classes
	test_grep "1 (lost|preempted)" classes
	test_grep "1 ok" classes
'
test_done
