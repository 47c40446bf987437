#!/bin/bash
# Whole runs on a cluster that isn't one (kubeapi.py --cluster): Jobs get pods that really execute, and that end as it is told. What a real cluster can't be made to do.
# shellcheck disable=SC2016 # expansions are the tests'
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/net/kubernetes/kube.sh"

plays() { # JSON objects a line; counts begin again
	cat >api/plays.new
	mv api/plays.new api/plays
}
fresh() { # forgets what was counted
	: >api/made
	: >api/executed
	: >api/pods
	rm -rf api/go api/faults api/plays api/broken
}
objects() { kube_ask api GET "$1" >objects.json && json objects.json 'len(d["items"])'; }
jobs=/apis/batch/v1/namespaces/lab/jobs
no_jobs() { test "$(objects $jobs)" = 0; }
# What an engine that was killed after the end of its run leaves goes with its time to live.
none_but_ended() { kube_ask api GET $jobs | python3 -c 'import json, sys
for job in json.load(sys.stdin)["items"]:
    assert job["spec"]["ttlSecondsAfterFinished"] > 0, job
    assert any(c["type"] in ("Complete", "Failed") for c in job["status"].get("conditions", [])), job' 2>none.err; }
status() { cairn status --json >status.json; }
words() { status && grep -q -E -- "$1" status.json; }
state() { status && json status.json 'd["run"]["state"]'; }
is_state() { test "$(state)" = "$1"; }
at_least() { test "$(wc -l <"$2")" -ge "$1"; }
once() { # every program was executed once, and every Job made once
	sort api/executed | uniq -d >again
	sort api/made | uniq -d >>again
	test_lines 0 again
}
run() { timeout 120 cairn run --on kubernetes "$@"; }

kube_api api --cluster "$TRASH/work/store" || test_bail 'the API server does not start'
kube_config api >kubeconfig
digest=$(printf '%064d' 7)
cat >cairn.yaml <<E
store: $TRASH/work/store
kubernetes:
  kubeconfig: kubeconfig
  image: registry.test/cairn@sha256:$digest
  store_claim: store
  lost_within: 1s
  requests: {per_second: 500, burst: 500}
E
cat >pipeline.yaml <<E
pipeline: small
defaults: {image: "registry.test/x@sha256:$digest"}
steps:
  a:
    run: echo working; echo made by a > \${{ outputs.o }}
    outputs: {o: o.txt}
  b:
    matrix: {x: [1, 2, 3]}
    run: cat \${{ inputs.i }} > \${{ outputs.o }}; echo \${{ matrix.x }} >> \${{ outputs.o }}
    inputs: {i: "\${{ steps.a.outputs.o }}"}
    outputs: {o: o.txt}
E
like() { # NAME [SED]: the small pipeline under another name, which makes what nobody has made yet
	sed "s/^pipeline: .*/pipeline: $1/; s/made by/$1 by/; ${2:-}" pipeline.yaml >"$1.yaml"
}
one() { # NAME [SED]: a pipeline of one step
	cat >"$1.yaml" <<-Y
		pipeline: $1
		defaults: {image: "registry.test/x@sha256:$digest"}
		steps:
		  t:
		    run: echo $1 says; echo $1 > \${{ outputs.o }}
		    outputs: {o: o.txt}
		    retry: {max: 0, backoff: 10ms, lost: 0, preempted: 0, store: 0}
	Y
	[ -z "${2:-}" ] || sed -i "$2" "$1.yaml"
}

# ---- what goes well ------------------------------------------------------------------------------------------------------

test_expect 'a pipeline runs as Jobs, whose logs and outputs are kept; then none of them is left' '
	run -q
	cairn get "b[x=2]/o" -o got
	printf "made by a\n2\n" >want
	test_cmp want got
	cairn logs a >log
	test_is "$(cat log)" working
	test_lines 2 api/made # the three of b share one
	once
	wait_until 90 no_jobs
'

test_expect 'a hit costs no pod and no request that makes one' '
	fresh
	run -q
	test_lines 0 api/made
	status
	test_is "$(json status.json "d[\"run\"][\"counts\"][\"hits\"]")" 4
'

test_expect 'a task takes a create and a delete' '
	fresh
	wc -l <api/log >mark
	one two
	run -q two.yaml
	tail -n +"$(($(cat mark) + 1))" api/log >new
	test_is "$(grep -c "\"method\": \"POST\"" new)" 1
	test_is "$(grep -c "\"method\": \"DELETE\"" new)" 1
	test_is "$(grep -c "\"method\": \"GET\"" new)" 2
'

test_expect 'a result that is longer than a termination message is fetched from the store' '
	fresh
	one long
	plays <<-E
		{"play": "long-result"}
	E
	run -q long.yaml
	test_is "$(state)" succeeded
'

test_expect 'small tasks share a pod' '
	fresh
	like packed "s/x: \[1, 2, 3\]/x: [4, 5, 6, 7, 8]/; s/^    matrix/    pack: 4\n    matrix/"
	run -q packed.yaml
	test_lines 6 api/executed
	test_lines 2 api/made
	once
	wait_until 90 no_jobs
'

fan() { # WORDS [SED]: a step of 16 tasks, none of which is on record
	one fan "s/echo fan says.*/echo $1 > \${{ outputs.o }}/; s/^    retry/    matrix: {x: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]}\n    retry/; s/run: /run: echo \${{ matrix.x }}; /"
	[ -z "${2:-}" ] || sed -i "$2" fan.yaml
}
lasted() { # SECONDS: so long took what is on record
	python3 -c "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('UPDATE attempt SET ended_ns = started_ns + ?', (int(sys.argv[2]) * 10**9,)); c.commit()" \
		.cairn/cairn.db "$1"
}
test_expect 'short tasks share pods without being told, if eight pods remain; long ones, and those with pack: 1, do not' '
	while read -r pods tasks lasted words more; do
		fresh
		fan "$words" "$more"
		[ "$lasted" = - ] || lasted "$lasted"
		run -q fan.yaml
		test_lines "$tasks" api/executed
		once
		test_lines "$pods" api/pods
	done <<-E
		16 16 - unknown
		8 16 - short
		8 16 5 five-seconds
		16 16 6 six-seconds
		16 16 0 alone s/^.*retry/    pack: 1\\n&/
		8 16 0 auto s/^.*retry/    pack: auto\\n&/
		4 16 0 told s/^.*retry/    pack: 4\\n&/
		15 15 0 few s/, 16.}/]}/
	E
