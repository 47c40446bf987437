#!/bin/bash
# The launcher of ranks where nodes are apart: a static program, one a node, in any image. Two of them on loopback stand for two pods.
. "$(dirname "$0")/../../lib.sh"

LAUNCH=$(dirname "$CAIRN")/cairn-launch
[ -x "$LAUNCH" ] || test_skip_all 'no cairn-launch: libjansson.a was not there when it was built'
cp "$LAUNCH" "$TRASH/bin/cairn-launch"
LAUNCH=$TRASH/bin/cairn-launch
export LAUNCH

# on N COMMAND...: what a pod of a gang is told.
write "$TRASH/bin/on" <<'E'
#!/bin/sh
node=$1
shift
CAIRN_GANG_HOSTS=127.0.0.1 JOB_COMPLETION_INDEX=$node CAIRN_GANG_PORT=$PORT exec "$@"
E
chmod +x "$TRASH/bin/on"
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

test_expect --needs ROOT 'nothing of an image is needed but the program itself' '
	mkdir -p root/bin root/dev
	mknod root/dev/null c 1 3 2>/dev/null || : >root/dev/null
	cp "$LAUNCH" root/bin/cairn-launch
	cp "$(command -v busybox)" root/bin/sh
	JOB_COMPLETION_INDEX=1 CAIRN_GANG_HOSTS=job-%u.svc CAIRN_GANG_NODES=3 chroot root /bin/cairn-launch train --with-json "{\"nodes\":3,\"procs_per_node\":2}" \
		-o series=series.jsonl --metrics metrics.json -- /bin/sh -c "echo \"\$RANK \$LOCAL_RANK \$GROUP_RANK \$WORLD_SIZE \$MASTER_ADDR:\$MASTER_PORT\"; echo loss=1 step=1" >out
	sort out >sorted
	test_cmp - sorted <<-"E"
	[rank 2] 2 0 1 6 job-0.svc:29500
	[rank 2] loss=1 step=1
	[rank 3] 3 1 1 6 job-0.svc:29500
	[rank 3] loss=1 step=1
	E
	test_missing root/series.jsonl root/metrics.json
'

test_expect 'it asks the C library for no names: that would crash in an image without its files' '
	if nm "$LAUNCH" 2>/dev/null | grep -E " [TtWw] (getaddrinfo|gethostbyname|getpwnam|getpwuid)$"; then
		exit 1
	fi
	file -L "$LAUNCH" >out
	test_grep "statically linked" out
'

test_expect 'metrics and series are of the first node alone' '
	export PORT=29500
	on 0 "$LAUNCH" train --with-json "{\"nodes\":2}" -o series=s.jsonl --metrics m.json -- sh -c "echo loss=0.5 step=1" >out
	test_is "$(cat out)" "[rank 0] loss=0.5 step=1"
	test_is "$(json m.json "d[\"loss\"]")" 0.5
	test_is "$(cat s.jsonl)" "{\"loss\":0.5,\"step\":1}"
'

test_expect 'the rank that failed is named by its number in the gang' '
	export PORT=29500
	test_code 1 on 1 "$LAUNCH" train --with-json "{\"nodes\":2,\"procs_per_node\":2}" -- sh -c "test \$RANK != 3 || exit 7; exec sleep 600" >out 2>err
	test_grep "^train: error: rank 3 ended with exit status 7; the others were stopped" err
'

test_expect 'surroundings that contradict themselves are one error' '
	CAIRN_GANG_HOSTS="a b" test_code 3 "$LAUNCH" train -- true 2>err
	test_grep "^train: error: CAIRN_GANG_HOSTS is .a b.: a host name" err
	JOB_COMPLETION_INDEX=2 CAIRN_GANG_HOSTS=h%u test_code 3 "$LAUNCH" train --with-json "{\"nodes\":2}" -- true 2>err
	test_grep "JOB_COMPLETION_INDEX is .2.: a number from 0 to 1" err
	test_code 1 "$LAUNCH" shard -i data=x -o train=y -w samples_per_shard=1 2>err
	test_grep "its steps are .train., .ray. and .spark-submit." err
'

# --- launchers that speak with each other ---------------------------------------------------------------------------------------

