#!/bin/bash
# Steps over several nodes, on a real cluster: PyTorch over two pods, a rank that is killed, a gang that finds no room, mpirun without ssh.
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/cluster/cluster.sh"
[ -x "$(dirname "$CAIRN")/cairn-launch" ] || test_skip_all 'no cairn-launch: libjansson.a was not there when it was built'
lacks=$(cluster_do "$SRC/tests/cluster/images/torch_image" --check)
[ -z "$lacks" ] || test_skip_all "$lacks"
cluster_begin s3 registry
cluster_images
torch=$(cluster_do "$SRC/tests/cluster/images/torch_image" 2>&1) || { test_say <<<"$torch"; test_bail 'no image of PyTorch'; }
cluster_push "$torch" torch:1 || { tail -n 20 "$TRASH/push.log" | test_say; test_bail 'the image of PyTorch is not taken'; }
export TORCH=$REGISTRY/torch:1

cluster_namespace gang restricted || test_bail 'no namespace'
cluster_yaml gang 'gang_within: 8s' >cairn.yaml
cp "$SRC/tests/cluster/checks/gang_train.py" train.py

# torch NAME IMAGE [LINE…]: a pipeline with one step over two nodes.
torch() {
	local name=$1 line
	write "$name.yaml" <<-Y
		pipeline: $name
		steps:
		  train:
		    run: /usr/bin/python3 train.py \${{ outputs.model }}
		    image: $TORCH
		    code: [train.py]
		    outputs: {model: model.bin}
		    checkpoint: ckpt/
		    distributed: {framework: torch, nodes: 2}
		    resources: {cpu: 100m, memory: 600Mi}
	Y
	shift
	for line; do
		echo "    $line" >>"$name.yaml"
	done
}
# rank_on INDEX: the process of the training in the pod with this number, as the node sees it.
rank_on() {
	cluster_inside sh -c 'for p in $(pgrep -f "^/usr/bin/python3 train.py"); do
		if [ -n "$(tr "\0" "\n" </proc/$p/environ 2>/dev/null | sed -n "/^JOB_COMPLETION_INDEX=$0\$/p")" ]; then echo $p; fi
	done' "$1"
}
main_of() { kubectl logs -l "cairn.internal/step=train,batch.kubernetes.io/job-completion-index=$1" -c main --tail=-1 2>/dev/null; }

test_expect 'two pods of PyTorch give the bytes that one pod with two ranks gives, and both logs are there' '
	torch one
	sed -i "s/nodes: 2/procs_per_node: 2/" one.yaml
	cairn -q run one.yaml
	cairn get train/model -o one.bin
	cairn get train/series -o one.series
	torch whole
	cairn run whole.yaml >out 2>&1 || { cat out; kubectl get pods -o wide; kubectl get events | tail -n 20; exit 1; }
	cairn get train/model -o whole.bin
	cairn get train/series -o whole.series
	cmp one.bin whole.bin
	test_cmp one.series whole.series
	cairn logs train >log
	test_grep "^=== node 0 of 2, on node1 ===$" log
	test_grep "^=== node 1 of 2, on node1 ===$" log
	test_grep "^\[rank 1\] rank 1 of 2 begins at 0" log
	cairn logs train --rank 1 >rank
	test_is "$(cat rank)" "rank 1 of 2 begins at 0"
	test_is "$(cluster_count jobs gang)" 2
	cairn run whole.yaml >out 2>&1
	test_is "$(cluster_count jobs gang)" 2
'

test_expect 'logs of a gang while it runs: all nodes, or one rank' '
	cat >talk.yaml <<-Y
		pipeline: talk
		steps:
		  train:
		    run: echo begin \$RANK; for i in 1 2 3 4 5 6 7 8; do sleep 1; done; echo end \$RANK
		    image: $BUSYBOX
		    distributed: {framework: torch, nodes: 2}
		    resources: {cpu: 50m, memory: 64Mi}
	Y
	start talk cairn run talk.yaml
	wait_until 90 eval "[ -n \"\$(main_of 0)\" ] && [ -n \"\$(main_of 1)\" ]"
	start all cairn logs -f train
	start one cairn logs -f train --rank 1
	wait_until 30 grep -q "begin 1" one.out
	cairn logs train >sofar
	test_missing talk.rc
	printf "=== node 0 of 2 ===\n[rank 0] begin 0\n=== node 1 of 2 ===\n[rank 1] begin 1\n" | test_cmp - sofar
	for f in talk all one; do wait_until 120 test -s $f.rc; test_is "$(cat $f.rc)" 0 || { cat $f.out; exit 1; }; done
	printf "begin 1\nend 1\n" | test_cmp - one.out
	for line in "rank 0. begin 0" "rank 1. begin 1" "rank 0. end 0" "rank 1. end 1"; do test_grep "^.$line$" all.out; done
