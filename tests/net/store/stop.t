#!/bin/bash
# Ctrl-C at any moment: a bucket that hangs holds up neither who asks to stop nor another run of the project.
. "$(dirname "$0")/../servers.sh"
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/net/net.sh"

server_can versitygw || test_skip_all "versitygw is neither there nor can it be built ($(server_build versitygw))"
server gw versitygw || test_bail 'versitygw does not start'
server_env gw versitygw
hostile front --upstream "127.0.0.1:$(server_port gw)" || test_bail 'the hostile server does not start'
AWS_ENDPOINT_URL=http://127.0.0.1:$(port front http)
export AWS_ENDPOINT_URL
echo 'store: s3://tbucket/stop' >cairn.yaml

# hang RULE...: a step's command that makes the server hang from then on (each RULE: what matches), and says so
hang() {
	local m
	for m; do echo "{\"name\": \"hangs\", $m, \"hold\": \"start\"}"; done >"$TRASH/work/hang-rules"
	echo "cp $TRASH/work/hang-rules $TRASH/work/front/rules.new; mv $TRASH/work/front/rules.new $TRASH/work/front/rules"
}
calm() { rm -f "$TRASH/work/front/rules"; }
# pipeline NAME COMMAND
pipeline() { printf 'pipeline: %s\nsteps:\n  a: {run: "%s; echo %s >o", outputs: {o: o}}\n' "$1" "$2" "$1" >"$1.yaml"; }
hung() { [ "$(asked front 'q["rule"] == "hangs"')" -gt "${1:-0}" ]; }
# asked_to_end NAME SIGNAL...: the milliseconds from the last signal to the end; its exit status is in NAME.rc
asked_to_end() {
	python3 - "$TRASH/work/$1" "${@:2}" <<-'PY'
	import os, signal, sys, time
	name, signals = sys.argv[1], sys.argv[2:]
	pid = int(open(name + ".pid").read())
	for s in signals:
	    os.kill(pid, getattr(signal, "SIG" + s))
	    time.sleep(0.05)  # as two key strokes: one by one
	at = time.monotonic()
	while not os.path.exists(name + ".rc") and time.monotonic() < at + 20:
	    time.sleep(0.005)
	print(int((time.monotonic() - at) * 1000))
	PY
}

test_expect 'a run that waits for the bucket holds up no other run of the project' '
	cat >look.yaml <<-YAML
	pipeline: look
	steps:
	  a: {run: "$(hang "\"path\": \"*\""); echo look >o", outputs: {o: o}}
	  b: {run: "cat \${{ inputs.o }} >p", inputs: {o: "\${{ steps.a.outputs.o }}"}, outputs: {p: p}}
	YAML
	write quick.yaml <<-"YAML"
	pipeline: quick
	steps:
	  a: {run: "echo quick >o", outputs: {o: o}}
	YAML
	before=$(asked front "q[\"rule\"] == \"hangs\"")
	start look cairn run look.yaml
	wait_until 12 hung "$before"
	took=$(date +%s%N)
	timeout 10 cairn run -q --store ./near quick.yaml
	took=$((($(date +%s%N) - took) / 1000000))
	test_missing look.rc # it waits all the while
	kill -9 "$(cat look.pid)"
	calm
	[ "$took" -lt 5000 ] || { echo "it took $took ms" >&2; return 1; }
'
for how in 'INT INT' 'TERM TERM' 'INT TERM'; do
	HOW=$how NAME=end-$(echo "$how" | tr 'A-Z ' 'a-z-')
	export NAME HOW
	test_expect "a run whose results hang on their way ends within a second: $how" '
		pipeline "$NAME" "$(hang "\"method\": \"PUT\"")"
		before=$(asked front "q[\"rule\"] == \"hangs\"")
		start "$NAME" cairn run "$NAME.yaml"
		wait_until 12 hung "$before"
		took=$(asked_to_end "$NAME" $HOW)
		calm
		test_is "$(cat "$NAME.rc")" 130
		[ "$took" -lt 1000 ] || { echo "it took $took ms" >&2; return 1; }
		test_grep "cairn resume $NAME" "$NAME.out"
		cairn resume -q --json >out
		test_is "$(json out "d[\"state\"]")" succeeded
	'
done
test_expect 'a plan that hangs at the bucket ends within a second' '
	pipeline planned true
	eval "$(hang "\"path\": \"*\"")"
	before=$(asked front "q[\"rule\"] == \"hangs\"")
	start planned cairn run planned.yaml
	wait_until 12 hung "$before"
	took=$(asked_to_end planned TERM) # a job of this shell was born without an ear for INT
	calm
	test_is "$(cat planned.rc)" 143
	[ "$took" -lt 1000 ] || { echo "it took $took ms" >&2; return 1; }
'
test_expect 'a run that fetches what a task needs, and the bucket hangs, ends within a second' '
	write fetched.yaml <<-"YAML"
	pipeline: fetched
	params: {n: 1}
	steps:
	  a: {run: "seq 300000 >o", outputs: {o: o}}
	  b: {run: "tail -n ${{ params.n }} ${{ inputs.o }} >p", inputs: {o: "${{ steps.a.outputs.o }}"}, outputs: {p: p}}
	YAML
	cairn run -q fetched.yaml
	id=$(cairn runs --json -n 1 | json /dev/stdin "d[\"runs\"][0][\"id\"]")
	size=$(seq 300000 | wc -c)
	chmod -R u+w .cairn/store
	find .cairn/store/blobs -type f -size "${size}c" -delete
	eval "$(hang "\"method\": \"GET\", \"path\": \"*/blobs/*\"")"
	before=$(asked front "q[\"rule\"] == \"hangs\"")
	start fetching cairn run -p n=2 fetched.yaml
	wait_until 12 hung "$before"
	took=$(asked_to_end fetching INT INT)
	calm
	test_is "$(cat fetching.rc)" 130
	[ "$took" -lt 1000 ] || { echo "it took $took ms" >&2; return 1; }
	cairn resume -q --json >out
	test_is "$(json out "d[\"state\"]")" succeeded
'

test_expect 'a store that takes the connection and says nothing: who waits for it is told, and can stop' '
	export CAIRN_TEST_SILENCE=100ms
	mkdir mute
	echo "store: s3://tbucket/mute" >mute/cairn.yaml
	printf "pipeline: mute\\nsteps:\\n  a: {run: \"echo >o\", outputs: {o: o}}\\n" >mute/mute.yaml
	for how in "run mute.yaml" "plan mute.yaml" "run --dry-run mute.yaml"; do
		# shellcheck disable=SC2086 # words
		start mute-run env AWS_ENDPOINT_URL="http://127.0.0.1:$(port front silent)" cairn -C mute $how
		wait_until 10 grep -q "waiting for the store s3://tbucket/mute: it does not answer yet" mute-run.out
		test "$(asked_to_end mute-run TERM)" -lt 1000
		rm -f mute-run.*
	done
'
test_done