'
test_expect 'of a wide step that never ran, sixteen tasks have a pod each; the others share pods when one of these has ended' '
	fresh
	fan wide "s/^pipeline: fan/pipeline: wide/; s/{x: .*/{x: [$(seq -s, 80)]}/"
	run -q fan.yaml
	test_lines 80 api/executed
	once
	test_lines 24 api/pods
'
test_expect 'what a program does to its pod is no failure of the others there, and their retries are alone' '
	fresh
	fan dies "s/oom: 0/oom: 0/; s/max: 0/max: 0, oom: 1/; s/lost: 0/lost: 1/"
	plays <<-E
		{"task": "t[[]x=1]", "play": "oom"}
	E
	run -q fan.yaml
	status
	json status.json "sorted((t[\"task\"], t[\"failure\"]) for t in d[\"tasks\"] if t[\"failure\"])" >failed
	test_is "$(cat failed)" "[[\"t[x=1]\", \"oom\"], [\"t[x=2]\", \"lost\"]]"
	test_lines 10 api/pods
'

# ---- how attempts end ----------------------------------------------------------------------------------------------------

# What a run exits with that failed by nothing but attempts of this class.
code_of() { if [ "$1" = store ]; then echo 4; else echo 1; fi; }

# ends PLAY CLASS RE: one attempt that ends as PLAY says.
ends() {
	fresh
	one "e-$1"
	printf '{"play": "%s"}\n' "$1" | plays
	test_code "$(code_of "$2")" timeout 60 cairn run --on kubernetes -q "e-$1.yaml" 2>err
	status
	test_is "$(json status.json 'd["tasks"][0]["failure"]')" "$2"
	json status.json 'd["tasks"][0]["message"]' >message
	test_grep "$3" message
	test_missing api/broken
	wait_until 90 no_jobs
}

while read -r play class re; do
	test_expect "$play is $class" "ends $play $class '$re'"
done <<'E'
oom oom used more than its limit
killed failed killed by SIGKILL
evicted preempted evicted from node-1
preempted preempted higher priority
taint preempted by a taint
node-lost lost does not answer any more
node-deleted lost node-1 is gone
pod-deleted lost its pod was deleted
job-deleted lost deleted
disk-full failed local storage
bad-image image image of the step can.t be had
sidecar-dies store sidecar
sidecar-loops store no such bucket
upload-fails store read-only
no-result store no result
lies store attempt
deadline timeout longer than it may
job-deadline timeout longer than it may
E

test_expect 'a container beside main that goes on holds up nothing' '
	fresh
	one beside
	plays <<-E
		{"play": "beside"}
	E
	run -q beside.yaml
	test_is "$(state)" succeeded
	wait_until 90 no_jobs
'

cat >forge.py <<'PY'
"""forge.py PORT: pods with the labels of the one there is, that say that they have failed."""
import json, sys, urllib.request as r
at = f"http://127.0.0.1:{sys.argv[1]}/api/v1/namespaces/lab/pods"
pod = json.load(r.urlopen(at))["items"][0]
attempt = int(pod["metadata"]["labels"]["cairn.internal/attempt"])
words = json.dumps({"cairn_result": 1, "results": [{"attempt": attempt, "ran": True, "failure": "failed", "error": "forged", "error_code": 15}]})
ended = {"exitCode": 0, "reason": "Completed", "finishedAt": "2030-01-01T00:00:00Z", "startedAt": "2030-01-01T00:00:00Z"}
pod["status"] = {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": {"terminated": ended}}],
                 "initContainerStatuses": [{"name": "cairn", "state": {"terminated": {**ended, "message": words}}}]}
for n, owners in enumerate(([], [{"kind": "Job", "controller": True, "name": "x", "uid": "not-it"}])):
    pod["metadata"].update(name=f"forged-{n}", uid=f"forged-{n}", ownerReferences=owners)
    r.urlopen(r.Request(at, json.dumps(pod).encode(), {"Content-Type": "application/json"}))
PY
test_expect 'pods with our labels that our Job does not control are not looked at' '
	fresh
	mkdir api/go
	one strangers
	start strangers cairn run --on kubernetes -q strangers.yaml
	wait_until 30 test -s api/executed
	python3 forge.py "$(cat api/port)"
	touch api/go/t
	wait_until 30 test -s strangers.rc
	test_is "$(cat strangers.rc)" 0
	for n in 0 1; do kube_ask api DELETE "/api/v1/namespaces/lab/pods/forged-$n"; done >gone
'

test_expect 'what only the container has of a log is taken from there' '
	ends sidecar-dies store sidecar
	cairn logs t >log
	test_grep "only the container has this" log
'

test_expect 'no more than 64 MiB of a log is taken from there' '
	ends sidecar-dies-late store sidecar
	cairn logs t >log
	test_is "$(stat -c %s log)" $((64 << 20))
	test_is "$(tail -c 4 log)" kept
	rm log
'

test_expect 'preempted often enough: the next attempt avoids spot nodes' '
	fresh
	mkdir api/go
	one tired "s/preempted: 0/preempted: 3/; s/^    retry/    spot: {preempted: 2}\n    retry/"
	cp cairn.yaml cairn.was
	echo "  cloud: gke" >>cairn.yaml
	test_when_finished "mv cairn.was cairn.yaml"
	plays <<-E
		{"play": "preempted", "times": 2}
	E
	start tired cairn run --on kubernetes -q tired.yaml
	wait_until 60 at_least 3 api/made
	kube_ask api GET $jobs >jobs.json
	python3 - <<-E
		import json
		specs = [j["spec"]["template"]["spec"] for j in json.load(open("jobs.json"))["items"]]
		(last,) = [s for s in specs if "cloud.google.com/gke-spot" not in s.get("nodeSelector", {})]
		(term,) = last["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
		assert term["matchExpressions"] == [{"key": "cloud.google.com/gke-spot", "operator": "NotIn", "values": ["true"]}], term
	E
	touch api/go/t
	wait_until 60 is_state succeeded
	status
	test_is "$(json status.json "\" \".join(str(t[\"failure\"]) for t in d[\"tasks\"])")" "preempted preempted None"
