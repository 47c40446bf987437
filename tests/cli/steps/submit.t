#!/bin/bash
# The steps `ray` and `spark-submit`, for clusters that exist: one submission a task whatever dies, logs, failures, cancel. With stand-ins for Ray's server and for Spark's program, because
# those show each case in a moment; then with the real Ray and Spark of PyPI, where they are.
. "$(dirname "$0")/../../lib.sh"
command -v python3 >/dev/null || test_skip_all 'no python3'
touch cairn.yaml
export RAY=$TRASH/ray PATH=$TRASH/stand:$PATH
mkdir -p "$RAY" "$TRASH/stand"
mkfifo "$RAY/fifo"
write "$TRASH/stand/ray" <<E
#!/bin/sh
exec python3 "$SRC/tests/cli/steps/submit_ray.py" "$RAY" "\$@"
E
chmod +x "$TRASH/stand/ray"
# Outside of the runs' processes, as a cluster is.
start rayserver python3 "$SRC/tests/cli/steps/submit_ray.py" "$RAY" serve
wait_until 60 test -e "$RAY/ready" || test_bail 'the stand-in does not start'
jobs_of() { find "$RAY" -maxdepth 1 -name 'cairn-*' | wc -l; }
calls() { grep -c "^$1$" "$RAY/calls"; }
logged() { cairn logs "$1" >polled 2>/dev/null; grep -q "$2" polled; }
begin() { rm -rf "$RAY"/cairn-* "$RAY/calls" .cairn; }

# ray_step NAME COMMAND [LINE…]: a pipeline with one such step.
ray_step() {
	local name=$1 line
	write "$name.yaml" <<-Y
		pipeline: $name
		params: {word: "it's \"a\" \$HOME"}
		steps:
		  job:
		    uses: ray
		    run: $2
		    with: {address: "http://ray.test:8265"}
	Y
	shift 2
	for line; do
		echo "    $line" >>"$name.yaml"
	done
}

