#!/bin/bash
# The launcher of ranks: what each is told, how a gang ends, what becomes of its metrics and checkpoints. Ranks are shell and python scripts.
. "$(dirname "$0")/../../lib.sh"

mkdir 'a projëct' # names with spaces and other letters reach every place that a path goes to
cd 'a projëct' || exit 1
touch cairn.yaml
WORK=$PWD

# pipeline NAME FRAMEWORK-BLOCK RUN [MORE LINES OF THE STEP]
pipeline() {
	printf 'pipeline: %s\nsteps:\n  train:\n    uses: train\n    run: |\n' "$1" >"$1.yaml"
	sed 's/^/      /' <<<"$3" >>"$1.yaml"
	printf '    distributed: %s\n' "$2" >>"$1.yaml"
	[ $# -lt 4 ] || printf '%s\n' "$4" | sed 's/^/    /' >>"$1.yaml"
}
# In the background; its last exit status is in run.rc.
begin_run() {
	rm -f "$TRASH/work/run.rc" up.*
	start run cairn -q run "$@"
}
# said N REGEX: a line of rank (server, …) N
said() { test_grep "^\[$1\] $2\$" log; }

test_expect 'torch: what torchrun gives' '
	cd "$WORK"
	pipeline torch "{framework: torch, nodes: 2, procs_per_node: 2}" "env; true"
	cairn -q run torch.yaml
	cairn logs train >log
	for r in 0 1 2 3; do
		said "rank $r" "RANK=$r"
		said "rank $r" "LOCAL_RANK=$r"
		said "rank $r" "WORLD_SIZE=4"
		said "rank $r" "LOCAL_WORLD_SIZE=4"
		said "rank $r" "GROUP_RANK=0"
		said "rank $r" "ROLE_RANK=$r"
		said "rank $r" "MASTER_ADDR=127.0.0.1"
		said "rank $r" "PET_NNODES=2"
		said "rank $r" "PET_NPROC_PER_NODE=2"
		said "rank $r" "OMP_NUM_THREADS=1"
		said "rank $r" "PYTHONUNBUFFERED=1"
	done
	test_is "$(grep -E "\] (PET_)?MASTER_PORT=" log | sed "s/.*=//" | sort -u | grep -c "^[0-9]*$")" 1
	test_no_grep TF_CONFIG log
'

test_expect 'torch, a launcher a node: PET_* only, with the rank of the node' '
	cd "$WORK"
	pipeline nodes "{framework: torch, nodes: 2, procs_per_node: 3}" "env; true" "with: {starts: nodes}"
	cairn -q run nodes.yaml
	cairn logs train >log
	said "node 0" PET_NODE_RANK=0
	said "node 1" PET_NODE_RANK=1
	said "node 1" PET_NPROC_PER_NODE=3
	test_no_grep "\] (RANK|WORLD_SIZE|LOCAL_RANK)=" log
'