'

test_expect 'each class has its budget: a preempted attempt is made again, as another Job' '
	fresh
	one again "s/preempted: 0/preempted: 3/"
	plays <<-E
		{"play": "preempted", "times": 2}
	E
	run -q again.yaml
	status
	test_is "$(json status.json "\" \".join(str(t[\"failure\"]) for t in d[\"tasks\"])")" "preempted preempted None"
	test_lines 3 api/made
	once
'

# ---- why it doesn't run --------------------------------------------------------------------------------------------------

# waits PLAY RE GATE: says RE while it waits, and runs once GATE is there.
waits() {
	fresh
	mkdir api/go
	touch api/go/t
	one "w-$1"
	printf '{"play": "%s"}\n' "$1" | plays
	start "w-$1" cairn run --on kubernetes -q "w-$1.yaml"
	wait_until 30 words "$2"
	touch "api/go/$3"
	wait_until 30 is_state succeeded
}

test_expect 'no room: in words in the status, then it runs' '
	waits room-later "no node has room for it: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu" room
'
test_expect 'a quota that lets no pod be made: likewise' '
	waits quota-later "exceeded quota: compute" quota
'
test_expect 'a queue that has no room: in the words that it has for it, until it lets the step in' '
	fresh
	mkdir api/go
	touch api/go/t
	one queue
	printf "{\"play\": \"queue-later\"}\n" | plays
	start queue cairn run --on kubernetes -q queue.yaml
	wait_until 30 words "its queue has not let it in yet .the Job is suspended.: couldn.t assign flavors to pod set main: insufficient unused quota"
	touch api/go/queue
	wait_until 30 words "\"exceeded quota: compute"
	touch api/go/pod
	wait_until 30 is_state succeeded
	test_lines 1 api/executed
'
test_expect 'a quota of Jobs: likewise' '
	fresh
	one jobquota
	faults <<-E
		{"match": "POST *jobs", "times": 2, "do": "status", "code": 403, "reason": "Forbidden", "message": "jobs is forbidden: exceeded quota: count"}
	E
	start jobquota cairn run --on kubernetes -q jobquota.yaml
	wait_until 30 words "no quota is left.*exceeded quota"
	wait_until 30 is_state succeeded
	test_lines 1 api/made
'

# late PLAY CLASS RE: its time is up.
late() { # PLAY CLASS RE [SED]
	fresh
	one "l-$1" "${4:-}"
	printf '{"play": "%s"}\n' "$1" | plays
	cp cairn.yaml cairn.was
	printf '  schedule_within: 3s\n  image_within: 2s\n  save_within: 1s\n' >>cairn.yaml
	test_when_finished 'mv cairn.was cairn.yaml'
	test_code "$(code_of "$2")" timeout 60 cairn run --on kubernetes -q "l-$1.yaml" 2>err
	status
	test_is "$(json status.json 'd["tasks"][0]["failure"]')" "$2"
	json status.json 'd["tasks"][0]["message"]' >message
	test_grep "$3" message
	wait_until 90 no_jobs
}
test_expect 'no room for long: unschedulable' 'late no-room unschedulable "within 3.*Insufficient nvidia.com/gpu"'
test_expect 'no pod for long: unschedulable, in the words of the quota' 'late quota unschedulable "within 3.*exceeded quota"'
test_expect 'no image for long: image' 'late no-image image "within 2.*not found"'
test_expect 'a Secret that is missing: failed' 'late no-secret failed "within 2.*secret .cairn-secrets. not found"'

# The rest of the table of stages (kubernetes/reconcile.c).
test_expect 'no containers for long: unschedulable' 'late never-up unschedulable "did not come up within 3"'
test_expect 'inputs that do not come: store' 'late never-brought store "its inputs were not brought within 2"'
test_expect 'an end that nothing in the pod brings about: timeout' '
	late never-ends timeout "it did not end within" "s/^    retry/    timeout: 1s\n    retry/"
'
test_expect 'outputs of which nothing is heard: store' '
	late never-says store "its outputs were not kept within 2"
'
test_expect 'a store that is away when the step has ended: in words in the status, then all is kept' '
	fresh
	mkdir api/go
	touch api/go/t
	one store
	plays <<-E
		{"play": "store-away"}
	E
	start store cairn run --on kubernetes -q store.yaml
	wait_until 30 words "the store does not accept the outputs of the program; retried for 12h: no route"
	kube_ask api GET $jobs >jobs.json
	test_grep "save-within.*43200s" jobs.json
	touch api/go/store
	wait_until 30 is_state succeeded
'
# denied WHAT MATCH RE: a right is missing.
denied() {
	fresh
	mkdir api/go
	one "denied-$1"
	faults <<-E
		{"match": "$2", "times": 1000, "do": "status", "code": 403, "reason": "Forbidden", "message": "User u cannot list it"}
	E
	test_code 1 timeout 60 cairn run --on kubernetes -q "denied-$1.yaml" 2>err
	words "$3"
	test_is "$(json status.json 'd["tasks"][0]["failure"]')" failed
	rm api/faults
	wait_until 90 no_jobs
}
test_expect 'pods that may not be watched: it fails in words, and its Job goes' '
	denied pods "GET */pods*" "does not let this account watch pods in the namespace lab.*doctor.*User u cannot list it"
'
test_expect 'Jobs that may not be watched: likewise' '
	denied jobs "GET */jobs*" "does not let this account watch Jobs in the namespace lab.*User u cannot list it"
'
test_expect 'a webhook that answers 500: in words in the status, and unschedulable after a while' '
	fresh
	one webhook
	faults <<-E
		{"match": "POST *jobs", "times": 1000, "do": "status", "code": 500, "reason": "InternalError", "message": "failed calling webhook w.test: EOF"}
	E
	cp cairn.yaml cairn.was
	printf "  schedule_within: 3s\n" >>cairn.yaml
	test_when_finished "mv cairn.was cairn.yaml"
	start webhook timeout 90 cairn run --on kubernetes -q webhook.yaml
	wait_until 60 words "the cluster does not take its Job: .*failed calling webhook w.test: EOF"
	wait_until 60 test -s webhook.rc
	words "it got no place within 3.*: the cluster does not take its Job"
	test_is "$(json status.json "d[\"tasks\"][0][\"failure\"]")" unschedulable