'

test_expect 'a rank is killed: all of them begin again from the checkpoint and end with the same bytes' '
	torch cut "env: {SLOW: \"0.6\"}" "retry: {max: 2, backoff: 1s}"
	start cut cairn run cut.yaml
	wait_until 120 eval "[ -n \"\$(main_of 0 | sed -n /step=18/p)\" ]"
	kubectl get networkpolicy,service -l cairn.internal/step=train -o json >objects
	pid=$(rank_on 1)
	cluster_inside kill -9 $pid
	wait_until 180 test -s cut.rc
	test_is "$(cat cut.rc)" 0 || { cat cut.out; exit 1; }
	cairn get train/model -o cut.bin
	cmp one.bin cut.bin
	cairn get train/series -o cut.series
	test_cmp one.series cut.series
	cairn logs train >log
	test_grep "^\[rank 0\] rank 0 of 2 begins at (16|24|32)$" log
	test_grep "^\[rank 1\] rank 1 of 2 begins at (16|24|32)$" log
	cairn logs train --attempt 1 >log
	test_grep "^train: error: rank 1 (was killed by SIGKILL|ended with exit status 137); the others were stopped" log
	test_grep "rank 1 (was killed by SIGKILL|ended with exit status 137)" cut.out # who is to blame, not who missed him
'