test_expect 'tensorflow: TF_CONFIG with an address a member, servers included' '
	cd "$WORK"
	pipeline tf "{framework: tensorflow, nodes: 2, servers: 1}" "
		python3 - <<E
		import json, os
		c = json.loads(os.environ[\"TF_CONFIG\"])
		all = [a for v in c[\"cluster\"].values() for a in v]
		print(c[\"task\"][\"type\"], c[\"task\"][\"index\"], len(c[\"cluster\"][\"worker\"]), len(c[\"cluster\"][\"ps\"]), len(set(all)), flush=True)
		E
		case \$TF_CONFIG in *\"\\\"ps\\\"}\"*) : >\"\$DIR/ps.up\"; exec sleep 1000 ;; esac
		until [ -e \"\$DIR/ps.up\" ]; do :; done" "env: {DIR: \"$WORK\"}"
	sed -i "s/^      \t\t/      /" tf.yaml
	cairn -q run tf.yaml
	cairn logs train >log
	said "rank 0" "worker 0 2 1 3"
	said "rank 1" "worker 1 2 1 3"
	said "server 0" "ps 0 2 1 3"
'

test_expect 'jax: a coordinator, under both names' '
	cd "$WORK"
	pipeline jax "{framework: jax, nodes: 3}" "env; true"
	cairn -q run jax.yaml
	cairn logs train >log
	said "rank 2" JAX_PROCESS_ID=2
	said "rank 2" JAX_NUM_PROCESSES=3
	said "rank 1" PROCESS_ID=1
	said "rank 1" NUM_PROCESSES=3
	port=$(sed -n "s/^\[rank 0\] COORDINATOR_PORT=//p" log)
	said "rank 2" "JAX_COORDINATOR_ADDRESS=127.0.0.1:$port"
'

test_expect 'ps: roles; servers and scheduler are stopped when the workers have ended, and that is success' '
	cd "$WORK"
	pipeline ps "{framework: ps, nodes: 2, servers: 2}" "env | grep DMLC_
		[ \$DMLC_ROLE = worker ] || { : >\"\$DIR/\$DMLC_ROLE\$DMLC_SERVER_ID.up\"; exec sleep 1000; }
		until [ -e \"\$DIR/scheduler.up\" ] && [ -e \"\$DIR/server0.up\" ] && [ -e \"\$DIR/server1.up\" ]; do :; done" "env: {DIR: \"$WORK\"}"
	sed -i "s/^      \t\t/      /" ps.yaml
	cairn -q run ps.yaml
	cairn logs train >log
	said scheduler DMLC_ROLE=scheduler
	said "server 1" DMLC_ROLE=server
	said "server 1" DMLC_SERVER_ID=1
	said "rank 0" DMLC_ROLE=worker
	said "rank 1" DMLC_WORKER_ID=1
	said "rank 1" DMLC_NUM_WORKER=2
	said "rank 1" DMLC_NUM_SERVER=2
	test_is "$(grep -c "DMLC_PS_ROOT_URI=127.0.0.1" log)" 5
	test_is "$(grep "DMLC_PS_ROOT_PORT" log | sed "s/.*=//" | sort -u | wc -l)" 1
'

test_expect 'mpi: another mpirun than that of Open MPI is refused in words' '
	mkdir -p hydra
	write hydra/mpirun <<-E
		#!/bin/sh
		echo "HYDRA build details:"
	E
	chmod +x hydra/mpirun
	PATH=$PWD/hydra:$PATH test_must_fail cairn step train -w framework=mpi -- true 2>err
	test_grep "is not Open MPI.s.*HYDRA build details.*openmpi-bin" err
'
test_expect --needs mpirun 'mpi: real ranks by mpirun, each line behind its rank' '
	cd "$WORK"
	pipeline mpi "{framework: mpi, procs_per_node: 3}" "echo I am \$OMPI_COMM_WORLD_RANK of \$OMPI_COMM_WORLD_SIZE with \$OMP_NUM_THREADS
		[ \$OMPI_COMM_WORLD_RANK != 0 ] || echo loss=0.25 step=3" "resources: {cpu: 2}"
	sed -i "s/^      \t\t/      /" mpi.yaml
	cairn -q run mpi.yaml
	cairn logs train >log
	for r in 0 1 2; do said "rank $r" "I am $r of 3 with 1"; done
	cairn metrics --json --pipeline mpi >m
	test_is "$(json m "d[\"runs\"][0][\"metrics\"][\"train\"][\"loss\"]")" 0.25
'

test_expect --needs mpirun 'mpi: lines that are written in pieces, by several ranks at once, are whole in log and series' '
	cd "$WORK"
	pipeline pieces "{framework: mpi, procs_per_node: 2}" "
		r=\$OMPI_COMM_WORLD_RANK i=0
		while [ \$i -lt 300 ]; do
		i=\$((i + 1))
		printf \"loss=\$i.5\"; printf \" step=\"; printf \$i; echo
		done"
	sed -i "s/^      \t\t/      /" pieces.yaml
	cairn -q run pieces.yaml
	cairn logs train >log
	for r in 0 1; do
		for i in $(seq 300); do echo "[rank $r] loss=$i.5 step=$i"; done >want
		grep "^.rank $r\]" log >got
		test_cmp want got
	done
	test_is "$(cairn get train/series -o - | wc -l)" 300
'

test_expect --needs mpirun 'mpi: the rank that failed ends the gang' '
	cd "$WORK"
	pipeline mpifail "{framework: horovod, procs_per_node: 2}" "echo here
		[ \$OMPI_COMM_WORLD_RANK = 0 ] || { echo this is why; exit 3; }
		exec sleep 1000"
	sed -i "s/^      \t\t/      /" mpifail.yaml
	test_code 1 cairn -q run mpifail.yaml 2>err
	cairn logs train >log
	test_grep "^\[rank 1\] this is why" log
	test_grep "error: (rank 1|mpirun) ended with exit status 3" log
'

test_expect --needs mpirun 'mpi: one SIGTERM reaches each rank once, with time to save' '
	cd "$WORK"
	cat >mpirank <<-"E"
	#!/bin/bash
	n=0 r=$OMPI_COMM_WORLD_RANK
	trap "n=\$((n + 1)); echo \$r >>\"$DIR/terms\"" TERM
	: >"$DIR/up.$r"
	while [ $n -eq 0 ]; do read -r -t 0.05 <>"$DIR/fifo" || :; done
	for i in 1 2 3 4 5 6 7 8; do read -r -t 0.25 <>"$DIR/fifo" || :; done
	echo saved $r >>"$DIR/saved"
	E
	mkfifo fifo
	pipeline mpiterm "{framework: mpi, procs_per_node: 2}" "exec bash \"\$DIR/mpirank\"" "env: {DIR: \"$WORK\"}"
	begin_run mpiterm.yaml
	wait_until 30 test -e up.0
	wait_until 30 test -e up.1
	cairn cancel
	wait_until 30 test -s "$TRASH/work/run.rc"
	test_is "$(sort saved | tr "\n" " ")" "saved 0 saved 1 "
	test_is "$(sort terms | tr "\n" " ")" "0 1 "
'

test_expect 'the first rank that fails stops the others at once; the error names it, its last lines stand in the log' '
	cd "$WORK"
	pipeline fails "{framework: torch, procs_per_node: 3}" "echo \"I have \$RANK\"
		[ \$RANK = 1 ] || exec sleep 1000
		for i in \$(seq 30); do echo line \$i; done
		echo out of memory >&2
		exit 7"
	sed -i "s/^      \t\t/      /" fails.yaml
	test_code 1 cairn run fails.yaml >out 2>err
	cat out err >both
	test_grep "rank 1 ended with exit status 7; the others were stopped" both
	cairn logs train >log
	test_grep "^--- last lines of rank 1 ---$" log
	test_is "$(sed "1,/^--- last/d" log | sed -n 20p)" "out of memory"
	test_is "$(sed "1,/^--- last/d" log | sed -n 1p)" "line 12"
'

test_expect 'a rank that fails because its peer did is not the one that is named, even if it ends first' '
	cd "$WORK"
	pipeline cause "{framework: torch, procs_per_node: 3}" "case \$RANK in
		0) echo \$\$ >$TRASH/zero; until [ -e $TRASH/said ]; do sleep 0.01; done; echo my peer is gone; exit 1;;
		1) until [ -s $TRASH/zero ]; do sleep 0.01; done; echo bad batch; echo >$TRASH/said
			while kill -0 \$(cat $TRASH/zero) 2>&-; do sleep 0.01; done; exit 5;;
		2) exec sleep 1000;;
		esac"
	sed -i "s/^      \t\t/      /" cause.yaml
	test_code 1 cairn -q run cause.yaml 2>err
	test_grep "rank 1 ended with exit status 5; the others were stopped" err
	cairn logs train >log
	test_grep "^bad batch" log
'

test_expect 'a rank that was killed is told as killed' '
	cd "$WORK"
	pipeline killed "{framework: torch, procs_per_node: 2}" "[ \$RANK = 0 ] || kill -9 \$\$
		exec sleep 1000"
	sed -i "s/^      \t\t/      /" killed.yaml
	test_code 1 cairn run killed.yaml >out 2>err
	cairn logs train >log
	test_grep "error: rank 1 was killed by SIGKILL" log
	test_grep "killed by SIGKILL" err
'

rank_that_saves='trap "echo \$RANK >>\"\$DIR/terms\"; [ \$RANK = 1 ] && read -r -t 0.3 <>\"\$DIR/fifo\"; echo saved >\"\$DIR/saved.\$RANK\"; exit 0" TERM
: >"$DIR/up.$RANK"
while :; do read -r -t 0.05 <>"$DIR/fifo" || :; done'

saved_once() {
	test_is "$(sort terms | tr '\n' ' ')" '0 1 '
	test_exists saved.0 saved.1
	rm -f terms saved.* up.*
}
prepare_saves() {
	[ -p fifo ] || mkfifo fifo
	rm -f terms saved.* up.*
	printf '%s\n' "$rank_that_saves" >saves.sh
	pipeline "$1" '{framework: torch, procs_per_node: 2}' 'bash "$DIR/saves.sh"; echo never' "env: {DIR: \"$WORK\"}
${2:-}"
}

test_expect 'cairn cancel: SIGTERM reaches every rank exactly once, with time to save' '
	cd "$WORK"
	prepare_saves cancelled
	begin_run cancelled.yaml
	wait_until 30 test -e up.0
	wait_until 30 test -e up.1
	cairn cancel
	wait_until 30 test -s "$TRASH/work/run.rc"
	saved_once
	cairn status --json >s
	test_is "$(json s "d[\"run\"][\"state\"]")" cancelled
'

test_expect 'Ctrl-C: the same, and the run can go on' '
	cd "$WORK"
	prepare_saves interrupted
	begin_run interrupted.yaml
	wait_until 30 test -e up.0
	wait_until 30 test -e up.1
	test_is "$(stop run INT)" 130
	saved_once
'

test_expect 'a timeout is a SIGTERM with time to save; what was saved is no result' '
	cd "$WORK"
	prepare_saves late "timeout: 1s"
	test_code 1 cairn -q run late.yaml 2>err
	saved_once
	cairn status --json >s
	test_is "$(json s "d[\"tasks\"][-1][\"failure\"]")" timeout
'

test_expect 'stall_timeout: a gang that prints nothing is stopped' '
	cd "$WORK"
	prepare_saves stalled "with: {stall_timeout: 300ms}"
	test_code 1 cairn -q run stalled.yaml 2>err
	saved_once
	cairn logs train >log
	test_grep "no rank printed anything for 300ms" log
'

test_expect 'a rank that ignores SIGTERM is killed when its grace is over; so is what it made into a daemon' '
	cd "$WORK"
	rm -f up.*
	pipeline stubborn "{framework: torch, procs_per_node: 2}" "trap \"\" TERM
		(setsid sh -c \"echo \\\$\\\$ >\\\"\$DIR/daemon.\$RANK\\\"; exec sleep 1000\" &)
		until [ -s \"\$DIR/daemon.\$RANK\" ]; do :; done
		: >\"\$DIR/up.\$RANK\"
		while :; do sleep 1000; done" "env: {DIR: \"$WORK\"}
with: {grace: 200ms}"
	sed -i "s/^      \t\t/      /" stubborn.yaml
	begin_run stubborn.yaml
	wait_until 30 test -e up.0
	wait_until 30 test -e up.1
	cairn cancel
	wait_until 30 test -s "$TRASH/work/run.rc"
	test_gone "$(cat daemon.0)"
	test_gone "$(cat daemon.1)"
'

test_expect 'a launcher that is killed takes its ranks, and what they started, with it' '
	cd "$WORK"
	rm -f pid.*
	pipeline launcher "{framework: torch, procs_per_node: 2}" "echo \$PPID >\"\$DIR/pid.launcher\"; echo \$\$ >\"\$DIR/pid.\$RANK\"
		sh -c \"echo \\\$\\\$ >\\\"\$DIR/pid.child.\$RANK\\\"; exec sleep 1000\"
		true" "env: {DIR: \"$WORK\"}"
	sed -i "s/^      \t\t/      /" launcher.yaml
	begin_run launcher.yaml
	wait_until 30 test -s pid.child.0
	wait_until 30 test -s pid.child.1
	kill -9 "$(cat pid.launcher)"
	wait_until 30 test -s "$TRASH/work/run.rc"
	test_is "$(cat "$TRASH/work/run.rc")" 1
	for p in pid.*; do wait_until 10 test_gone "$(cat "$p")"; done
'

test_expect 'a daemon that goes on printing holds nothing up' '
	cd "$WORK"
	rm -f daemon.*
	pipeline noisy "{framework: torch, procs_per_node: 2}" "(setsid yes &)
		echo done"
	sed -i "s/^      \t\t/      /" noisy.yaml
	cairn -q run noisy.yaml
	cairn logs train >log
	said "rank 1" done
'

test_expect 'lines of any length and any bytes, and one without an end' '
	cd "$WORK"
	pipeline bytes "{framework: torch, procs_per_node: 2}" "head -c 200000 /dev/zero | tr \"\\\\000\" x; echo
		printf \"a\\\\000\\\\377b\\n\"; printf end"
	sed -i "s/^      \t\t/      /" bytes.yaml
	cairn -q run bytes.yaml
	cairn logs train >log
	test_is "$(tr -cd x <log | wc -c)" 400000
	test_is "$(grep -ac "^\[rank [01]\] end$" log)" 2
	test_is "$(tr -cd "\000" <log | wc -c)" 2
'

test_expect 'what is wrong in the file is found before anything runs, with its line' '
	cd "$WORK"
	write bad1.yaml <<-"Y"
	pipeline: bad
	steps:
	  train:
	    uses: train
	    distributed: {framework: torch}
	Y
	write bad2.yaml <<-"Y"
	pipeline: bad
	steps:
	  train:
	    uses: train
	    run: "true"
	    with: {framework: torch, procs_per_node: 2}
	Y
	write bad3.yaml <<-"Y"
	pipeline: bad
	steps:
	  train:
	    run: "true"
	    distributed: {framework: torch, servers: 2}
	Y
	test_code 3 cairn check bad1.yaml 2>err
	test_grep "bad1.yaml:3:3: .*no .run." err
	test_code 3 cairn check bad2.yaml 2>err
	test_grep "bad2.yaml:6:23: .*belongs into .distributed" err
	test_grep "bad2.yaml:6:46: .*belongs into .distributed" err
	test_code 3 cairn check bad3.yaml 2>err
	test_grep "bad3.yaml:5:46: .servers. has no meaning for torch" err
'

test_expect 'logs --rank: the lines of one rank, without what marks them' '
	cd "$WORK"
	pipeline ranks "{framework: torch, procs_per_node: 11}" "echo \"I am \$RANK\"; echo \"[rank 1] is not \$RANK\"; printf last"
	cairn -q run ranks.yaml
	cairn logs train --rank 1 >log
	printf "I am 1\n[rank 1] is not 1\nlast\n" | test_cmp - log
	cairn logs train --rank 10 -n 2 >log
	printf "[rank 1] is not 10\nlast\n" | test_cmp - log
	cairn logs train --rank 11 -n 2 >log
	test_lines 0 log
	test_code 2 cairn logs train --rank one 2>err
'

test_expect 'logs --rank -f: while it runs' '
	cd "$WORK"
	pipeline live "{framework: torch, procs_per_node: 2}" "echo first \$RANK; read -r x <\"\$DIR/go.\$RANK\"; echo \$x" "env: {DIR: \"$WORK\"}"
	mkfifo go.0 go.1
	begin_run live.yaml
	wait_until 30 sh -c "cairn logs train | grep -q \"first 1\""
	rm -f "$TRASH/work/follow.rc"
	start follow cairn logs -f train --rank 1
	wait_until 30 grep -q "^first 1" "$TRASH/work/follow.out"
	echo nothing >go.0
	echo second >go.1
	wait_until 30 test -s "$TRASH/work/follow.rc"
	printf "first 1\nsecond\n" | test_cmp - "$TRASH/work/follow.out"
'

# ---- metrics -----------------------------------------------------------------------------------------------------------

test_expect 'metrics: words and JSON, nested names, NaN; only of rank 0, only whole lines' '
	cd "$WORK"
	cat >print.py <<-"E"
	import json, os
	print("epoch 1 of 3: loss=9 is not a line of metrics")
	print("loss=0.5, acc=0.25 step=1")
	print(json.dumps({"step": 2, "loss": float("nan"), "val": {"acc": 0.5}, "note": "NaN here"}))
	print("loss=nan step=3")
	print(json.dumps({"loss": 0.125, "step": 4, "up": float("inf")}))
	print("lr=1e-3 step=2")
	print("rank=%s" % os.environ["RANK"])
	E
	pipeline metrics "{framework: torch, procs_per_node: 2}" "python3 print.py" "code: [print.py]"
	cairn -q run metrics.yaml
	cairn get train/series -o - >series
	cat >want <<-"E"
	{"acc":0.25,"loss":0.5,"step":1}
	{"loss":null,"lr":0.001,"step":2,"val.acc":0.5}
	{"loss":null,"step":3}
	{"loss":0.125,"rank":0,"step":4,"up":null}
	E
	sed -i "s/\"rank\":0,//" series
	grep -v "\"rank\"" series >got || :
	sed "s/\"rank\":0,//" want | test_cmp - got
	cairn metrics --json --pipeline metrics >m
	test_is "$(json m "d[\"runs\"][0][\"metrics\"][\"train\"][\"loss\"]")" 0.125
	test_is "$(json m "d[\"runs\"][0][\"metrics\"][\"train\"][\"val.acc\"]")" 0.5
	test_is "$(json m "\"up\" in d[\"runs\"][0][\"metrics\"][\"train\"]")" false
'

test_expect 'a metrics file of the program wins over its lines' '
	cd "$WORK"
	pipeline file "{framework: torch}" "echo loss=1 step=1; echo \"{\\\"loss\\\": 2}\" >metrics.json"
	cairn -q run file.yaml
	cairn metrics --json --pipeline file >m
	test_is "$(json m "d[\"runs\"][0][\"metrics\"][\"train\"][\"loss\"]")" 2.0
'

test_expect 'a pipeline that is read from its cached model launches just the same' '
	cd "$WORK"
	pipeline twice "{framework: torch}" "echo loss=1 step=1"
	sed -i "/distributed/d" twice.yaml
	cairn -q run twice.yaml
	cairn -q run twice.yaml --force
	cairn get train/series -o - >series
	test_is "$(cat series)" "{\"loss\":1,\"step\":1}"
'

# ---- pictures of metrics -------------------------------------------------------------------------------------------------

write plot.yaml <<'Y'
pipeline: plot
params: {k: 1}
steps:
  train:
    uses: train
    matrix: {fold: [0, "a<b&c"]}
    run: |
      for i in 0 1 2 3 4; do echo "down=$((10 - i * ${{ params.k }})) flat=3 <evil>&=1" step=$i | sed "s/ <evil>&=1//"; done
      echo "gap=nan step=0"; echo "gap=1 step=1"; echo "{\"gap\": 1e300, \"step\": 2}"
  plain:
    run: "true"
Y
test_expect '--plot: a picture for each metric, in ASCII where nothing else is fine' '
	cd "$WORK"
	cairn -q run plot.yaml
	LC_ALL=C COLUMNS=60 cairn metrics --plot down --step train >out
	test_is "$(sed -n 1p out)" "            down"
	test_is "$(LC_ALL=C grep -c "[^ -~]" out || :)" 0
	test_is "$(sed -n 2p out)" "        10 |bb"
	test_grep "^         6 \|.*b$" out
	test_grep "^            0 +4$" out
	test_grep "^            b train\[fold=a<b&c\]" out
	test_is "$(awk "{ if (length(\$0) > n) n = length(\$0) } END { print n }" out)" 60
	COLUMNS=60 cairn metrics --plot=gap --plot=flat >out
	test_is "$(grep -cE "^ {12}(gap|flat)$" out)" 2
	test_no_grep down out
'

test_expect '--plot: Braille for a line alone, and with colours; nothing wider than the terminal' '
	cd "$WORK"
	sed "s/, \"a<b&c\"//" plot.yaml >one.yaml
	cairn -q run one.yaml
	LC_ALL=C.UTF-8 COLUMNS=60 cairn metrics --plot down >out
	grep -q "⠉\|⠑\|⠢\|⠤\|⡀\|⠒" out
	test_is "$(wc -L <out)" 60
	LC_ALL=C.UTF-8 COLUMNS=60 cairn metrics --color always --plot down >out
	grep -q "$(printf "\033")" out
'

test_expect '--plot: the newest run, or those that are asked for; what there is when there is no such metric' '
	cd "$WORK"
	cairn -q run plot.yaml -p k=2
	cairn metrics --plot down --json >one
	test_is "$(json one "sorted({s[\"points\"][4][1] for s in d[\"series\"]})")" "[2.0]"
	cairn metrics --plot down -n 3 --json >three
	test_is "$(json three "len({s[\"run\"] for s in d[\"series\"]})")" 3
	cairn metrics --plot gap --json >gap
	test_is "$(json gap "d[\"series\"][0][\"points\"]")" "[[0.0, null], [1.0, 1.0], [2.0, 1e+300]]"
	test_must_fail cairn metrics --plot nothing 2>err
	test_grep "down, flat, gap" err
'

test_expect --needs python3 '--svg: a document that XML readers take, whatever the names' '
	cd "$WORK"
	cairn metrics --svg "plot é.svg"
	python3 - "plot é.svg" <<-"E"
	import sys, xml.etree.ElementTree as T
	root = T.parse(sys.argv[1]).getroot()
	texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
	assert root.tag.endswith("svg") and {"down", "flat", "gap", "train[fold=a<b&c]"} <= set(texts), texts
	lines = [p.get("d") for p in root.iter("{http://www.w3.org/2000/svg}path") if p.get("class") == "line" and "L" in p.get("d")]
	assert len(lines) == 6 and not any("nan" in l or "inf" in l for l in lines), lines
	E
	cairn metrics --plot=flat --svg - >out
	test_grep "^<svg" out
	test_no_grep ">down<" out
'

test_expect '--tensorboard: event files, the same bytes when written again' '
	cd "$WORK"
	run=$(cairn runs --json >r; json r "d[\"runs\"][0][\"id\"]")
	cairn metrics "$run" --tensorboard tb
	test_is "$(ls "tb/$run")" "$(printf "train[fold=0]\ntrain[fold=a<b&c]")"
	sha256sum tb/*/*/* >before
	cairn metrics "$run" --tensorboard tb
	sha256sum -c before
	# The CRC-32C of the length of the first record: masked, by the published algorithm.
	test_is "$(od -An -tx1 -N8 tb/"$run"/*0]/* | tr -d " ")" 1800000000000000
	test_is "$(od -An -tx1 -j8 -N4 tb/"$run"/*0]/* | tr -d " ")" a37f4b22
'

# ---- checkpoints -------------------------------------------------------------------------------------------------------

# A training of 8 steps that saves after each even one, and stops where STOP says until somebody ends it.
cat >train.py <<'E'
import json, os, sys
rank, ckpt, where = int(os.environ["RANK"]), os.environ["CAIRN_CHECKPOINT"], os.environ["DIR"]
state = {"step": 0, "w": 1.0}
path = f"{ckpt}/state.json"
assert all(n in ("state.json", "state.json.tmp") for n in os.listdir(ckpt)), os.listdir(ckpt)  # the other rank may be about to rename
if os.path.exists(path):
    state = json.load(open(path))
stop = int(open(f"{where}/stop").read()) if os.path.exists(f"{where}/stop") else 0
if rank == 0:
    open(f"{where}/begun", "a").write(f"{state['step']}\n")
    while state["step"] < 8:
        state = {"step": state["step"] + 1, "w": state["w"] * 1.1}
        print(f"w={state['w']!r} step={state['step']}")
        if state["step"] % 2 == 0:
            json.dump(state, open(path + ".tmp", "w"))
            os.replace(path + ".tmp", path)
        if state["step"] == stop:
            open(f"{where}/there", "w").close()
            os.read(os.open(f"{where}/fifo", os.O_RDWR), 1)
    print("acc=nan step=8")
    json.dump(state, open(sys.argv[1], "w"))
E
checkpointed() {
	pipeline "$1" '{framework: torch, procs_per_node: 2}' 'python3 train.py ${{ outputs.model }}' "code: [train.py]
outputs: {model: model.json}
checkpoint: ckpt/
env: {DIR: \"$WORK\", TAG: $1}" # the tag: a key of its own
}

# One that a failed test left behind must not stop the next.
afresh() { rm -f begun stop there; }
# died N: a run that gets to step N and then loses its engine.
died() {
	rm -f there
	echo "$1" >stop
	begin_run "${@:2}"
	wait_until 30 test -e there
	kill -9 "$(cat "$TRASH/work/run.pid")"
	wait_until 30 test -s "$TRASH/work/run.rc"
	rm -f stop
}
same_as_whole() {
	cairn get train/model -o - >model
	cairn get train/series -o - >series
	test_cmp whole.model model
	test_cmp whole.series series
}

test_expect 'an uninterrupted training, for comparison; its checkpoint goes when it is done' '
	cd "$WORK"
	[ -p fifo ] || mkfifo fifo
	afresh
	checkpointed whole
	cairn -q run whole.yaml
	cairn get train/model -o whole.model
	cairn get train/series -o whole.series
	test_lines 8 whole.series
	test_is "$(cat begun)" 0
	test_is "$(ls .cairn/checkpoints)" ""
	cairn status --json >s
	test_is "$(json s "d[\"tasks\"][0][\"continues\"]")" "[]"
'

test_expect 'kill -9 of the engine, then resume: it goes on from the checkpoint and ends with the same bytes' '
	cd "$WORK"
	afresh
	checkpointed resumed
	died 5 resumed.yaml
	cairn -q resume
	test_is "$(tr "\n" " " <begun)" "0 4 "
	same_as_whole
	test_is "$(ls .cairn/checkpoints)" ""
	cairn status --json >s
	test_is "$(json s "len(d[\"tasks\"])")" 2
	test_is "$(json s "d[\"tasks\"][1][\"continues\"] == [d[\"tasks\"][0][\"id\"]]")" true
	cairn status -v >out
	test_grep "went on from (the checkpoint of )?attempt" out
'

test_expect 'kill -9, then a new run: the same; twice, and the result names both' '
	cd "$WORK"
	afresh
	checkpointed again
	died 3 again.yaml
	first=$(cairn status --json >s; json s "d[\"tasks\"][0][\"id\"]")
	died 7 again.yaml
	second=$(cairn status --json >s; json s "d[\"tasks\"][0][\"id\"]")
	cairn -q run again.yaml
	test_is "$(tr "\n" " " <begun)" "0 2 6 "
	same_as_whole
	cairn status --json >s
	test_is "$(json s "d[\"tasks\"][0][\"continues\"]")" "[$first, $second]"
'

test_expect 'a training that died before it saved begins anew, and is not said to go on from anything' '
	cd "$WORK"
	afresh
	checkpointed early
	died 1 early.yaml
	cairn -q run early.yaml
	test_is "$(tr "\n" " " <begun)" "0 0 "
	same_as_whole
	cairn status --json >s
	test_is "$(json s "d[\"tasks\"][0][\"continues\"]")" "[]"
'

test_expect '--force begins anew; when that is killed, resume goes on from what it saved' '
	cd "$WORK"
	afresh
	checkpointed forced
	died 5 forced.yaml
	died 3 forced.yaml --force train
	cairn -q resume
	test_is "$(tr "\n" " " <begun)" "0 0 2 "
	same_as_whole
'

test_expect 'a retry after a failure goes on from the checkpoint' '
	cd "$WORK"
	afresh
	checkpointed retried
	printf "    retry: {max: 2, backoff: 0s}\n" >>retried.yaml
	sed -i "s/python3 train.py .*/& \&\& { [ \$RANK = 1 ] || [ \$(wc -l <\"\$DIR\/begun\") -gt 1 ] || exit 9; }/" retried.yaml
	cairn -q run retried.yaml
	test_is "$(tr "\n" " " <begun)" "0 8 "
	same_as_whole
'

test_expect 'a line of the kept series that a crash cut off is dropped, and the next begins a line' '
	cd "$WORK"
	afresh
	checkpointed cut
	died 5 cut.yaml
	printf "{\"w\":1." >>.cairn/checkpoints/*/series.jsonl
	died 7 cut.yaml
	cairn -q run cut.yaml
	same_as_whole
'

test_done