'
test_expect 'a watch that falls silent: the end is seen within half a minute' '
	fresh
	one muted
	mkdir api/go
	faults <<-E
		{"match": "WATCH *", "times": 2, "do": "silent"}
	E
	start muted cairn run --on kubernetes -q muted.yaml
	wait_until 30 test -s api/executed
	touch api/go/t
	wait_until 45 is_state succeeded
'

# ---- a server that misbehaves --------------------------------------------------------------------------------------------

# goes NAME <<faults: all of the small pipeline is executed, once.
goes() {
	fresh
	faults
	like "$1"
	run -q "$1.yaml"
	test_lines 4 api/executed
	once
	wait_until 90 no_jobs
}

test_expect '410 in mid-stream, half events, no JSON, events twice' '
	goes bad-watch <<-E
		{"match": "WATCH *pods*", "times": 2, "do": "event-410"}
		{"match": "WATCH *pods*", "times": 2, "do": "half"}
		{"match": "WATCH *pods*", "times": 1, "do": "garbage"}
		{"match": "WATCH *jobs*", "times": 1, "do": "event-410"}
		{"match": "WATCH *jobs*", "times": 1, "do": "half"}
		{"match": "WATCH *", "times": 8, "do": "twice"}
	E
'
test_expect 'states that come twice and out of order' '
	fresh
	one order
	plays <<-E
		{"play": "twice"}
	E
	run -q order.yaml
	once
'
test_expect 'no lists as streams' '
	goes no-watchlist <<-E
		{"match": "GET *", "times": 4, "do": "no-watchlist"}
	E
'
test_expect 'a storm of 429, then 500s' '
	goes storm <<-E
		{"match": "POST *", "times": 6, "do": "status", "code": 429, "after": 0, "reason": "TooManyRequests"}
		{"match": "POST *", "times": 4, "do": "status", "code": 500}
		{"match": "DELETE *", "times": 4, "do": "status", "code": 503}
		{"match": "GET *pods*", "times": 2, "do": "status", "code": 500}
	E
'
test_expect 'a Job is made, and nobody is told: it is taken up, not made twice' '
	goes unheard <<-E
		{"match": "CREATED *jobs*", "times": 3, "do": "reset"}
	E
'
test_expect 'connections that end without an answer' '
	goes reset <<-E
		{"match": "POST *", "times": 3, "do": "reset"}
		{"match": "DELETE *", "times": 3, "do": "reset"}
		{"match": "GET *", "times": 2, "do": "reset"}
	E
'
test_expect 'an object that the server refuses: failed, in its words' '
	fresh
	one refused
	faults <<-E
		{"match": "POST *jobs", "times": 1, "do": "status", "code": 422, "reason": "Invalid", "message": "Job.batch is invalid: spec.template: no such field"}
	E
	test_code 1 timeout 60 cairn run --on kubernetes -q refused.yaml 2>err
	words "no such field"
	test_is "$(json status.json "d[\"tasks\"][0][\"failure\"]")" failed
	test_lines 0 api/made
'

# ---- engines that die ----------------------------------------------------------------------------------------------------

held() { # NAME [YAML]: a run of the small pipeline whose program `a` doesn't end; YAML stands behind it
	fresh
	mkdir api/go
	like "$1"
	printf '%s' "${2:-}" >>"$1.yaml"
	start "$1" cairn run --on kubernetes -q "$1.yaml"
	wait_until 60 test -s api/executed
}
let_go() { rm -rf api/go; }
jobs_ended() { kube_ask api GET $jobs >jobs.json && test "$(json jobs.json 'sum(not j.get("status", {}).get("conditions") for j in d["items"])')" = 0; }

