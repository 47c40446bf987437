#!/bin/bash
# Steps over several nodes as objects of operators, with the operators' own controllers and webhooks: a run, a failure, cancel, logs, kill -9 of the engine.
. "$(dirname "$0")/../../lib.sh"
# shellcheck source=tests/cluster/cluster.sh
. "$SRC/tests/cluster/cluster.sh"
[ -x "$(dirname "$CAIRN")/cairn-launch" ] || test_skip_all 'no cairn-launch: libjansson.a was not there when it was built'
lacks=$(cluster_do "$cluster/build" --check operator-training operator-mpi operator-jobset operator-trainer) || test_skip_all "$lacks"
cluster_begin s3 registry operator-training operator-mpi operator-jobset operator-trainer
cluster_images
cluster_namespace platform restricted || test_bail 'no namespace'
cluster_claim node-cache platform "$CLUSTER/claimed-cache" 1Gi
cluster_yaml platform 'gang_within: 60s' 'cache: {claim: node-cache, size: 1Gi}' >cairn.yaml

# talk NAME KIND COMMAND [LINE…]: a pipeline with one step of two nodes, which the kind owns.
talk() {
	local name=$1 line
	write "$name.yaml" <<-Y
		pipeline: $name
		steps:
		  train:
		    run: $3
		    image: $BUSYBOX
		    outputs: {o: out/}
		    distributed: {framework: torch, nodes: 2}
		    kubernetes: {as: $2}
		    resources: {cpu: 50m, memory: 64Mi}
	Y
	shift 3
	for line; do
		echo "    $line" >>"$name.yaml"
	done
}
objects() { kubectl get pytorchjobs,tfjobs,xgboostjobs,jaxjobs,mpijobs,jobsets,trainjobs,trainingruntimes -o name; }
nothing_left() { [ -z "$(objects)$(kubectl get jobs,pods,services,networkpolicies -o name)" ]; }
# created RESOURCE: how many were ever made here by us, as the API server's audit has it.
created() { cluster_count "$1" platform; }
ended() { # NAME EXIT
	wait_until 120 test -s "$1.rc"
	test_is "$(cat "$1.rc")" "$2" || { cat "$1.out"; kubectl get pods -o wide; kubectl get events | tail -n 20; tail -n 20 "$CLUSTER"/log/operator-*.log; return 1; }
}
say='echo rank $RANK of $WORLD_SIZE; mkdir -p out; echo $WORLD_SIZE >out/n'

# kind KIND RESOURCE
kind() {
	test_expect "$1: a run, its logs by node and rank, its output, a hit, and nothing left" "
		talk $1 $1 '$say; true $1' # a key of its own
		cairn run $1.yaml >out.txt 2>&1 || { cat out.txt; cairn status; kubectl get pods,$2 -o wide; kubectl get events | tail -n 30; tail -n 30 \$CLUSTER/log/operator-*.log; exit 1; }
		cairn get train/o -o $1.o
		test_is \"\$(cat $1.o/n)\" 2
		cairn logs train >log
		test_grep '^=== node 0 of 2, on node1 ===\$' log
		test_grep '^.rank 0. rank 0 of 2\$' log
		test_grep '^.rank 1. rank 1 of 2\$' log
		test_is \"\$(cairn logs train --rank 1)\" 'rank 1 of 2'
		test_is \"\$(created $2)\" 1
		cairn run $1.yaml >out.txt 2>&1
		test_is \"\$(created $2)\" 1
		wait_until 60 nothing_left
	"
}
kind pytorchjob pytorchjobs
kind tfjob tfjobs
kind xgboostjob xgboostjobs
kind jaxjob jaxjobs
kind mpijob mpijobs
kind jobset jobsets
kind trainjob trainjobs

test_expect 'their pods mount large inputs out of the cache of the node, as all pods do' '
	mkdir data
	head -c 67108864 /dev/urandom >data/big
	for kind in pytorchjob mpijob jobset; do
		talk $kind-data $kind "stat -c \"%i %a\" \${{ inputs.d }}/big; ! rm -f \${{ inputs.d }}/big 2>/dev/null; mkdir -p out; true $kind" "inputs: {d: data/}"
		cairn run $kind-data.yaml >out.txt 2>&1 || { cat out.txt; cairn status; kubectl get pods -o wide; exit 1; }
		cairn logs train >log
		inode=$(find "$CLUSTER/claimed-cache" -path "*/blobs/*" -size 67108864c -printf "%i")
		test_is "$kind $(grep -c "^.rank [01]. $inode 444$" log)" "$kind 2"
	done
	test_is "$(ls -A "$CLUSTER/claimed-cache/pods")" ""
