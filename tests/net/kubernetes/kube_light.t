#!/bin/bash
# Pods without a sidecar, on a cluster that isn't one (kubeapi.py --cluster): the real helper executes their programs, out of the ConfigMaps that the engine has made.
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/net/kubernetes/kube.sh"

plays() { cat >api/plays; }
fresh() { # forgets what was counted
	: >api/executed
	rm -rf api/go api/faults api/plays api/light
}
no_jobs() {
	kube_ask api GET /apis/batch/v1/namespaces/lab/jobs >objects.json
	test "$(json objects.json 'len(d["items"])')" = 0
}
state() { cairn status --json >status.json && json status.json 'd["run"]["state"]'; }
run() { timeout 120 cairn run --on kubernetes "$@"; }

BUILD=$(dirname "$(readlink -f "$(command -v cairn)")")
[ -x "$BUILD/cairn-init" ] || test_skip_all 'no cairn-init beside cairn'
kube_api api --cluster "$TRASH/work/store" || test_bail 'the API server does not start'
kube_config api >kubeconfig
digest=$(printf '%064d' 7)
cat >cairn.yaml <<E
store: $TRASH/work/store
kubernetes:
  kubeconfig: kubeconfig
  image: registry.test/cairn@sha256:$digest
  store_claim: store
  requests: {per_second: 500, burst: 500}
E
light() { # NAME WORD: a step whose code does what WORD says
	cat >"$1.yaml" <<-Y
		pipeline: $1
		defaults: {image: "registry.test/x@sha256:$digest"}
		inputs: {word: word.txt}
		steps:
		  t:
		    run: sh make.sh \${{ inputs.w }} \${{ outputs.o }} \${{ outputs.d }} $2
		    code: [make.sh]
		    inputs: {w: "\${{ inputs.word }}"}
		    outputs: {o: o.txt, d: sub/d.txt}
		    metrics: m.json
		    retry: {max: 0, backoff: 10ms, lost: 0, preempted: 0, store: 0}
	Y
}
echo hello >word.txt
cat >make.sh <<'E'
case $4 in
first | second) echo "says $4" ;;
fails) echo "ends badly" && exit 7 ;;
chatty) seq 1000 ;;
large) head -c 5000 /dev/urandom | od -x >"$2" && echo x >"$3" && echo '{"a": 1}' >m.json && exit ;;
lacks) echo x >"$3" && echo '{"a": 1}' >m.json && echo near >o.text && exit ;;
leads-out) ln -s /etc/hostname "$2" && echo x >"$3" && echo '{"a": 1}' >m.json && exit ;;
leads-in) echo real >real.txt && ln -s real.txt "$2" && echo x >"$3" && echo '{"a": 1}' >m.json && exit ;;
fifo) mkfifo "$2" && echo x >"$3" && echo '{"a": 1}' >m.json && exit ;;
esac
cat "$1" >"$2" && echo "$4" >"$3" && echo '{"loss": 0.5}' >m.json
E
seen_before() { # NAME: it runs once, in a pod with a sidecar, and leaves little
	fresh
	light "$1" "first $1"
	run -q "$1.yaml"
	test ! -e api/light
}

test_expect 'a step that left little before has a pod without a sidecar, and the same results' '
	seen_before slight
	light slight second
	run -q slight.yaml
	test_is "$(cat api/light)" t
	cairn get t/o --replace -o got
	test_cmp word.txt got
	cairn get t/d --replace -o got
	test_is "$(cat got)" second
	cairn logs t >log
	test_is "$(cat log)" "says second"
	cairn metrics --json >m
	test_grep "loss.*0.5" m
	light slight "first slight"
	fresh
	run -q slight.yaml # what was made beside a sidecar is a hit
	test ! -s api/executed
	wait_until 90 no_jobs
'

