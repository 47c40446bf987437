#!/bin/bash
# Steps of tensorflow, jax, mpi and parameter servers over two pods of a real cluster (gang.t has torch). A small program meets its other ranks where the launcher says
# they are, and must give the bytes that it gives on this machine; with CAIRN_TEST_FULL=1 so must JAX and TensorFlow themselves. Horovod itself is not here: it has no
# wheel and no Debian package; what it needs of us is mpirun over the pods, which the test of mpi shows.
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/cluster/cluster.sh"
[ -x "$(dirname "$CAIRN")/cairn-launch" ] || test_skip_all 'no cairn-launch: libjansson.a was not there when it was built'
test_have mpirun || test_skip_all 'no mpirun (Debian: openmpi-bin)'
cluster_begin s3 registry
cluster_images
frames=$(cluster_do "$SRC/tests/cluster/images/debian_image" frames python3 openmpi-bin 2>&1) || { test_say <<<"$frames"; test_bail 'no image of Python and Open MPI'; }
cluster_push "$frames" frames:1 || { tail -n 20 "$TRASH/push.log" | test_say; test_bail 'the image of Python and Open MPI is not taken'; }

cluster_namespace frames restricted || test_bail 'no namespace'
cluster_yaml frames >cairn.yaml
cp "$SRC/tests/cluster/checks/frames_train.py" train.py
write bin/mpirun <<'E' # a link of no package
#!/bin/sh
exec mpirun.openmpi "$@"
E
chmod +x bin/mpirun

# step FRAMEWORK MORE-OF-DISTRIBUTED MORE-OF-ENV [LINE…]: of the small program.
step() {
	local line
	cat <<-Y
		  $1:
		    run: /usr/bin/python3 train.py $1 \${{ outputs.model }}
		    image: $REGISTRY/frames:1
		    code: [train.py, bin/]
		    env: {PATH: "/cairn/0/w/bin:/usr/bin:/bin"$3}
		    outputs: {model: model.bin}
		    distributed: {framework: $1, nodes: 2, $2}
		    resources: {cpu: 50m, memory: 192Mi}
	Y
	shift 3
	for line; do
		echo "    $line"
	done
}
again=('checkpoint: ckpt/' 'retry: {max: 2, backoff: 1s}')
{
	printf 'pipeline: frames\nsteps:\n'
	step tensorflow 'servers: 1' ''
	step jax 'procs_per_node: 1' ', PAUSE_AT: "20"' "${again[@]}"
	step ps 'servers: 2' ''
	step mpi 'procs_per_node: 2' ', PAUSE_AT: "20"' "${again[@]}"
} >frames.yaml
main_of() { kubectl logs -l "cairn.internal/step=$1,batch.kubernetes.io/job-completion-index=$2" -c main --tail=-1 2>/dev/null; }
# kill_paused STEP POD VARIABLE=VALUE: the rank that has this in its environment, once the log of the pod with this number says that it waits.
kill_paused() {
	wait_until 120 eval "[ -n \"\$(main_of $1 $2 | sed -n /paused/p)\" ]"
	cluster_inside sh -c 'for p in $(pgrep -f "^/usr/bin/python3 train.py $0"); do
		if [ -n "$(tr "\0" "\n" </proc/$p/environ 2>/dev/null | sed -n "/^$1\$/p")" ]; then kill -9 $p; fi
	done' "$1" "$3"
}
# whole STEP: its bytes and its series are those of the local run, and each rank says so of its weights.
whole() {
	local weights
	cairn logs "$1" >"$1.log"
	test_grep '^=== node 0 of 2, on node1 ===$' "$1.log"
	test_grep '^=== node 1 of 2, on node1' "$1.log"
	cairn get "$1/model" -o "$1.pods"
	cmp "$1.here" "$1.pods"
	cairn get "$1/series" -o "$1.pods-series"
	test_cmp "$1.here-series" "$1.pods-series"
	weights=$(sha256sum <"$1.pods")
	test_is "$(sed -n 's/^\[rank [0-9]*\] weights //p' "$1.log" | sort -u)" "${weights%% *}"
}

test_expect 'four frameworks, two pods each, in one run; a rank of jax and one of mpi are killed' '
	sed "s/, PAUSE_AT: .20.//" frames.yaml >here.yaml
	cairn -q run --on local here.yaml
	for s in tensorflow jax ps mpi; do
		cairn get $s/model -o $s.here
		cairn get $s/series -o $s.here-series
	done
	cmp tensorflow.here jax.here # whatever the way that gradients go
	cmp tensorflow.here ps.here
	start frames cairn run -k frames.yaml
	kill_paused jax 1 JAX_PROCESS_ID=1
	kill_paused mpi 0 OMPI_COMM_WORLD_RANK=3 # in pod 1
	wait_until 120 test -s frames.rc
	test_is "$(cat frames.rc)" 0 || { cat frames.out; kubectl get pods -o wide; kubectl get events | tail -n 20; exit 1; }
	test_is "$(cluster_count jobs frames)" 6 # one each, and two again
'

test_expect 'tensorflow: TF_CONFIG names each member where it listens, the parameter server too' '
	whole tensorflow
	for met in "rank 0. met worker 1 in pod 1" "rank 0. met ps 0 in pod 0" "rank 1. met worker 0 in pod 0" "rank 1. met ps 0 in pod 0" "server 0. met worker 1 in pod 1"; do
		test_grep "^\[$met" tensorflow.log
	done