'

test_expect 'a key does not depend on what owns the pods' '
	sed "s/as: tfjob/as: job/" tfjob.yaml >asjob.yaml
	created jobs >before
	cairn run asjob.yaml >out.txt 2>&1
	created jobs >after
	test_cmp before after
	test_grep "nothing to do, all on record" out.txt
'

test_expect 'kill -9 of the engine in the middle: the next one adopts the object; nothing runs twice' '
	for k in pytorchjob trainjob; do
		container=main
		[ $k = trainjob ] || container=pytorch
		talk adopted-$k $k "echo begin \$RANK of $k; sleep 8; echo end \$RANK; mkdir -p out" # else the second is a hit of the first
		created ${k}s >before
		start adopted-$k cairn run adopted-$k.yaml
		wait_until 90 eval "[ \"\$(kubectl get pods -l cairn.internal/step=train -o name | while read -r p; do kubectl logs \$p -c $container 2>/dev/null; done | grep -c begin)\" = 2 ]"
		kill -9 $(cat adopted-$k.pid)
		start again-$k cairn resume
		ended again-$k 0
		test_is "$(created ${k}s)" $(($(cat before) + 1))
		cairn logs train >log
		for r in 0 1; do test_is "$(grep -c "^.rank $r. end $r$" log)" 1; done
		wait_until 60 nothing_left
	done
'

test_expect 'a rank that fails: its exit status, who it was, the others ended, and the next attempt' '
	for k in pytorchjob mpijob jobset trainjob; do
		talk broken-$k $k "if [ \$RANK = 1 ]; then echo I fail; exit 3; fi; sleep 60" "retry: {max: 1, backoff: 1s}"
		start broken-$k cairn run broken-$k.yaml
		ended broken-$k 1
		test_grep "rank 1.*(exit status 3|ended with exit status 3)" broken-$k.out || { cat broken-$k.out; exit 1; }
		cairn status --json >status.json
		test_is "$(json status.json "len(d[\"tasks\"])")" 2
		test_is "$(json status.json "d[\"tasks\"][0][\"failure\"]")" failed
		wait_until 60 nothing_left
	done
'

test_expect 'cancel ends the object and its pods' '
	for k in tfjob trainjob; do
		talk long-$k $k "sleep 600"
		start long-$k cairn run long-$k.yaml
		wait_until 90 eval "[ \"\$(kubectl get pods --field-selector=status.phase=Running -o name | wc -l)\" = 2 ]"
		cairn cancel
		ended long-$k 130
		wait_until 60 nothing_left
	done
'

test_expect 'a run whose engine is dead is cancelled with its objects' '
	talk left jobset "sleep 600"
	start left cairn run left.yaml
	wait_until 90 eval "[ \"\$(kubectl get pods --field-selector=status.phase=Running -o name | wc -l)\" = 2 ]"
	kill -9 $(cat left.pid)
	cairn status --json >status.json
	cairn cancel "$(json status.json "d[\"run\"][\"id\"]")" >out.txt 2>&1 || { cat out.txt; exit 1; }
	wait_until 60 nothing_left
'

test_expect 'a pod that is killed for memory is told as oom' '
	talk eats pytorchjob "if [ \$RANK = 1 ]; then dd if=/dev/zero of=/dev/null bs=200M count=1 || exit 9; fi; sleep 20" "retry: {max: 0, oom: 0}"
	start eats cairn run eats.yaml
	ended eats 1
	test_grep "memory|SIGKILL" eats.out || { cat eats.out; exit 1; }
	wait_until 60 nothing_left
'

test_expect 'without the operator: the error says what is missing' '
	kubectl delete crd jaxjobs.kubeflow.org >/dev/null
	talk missing jaxjob "echo x; mkdir -p out"
	test_code 1 cairn run missing.yaml >out.txt 2>&1 || { cat out.txt; exit 1; }
	test_grep "the cluster knows no JAXJob .kubeflow.org/v1.: install its operator, or leave out .kubernetes.as: jaxjob." out.txt || { cat out.txt; exit 1; }
'
test_done