test_expect 'its plans are a ConfigMap that belongs to the Job; the helper is one for all' '
	kube_ask api GET /api/v1/namespaces/lab/configmaps >maps
	names="[i[\"metadata\"][\"name\"] for i in d[\"items\"]]"
	test_is "$(json maps "sum(n.startswith(\"cairn-init-\") for n in $names)")" 1
	test_is "$(json maps "all(i[\"immutable\"] for i in d[\"items\"])")" true
	test_is "$(json maps "sorted(o[\"kind\"] for i in d[\"items\"] for o in i[\"metadata\"].get(\"ownerReferences\", []))[0]")" Job
'

test_expect 'pods of one Job have a plan each' '
	fresh
	light many "\${{ matrix.x }}"
	sed -i "s/^    code/    pack: 1\n    matrix: {x: [first-1, first-2, first-3]}\n    code/" many.yaml
	run -q many.yaml
	sed -i "s/first-/second-/g" many.yaml
	run -q many.yaml
	sort api/light >got
	printf "t[x=second-%s]\n" 1 2 3 >want
	test_cmp want got
	for i in 1 2 3; do
		cairn get "t[x=second-$i]/d" --replace -o got
		test_is "$(cat got)" "second-$i"
	done
'

test_expect 'what fails there fails as anywhere' '
	seen_before sad
	light sad fails
	code=0; run -q sad.yaml 2>err || code=$?
	test_is "$code" 1
	test_is "$(cat api/light)" t
	test_grep "exit status 7" err
	test_grep "ends badly" err
	for how in lacks leads-out fifo; do
		seen_before "$how"
		light "$how" "$how"
		code=0; run -q "$how.yaml" 2>"$how.err" || code=$?
		test_is "$code" 1
		test_is "$(cat api/light)" t
	done
	test_grep "did not make its output .*there are .*o.text" lacks.err
	test_grep "symbolic link that leads out" leads-out.err
	test_grep "neither a file nor a directory" fifo.err
'

test_expect 'an output that is a link into the workspace counts' '
	seen_before linked
	light linked leads-in
	run -q linked.yaml
	test_is "$(cat api/light)" t
	cairn get t/o --replace -o got
	test_is "$(cat got)" real
'

test_expect 'what is too large there is made again beside a sidecar, which is no failure of the task' '
	seen_before grows
	light grows large
	run -q grows.yaml
	test_lines 1 api/light
	test_lines 3 api/executed # before, without a sidecar, and with one
	cairn get t/o --replace -o got
	test "$(wc -c <got)" -gt 5000
	fresh # from then on it is known
	light grows " large"
	run -q grows.yaml
	test ! -e api/light
	test_lines 1 api/executed
'

test_expect 'a long log comes from the API; what the node has not kept is said' '
	seen_before chatty
	light chatty chatty
	# at the first time the node does not answer
	echo "{\"match\": \"GET */log*\", \"times\": 1, \"do\": \"status\", \"code\": 404, \"reason\": \"NotFound\"}" >api/faults
	asked=$(grep -c "GET.*/log" api/log) || :
	run -q chatty.yaml
	test_is "$(cat api/light)" t
	test_is "$(grep -c "GET.*/log" api/log)" $((asked + 2))
	seq 1000 >want
	cairn logs t >log
	test_cmp want log
	seen_before mute
	light mute "chatty mute"
	plays <<-E
		{"play": "light-log-gone"}
	E
	run -q mute.yaml
	cairn logs t >log
	test_is "$(tail -n 1 log)" 1000
	head -n 1 log >first
	test_grep "bytes of 3893 are missing here" first
'

test_expect 'a message that is not ours is an error of the store' '
	seen_before liar
	light liar "second liar"
	plays <<-E
		{"play": "light-lies"}
	E
	code=0; run -q liar.yaml 2>err || code=$?
	test_is "$code" 4
	test_grep "malformed" err
'

test_expect 'without the right to make ConfigMaps, pods have a sidecar' '
	seen_before poor
	light poor "second poor"
	echo "{\"match\": \"* */configmaps*\", \"times\": 9, \"do\": \"status\", \"code\": 403, \"reason\": \"Forbidden\"}" >api/faults
	run -q poor.yaml
	test ! -e api/light
	test_is "$(state)" succeeded
'

test_expect 'an engine that is killed meanwhile: the next one takes the result of such a pod' '
	seen_before cut
	light cut "second cut"
	mkdir api/go
	cairn run -q --on kubernetes cut.yaml &
	pid=$!
	wait_until 60 test -s api/light
	kill -9 $pid
	wait $pid || :
	touch api/go/t
	timeout 120 cairn resume -q
	test_is "$(state)" succeeded
	test_lines 1 api/light
	test_lines 2 api/executed
	cairn get t/d --replace -o got
	test_is "$(cat got)" second
	wait_until 90 no_jobs
'

owners() { # of plans: how many have one, and how many there are
	kube_ask api GET /api/v1/namespaces/lab/configmaps >maps
	json maps 'str(["ownerReferences" in i["metadata"] for i in d["items"] if i["metadata"]["name"].startswith("t-")].count(True)) + " of " + str(sum(i["metadata"]["name"].startswith("t-") for i in d["items"]))'
}
is_owners() { test "$(owners)" = "$1"; }
test_expect 'plans that an engine has made, but not given to their Job, get it from the next one' '
	seen_before orphan
	light orphan "second orphan"
	owners >before
	mkdir api/go
	echo "{\"match\": \"PATCH */configmaps*\", \"times\": 1000, \"do\": \"status\", \"code\": 403, \"reason\": \"Forbidden\"}" >api/faults
	cairn run -q --on kubernetes orphan.yaml &
	pid=$!
	wait_until 60 test -s api/light
	kill -9 $pid
	wait $pid || :
	test "$(owners)" != "$(cat before)"
	rm api/faults
	n=$(sed "s/.* //" before)
	cairn resume -q &
	pid=$!
	wait_until 60 is_owners "$((n + 1)) of $((n + 1))"
	touch api/go/t
	wait $pid
	test_is "$(state)" succeeded
	test_lines 1 api/light
'

test_expect 'a task that is cancelled ends, and so does its pod' '
	seen_before stopped
	light stopped "second stopped"
	mkdir api/go
	cairn run -q --on kubernetes stopped.yaml &
	pid=$!
	wait_until 60 test -s api/light
	cairn cancel >out
	code=0; wait $pid || code=$?
	test "$code" != 0
	test_is "$(state)" cancelled
	touch api/go/t
	wait_until 90 no_jobs
'

test_done
