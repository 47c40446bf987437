#!/bin/bash
# On a cluster that isn't one (kubeapi.py --cluster): steps from a git commit and of a past run, a sweep that stops trials early, and
# curves of a pod that runs.
# shellcheck source=../../serve/serve.sh
. "$(dirname "$0")/../../serve/serve.sh"
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/net/kubernetes/kube.sh"

fresh() { : >api/made; }
objects() { kube_ask api GET "$1" >objects.json && json objects.json 'len(d["items"])'; }
no_jobs() { test "$(objects /apis/batch/v1/namespaces/lab/jobs)" = 0; }
status() { cairn status --json >status.json; }
run() { timeout 120 cairn run --on kubernetes "$@"; }

kube_api api --cluster "$TRASH/work/store" || test_bail 'the API server does not start'
kube_config api >kubeconfig
digest=$(printf '%064d' 7)
export digest
cat >cairn.yaml <<E
store: $TRASH/work/store
kubernetes:
  kubeconfig: kubeconfig
  image: registry.test/cairn@sha256:$digest
  store_claim: store
  lost_within: 1s
  requests: {per_second: 500, burst: 500}
E

if test_have git; then
	export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a.test GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a.test
	test_expect 'steps of a git commit and of a past run are Jobs that have the code of there' '
		fresh
		git init -q ../shared
		mkdir ../shared/src src
		echo "echo said there" >../shared/src/say.sh
		write ../shared/p.yaml <<-Y
		pipeline: there
		params: {n: 1}
		defaults: {image: "registry.test/x@sha256:$digest"}
		steps:
		  w: {run: "sh src/say.sh >o; echo \${{ params.n }} >>o", outputs: {o: o}}
		Y
		git -C ../shared add -A
		git -C ../shared commit -qm one
		echo "echo said here" >src/say.sh
		write far.yaml <<-Y
		pipeline: far
		steps: {sub: {uses: "git+file://$(realpath ../shared)@$(git -C ../shared rev-parse HEAD)#p.yaml"}}
		Y
		run -q far.yaml
		cairn get sub/w/o -o - >got
		test_is "$(tr "\n" " " <got)" "said there 1 "
		test_lines 1 api/made
		cp ../shared/src/say.sh src/say.sh
		cp ../shared/p.yaml there.yaml
		run -q there.yaml
		test_lines 1 api/made
		status
		hash=$(json status.json "d[\"run\"][\"hash\"]")
		rm -r ../shared there.yaml .cairn/uses
		echo "echo said here" >src/say.sh
		write past.yaml <<-Y
		pipeline: past
		steps:
		  past: {uses: "run:${hash#sha256:}"}
		  more: {uses: "run:${hash#sha256:}", with: {n: 2}}
		Y
		run -q past.yaml
		cairn get more/w/o -o - >got
		test_is "$(tr "\n" " " <got)" "said there 2 "
		test_lines 2 api/made
	'
fi

test_expect 'quotes and backslashes of a command, and of what it tells, are there as they were written' '
	fresh
	write quotes.yaml <<-Y
	pipeline: quotes
	params: {back: "a\\\\b"}
	defaults: {image: "registry.test/x@sha256:$digest"}
	steps:
	  q:
	    run: |
	      echo "{\"step\": \$((1 + 1)), \"path\": 3}" >m.json
	      { cat m.json; printf "%s %s\n" "\${{ params.back }}" "c\\\\d"; } >o
	    outputs: {o: o}
	    metrics: m.json
	Y
	run -q quotes.yaml
	cairn get q/o -o - >got
	printf "%s\n" "{\"step\": 2, \"path\": 3}" "a\\b c\\d" >want
	cmp want got
	cairn metrics --pipeline quotes >table
	test_grep path table
'

cat >curve.sh <<'S'
for i in 1 2 3 4; do printf '{"step": %d, "loss": %d}\n' $i $(($1 + 10 - i)) >>s.jsonl; done
printf '{"loss": %d}\n' $(($1 + 6)) >m.json
S
test_expect 'early_stop on a cluster: the numbers that a pod tells stop its trial' '
	fresh
	write early.yaml <<-Y
	pipeline: early
	params: {bad: 0}
	defaults: {image: "registry.test/x@sha256:$digest"}
	steps:
	  train:
	    run: sh curve.sh \${{ params.bad }}
	    series: s.jsonl
	    metrics: m.json
	sweeps:
	  stop:
	    params: {bad: [0, 1, 5]}
	    minimize: train.loss
	    search: grid
	    early_stop: {after: 2, trials: 2}
	Y
	export CAIRN_TEST_KUBE_SERIES=20ms
	timeout 120 cairn sweep early.yaml stop --on kubernetes --trials 2 -q
	mkdir api/go # the third ends only when it is stopped
	timeout 120 cairn sweep early.yaml stop --on kubernetes --json >out 2>err
	test_is "$(json out "[t[\"state\"] for t in d[\"trials\"]]")" "[\"succeeded\", \"succeeded\", \"cancelled\"]"
	json out "[t[\"problem\"] for t in d[\"trials\"]][2]" >problem
	test_grep "stopped early: the best loss up to step 4 is 11, half of the trials before had at most 7 by then" problem
	rm -r api/go
	wait_until 30 no_jobs
'

if test_have curl; then
	curve() { get srv "/api/v1/runs/last/series?task=train" && json body "[p[:2] for s in d[\"series\"] for p in s[\"points\"]]" >curve && test "$(cat curve)" = "$1"; }
	export all="[[1.0, 11.0], [2.0, 10.0], [3.0, 9.0], [4.0, 8.0]]"
	test_expect 'the curve of a pod that runs comes to who looks at it, and nobody else has its numbers fetched' '
		fresh
		mkdir api/go # it runs until it is told to end
		write watched.yaml <<-Y
		pipeline: watched
		defaults: {image: "registry.test/x@sha256:$digest"}
		steps:
		  train: {run: "sh curve.sh 2", series: s.jsonl, metrics: m.json}
		Y
		CAIRN_TEST_KUBE_SERIES=20ms start engine cairn run -q --on kubernetes watched.yaml
		wait_until 60 grep -q " train$" api/executed
		serve srv
		said() { asked api "\"container\": \"cairn\".*\"timestamps\""; }
		test_is "$(said)" 0
		wait_until 60 curve "$all"
		# With times, a second apart; a page that asks once more gets each point once.
		test_is "$(json body "[round(b[2] / 1e9 - a[2] / 1e9) for p in [d[\"series\"][0][\"points\"]] for a, b in zip(p, p[1:])]")" "[1, 1, 1]"
		before=$(said)
		more() { curve "$all" && test "$(said)" -gt $((before + 1)); }
		wait_until 60 more
		# What somebody spoils is no curve, and no error.
		file=$(find .cairn/live/series -type f)
		test_lines 1 "$(echo "$file" >files; echo files)"
		echo nonsense >>"$file"
		curve "[]"
		status_is 200
		# At the end the curve is the recorded one, and nothing is left of the other.
		touch api/go/train
		wait_until 60 test -s engine.rc
		test_is "$(cat engine.rc)" 0
		curve "$all"
		test_is "$(find .cairn/live/series .cairn/live/watched -type f | wc -l)" 0
		rm -r api/go
		wait_until 30 no_jobs
		test_is "$(stop srv TERM)" 0
	'
fi
test_done
