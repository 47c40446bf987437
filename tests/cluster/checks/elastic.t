#!/bin/bash
# Steps over nodes that come and go, on a real cluster, with PyTorch's torchrun: pods without a place, pods that are deleted and evicted, an engine that is killed.
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/cluster/cluster.sh"
# Beside other tests it takes six minutes and more.
[ "${CAIRN_TEST_FULL:-0}" != 0 ] || test_skip_all 'takes six minutes: tests/run --full'
[ -x "$(dirname "$CAIRN")/cairn-launch" ] || test_skip_all 'no cairn-launch: libjansson.a was not there when it was built'
lacks=$(cluster_do "$SRC/tests/cluster/images/torch_image" --check)
[ -z "$lacks" ] || test_skip_all "$lacks"
cluster_begin s3 registry
cluster_images
torch=$(cluster_do "$SRC/tests/cluster/images/torch_image" 2>&1) || { test_say <<<"$torch"; test_bail 'no image of PyTorch'; }
cluster_push "$torch" torch:1 || { tail -n 20 "$TRASH/push.log" | test_say; test_bail 'the image of PyTorch is not taken'; }
cluster_namespace gang restricted || test_bail 'no namespace'
cluster_yaml gang >cairn.yaml
cp "$SRC/tests/cluster/checks/elastic_train.py" train.py

# elastic NAME: a pipeline with one step over two to three nodes, each of which takes a slot.
elastic() {
	write "$1.yaml" <<-Y
		pipeline: $1
		steps:
		  train:
		    run: /usr/bin/python3 train.py \${{ outputs.model }}
		    image: $REGISTRY/torch:1
		    code: [train.py]
		    env: {PET_RDZV_CONF: "last_call_timeout=3", OF: $1} # a key of its own
		    outputs: {model: model.txt}
		    checkpoint: ckpt/
		    distributed: {framework: torch, nodes: {min: 2, max: 3}}
		    resources: {cpu: 50m, memory: 700Mi, example.com/slot: 1}
		    retry: {backoff: 1s, preempted: 1, lost: 1}
	Y
}
slots() { kubectl patch node node1 --subresource=status --type=merge -p "{\"status\":{\"capacity\":{\"example.com/slot\":\"$1\"}}}" >/dev/null; }
pod_of() { kubectl get pods -l "batch.kubernetes.io/job-completion-index=$1" --field-selector=status.phase=Running --sort-by=.metadata.creationTimestamp -o name | tail -n 1; }
first_says() { kubectl logs "$(pod_of 0)" -c main --tail=-1 2>/dev/null | sed -n 's/^\[rank 0\] rank 0 \(of [0-9]* begins at [0-9]*\)$/\1/p'; }
# worlds N SIZE: the first node has seen N worlds or more, and the last one has SIZE ranks, which have made a step.
worlds() {
	[ "$(first_says | wc -l)" -ge "$1" ] && [ "$(first_says | tail -n 1 | cut -d' ' -f2)" = "$2" ] &&
		[ -z "$(kubectl logs "$(pod_of 0)" -c main --tail=1 | sed -n '/ begins at /p')" ]
}
await_world() { wait_until 240 worlds "$1" "$2" || { cat ./*.out; kubectl get pods -o wide; kubectl logs "$(pod_of 0)" -c main --tail=40; exit 1; }; }
# go: rank 0 finds that it may end.
go() {
	cluster_inside sh -c 'for p in $(pgrep -f "^/usr/bin/python3 train.py"); do
		if [ -n "$(tr "\0" "\n" </proc/$p/environ 2>/dev/null | sed -n "/^RANK=0\$/p")" ]; then touch /proc/$p/cwd/go; fi; done'
}
whole() { cairn get --replace train/model -o model && test_grep '^([0-9]+) \[\1, \1, \1, \1, \1, \1, \1, \1\]$' model; }

test_expect 'it begins with two of three nodes; others come, one is lost and replaced, the engine is killed: one attempt' '
	slots 2
	elastic comes
	start run cairn run comes.yaml
	await_world 1 2
	wait_until 30 eval "cairn status >status && grep -q \"2 of at most 3 nodes run\" status" || { cat status; exit 1; }
	slots 3
	await_world 2 3
	kubectl delete "$(pod_of 1)" --wait=false >/dev/null
	await_world 3 3
	kill -9 "$(cat run.pid)"
	slots 2
	kubectl delete "$(pod_of 2)" --wait=false >/dev/null
	await_world 4 2
	start resume cairn resume
	first_says >worlds
	go
	wait_until 120 test -s resume.rc
	test_is "$(cat resume.rc)" 0 || { cat resume.out; kubectl get pods -o wide; exit 1; }
	whole
	test_is "$(cluster_count jobs gang)" 1
	cairn logs train >log
	grep "^=== " log >nodes # the other pods of nodes 1 and 2 were gone when the engine came back
	printf "=== node %s of 3, on node1 ===\n" 0 1 | test_cmp - nodes
	python3 - worlds <<-"E"
	import sys
	begun = [int(line.split()[-1]) for line in open(sys.argv[1])]
	assert begun[0] == 0 and begun == sorted(begun) and len(set(begun)) == len(begun), begun
	E
	cairn get train/series -o series
	python3 - series model <<-"E"
	import json, sys
	steps = [json.loads(line)["step"] for line in open(sys.argv[1])]
	assert steps == list(range(1, int(open(sys.argv[2]).read().split()[0]) + 1)), steps
	E
	wait_until 60 eval "[ -z \"\$(kubectl get jobs,services,networkpolicies,pods -o name)\" ]"
'
# evict POD: as a drain does, with a reason in the pod's conditions.
evict() {
	printf '{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "%s"}}' "$1" |
		kubectl create --raw "/api/v1/namespaces/gang/pods/$1/eviction" -f - >/dev/null
}

test_expect 'below the minimum, or without the first node, all begin again from the checkpoint, for the reason that the cluster gives' '
	slots 3
	elastic less
	start less cairn run less.yaml
	await_world 1 3
	slots 1 # so that nothing replaces them
	for n in 1 2; do pod=$(pod_of $n); evict "${pod#pod/}"; done
	wait_until 120 grep -q "attempt 2 follows" less.out
	test_grep "node [12] of 3: evicted from node1 .*; attempt 2 follows" less.out
	slots 3
	await_world 1 3
	kubectl delete "$(pod_of 0)" --wait=false >/dev/null
	wait_until 120 grep -q "attempt 3 follows" less.out
	test_grep "its pod was deleted.*; attempt 3 follows" less.out # as lost: preempted has been used up
	await_world 1 3
	first_says >worlds
	go
	wait_until 120 test -s less.rc
	test_is "$(cat less.rc)" 0 || { cat less.out; exit 1; }
	whole
	test_is "$(cluster_count jobs gang)" 4
	[ "$(cut -d" " -f5 worlds)" -gt 0 ]
	for n in 1 2 3; do cairn logs train --attempt $n >log; test_grep "^\[rank 0\] rank 0 of 3 begins at" log; done
	wait_until 60 eval "[ -z \"\$(kubectl get jobs,pods -o name)\" ]"
'
test_done