test_expect 'ray: values as they are, the code, the log; a hit asks nobody; the address is not in the key' '
	begin
	echo "import os, sys; print(\"got\", sys.argv[1], os.environ[\"MODE\"], os.path.isdir(os.environ[\"CAIRN_WORKSPACE\"]))" >job.py
	ray_step values "python3 job.py \${{ params.word }}" "code: [job.py]" "env: {MODE: fast}"
	sed -i "s/with: {/&env: [MODE], excludes: [inputs\/], runtime_env: {pip: [x]}, /" values.yaml
	cairn run values.yaml >out 2>&1 || { cat out; exit 1; }
	cairn logs job >log
	test_grep "^got it.s \"a\" .HOME fast True$" log
	test_is "$(jobs_of)" 1
	test_is "$(json "$(echo "$RAY"/cairn-*/spec)" "d[\"runtime_env\"][\"pip\"]")" "[\"x\"]"
	test_is "$(json "$(echo "$RAY"/cairn-*/spec)" "d[\"runtime_env\"][\"excludes\"]")" "[\"inputs/\"]"
	sed -i "s/ray.test/elsewhere.test/" values.yaml
	cairn run values.yaml >out 2>&1
	test_grep "nothing to do, all on record" out
	sed -i "s/pip: .x./pip: [y]/" values.yaml
	cairn run values.yaml >out 2>&1
	test_is "$(jobs_of)" 2
'

test_expect 'ray: a job that fails fails the attempt with its words; a retry is a new job' '
	begin
	ray_step fails "echo begin; exit 3" "retry: {max: 1, backoff: 10ms}"
	test_code 1 cairn run fails.yaml >out 2>&1
	test_grep "the Ray job cairn-[0-9a-f]*-2 failed: Job entrypoint command failed with exit code 3" out
	test_is "$(jobs_of)" 2
	test_is "$(calls submit)" 2
	cairn status --json >status.json
	test_is "$(json status.json "[t[\"failure\"] for t in d[\"tasks\"]]")" "[\"failed\", \"failed\"]"
'

test_expect 'ray: kill -9 of the engine: the next attempt follows the same job, and has all of its log' '
	begin
	ray_step killed "echo begin; until test -e $PWD/go; do sleep 0.1; done; echo end"
	rm -f go
	start killed cairn run killed.yaml
	wait_until 90 eval "grep -q begin $RAY/cairn-*/log"
	kill -9 "$(cat killed.pid)"
	start again cairn resume
	wait_until 90 logged job "already: it is followed"
	touch go
	wait_until 90 test -s again.rc
	test_is "$(cat again.rc)" 0 || { cat again.out; exit 1; }
	test_is "$(calls submit)" 1
	cairn logs job >log
	test_is "$(grep -c "^begin$" log) $(grep -c "^end$" log)" "1 1"
'

test_expect 'ray: cancel stops the job' '
	begin
	ray_step cancelled "echo begin; sleep 600"
	start cancelled cairn run cancelled.yaml
	wait_until 90 eval "grep -q begin $RAY/cairn-*/log"
	cairn cancel
	wait_until 90 test -s cancelled.rc
	test_is "$(cat cancelled.rc)" 130
	wait_until 60 eval "grep -q \"was stopped\" $RAY/cairn-*/status"
	test_is "$(calls stop)" 1
'

test_expect 'ray: a server that does not answer for a while is asked again; one that never does is told' '
	begin
	ray_step away "echo hello"
	sed -i "s/with: {/&unreachable: 5m, /" away.yaml
	touch "$RAY/down"
	start away cairn run away.yaml
	wait_until 60 grep -q status "$RAY/calls"
	rm "$RAY/down"
	wait_until 90 test -s away.rc
	test_is "$(cat away.rc)" 0
	touch "$RAY/down"
	sed -i "s/hello/other/; s/5m/0s/" away.yaml
	test_code 1 cairn run away.yaml >out 2>&1
	test_grep "Ray doesn.t answer at http://ray.test:8265: ConnectionError: Failed to connect" out
	rm "$RAY/down"
'

test_expect 'ray: what can not be' '
	begin
	ray_step secret "echo x" "secrets: [TOKEN]"
	sed -i "s/with: {/&env: [TOKEN], /" secret.yaml
	CAIRN_SECRET_TOKEN=not-to-be-shown test_code 1 cairn run secret.yaml >out 2>&1
	test_grep "with.env.: .TOKEN. is a secret" out
	test_no_grep not-to-be-shown out
	ray_step lacks "echo x"
	sed -i "s/with: {/&env: [NOPE], /" lacks.yaml
	test_code 1 cairn run lacks.yaml >out 2>&1
	test_grep "the step has no variable .NOPE.: set it in .env." out
	test_is "$(jobs_of)" 0
	ray_step shape "echo x" "distributed: {framework: torch, nodes: 2}"
	sed -i "s/address/adress/" shape.yaml
	test_code 3 cairn check shape.yaml >out 2>&1
	test_grep "uses .ray., whose cluster has the nodes: leave out .distributed." out
	test_grep "unknown key .adress. .*address" out || { cat out; exit 1; }
	ray_step idle "echo x"
	sed -i "/run:/d" idle.yaml
	test_code 3 cairn check idle.yaml >out 2>&1
	test_grep "uses .ray. but has no .run.: the command that it starts" out
	ray_step none "echo y"
	mv "$TRASH/stand/ray" "$TRASH/ray.away"
	PATH=$(dirname "$CAIRN"):/usr/bin:/bin test_code 1 cairn run none.yaml >out 2>&1
	mv "$TRASH/ray.away" "$TRASH/stand/ray"
	test_grep ".ray. could not be started: it must be on PATH" out
'

write "$TRASH/stand/spark-submit" <<E
#!/bin/sh
echo "\$*" >>"$TRASH/spark.calls"
[ "\$1" = --kill ] && exit 0
cat "\$SPARK_CONF_DIR/spark-defaults.conf" >"$TRASH/spark.defaults"
ls "\$SPARK_CONF_DIR" >"$TRASH/spark.files"
echo "26/01/01 INFO ClientEndpoint: Driver successfully submitted as driver-20260101000000-0007"
[ "\$1" = wait ] && exec sleep 600
echo "\$2" >"\$1"
E
chmod +x "$TRASH/stand/spark-submit"
mkdir "$TRASH/conf"
echo '<x/>' >"$TRASH/conf/core-site.xml"
printf 'spark.eventLog.enabled true\nspark.master local[9]' >"$TRASH/conf/spark-defaults.conf"

test_expect 'spark-submit: the settings are the defaults of Spark, behind those that it has' '
	rm -rf .cairn
	write spark.yaml <<-Y
		pipeline: spark
		params: {word: "it is"}
		steps:
		  etl:
		    uses: spark-submit
		    run: spark-submit \${{ outputs.o }} \${{ params.word }}
		    outputs: {o: o.txt}
		    env: {SPARK_CONF_DIR: $TRASH/conf}
		    with: {master: "spark://s.test:7077", conf: {spark.a: " b\\\\c", spark.n: 4, spark.t: true, "spark.k:1": x}}
	Y
	cairn run spark.yaml >out 2>&1 || { cat out; cairn logs etl; exit 1; }
	cairn get etl/o -o o
	test_is "$(cat o)" "it is"
	sed "/^spark.app.name=cairn-[0-9a-f]*$/d" "$TRASH/spark.defaults" >defaults
	test_cmp - defaults <<-"D"
	spark.eventLog.enabled true
	spark.master local[9]
	spark.master=spark://s.test:7077
	spark.submit.deployMode=client
	spark.a=\ b\\c
	spark.k\:1=x
	spark.n=4
	spark.t=true
	D
	test_is "$(tr "\n" " " <"$TRASH/spark.files")" "core-site.xml spark-defaults.conf "
'

test_expect 'spark-submit: cancelling kills a driver that runs on the cluster, by its id' '
	rm -rf .cairn "$TRASH/spark.calls"
	write cluster.yaml <<-"Y"
		pipeline: cluster
		steps:
		  etl:
		    uses: spark-submit
		    run: spark-submit wait
		    with: {master: "spark://s.test:7077", deploy_mode: cluster}
	Y
	start cluster cairn run cluster.yaml
	wait_until 90 logged etl "driver-2026"
	cairn cancel
	wait_until 90 test -s cluster.rc
	test_is "$(cat cluster.rc)" 130
	test_grep "^--kill driver-20260101000000-0007 --master spark://s.test:7077$" "$TRASH/spark.calls"
	test_grep "^spark.standalone.submit.waitAppCompletion=true$" "$TRASH/spark.defaults"
'

test_expect 'spark-submit: a failure, and settings that are none' '
	write broken.yaml <<-"Y"
		pipeline: broken
		steps:
		  etl: {uses: spark-submit, run: exit 7, with: {conf: {a: 1}}}
	Y
	test_code 1 cairn run broken.yaml >out 2>&1
	test_grep "the command ended with exit status 7" out
	sed -i "s/a: 1/a: [1]/; s/exit 7/exit 8/" broken.yaml
	test_code 1 cairn run broken.yaml >out 2>&1
	test_grep "with.conf.: .a. must be a text, a number, true or false" out
	sed -i "s/with: {/&deploy_mode: moon, /" broken.yaml
	test_code 3 cairn check broken.yaml >out 2>&1
	test_grep "deploy_mode" out
'

# The real ones: what PyPI has, in an environment beside the other tests' downloads (900 MB), made with CAIRN_TEST_FULL=1.
real=${test_xdg:-$test_home/.cache}/cairn-tests/submit-1
environment() {
	[ -e "$real/whole" ] && return
	[ "${CAIRN_TEST_FULL:-0}" = 1 ] || return 1
	rm -rf "$real"
	mkdir -p "${real%/*}"
	python3 -m venv "$real" || return 1
	HOME=$test_home "$real/bin/python" -m pip install -q 'ray[default]==2.60.0' 'pyspark==3.5.9' || return 1
	touch "$real/whole"
}
lacks=
environment >"$TRASH/pip.out" 2>&1 || lacks='Ray and PySpark are not there: CAIRN_TEST_FULL=1 installs them from PyPI'
export real
if [ -n "$lacks" ]; then
	test_skip 'the real Ray: a job, a failure, kill -9 of the engine, cancel' "$lacks"
else
	test_expect 'the real Ray: a job, a failure, kill -9 of the engine, cancel' '
		export PATH=$real/bin:$PATH RAY_USAGE_STATS_ENABLED=0
		short=$(mktemp -d /tmp/cairn-ray-XXXXXX) # its sockets have long names
		test_when_finished "rm -rf $short"
		port() { python3 -c "import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); print(s.getsockname()[1])"; }
		dash=$(port)
		start head ray start --head --block --port=0 --dashboard-host=127.0.0.1 --dashboard-port="$dash" --ray-client-server-port="$(port)" --min-worker-port=0 --max-worker-port=0 \
			--dashboard-agent-listen-port=0 --num-cpus=2 --object-store-memory=80000000 --temp-dir="$short" --disable-usage-stats
		wait_until 300 ray job list --address "http://127.0.0.1:$dash" || { cat head.out; exit 1; }
		rm -rf .cairn
		for p in values fails killed cancelled; do sed -i "s|http://[a-z.]*:8265|http://127.0.0.1:$dash|; s|, runtime_env: {pip: .[xy].}||" $p.yaml; done
		cairn run values.yaml >out 2>&1 || { cat out; exit 1; }
		cairn logs job >log
		test_grep "^got it.s \"a\" .HOME fast True" log
		test_code 1 cairn run fails.yaml >out 2>&1
		test_grep "the Ray job cairn-[0-9a-f]*-2 failed: .*exit code 3" out || { cat out; exit 1; }
		rm -f go
		start rkilled cairn run killed.yaml
		wait_until 300 logged job "^begin"
		kill -9 "$(cat rkilled.pid)"
		start ragain cairn resume
		wait_until 300 logged job "already: it is followed"
		touch go
		wait_until 300 test -s ragain.rc
		test_is "$(cat ragain.rc)" 0 || { cat ragain.out; exit 1; }
		cairn logs job >log
		test_is "$(grep -c "^end" log)" 1
		start rcancelled cairn run cancelled.yaml
		wait_until 300 logged job "^begin"
		cairn cancel
		wait_until 300 test -s rcancelled.rc
		test_is "$(cat rcancelled.rc)" 130
		ray job list --address "http://127.0.0.1:$dash" >list 2>&1
		test_grep STOPPED list
		test_no_grep RUNNING list
		kill "$(cat head.pid)"
		wait_until 60 test -s head.rc
	'
fi
if [ -n "$lacks" ] || ! command -v java >/dev/null; then
	test_skip 'the real Spark, with its driver in the step' "${lacks:-no java (package default-jre-headless)}"
else
	test_expect 'the real Spark, with its driver in the step' '
		export PATH=$real/bin:$PATH
		rm -rf .cairn
		write etl.py <<-"P"
			import sys
			from pyspark.sql import SparkSession
			s = SparkSession.builder.getOrCreate()
			total = s.range(1000).selectExpr("sum(id) as s").collect()[0]["s"]
			open(sys.argv[1], "w").write(f"{total} {s.sparkContext.master} {s.conf.get(\"spark.x.y\")} {sys.argv[2]}\n".replace("\\\\", "/"))
		P
		write real.yaml <<-Y
			pipeline: real
			steps:
			  etl:
			    uses: spark-submit
			    run: spark-submit etl.py \${{ outputs.o }} "it is"
			    code: [etl.py]
			    outputs: {o: o.txt}
			    with: {master: "local[1]", conf: {spark.ui.enabled: false, spark.x.y: "a \\\\ b"}}
		Y
		cairn run real.yaml >out 2>&1 || { cat out; cairn logs etl | tail -n 20; exit 1; }
		cairn get etl/o -o o2
		test_is "$(cat o2)" "499500 local[1] a / b it is"
	'
fi
test_done
