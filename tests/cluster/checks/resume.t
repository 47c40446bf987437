#!/bin/bash
# An engine that is killed at any point of a run, and resumed: no Job is made twice, nothing that is finished is lost, the bytes are those of a run that nobody disturbed.
. "$(dirname "$0")/../../lib.sh"
# shellcheck source=tests/cluster/cluster.sh
. "$SRC/tests/cluster/cluster.sh"
cluster_begin s3 registry
cluster_images
cluster_namespace again restricted || test_bail 'no namespace'
cluster_yaml again >cairn.yaml
write pipeline.yaml <<E
pipeline: p
params: {round: 0}
defaults: {image: $BUSYBOX, resources: {cpu: 100m, memory: 64Mi}}
steps:
  make:
    matrix: {n: [1, 2, 3]}
    run: sleep 1; echo \${{ params.round }} \${{ matrix.n }} >\${{ outputs.o }}
    outputs: {o: o}
  sum:
    run: cat \${{ inputs.all }}/* >\${{ outputs.o }}
    inputs: {all: "\${{ steps.make.outputs.o }}"}
    outputs: {o: o}
E
kills=6
[ "${CAIRN_TEST_FULL:-0}" = 0 ] || kills=50
export kills

test_expect 'killed at random points, resumed: each Job and each pod is made once, nothing is lost' '
	for round in $(seq $kills); do
		before=$(cluster_count pods again)
		rm -f run.*
		start run cairn run -p round=$round
		# Not to wait for something: the point at which it dies is what varies.
		timeout "$((RANDOM % 10)).$((RANDOM % 10))" tail -f --pid="$(cat run.pid)" /dev/null || true
		kill -KILL "$(cat run.pid)" 2>/dev/null || true
		wait_until 20 test -s run.rc
		if [ "$(cat run.rc)" != 0 ]; then
			timeout 200 cairn resume >resumed 2>&1 || timeout 200 cairn run -p round=$round >resumed 2>&1 || { cat resumed; exit 1; } # it may have died before there was a run
		fi
		cairn get sum/o -o - >got
		printf "$round 1\n$round 2\n$round 3\n" >want
		test_cmp want got
		made=$(($(cluster_count pods again) - before))
		test "$made" -eq 4 || { echo "$made pods in round $round"; exit 1; }
	done
	cluster_created jobs again | sort | uniq -d >twice
	test_lines 0 twice
'

test_expect 'no Job is left' '
	wait_until 60 sh -c "test -z \"\$(kubectl get jobs -o name)\""
'
test_done