test_expect 'parameter servers end when the workers of all nodes have, not before' '
	cat >ps.sh <<-"E"
	[ "$DMLC_ROLE" = worker ] || { trap "exit 0" TERM; while :; do sleep 0.05; done; }
	while ! [ -e "go$DMLC_WORKER_ID" ]; do sleep 0.02; done
	echo "worker $DMLC_WORKER_ID ends"
	E
	PORT=$(free_port)
	export PORT CAIRN_GANG_TOKEN=only-ours
	for n in 0 1 2; do
		start ps$n on $n "$LAUNCH" train --with-json "{\"framework\":\"ps\",\"nodes\":3,\"servers\":2}" -- sh ps.sh
	done
	touch go0 go2
	wait_until 20 grep -q "ends" ps0.out
	wait_until 20 grep -q "ends" ps2.out
	# Whoever does not know the token is not one of us, whatever it says.
	python3 - $((PORT - 1)) <<-"E"
	import socket, sys
	for text in b"wrong done 1\n", b"done 1\n", b"only-ours done 7\n", b"only-ours run echo never\n", b"\0" * 200000, b"":
	    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
	    try:
	        s.sendall(text)
	        s.shutdown(socket.SHUT_WR)
	        assert s.recv(10) == b"", text
	    except OSError:
	        pass
	E
	test_missing ps0.rc ps1.rc ps2.rc
	touch go1
	for n in 0 1 2; do
		wait_until 20 test -s ps$n.rc
		test_is "$(cat ps$n.rc)" 0
	done
	test_no_grep never ps0.out
'

test_expect 'stall_timeout: nodes whose ranks say nothing, or have nothing more to say, are no stalled gang' '
	# As a rule rank 0 alone prints: the launcher of another node knows nothing of it.
	on 1 "$LAUNCH" train --with-json "{\"nodes\":2,\"stall_timeout\":\"100ms\"}" -- sleep 0.5 >out 2>err
	test_code 1 on 0 "$LAUNCH" train --with-json "{\"nodes\":2,\"stall_timeout\":\"100ms\"}" -- sleep 600 >out 2>err
	test_grep "no rank printed anything for 100ms" err
	cat >late.sh <<-"E"
	[ "$DMLC_ROLE" = worker ] || { trap "exit 0" TERM; while :; do sleep 0.05; done; }
	[ "$DMLC_WORKER_ID" = 0 ] || sleep 2.5
	E
	PORT=$(free_port)
	export PORT
	for n in 0 1; do
		start late$n on $n "$LAUNCH" train --with-json "{\"framework\":\"ps\",\"nodes\":2,\"servers\":1,\"stall_timeout\":\"1s\"}" -- sh late.sh
	done
	for n in 0 1; do
		wait_until 20 test -s late$n.rc
		test_is "$(cat late$n.rc)" 0
	done
'

test_expect 'a first node that goes without a word fails the others' '
	rm -f go*
	PORT=$(free_port)
	export PORT
	for n in 0 1; do
		start lost$n on $n "$LAUNCH" train --with-json "{\"framework\":\"ps\",\"nodes\":2,\"servers\":2}" -- sh ps.sh
	done
	touch go1
	wait_until 20 grep -q "ends" lost1.out
	kill -9 "$(cat lost0.pid)"
	wait_until 20 test -s lost1.rc
	test_is "$(cat lost1.rc)" 1
	test_grep "the launcher of the first node ended without a message" lost1.out
'

# Two network namespaces with a cable between them, for each of two pods; gone when the test ends.
two_pods() {
	ip netns add "$$a" && ip netns add "$$b" && ip link add "v$$a" netns "$$a" type veth peer name "v$$b" netns "$$b" &&
		ip -n "$$a" addr add 192.0.2.1/24 dev "v$$a" && ip -n "$$b" addr add 192.0.2.2/24 dev "v$$b" &&
		ip -n "$$a" link set lo up && ip -n "$$b" link set lo up && ip -n "$$a" link set "v$$a" up && ip -n "$$b" link set "v$$b" up
}
cat >"$TRASH/bin/pod" <<E
#!/bin/sh
export CAIRN_GANG_HOSTS=x-%u CAIRN_GANG_ADDRESSES=192.0.2.1,192.0.2.2 CAIRN_GANG_TOKEN=only-ours CAIRN_GANG_NODE=\$1
[ "\$1" = 0 ] && net=$$a || net=$$b
shift
exec ip netns exec "\$net" setpriv --reuid 10001 --regid 10001 --clear-groups "\$@"
E
chmod +x "$TRASH/bin/pod"
mkdir -m 777 shared # a user who has no entry in passwd
export HOME=$PWD/shared TMPDIR=$PWD/shared
chmod 755 "$TRASH"

if [ "$(id -u)" -ne 0 ] || ! command -v mpirun ip setpriv >/dev/null || ! (two_pods) 2>/dev/null; then
	test_skip 'mpi over two nodes' 'needs root, ip, setpriv, network namespaces and mpirun (Debian: openmpi-bin)'
