#!/bin/bash
# cairn run --dry-run=client: the objects of a cluster, without one.
. "$(dirname "$0")/../../lib.sh"

export KUBECONFIG=$PWD/kubeconfig
cat >kubeconfig <<-'E'
	apiVersion: v1
	kind: Config
	clusters: [{name: lab, cluster: {server: "https://127.0.0.1:1"}}]
	users: [{name: me, user: {token: x}}]
	contexts: [{name: lab, context: {cluster: lab, user: me, namespace: ml}}]
	current-context: lab
	E
mkdir data
echo a >data/a.txt
unset CAIRN_STORE
cat >cairn.yaml <<-E
	store: $PWD/store
	kubernetes:
	  image: "registry.test/cairn@sha256:0123456789012345678901234567890123456789012345678901234567890123"
	  store_claim: shared
	  cloud: eks
	  queue: everybody
	E
cat >pipeline.yaml <<-'E'
	pipeline: p
	defaults: {image: "registry.test/a@sha256:0123456789012345678901234567890123456789012345678901234567890123"}
	steps:
	  prep: {run: "cp -r ${{ inputs.raw }} ${{ outputs.o }}", inputs: {raw: data/}, outputs: {o: o/}}
	  many: {run: "echo ${{ item }} >${{ outputs.o }}", each: [1, 2, 3], pack: 2, outputs: {o: o.txt}}
	  train:
	    run: python train.py
	    spot: true
	    secrets: [TOKEN]
	    distributed: {framework: torch, nodes: 2}
	    inputs: {d: "${{ steps.prep.outputs.o }}"}
	    outputs: {m: m/}
	    kubernetes: {queue: team-a, pod_template: {metadata: {labels: {team: a}}}}
	  each: {run: x, each: "${{ steps.prep.outputs.o }}/*.txt", inputs: {i: "${{ item }}"}}
	E

test_expect 'what runs on this machine has no objects' '
	test_code 2 cairn run --dry-run 2>said
	test_grep "add --on kubernetes" said
	test_code 2 cairn run -o yaml 2>said
	test_grep "goes with --dry-run" said
'

test_expect 'without a kubeconfig the objects can be written down, and no server can be asked' '
	KUBECONFIG=$PWD/none cairn run --on kubernetes --dry-run=client >there 2>said
	cairn run --on kubernetes --dry-run=client 2>said | sed "s/namespace: ml$/namespace: default/" >want
	test_grep "^  namespace: default$" there
	sed "/cairn.internal\/owner: /d" there >a
	sed "/cairn.internal\/owner: /d" want >b
	test_cmp b a
	KUBECONFIG=$PWD/none test_code 4 cairn run --on kubernetes --dry-run=server 2>said
	test_grep "no kubeconfig was found" said
'

test_expect 'YAML: a document an object, with what is known of it' '
	cairn run --on kubernetes --dry-run >out.yaml 2>said
	test_is "$(grep -c "^kind: Job" out.yaml)" 5
	test_is "$(grep -c "^---" out.yaml)" 6
	test_grep "^# prep$" out.yaml
	test_grep "^# many.1., many.2.$" out.yaml
	test_grep "^# many.3.$" out.yaml
	test_grep "^# train: waits for what is not made yet" out.yaml
	test_grep "^# each..*: waits" out.yaml
	test_grep "^7 objects; 0 tasks on record" said
	test_missing .cairn/runs
	grep -q TOKEN out.yaml
'

test_expect 'JSON: a List that kubectl takes' '
	cairn run --on kubernetes --dry-run=client -o json >out.json 2>/dev/null
	cairn run --on kubernetes --dry-run --json >same.json 2>/dev/null
	test_cmp out.json same.json
	test_is "$(json out.json "[o[\"kind\"] for o in d[\"items\"]].count(\"Job\")")" 5
	jobs="{o[\"metadata\"][\"labels\"][\"cairn.internal/step\"]: o for o in d[\"items\"] if o[\"kind\"] == \"Job\"}"
	test_is "$(json out.json "$jobs[\"train\"][\"metadata\"][\"labels\"][\"kueue.x-k8s.io/queue-name\"]")" team-a
	test_is "$(json out.json "$jobs[\"prep\"][\"metadata\"][\"labels\"][\"kueue.x-k8s.io/queue-name\"]")" everybody
	test_is "$(json out.json "$jobs[\"train\"][\"spec\"][\"template\"][\"metadata\"][\"labels\"][\"team\"]")" a
	test_is "$(json out.json "$jobs[\"train\"][\"spec\"][\"completions\"]")" 2
	test_is "$(json out.json "len($jobs[\"train\"][\"spec\"][\"template\"][\"spec\"][\"affinity\"][\"nodeAffinity\"][\"requiredDuringSchedulingIgnoredDuringExecution\"][\"nodeSelectorTerms\"])")" 2
'

test_expect 'only what is asked for' '
	cairn run --on kubernetes --dry-run=client prep >some.yaml 2>/dev/null
	test_is "$(grep -c "^kind:" some.yaml)" 1
	cairn plan --json prep >plan.json
	test_is "$(json plan.json "[t[\"task\"] for t in d[\"tasks\"]]")" "[\"prep\"]"
'

test_expect 'the same names each time: the id of the project is kept' '
	cairn run --on kubernetes --dry-run >again.yaml 2>/dev/null
	test_cmp out.yaml again.yaml
'

test_expect 'what pods need and cairn.yaml lacks is told' '
	sed "/image:/d" cairn.yaml >no-image.yaml
	cp cairn.yaml whole.yaml
	cp no-image.yaml cairn.yaml
	test_code 3 cairn run --on kubernetes --dry-run 2>said
	test_grep "name it as .kubernetes.image" said
	sed "/store_claim:/d" whole.yaml >cairn.yaml
	test_code 3 cairn run --on kubernetes --dry-run 2>said
	test_grep "pods can.t reach the store" said
	cp whole.yaml cairn.yaml
'

test_expect 'a contradiction names its step' '
	sed "s/queue: team-a, //; s/team: a/cairn.internal\/run: x/" pipeline.yaml >bad.yaml
	test_code 3 cairn run bad.yaml --on kubernetes --dry-run >/dev/null 2>said
	test_grep "train: .*pod_template.*it changes .cairn.internal/run. of the labels" said
'
test_done