test_expect 'kill -9 while a Job runs: resume takes it up' '
	held killed
	stop killed KILL
	status
	test_is "$(json status.json "d[\"tasks\"][0][\"state\"]")" lost
	let_go
	timeout 60 cairn resume -q
	test_lines 4 api/executed
	test_lines 2 api/made
	once
	wait_until 90 no_jobs
	status
	test_is "$(json status.json "[t[\"attempt\"] for t in d[\"tasks\"]]")" "[1, 1, 1, 1]"
'
test_expect 'SIGTERM ends the engine alone: what it started goes on' '
	held told
	stop told TERM
	test_is "$(objects $jobs)" 1
	let_go
	timeout 60 cairn resume -q
	test_lines 2 api/made
	once
'
test_expect 'a Job that ended while no engine was there counts' '
	held absent
	stop absent KILL
	let_go
	wait_until 30 jobs_ended
	timeout 60 cairn resume -q
	test_lines 2 api/made
	once
'
test_expect 'a pack is taken up whole' '
	fresh
	mkdir api/go
	touch api/go/a
	like packkill "s/^    matrix/    pack: 3\n    matrix/"
	start packkill cairn run --on kubernetes -q packkill.yaml
	wait_until 60 at_least 2 api/executed
	stop packkill KILL
	let_go
	timeout 60 cairn resume -q
	test_lines 4 api/executed
	test_lines 2 api/made
	once
	wait_until 90 no_jobs
'

# ---- arrays ----------------------------------------------------------------------------------------------------------------

array() { # NAME [SED]: a step of four tasks that are ready at once
	cat >"$1.yaml" <<-Y
		pipeline: $1
		defaults: {image: "registry.test/x@sha256:$digest"}
		steps:
		  t:
		    matrix: {x: [1, 2, 3, 4]}
		    run: echo $1 \${{ matrix.x }} > \${{ outputs.o }}
		    outputs: {o: o.txt}
		    retry: {max: 0, backoff: 10ms}
	Y
	[ -z "${2:-}" ] || sed -i "$2" "$1.yaml"
}
held_array() { # NAME: one whose programs all run, and wait
	fresh
	mkdir api/go
	array "$1"
	start "$1" cairn run --on kubernetes -q "$1.yaml"
	wait_until 60 at_least 4 api/executed
}
pods() { # of the array of this run: index and name
	status || return
	kube_ask api GET "/api/v1/namespaces/lab/pods?labelSelector=cairn.internal/run%3D$(json status.json 'd["run"]["id"]')" | python3 -c 'import json, sys
for pod in json.load(sys.stdin)["items"]:
    print(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"], pod["metadata"]["name"])' | sort >pods
}
pods_are() { pods && test "$(cut -d" " -f1 pods | tr "\n" " ")" = "$1"; }
attempts() { status && json status.json "\" \".join(\"%s:%s\" % (t[\"task\"][-2:-1], t[\"attempt\"]) for t in sorted(d[\"tasks\"], key=lambda t: (t[\"task\"], t[\"attempt\"])))"; }

test_expect 'tasks of a step that are ready together share a Job, each with a pod and a log of its own' '
	fresh
	array many
	run -q many.yaml
	test_lines 4 api/executed
	test_lines 1 api/made
	cairn get "t[x=3]/o" -o third
	test_is "$(cat third)" "many 3"
	wait_until 90 no_jobs
'
test_expect 'with array: 1 each task has a Job' '
	fresh
	array single
	sed "s/^kubernetes:/kubernetes:\n  array: 1/" cairn.yaml >other.yaml
	cp cairn.yaml kept.yaml
	test_when_finished "mv kept.yaml cairn.yaml"
	cp other.yaml cairn.yaml
	run -q single.yaml
	test_lines 4 api/made
	once
'
test_expect 'an index that is disrupted is made again alone, the others count' '
	fresh
	array hit
	plays <<-E
		{"task": "t[[]x=2]", "play": "preempted"}
	E
	run -q hit.yaml
	test_is "$(attempts)" "1:1 2:1 2:2 3:1 4:1"
	test_lines 2 api/made
	test_lines 4 api/executed
	wait_until 90 no_jobs
'
test_expect 'a pod that gets no place is given up, and goes, while the others run' '
	cp cairn.yaml kept.yaml
	test_when_finished "mv kept.yaml cairn.yaml"
	sed "s/^kubernetes:/kubernetes:\n  schedule_within: 1s/" kept.yaml >cairn.yaml
	fresh
	mkdir api/go
	array crowded
	printf "{\"task\": \"t[[]x=2]\", \"play\": \"no-room\"}\n" | plays
	start crowded cairn run --on kubernetes --keep-going -q crowded.yaml
	wait_until 60 at_least 3 api/executed
	wait_until 60 pods_are "0 2 3 "
	words "got no place within 1.0s"
	let_go
	wait_until 60 test -s crowded.rc
	test_is "$(cat crowded.rc)" 1
	status
	test_is "$(json status.json "d[\"run\"][\"counts\"][\"executed\"]")" 3
	test_lines 1 api/made
	wait_until 90 no_jobs
'
test_expect 'a pod of an array that somebody deletes is lost, and its task is made again' '
	held_array robbed
	pods
	kube_ask api DELETE "/api/v1/namespaces/lab/pods/$(sed -n "s/^1 //p" pods)" >/dev/null
	wait_until 60 at_least 2 api/made
	let_go
	wait_until 60 is_state succeeded
	test_is "$(attempts)" "1:1 2:1 2:2 3:1 4:1"
	wait_until 90 no_jobs
'
test_expect 'kill -9 while an array runs: resume takes up each of its tasks' '
	held_array taken
	stop taken KILL
	let_go
	timeout 60 cairn resume -q
	test_lines 4 api/executed
	test_lines 1 api/made
	test_is "$(attempts)" "1:1 2:1 3:1 4:1"
	wait_until 90 no_jobs
'
test_expect 'pods that are known before their Job is are left alone' '
	held_array early
	stop early KILL
	listed() { grep -c "\"GET\", \"path\": \"[^\"]*/jobs\"" api/log; }
	before=$(listed)
	faults <<<"{\"match\": \"GET */jobs[?]*\", \"times\": 3, \"do\": \"status\", \"code\": 503}"
	start early2 cairn resume -q
	listed_more() { test "$(listed)" -ge $((before + 4)); }
	wait_until 30 listed_more
	let_go
	wait_until 60 is_state succeeded
	test_lines 4 api/executed
	test_is "$(attempts)" "1:1 2:1 3:1 4:1"
	wait_until 90 no_jobs
'
test_expect 'what ended while no engine was there, and whose pod is gone, is made again; the rest is not' '
	held_array away
	stop away KILL
	touch "api/go/t[x=2]"
	ended_one() { kube_ask api GET $jobs >jobs.json && grep -q completedIndexes jobs.json; }
	wait_until 30 ended_one
	pods
	kube_ask api DELETE "/api/v1/namespaces/lab/pods/$(sed -n "s/^1 //p" pods)" >/dev/null
	wait_until 30 pods_are "0 2 3 "
	let_go
	timeout 60 cairn resume -q
	test_is "$(attempts)" "1:1 2:1 2:2 3:1 4:1"
	test_lines 5 api/executed
	test_lines 2 api/made
	wait_until 90 no_jobs
'
test_expect 'a Job whose pods have all ended goes, though its controller does not come to say so' '
	fresh
	mkdir api/go
	for x in 1 2 3 4; do touch "api/go/t[x=$x]"; done
	array uncounted
	printf "  u:\n    run: echo u\n    cache: false\n" >>uncounted.yaml
	printf "{\"task\": \"t[[]x=2]\", \"play\": \"count-later\"}\n" | plays
	start uncounted cairn run --on kubernetes -q uncounted.yaml
	one_job() { test "$(objects $jobs)" = 1; }
	wait_until 60 at_least 5 api/executed
	wait_until 60 one_job
	is_state running
	let_go
	wait_until 60 is_state succeeded
	once
	wait_until 90 no_jobs
'
test_expect 'cancel ends all pods of an array at once' '
	held_array ended
	grep -c "\"DELETE\"" api/log >before
	cairn cancel
	wait_until 30 is_state cancelled
	wait_until 90 no_jobs
	test_is "$(($(grep -c "\"DELETE\"" api/log) - $(cat before)))" 1
	let_go
'
test_expect 'a pod that has ended goes when the rest of its Job takes long' '
	held_array slow
	touch "api/go/t[x=2]"
	wait_until 60 pods_are "0 2 3 "
	test_is "$(objects $jobs)" 1
	let_go
	wait_until 60 is_state succeeded
	test_is "$(attempts)" "1:1 2:1 3:1 4:1"
	wait_until 90 no_jobs
