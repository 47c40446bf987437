#!/bin/bash
# The launcher of ranks where nodes are apart: a static program, one a node, in any image. Two of them on loopback stand for two pods.
. "$(dirname "$0")/../lib.sh"

LAUNCH=$(dirname "$CAIRN")/cairn-launch
export LAUNCH
[ -x "$LAUNCH" ] || test_skip_all 'no cairn-launch: libjansson.a was not there when it was built'

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
	export PORT=1
	on 0 "$LAUNCH" train --with-json "{\"nodes\":2}" -o series=s.jsonl --metrics m.json -- sh -c "echo loss=0.5 step=1" >out
	test_is "$(cat out)" "[rank 0] loss=0.5 step=1"
	test_is "$(json m.json "d[\"loss\"]")" 0.5
	test_is "$(cat s.jsonl)" "{\"loss\":0.5,\"step\":1}"
'

test_expect 'the rank that failed is named by its number in the gang' '
	export PORT=1
	test_code 1 on 1 "$LAUNCH" train --with-json "{\"nodes\":2,\"procs_per_node\":2}" -- sh -c "test \$RANK != 3 || exit 7; exec sleep 600" >out 2>err
	test_grep "^train: error: rank 3 ended with exit status 7; the others were stopped" err
'

test_expect 'surroundings that contradict themselves are one error' '
	CAIRN_GANG_HOSTS="a b" test_code 3 "$LAUNCH" train -- true 2>err
	test_grep "^train: error: CAIRN_GANG_HOSTS is .a b.: a host name" err
	JOB_COMPLETION_INDEX=2 CAIRN_GANG_HOSTS=h%u test_code 3 "$LAUNCH" train --with-json "{\"nodes\":2}" -- true 2>err
	test_grep "JOB_COMPLETION_INDEX is .2.: a number from 0 to 1" err
	test_code 1 "$LAUNCH" shard -i data=x -o train=y -w samples_per_shard=1 2>err
	test_grep "no other step than .train." err
'

# --- real PyTorch ------------------------------------------------------------------------------------------------------------

python=/usr/bin/python3
if ! "$python" -c 'import torch.distributed as d; assert d.is_available() and d.is_gloo_available()' 2>/dev/null; then
	test_skip 'two nodes of PyTorch' 'PyTorch with gloo is not installed (Debian: python3-torch)'
	test_done
fi
cp "$SRC/tests/cluster/gang_train.py" train.py

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