test_expect 'a rank is killed and the step has no `retry`: the run fails, and the rank is named' '
	cat >plain.yaml <<-Y
		pipeline: plain
		steps:
		  train:
		    run: exec sleep 98\$RANK
		    image: $BUSYBOX
		    distributed: {framework: torch, nodes: 2}
		    resources: {cpu: 50m, memory: 64Mi}
	Y
	before=$(cluster_count jobs gang)
	start plain cairn run plain.yaml
	wait_until 90 cluster_inside sh -c "pgrep -f \"^sleep 980\" && pgrep -f \"^sleep 981\""
	cluster_inside sh -c "kill -KILL \$(pgrep -f \"^sleep 981\")"
	wait_until 120 test -s plain.rc
	test_is "$(cat plain.rc)" 1
	test_grep "rank 1 (was killed by SIGKILL|ended with exit status 137)" plain.out
	cairn status --json >status
	test_is "$(json status "[(t[\"failure\"], t[\"attempt\"]) for t in d[\"tasks\"]]")" "[[\"failed\", 1]]"
	test_is "$(cluster_count jobs gang)" $((before + 1))
'

test_expect 'only the pods of the gang reach its pods; the policy and the service go with the Job' '
	python3 - objects <<-"E"
	import json, sys
	items = {i["kind"]: i for i in json.load(open(sys.argv[1]))["items"]}
	service, policy = items["Service"], items["NetworkPolicy"]
	assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"] is True, service["spec"]
	selector = service["spec"]["selector"]
	assert "cairn.internal/attempt" in selector and "cairn.internal/project" in selector, selector
	assert policy["spec"]["podSelector"]["matchLabels"] == selector, policy["spec"]
	assert policy["spec"]["policyTypes"] == ["Ingress"], policy["spec"]
	assert policy["spec"]["ingress"] == [{"from": [{"podSelector": {"matchLabels": selector}}]}], policy["spec"]
	for o in service, policy:
	    (owner,) = o["metadata"]["ownerReferences"]
	    assert owner["kind"] == "Job" and owner["name"] == service["metadata"]["name"], owner
	E
	wait_until 60 eval "[ -z \"\$(kubectl get jobs,services,networkpolicies,pods -o name)\" ]"
'

test_expect 'a gang that finds room for two of three is released in time, in words, and tried again' '
	kubectl patch node node1 --subresource=status --type=merge -p "{\"status\":{\"capacity\":{\"example.com/slot\":\"2\"}}}" >/dev/null
	cat >room.yaml <<-Y
		pipeline: room
		steps:
		  train:
		    run: echo here is \$RANK
		    image: $BUSYBOX
		    distributed: {framework: torch, nodes: 3}
		    resources: {cpu: 50m, memory: 64Mi, example.com/slot: 1}
		    retry: {backoff: 1s}
	Y
	start room cairn run room.yaml
	wait_until 60 eval "cairn status >status && grep -q \"no node has room\" status"
	test_grep "node [0-2] of 3: no node has room" status
	wait_until 90 grep -q "attempt 2 follows" room.out
	kubectl patch node node1 --subresource=status --type=merge -p "{\"status\":{\"capacity\":{\"example.com/slot\":\"3\"}}}" >/dev/null
	wait_until 120 test -s room.rc
	test_is "$(cat room.rc)" 0 || { cat room.out; exit 1; }
	cairn logs train >log
	for r in 0 1 2; do test_grep "^\[rank $r\] here is $r$" log; done
	test_grep "2 of 3 pods started within 8(\.0)?s; released" room.out
'

# Four places, and two gangs of three: neither is half the cluster's to keep.
test_expect 'two gangs that do not fit together hold no nodes for each other: both end well, without a queue' '
	kubectl patch node node1 --subresource=status --type=merge -p "{\"status\":{\"capacity\":{\"example.com/slot\":\"0\"}}}" >/dev/null
	cat >both.yaml <<-Y
		pipeline: both
		steps:
		  train:
		    matrix: {gang: [a, b]}
		    run: echo here is \$RANK of \${{ matrix.gang }}; sleep 2
		    image: $BUSYBOX
		    distributed: {framework: torch, nodes: 3}
		    resources: {cpu: 50m, memory: 32Mi, example.com/slot: 1}
		    retry: {backoff: 1s, unschedulable: 8}
	Y
	start both cairn run both.yaml
	pending() { test "$(kubectl get pods --field-selector=status.phase=Pending -o name | wc -l)" = 6; }
	wait_until 90 pending
	kubectl patch node node1 --subresource=status --type=merge -p "{\"status\":{\"capacity\":{\"example.com/slot\":\"4\"}}}" >/dev/null
	wait_until 240 test -s both.rc
	test_is "$(cat both.rc)" 0 || { cat both.out; exit 1; }
	for g in a b; do
		cairn logs "train[gang=$g]" >log
		for r in 0 1 2; do test_grep "^\[rank $r\] here is $r of $g$" log; done
	done
	wait_until 60 eval "[ -z \"\$(kubectl get jobs,pods -o name)\" ]"
'

test_expect 'mpi: ranks in two pods, by mpirun, without ssh' '
	mpi=$(cluster_do "$SRC/tests/cluster/images/debian_image" mpi openmpi-bin 2>&1) || { echo "$mpi"; exit 1; }
	cluster_push "$mpi" mpi:1
	write bin/mpirun <<-"E" # a link of no package
	#!/bin/sh
	exec mpirun.openmpi "$@"
	E
	chmod +x bin/mpirun
	cat >mpi.yaml <<-Y
		pipeline: mpi
		steps:
		  train:
		    run: read -r name </proc/sys/kernel/hostname; echo rank \$OMPI_COMM_WORLD_RANK of \$OMPI_COMM_WORLD_SIZE in \${name##*-}
		    image: $REGISTRY/mpi:1
		    code: [bin/]
		    env: {PATH: "/cairn/0/w/bin:/usr/bin:/bin"}
		    distributed: {framework: mpi, nodes: 2, procs_per_node: 2}
		    resources: {cpu: 100m, memory: 256Mi}
	Y
	cairn run mpi.yaml >out 2>&1 || { cat out; cairn logs train; exit 1; }
	cairn logs train >log
	for r in 0 1 2 3; do test_grep "^\[rank $r\] rank $r of 4 in $((r / 2))$" log; done
'
test_done
