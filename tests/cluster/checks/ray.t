#!/bin/bash
# `as: rayjob` with KubeRay's own controllers and Ray itself: a head and a worker that does its work, a failure, cancel, kill -9 of the engine. Ray takes 400 MB: CAIRN_TEST_FULL=1.
. "$(dirname "$0")/../../lib.sh"
# shellcheck source=tests/cluster/cluster.sh
. "$SRC/tests/cluster/cluster.sh"
[ "${CAIRN_TEST_FULL:-0}" != 0 ] || test_skip_all 'takes minutes and gigabytes: CAIRN_TEST_FULL=1'
lacks=$(cluster_do "$cluster/build" --check operator-ray) || test_skip_all "$lacks"
tar=$(cluster_do "$cluster/images/python_image" ray bash grep wget libstdc++6 'ray[default]==2.60.0' 2>"$TRASH/image.log") ||
	test_skip_all "no image of Ray can be made: $(tail -n 1 "$TRASH/image.log")"
cluster_begin s3 registry operator-ray
cluster_images
cluster_push "$tar" ray:1 || test_bail 'no image of Ray'
cluster_namespace platform restricted || test_bail 'no namespace'
cluster_yaml platform >cairn.yaml

# What Ray's worker computes; the head has no cpu for it.
write tune.py <<-'Y'
	import json, os, sys, time
	import ray

	ray.init()

	@ray.remote
	def square(x):
	    return x * x, os.environ["HOSTNAME"]

	got = ray.get([square.remote(i) for i in range(4)])
	print("squares", [x for x, _ in got], "by the worker", all("-worker-" in at for _, at in got), flush=True)
	while len(sys.argv) > 2 and not os.path.exists(sys.argv[2]):
	    time.sleep(0.2)
	json.dump([x for x, _ in got], open(sys.argv[1], "w"))
	print("end", flush=True)
Y
# tune NAME [WAITS-FOR [COMMAND]]: WAITS-FOR is a file in the head's container. (Without PYTHONUNBUFFERED `ray job submit` shows the program's log when it ends.)
tune() {
	write "$1.yaml" <<-Y
		pipeline: $1
		steps:
		  tune:
		    run: ray start --head --dashboard-host=0.0.0.0 --num-cpus=0 || exit 1; ${3:-ray job submit --submission-id "\$CAIRN_OBJECT" -- python3 tune.py \${{ outputs.best \}\} ${2:-}}
		    code: [tune.py]
		    image: $REGISTRY/ray:1
		    outputs: {best: best.json}
		    env: {PYTHONUNBUFFERED: "1"}
		    kubernetes: {as: rayjob, workers: 1}
		    resources: {cpu: 200m, memory: 3Gi, shm: 256Mi}
	Y
}
nothing_left() { [ -z "$(kubectl get rayjobs,rayclusters,pods,services -o name)" ]; }
created() { cluster_count rayjobs platform; }
ended() { # NAME EXIT
	wait_until 240 test -s "$1.rc"
	test_is "$(cat "$1.rc")" "$2" || { cat "$1.out"; kubectl get pods,rayjobs -o wide; kubectl get events | tail -n 20; tail -n 20 "$CLUSTER"/log/operator-ray.log; return 1; }
}
running() { [ "$(kubectl get rayjobs -o "jsonpath={.items[*].status.jobStatus}")" = RUNNING ]; }
goes_on() { cairn status --json >status.json && [ "$(json status.json 'd["run"]["state"]')" = running ]; }
squares() { kubectl logs -l ray.io/node-type=head -c ray-head --tail=-1 >head.log 2>&1 && grep -q squares head.log; }

test_expect 'a head and its worker: the work is the worker'"'"'s; output, logs, a hit, and nothing left' '
	tune plain
	start plain cairn run plain.yaml
	ended plain 0
	cairn get tune/best -o best
	test_is "$(cat best)" "[0, 1, 4, 9]"
	cairn logs tune >log
	test_grep "squares .0, 1, 4, 9. by the worker True" log
	test_is "$(created)" 1
	cairn run plain.yaml >out.txt 2>&1
	test_grep "nothing to do, all on record" out.txt
	test_is "$(created)" 1
	wait_until 90 nothing_left
'

test_expect 'kill -9 of the engine in the middle: the next one adopts the RayJob, which KubeRay has seen running' '
	tune adopted /tmp/go
	created >before
	start adopted cairn run adopted.yaml
	wait_until 180 squares
	kill -9 $(cat adopted.pid)
	wait_until 60 running || { kubectl get rayjobs -o yaml; exit 1; }
	start again cairn resume
	wait_until 60 goes_on
	kubectl exec "$(kubectl get pods -l ray.io/node-type=head -o name)" -c ray-head -- touch /tmp/go
	ended again 0
	test_is "$(created)" $(($(cat before) + 1))
	cairn logs tune >log
	test_is "$(grep -c "^end" log)" 1
	wait_until 90 nothing_left
'

test_expect 'a program that fails: its exit status, and nothing left' '
	tune broken "" "exit 3"
	start broken cairn run broken.yaml
	ended broken 1
	test_grep "exit status 3" broken.out || { cat broken.out; exit 1; }
	cairn status --json >status.json
	test_is "$(json status.json "d[\"tasks\"][0][\"failure\"]")" failed
	wait_until 90 nothing_left
'

test_expect 'cancel ends the RayJob, its head and its worker' '
	tune long /tmp/never
	start long cairn run long.yaml
	wait_until 180 squares
	cairn cancel
	ended long 130
	wait_until 120 nothing_left
'
test_done