else
	test_expect 'mpi: mpirun starts its daemon on the other node through our launcher, without ssh' '
		rm -f mpi1.*
		start mpi1 pod 1 "$LAUNCH" train --with-json "{\"framework\":\"mpi\",\"nodes\":2,\"procs_per_node\":2}" -- true
		pod 0 "$LAUNCH" train --with-json "{\"framework\":\"mpi\",\"nodes\":2,\"procs_per_node\":2}" -- \
			sh -c "echo rank \$OMPI_COMM_WORLD_RANK of \$OMPI_COMM_WORLD_SIZE is \$OMPI_COMM_WORLD_LOCAL_RANK on \$(ip -o -4 addr | grep -o 192.0.2.[12] | uniq)" >out 2>err
		wait_until 20 test -s mpi1.rc
		test_is "$(cat mpi1.rc)" 0
		grep "^.rank" out | sort >sorted
		test_cmp - sorted <<-"E"
		[rank 0] rank 0 of 4 is 0 on 192.0.2.1
		[rank 1] rank 1 of 4 is 1 on 192.0.2.1
		[rank 2] rank 2 of 4 is 0 on 192.0.2.2
		[rank 3] rank 3 of 4 is 1 on 192.0.2.2
		E
	'

	test_expect 'mpi: a rank on the other node fails: the first says which' '
		rm -f mpi1.*
		start mpi1 pod 1 "$LAUNCH" train --with-json "{\"framework\":\"horovod\",\"nodes\":2}" -- true
		test_code 1 pod 0 "$LAUNCH" train --with-json "{\"framework\":\"horovod\",\"nodes\":2}" -- sh -c "test \$OMPI_COMM_WORLD_RANK = 0 || exit 5; exec sleep 600" >out 2>err
		test_grep "^train: error: (rank 1|mpirun) ended with exit status 5; the others were stopped" err
		wait_until 20 test -s mpi1.rc
	'

	test_expect 'mpi: told to end before mpirun has called, a node ends' '
		rm -f mpi1.*
		start mpi1 pod 1 "$LAUNCH" train --with-json "{\"framework\":\"mpi\",\"nodes\":2}" -- true
		wait_until 20 ip netns exec '$$b' python3 -c "import socket; socket.create_connection((\"192.0.2.2\", 29499))"
		test_is "$(stop mpi1 TERM)" 143
	'
	ip netns del "$$a"
	ip netns del "$$b"
fi

# --- real PyTorch ------------------------------------------------------------------------------------------------------------

python=/usr/bin/python3
if ! "$python" -c 'import torch.distributed as d; assert d.is_available() and d.is_gloo_available()' 2>/dev/null; then
	test_skip 'two nodes of PyTorch' 'PyTorch with gloo is not installed (Debian: python3-torch)'
	test_done
fi
cp "$SRC/tests/cluster/checks/gang_train.py" train.py

test_expect 'torch: two nodes give the bytes of one machine with as many ranks' '
	"$LAUNCH" train --with-json "{\"nodes\":2}" -o series=one.jsonl -- '$python' train.py one.bin
	PORT=$(free_port)
	export PORT
	start second on 1 "$LAUNCH" train --with-json "{\"nodes\":2}" -- '$python' train.py none.bin
	on 0 "$LAUNCH" train --with-json "{\"nodes\":2}" -o series=two.jsonl -- '$python' train.py two.bin
	wait_until 60 test -s second.rc
	test_is "$(cat second.rc)" 0
	cmp one.bin two.bin
	test_cmp one.jsonl two.jsonl
	test_missing none.bin
'

test_expect 'torch: a rank of another node is killed; all begin again from the checkpoint and end with the same bytes' '
	mkdir ckpt
	export CAIRN_CHECKPOINT=$PWD/ckpt
	PORT=$(free_port)
	export PORT
	rm -f *.rc begun
	start second env PAUSE_AT=21 on 1 "$LAUNCH" train --with-json "{\"nodes\":2}" -- '$python' train.py none.bin
	start first on 0 "$LAUNCH" train --with-json "{\"nodes\":2}" -o series=cut.jsonl -- '$python' train.py cut.bin
	wait_until 60 test -s paused
	kill -9 "$(cat paused)"
	wait_until 60 test -s second.rc
	test_is "$(cat second.rc)" 137
	test_grep "rank 1 was killed by SIGKILL" second.out
	kill -TERM "$(cat first.pid)" # as the cluster does when a pod of the gang has failed
	wait_until 60 test -s first.rc
	test_missing cut.bin
	rm -f *.rc
	PORT=$(free_port)
	start second on 1 "$LAUNCH" train --with-json "{\"nodes\":2}" -- '$python' train.py none.bin
	on 0 "$LAUNCH" train --with-json "{\"nodes\":2}" -o series=cut.jsonl -- '$python' train.py cut.bin
	test_is "$(tr "\n" " " <begun)" "0 16 "
	cmp one.bin cut.bin
	test_cmp one.jsonl cut.jsonl
'
test_done