'
test_expect 'logs -f finds the pod of one of many' '
	fresh
	mkdir api/go
	array chorus "s/run: .*/run: echo voice \${{ matrix.x }}; echo > \${{ outputs.o }}/"
	start chorus cairn run --on kubernetes -q chorus.yaml
	wait_until 60 at_least 4 api/executed
	for n in 1 3; do # the id of the first is the label of all pods
		start listen$n cairn logs -f "t[x=$n]"
		wait_until 60 grep -q "voice $n" listen$n.out
	done
	let_go
	for n in 1 3; do
		wait_until 60 test -s listen$n.rc
		test_is "$(cat listen$n.out)" "voice $n"
	done
	wait_until 60 is_state succeeded
'

test_expect 'cancel of a run whose engine died deletes its Jobs, and says that finally waits for a resume' '
	held orphan "finally: {tell: {run: echo bye}}"
	stop orphan KILL
	status
	cairn cancel "$(json status.json "d[\"run\"][\"id\"]")" >out 2>err
	test_grep "1 Job deleted" out
	test_grep "no engine was there to execute the steps of .finally.: .cairn resume .*. goes on" err
	wait_until 90 no_jobs
	let_go
	test_is "$(state)" cancelled
'
test_expect 'cancel of a run that goes on ends its pods' '
	held stopped
	cairn cancel
	wait_until 90 no_jobs
	wait_until 30 is_state cancelled
	let_go