'

test_expect 'jax: the coordinator is reached; after the kill all began again from the checkpoint, to the same bytes' '
	whole jax
	test_grep "^\[rank 0\] met process 1 in pod 1" jax.log
	test_grep "^\[rank 1\] met process 0 in pod 0" jax.log
	test_grep "^\[rank 0\] rank 0 of 2 begins at 16 in pod 0" jax.log
	test_grep "^\[rank 1\] rank 1 of 2 begins at 16 in pod 1" jax.log
	cairn logs jax --attempt 1 >first.log
	test_grep "^\[rank 1\] rank 1 of 2 begins at 0 in pod 1" first.log
	test_grep "^train: error: rank 1 (was killed by SIGKILL|ended with exit status 137); the others were stopped" first.log
	test_grep "rank 1 (was killed by SIGKILL|ended with exit status 137)" frames.out # who is to blame, not who missed it
'

test_expect 'ps: servers in both pods get what the workers push, by way of the scheduler, and end with the workers' '
	whole ps
	for met in "scheduler. met worker 1 in pod 1" "scheduler. met server 1 in pod 1" "rank 0. met server 1 in pod 1" "rank 1. met server 0 in pod 0" "server 1. met worker 0 in pod 0"; do
		test_grep "^\[$met" ps.log
	done
	head -c 384 ps.pods | sha256sum >half0 # of 96 doubles
	tail -c 384 ps.pods | sha256sum >half1
	for s in 0 1; do test_grep "^\[server $s\] served $(cut -d " " -f 1 half$s)" ps.log; done
'

test_expect 'mpi: four ranks gather by MPI over two pods, which mpirun reached without ssh; one was killed' '
	whole mpi
	for r in 0 1 2 3; do test_grep "^\[rank $r\] rank $r of 4 begins at 16 in pod $((r / 2))" mpi.log; done
	test_grep "^\[rank 0\] met rank 3 in pod 1" mpi.log
	test_no_grep "<stdout>" mpi.log
	test_grep "^=== node 1 of 2, on node1: printed nothing ===$" mpi.log # mpirun has it all
	cairn logs mpi --attempt 1 >first.log
	test_grep "^\[rank 3\] rank 3 of 4 begins at 0 in pod 1" first.log
	test_grep "^train: error: rank 3 (was killed by SIGKILL|ended with exit status 137); the others were stopped" first.log
	test_grep "train: error: rank 3 (was killed by SIGKILL|ended with exit status 137)" frames.out
'

# --- the frameworks themselves ----------------------------------------------------------------------------------------------------------

# itself FRAMEWORK PACKAGE==VERSION: two workers of it in two pods give the bytes of two on this machine. Without Debian's own packages, which are others here than there.
itself() {
	local framework=$1 image
	if [ "${CAIRN_TEST_FULL:-0}" = 0 ]; then
		test_skip "$framework itself" 'takes minutes and gigabytes: CAIRN_TEST_FULL=1'
		return
	fi
	if ! image=$(cluster_do "$SRC/tests/cluster/images/python_image" "$@" 2>"$TRASH/image.log"); then
		test_skip "$framework itself" "no image of it can be made: $(tail -n 1 "$TRASH/image.log")"
		return
	fi
	export IMAGE_TAR=$image FRAMEWORK=$framework
	cp "$SRC/tests/cluster/checks/${framework}_train.py" .
	cat >itself.yaml <<-Y
		pipeline: itself-$framework
		steps:
		  train:
		    run: /usr/bin/python3 -S ${framework}_train.py \${{ outputs.model }}
		    image: $REGISTRY/$framework:1
		    code: [${framework}_train.py]
		    env: {PYTHONPATH: /opt/site}
		    outputs: {model: model.bin}
		    distributed: {framework: $framework, nodes: 2}
		    resources: {cpu: 200m, memory: 2Gi}
	Y
	test_expect "$framework itself: two pods give the bytes of two processes on this machine" '
		test_when_finished "rm -rf site"
		mkdir site
		cluster_do "$SRC/tests/cluster/images/python_image" --site "$IMAGE_TAR" site
		sed "s|/opt/site|$PWD/site|" itself.yaml >itself-here.yaml
		cairn -q run --on local itself-here.yaml
		cairn get train/model -o $FRAMEWORK.itself-here
		cairn get train/series -o $FRAMEWORK.itself-here-series
		cluster_push "$IMAGE_TAR" $FRAMEWORK:1
		cairn run itself.yaml >out 2>&1 || { cat out; cairn logs train; kubectl get events | tail -n 20; exit 1; }
		cairn get train/model -o $FRAMEWORK.itself
		cairn get train/series -o $FRAMEWORK.itself-series
		cmp $FRAMEWORK.itself-here $FRAMEWORK.itself
		test_cmp $FRAMEWORK.itself-here-series $FRAMEWORK.itself-series
		test_lines 10 $FRAMEWORK.itself-series
		cairn logs train >log
		test_grep "^=== node 1 of 2, on node1 ===$" log
		weights=$(sha256sum <$FRAMEWORK.itself)
		for r in 0 1; do test_grep "^\[rank $r\] weights ${weights%% *}$" log; done
	'
}
itself jax jax==0.10.2 jaxlib==0.10.2
itself tensorflow tensorflow-cpu==2.21.0
test_done
