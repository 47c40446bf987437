#!/bin/bash
# Ranks that come and go: three launchers on loopback stand for three pods, with the torchrun of a real PyTorch (Debian: python3-torch).
. "$(dirname "$0")/../../lib.sh"

LAUNCH=$(dirname "$CAIRN")/cairn-launch
[ -x "$LAUNCH" ] || test_skip_all 'no cairn-launch: libjansson.a was not there when it was built'
export LAUNCH

# The ordinary gang that it is on one machine needs no PyTorch.
test_expect 'on this machine: an ordinary gang of the smallest number, with its own cpus each' '
	touch cairn.yaml
	cat >here.yaml <<-"Y"
		pipeline: here
		steps:
		  train:
		    run: echo "rank $RANK of $WORLD_SIZE with $OMP_NUM_THREADS, torchrun ${PET_RDZV_BACKEND:-no}"
		    distributed: {framework: torch, nodes: {min: 2, max: 8}, procs_per_node: 1}
		    resources: {cpu: 1}
	Y
	cairn -q run here.yaml
	cairn logs train | grep rank | sort >log
	test_cmp - log <<-"E"
	[rank 0] rank 0 of 2 with 1, torchrun no
	[rank 1] rank 1 of 2 with 1, torchrun no
	E
'

test_expect 'the range is in the key; what says how it is started is not' '
	key() { cairn plan here.yaml --json >plan; json plan "[t[\"key\"] for t in d[\"tasks\"]][0]"; }
	one=$(key)
	sed -i "s/max: 8/max: 7/" here.yaml
	two=$(key)
	sed -i "s/nodes: {[^}]*}/nodes: 2/" here.yaml
	three=$(key)
	[ "$one" != "$two" ] && [ "$two" != "$three" ] && [ "$one" != "$three" ]
	sed -i "s/nodes: 2/nodes: {max: 8, min: 2}/; s/cpu: 1/cpu: 2/" here.yaml
	test_is "$(key)" "$one"
'

test_expect 'settings that fit no launcher' '
	test_code 3 "$LAUNCH" train --with-json "{\"nodes\":2,\"min_nodes\":3}" -- true 2>err
	test_grep "^train: error: min_nodes must be at most nodes, for torch" err
	test_code 3 "$LAUNCH" train --with-json "{\"nodes\":2,\"min_nodes\":1,\"framework\":\"jax\"}" -- true 2>err
	test_grep "^train: error: min_nodes must be at most nodes, for torch" err
	PATH=$TRASH/bin CAIRN_GANG_HOSTS=127.0.0.1 JOB_COMPLETION_INDEX=0 test_code 3 "$LAUNCH" train --with-json "{\"nodes\":2,\"min_nodes\":1}" -- true 2>err || cat err
	test_grep "^train: error: torchrun is not on PATH: .nodes: {min, max}. needs PyTorch.s" err
	test_code 2 "$LAUNCH" torch-rank true 2>err
	test_grep "called by torchrun" err
	CAIRN_GANG_OUTPUTS="/proc/1/fd 1" RANK=0 LOCAL_RANK=0 CAIRN_GANG_NODE=1 test_code 2 "$LAUNCH" torch-rank true 2>err
	test_grep "^train: error: torchrun gave rank 0 to node 1; outputs come from node 0" err
'

python=/usr/bin/python3
"$python" -c 'import torch.distributed as d; assert d.is_available() and d.is_gloo_available()' 2>/dev/null || {
	test_skip 'nodes come and go' 'PyTorch with gloo is not installed (Debian: python3-torch)'
	test_done
}
command -v torchrun >/dev/null || test_bail 'python3-torch has no torchrun'

# torchrun orders nodes by host name, and those of one host by process ids, which begin again at 1 some time. So each has an address for a name.
write "$TRASH/names/sitecustomize.py" <<'E'
import os, socket
socket.getfqdn = lambda name="": f"127.0.0.{1 + int(os.environ['JOB_COMPLETION_INDEX'])}"
E
# node N NAME: the launcher of a pod, in a directory of its own; what it prints is in NAME/NAME.out.
node() {
	mkdir -p "$2/ckpt"
	(
		cd "$2" || exit 1
		TEST_START_DIR=$PWD CAIRN_CHECKPOINT=$PWD/ckpt CAIRN_GANG_TOKEN=ours CAIRN_GANG_HOSTS=127.0.0.1 JOB_COMPLETION_INDEX=$1 CAIRN_GANG_PORT=$PORT \
			PYTHONPATH=$TRASH/names PET_RDZV_CONF=last_call_timeout=2 start "$2" "$LAUNCH" train --with-json '{"nodes":3,"min_nodes":2}' \
			-o series=series.jsonl --metrics metrics.json -- "$python" "$SRC/tests/cluster/checks/elastic_train.py" model.txt
	)
}
begun() { sed -n 's/^\[rank [0-9]*\] rank [0-9]* \(of [0-9]* begins at [0-9]*\)$/\1/p' "$1/$1.out"; }
# worlds NAME N SIZE: it has seen N worlds or more; the last one has SIZE ranks.
worlds() { [ "$(begun "$1" | wc -l)" -ge "$2" ] && [ "$(begun "$1" | tail -n 1 | cut -d' ' -f2)" = "$3" ]; }
steps() { grep -c "loss=" a/a.out; }
more_steps() { [ "$(steps)" -gt "$1" ]; }
await_steps() { local now; now=$(steps); wait_until 120 more_steps "$now"; }

test_expect 'nodes come and go: the training goes on from the newest checkpoint, and rank 0 stays on the first' '
	PORT=$(python3 -c "import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); print(s.getsockname()[1])")
	export PORT
	node 0 a
	node 1 b
	wait_until 180 worlds a 1 2
	await_steps
	node 2 c
	wait_until 180 worlds a 2 3
	wait_until 60 worlds c 1 3
	await_steps
	test_is "$(TEST_START_DIR=; kill -TERM "$(cat c/c.pid)"; wait_until 60 test -s c/c.rc; cat c/c.rc)" 143
	wait_until 180 worlds a 3 2
	await_steps
	node 2 again
	wait_until 180 worlds again 1 3
	await_steps
	touch a/go
	for n in a b again; do wait_until 120 test -s $n/$n.rc; test_is "$(cat $n/$n.rc)" 0 || { cat $n/$n.out; exit 1; }; done
	test_grep "^([0-9]+) \[\1, \1, \1, \1, \1, \1, \1, \1\]$" a/model.txt
	test_missing b/model.txt again/model.txt b/metrics.json
	n=$(cut -d" " -f1 a/model.txt)
	test_is "$(grep -c . a/series.jsonl)" "$n"
	test_is "$(json a/metrics.json "round(1 / d[\"loss\"])")" "$n"
	begun a >worlds
	test_is "$(head -n 1 worlds)" "of 2 begins at 0"
	sort -t" " -k5n -u worlds | test_cmp - worlds # each begins later than the one before
'
test_done