'
test_expect 'a run is not over before what it stopped was told to go' '
	held stubborn
	faults <<<"{\"match\": \"DELETE *\", \"do\": \"status\", \"code\": 503, \"after\": 1, \"times\": 1000000}"
	refused() { [ "$(asked api "\"DELETE\".*jobs/")" -ge "$1" ]; }
	kill -INT "$(cat "$TRASH/work/stubborn.pid")" # a second one would end it at once
	wait_until 30 refused 1
	wait_until 30 refused $(($(asked api "\"DELETE\".*jobs/") + 2))
	if is_state interrupted; then false; fi
	faults </dev/null
	wait_until 30 is_state interrupted
	wait_until 30 no_jobs # the last of them may still be on its way
	let_go
'
test_expect 'killed at random moments and resumed until it is done: every program is executed once' '
	fresh
	like random "s/x: \[1, 2, 3\]/x: [1, 2, 3, 4, 5, 6, 7, 8]/"
	start random0 cairn run --on kubernetes -q random.yaml
	wait_until 60 words "\"pipeline\": *\"random\""
	for n in 0 1 2 3 4 5 6 7 8 9 10 11; do
		timeout 0.$((RANDOM % 4))$((RANDOM % 10))1 tail -f /dev/null || true # 0 would be for ever
		stop random$n KILL || true
		if is_state succeeded; then break; fi
		start random$((n + 1)) cairn resume -q
	done
	wait_until 60 is_state succeeded
	once
	sed "s/^[0-9]* //" api/executed | sort | uniq -d >again
	test_lines 0 again
	test_lines 9 api/executed
	wait_until 30 none_but_ended
'
test_expect 'the API server is away for a while: nothing fails, and it is told' '
	held away
	kill -STOP "$(cat api/pid)"
	printf "{\"match\": \"GET *\", \"times\": 60, \"do\": \"status\", \"code\": 503}\n" | faults
	kill -CONT "$(cat api/pid)"
	kube_ask api POST /_end
	wait_until 30 words "does not answer; what runs there goes on"
	rm api/faults
	let_go
	wait_until 60 is_state succeeded
	test_lines 2 api/made
	once
'

# ---- logs ------------------------------------------------------------------------------------------------------------------

test_expect 'logs -f follows a pod, over streams that break off' '
	fresh
	mkdir api/go
	one talk "s/run: echo talk says/run: for i in 1 2 3 4 5 6 7 8 9; do echo line \$i; done/"
	faults <<-E
		{"match": "LOG *", "times": 3, "do": "half"}
	E
	start talk cairn run --on kubernetes -q talk.yaml
	wait_until 60 test -s api/executed
	start follow cairn logs -f t
	wait_until 60 grep -q "line 9" follow.out
	rm -rf api/go
	wait_until 60 test -s follow.rc
	for i in 1 2 3 4 5 6 7 8 9; do echo "line $i"; done >want
	test_cmp want follow.out
'

server() { # as the token says, of the project here
	start served env CAIRN_SERVE_TOKEN=0123456789abcdef0123456789abcdef cairn serve --listen 127.0.0.1:0 --drain-timeout 20s
	wait_until 60 grep -q " serving " served.out
	sed -n 's/.* listening address=\(127[^ ]*\).*/http:\/\/\1/p' served.out | sed -n 1p >served.url
}
streams_open() { test "$(curl -s "$(cat served.url)/metrics" | sed -n 's/^cairn_http_streams_open //p')" = "$1"; }
test_expect --needs curl 'logs -f --server follows a pod while it runs' '
	fresh
	mkdir api/go
	one aloud "s/run: echo aloud says/run: for i in 1 2 3 4 5 6 7 8 9; do echo line \$i; done/"
	faults <<-E
		{"match": "LOG *", "times": 3, "do": "half"}
	E
	server
	start aloud cairn run --on kubernetes -q aloud.yaml
	wait_until 60 test -s api/executed
	start far cairn logs -f t --server "$(cat served.url)"
	start leaves cairn logs -f t --server "$(cat served.url)"
	wait_until 60 grep -q "line 9" far.out
	wait_until 60 grep -q "line 9" leaves.out
	test_missing far.rc
	stop leaves KILL
	wait_until 60 streams_open 1
	cairn logs t --server "$(cat served.url)" >sofar
	rm -rf api/go
	wait_until 60 test -s far.rc
	test_is "$(cat far.rc)" 0
	for i in 1 2 3 4 5 6 7 8 9; do echo "line $i"; done >want
	test_cmp want far.out
	test_cmp want sofar
	wait_until 60 is_state succeeded
	wait_until 60 streams_open 0
	cairn logs -f t --server "$(cat served.url)" >log
	test_cmp want log
	test_is "$(stop served TERM)" 0
	test_no_grep log-not-followed served.out
'
test_expect --needs curl 'logs -f --server that breaks off says why, once; who can.t hear it sees that it broke off' '
	fresh
	mkdir api/go
	one broken "s/run: echo broken says/run: for i in 1 2 3; do echo line \$i; done/"
	rm -f served.*
	server
	start broken cairn run --on kubernetes -q broken.yaml
	wait_until 60 test -s api/executed
	start hears sh -c "cairn logs -f t --server $(cat served.url) 2>hears.err"
	start deaf curl -sSN "$(cat served.url)/api/v1/runs/last/log?task=t&follow=true"
	for f in hears deaf; do wait_until 60 grep -q "line 3" $f.out; done
	faults <<-E
		{"match": "GET *pods?*cairn.internal%2Fattempt*", "times": 100, "do": "status", "code": 403, "reason": "Forbidden", "message": "no more looking"}
	E
	rm -rf api/go
	for f in hears deaf; do wait_until 60 test -s $f.rc; done
	test_is "$(cat hears.rc)" 4
	printf "line 1\nline 2\nline 3\n" | test_cmp - hears.out
	test_lines 1 hears.err
	test_grep "^cairn: $(cat served.url): the log breaks off: .*no more looking" hears.err
	test_is "$(cat deaf.rc)" 18
	test_grep "line 3" deaf.out
	wait_until 60 is_state succeeded
	test_is "$(stop served TERM)" 0
	test_grep log-not-followed served.out
'
gang() { # NAME: a step over two nodes, as play_gang has it
	fresh
	mkdir api/go
	one "$1" "s/retry: .*/distributed: {framework: torch, nodes: 2, procs_per_node: 2}/"
	printf "{\"play\": \"gang\"}\n" | plays
}
each() { # WORD...: what ranks 0 to 3 say of each
	for w; do for r in 0 1 2 3; do echo "[rank $r] $w of $r"; done; done
}
test_expect --needs curl 'logs of a gang that runs: all nodes, one rank, the last lines; here and over the server' '
	gang wide
	rm -f served.*
	server
	start wide cairn run --on kubernetes -q wide.yaml
	wait_until 60 test -s api/executed
	where=$(cat served.url)
	start all cairn logs -f t
	start far cairn logs -f t --server "$where"
	start one cairn logs -f t --rank 3 -n 1
	start farone cairn logs -f t --rank 3 -n 1 --server "$where"
	for f in all far; do for r in 0 1 2 3; do wait_until 60 grep -q "third of $r" $f.out; done; done
	for f in one farone; do wait_until 60 grep -q "third of 3" $f.out; done
	cairn logs t >sofar
	cairn logs t --server "$where" >farsofar
	test_cmp sofar farsofar
	{ echo "=== node 0 of 2 ==="; each first second third | sed -n "/\[rank [01]\]/p"; echo "=== node 1 of 2 ==="; each first second third | sed -n "/\[rank [23]\]/p"; } >want
	test_cmp want sofar
	for more in "" "--server $where"; do
		cairn logs t -n 3 $more >got
		tail -n 3 want | test_cmp - got
		cairn logs t --rank 2 -n 2 $more >got
		printf "second of 2\nthird of 2\n" | test_cmp - got
		cairn logs t --rank 4 $more >got
		test_lines 0 got
	done
	rm -rf api/go
	for f in all far one farone; do wait_until 60 test -s $f.rc; test_is "$(cat $f.rc)" 0; done
	each first second third end | sort >want
	for f in all far; do sort $f.out | test_cmp want -; done
	for f in one farone; do printf "third of 3\nend of 3\n" | test_cmp - $f.out; done
	wait_until 60 is_state failed
	cairn logs t --rank 3 >here
	cairn logs t --rank 3 --server "$where" >there
	test_cmp here there
	test_lines 4 here
	test_is "$(stop served TERM)" 0
	test_no_grep log-not-followed served.out
'
test_expect 'logs -f of a gang of 66 nodes says that it follows 64, whatever part is wanted' '
	gang broad
	sed -i "s/nodes: 2/nodes: 66/" broad.yaml
	start broad cairn run --on kubernetes -q broad.yaml
	wait_until 60 test -s api/executed
	start late cairn logs -f t --rank 131
	wait_until 60 grep -q "first 64 of 66 nodes are followed" late.out
	let_go
	wait_until 60 test -s late.rc
	test_lines 1 late.out
	wait_until 60 is_state failed
	cairn logs t --rank 131 >all
	test_lines 4 all
'
test_expect 'a gang of 1,100 nodes: the end of its last one counts' '
	fresh
	one vast "s/retry: .*/distributed: {framework: torch, nodes: 1100, procs_per_node: 1}/"
	printf "{\"play\": \"gang-ends\"}\n" | plays
	test_code 1 timeout 60 cairn run --on kubernetes -q vast.yaml
	words "exit status 7"
	its_pods() {
		kube_ask api GET /api/v1/namespaces/lab/pods >objects.json
		json objects.json "sum(o[\"metadata\"][\"labels\"][\"cairn.internal/run\"].startswith(\"vast-\") for o in d[\"items\"])"
	}
	no_pods() { test "$(its_pods)" = 0; }
	wait_until 60 no_pods # who follows a log is slow among so many
'
test_expect 'a gang whose engine was killed before its Service and policy were made gets them from the next engine' '
	gang cut
	faults <<<"{\"match\": \"POST *services\", \"times\": 1000, \"do\": \"status\", \"code\": 503}"
	no_clients() { kube_ask api GET /_clients >clients.json && test "$(json clients.json "d[\"clients\"]")" = 1; }
	services() { objects /api/v1/namespaces/lab/services; }
	policies() { objects /apis/networking.k8s.io/v1/namespaces/lab/networkpolicies; }
	services >services.before
	policies >policies.before
	start cut cairn run --on kubernetes -q cut.yaml
	wait_until 60 test -s api/executed
	stop cut KILL
	wait_until 30 no_clients # a request of the dead engine may still be on its way
	rm api/faults
	test_is "$(services)" "$(cat services.before)"
	start cut2 cairn resume -q
	more_policies() { test "$(policies)" = $(($(cat policies.before) + 1)); }
	wait_until 30 more_policies
	test_is "$(services)" $(($(cat services.before) + 1))
	let_go
	wait_until 60 is_state failed
	test_lines 1 api/made
	wait_until 90 no_jobs
'
test_expect --needs curl 'cancel --server of a run that has no engine any more deletes its Jobs' '
	rm -f served.*
	server
	held orphaned
	stop orphaned KILL
	status
	run=$(json status.json "d[\"run\"][\"id\"]")
	test_must_fail jobs_ended
	CAIRN_SERVE_TOKEN=0123456789abcdef0123456789abcdef cairn cancel "$run" --server "$(cat served.url)"
	wait_until 30 jobs_ended # deleted, that is: its program is held
	test_is "$(state)" cancelled
	test_is "$(json status.json "d[\"tasks\"][0][\"message\"]")" "stopped on request"
	let_go
	test_is "$(stop served TERM)" 0
'
test_expect --needs curl 'logs -f --server waits for a pod that isn.t there yet' '
	fresh
	mkdir api/go
	touch api/go/t
	one tardy
	printf "{\"play\": \"quota-later\"}\n" | plays
	rm -f served.*
	server
	start tardy cairn run --on kubernetes -q tardy.yaml
	wait_until 30 words "exceeded quota"
	start patient cairn logs -f t --server "$(cat served.url)"
	wait_until 60 streams_open 1
	touch api/go/quota
	wait_until 60 test -s patient.rc
	test_is "$(cat patient.rc)$(cat patient.out)" "0tardy says"
	wait_until 30 is_state succeeded
	test_is "$(stop served TERM)" 0
	test_no_grep log-not-followed served.out
'

# ---- numbers -------------------------------------------------------------------------------------------------------------

test_expect --needs script 'the newest numbers of a training in a pod are shown while it runs, where somebody watches' '
	fresh
	mkdir api/go
	cat >trains.yaml <<-E
		pipeline: trains
		defaults: {image: "registry.test/x@sha256:$digest"}
		steps:
		  t:
		    run: "echo loss=0.25 step=3; echo x > \${{ outputs.o }}"
		    outputs: {o: o.txt}
		    distributed: {framework: torch, procs_per_node: 1}
		    cache: false
	E
	start trains env TERM=xterm CAIRN_TEST_KUBE_SERIES=50ms script -qec "timeout 120 cairn run --on kubernetes trains.yaml" /dev/null
	wait_until 60 grep -q "loss=0.25" trains.out
	test_missing trains.rc
	touch api/go/t
	wait_until 60 test -s trains.rc
	is_state succeeded
	test_grep "tailLines" api/log
	wc -l <api/log >mark
	start unseen env CAIRN_TEST_KUBE_SERIES=50ms timeout 120 cairn run --on kubernetes -q trains.yaml
	wait_until 60 test -s unseen.rc
	is_state succeeded
	tail -n +"$(($(cat mark) + 1))" api/log >new
	test_no_grep tailLines new
'

# ---- results of others ---------------------------------------------------------------------------------------------------

test_expect '--cache off: nobody.s results are taken, and what pods make comes through the store all the same' '
	fresh
	one shared
	run -q shared.yaml
	test_lines 1 api/made
	fresh
	CAIRN_DIR=$PWD/elsewhere run -q shared.yaml
	test_lines 0 api/made
	fresh
	CAIRN_DIR=$PWD/alone run -q --cache off shared.yaml
	test_lines 1 api/made
	CAIRN_DIR=$PWD/alone cairn get t/o -o alone.got
	test_is "$(cat alone.got)" shared
	CAIRN_DIR=$PWD/alone run -q --cache off shared.yaml
	test_lines 1 api/made
'
test_expect '--dry-run=server of a TrainJob: that its operator misses what a dry run does not make is no refusal' '
	fresh
	one trainjob "s/^    retry:.*/    distributed: {framework: torch, nodes: 2}\n    kubernetes: {as: trainjob}/"
	said="admission webhook validator.trainjob denied the request: spec.runtimeRef: must be created before"
	faults <<-E
		{"match": "POST */trainjobs*", "do": "status", "code": 403, "reason": "Forbidden", "message": "$said"}
	E
	run --dry-run=server trainjob.yaml >out 2>err
	test_grep "^# TrainJob: as it was sent: its operator looks for the TrainingRuntime, which a dry run doesn.t make: .*$said" out
	test_is "$(grep -c -E "^kind: (TrainingRuntime|TrainJob)$" out)" 2
	test_no_grep "warning" err
	faults <<-E
		{"match": "POST */trainjobs*", "do": "status", "code": 422, "reason": "Invalid", "message": "spec.runtimeRef.name: Invalid value"}
	E
	test_code 3 run --dry-run=server trainjob.yaml >out 2>err
	test_grep "refused by the server" out
	test_grep "warning: t: .*Invalid value" err
	rm api/faults
	run --dry-run=server trainjob.yaml >out 2>err
	test_is "$(grep -c -E "^kind: (TrainingRuntime|TrainJob)$" out)" 2
	test_no_grep "^#" out
	test_lines 0 api/made
'

test_expect 'a cluster that would leave out an input that is an image: said, and nothing is made' '
	fresh
	one image "s/^steps:/inputs: {d: {image: \"registry.test\/data@sha256:$digest\"}}\nsteps:/; s/^    retry/    inputs: {d: \"\${{ inputs.d }}\"}\n    retry/"
	echo no >api/images
	test_code 1 run -q image.yaml 2>err
	test_grep "an input of the step is an image, and this cluster doesn.t mount images as volumes: Kubernetes 1.35 does" err
	test_lines 0 api/made
	rm api/images
	wc -l <api/log >mark
	run -q image.yaml 2>err || : # it is made; what its program finds is not played here
	test_lines 1 api/made
	tail -n +"$(($(cat mark) + 1))" api/log | grep "\"POST\"" >new
	test_is "$(grep -c dryRun new)" 1
	test_is "$(grep -c -v dryRun new)" 1
'

test_expect '--cache read-only is refused before anything is made' '
	fresh
	one readonly
	test_code 3 timeout 60 cairn run --on kubernetes --cache read-only -q readonly.yaml 2>err
	test_is "$(wc -l <err)" 1
	test_grep "pods write their results to the store, which .cache: read-only. forbids: use --cache off" err
	test_lines 0 api/made
	CAIRN_CACHE=read-only cairn plan readonly.yaml >out
	test_grep t out
'
test_done
