#!/bin/bash
# cairn doctor --on kubernetes: which cluster, as whom, what it can and what the account may. The API server is the one of tests/net that keeps its objects in memory.
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/net/kubernetes/kube.sh"

kube_api api || test_bail 'the API server does not start'
kube_config api 'token: not-to-be-shown' | sed '/^contexts:/s/]$/, {name: there, context: {cluster: none}}]/' >kubeconfig
touch cairn.yaml
export KUBECONFIG=$PWD/kubeconfig

test_expect 'a cluster that is fit' '
	cairn doctor --on kubernetes >out
	test_grep "^ok  *kubeconfig .*context here: http://127.0.0.1:[0-9]*, as a token, namespace lab" out
	test_grep "^ok  *version  *v1.34" out
	test_grep "^ok  *rights  *all that are needed in the namespace lab" out
	test_grep "^ok  *jobs" out
	test_grep "^ok  *nodes  *3; nvidia.com/gpu: 16 on 2" out
	test_grep "^warning  *pods  *can.t reach the store" out
	test_no_grep not-to-be-shown out
	test_is "$(grep -c "\"POST\", \"path\": \"/apis/batch" api/log)" 2
	test_grep "dryRun.*All" api/log
'

test_expect 'a command without an image to run in' '
	printf "pipeline: p\nsteps:\n  a: {run: \"true\"}\n  b: {image: \"python:3.12\", run: \"true\"}\n" >pipeline.yaml
	test_code 1 cairn doctor --on kubernetes >out
	test_grep "^problem  *image  *pipeline.yaml:3: step a has no image" out
	test_no_grep "step b" out
	test_grep "say .image:. there" out
	echo "defaults: {image: \"python:3.12\"}" >>pipeline.yaml
	cairn doctor --on kubernetes >out
	test_no_grep "^problem" out
	rm pipeline.yaml
'

test_expect 'operators whose objects steps want: are there such objects, and may we make them' '
	cat >pipeline.yaml <<-E
		pipeline: p
		defaults: {image: "python:3.12"}
		steps:
		  a: {run: "true", distributed: {framework: torch, nodes: 2}, kubernetes: {as: pytorchjob}}
		  b: {run: "true", distributed: {framework: torch, nodes: 2}, kubernetes: {as: pytorchjob}}
		  c: {run: "true", distributed: {framework: torch, procs_per_node: 2}}
	E
	test_code 1 cairn doctor --on kubernetes >out
	test_is "$(grep -c "^[a-z]*  *operator " out)" 1
	test_grep "^problem  *operator  *.as: pytorchjob.: the cluster has no PyTorchJob .kubeflow.org/v1." out
	echo "kubeflow.org/v1 pytorchjobs" >api/groups
	cairn doctor --on kubernetes >out
	test_grep "^ok  *operator  *.as: pytorchjob.: the cluster has PyTorchJob" out
	echo "create pytorchjobs" >api/denied
	test_code 1 cairn doctor --on kubernetes >out
	test_grep "^problem  *operator  *.as: pytorchjob.: in the namespace lab these rights are missing: create pytorchjobs" out
	rm api/denied api/groups pipeline.yaml
'

test_expect 'a TrainJob needs a runtime; a RayJob is for a step with one node, which names it itself' '
	cat >pipeline.yaml <<-E
		pipeline: p
		defaults: {image: "python:3.12"}
		steps:
		  a: {run: "true", distributed: {framework: torch, nodes: 2}, kubernetes: {as: trainjob}}
		  b: {run: "true", kubernetes: {as: rayjob, workers: 2}}
	E
	printf "trainer.kubeflow.org/v1alpha1 trainjobs\nray.io/v1 rayjobs\n" >api/groups
	echo "patch trainingruntimes" >api/denied
	test_code 1 cairn doctor --on kubernetes >out
	test_grep "^problem  *operator  *.as: trainjob.: in the namespace lab these rights are missing: patch trainingruntimes" out
	test_grep "^ok  *operator  *.as: rayjob.: the cluster has RayJob" out
	sed -i "s/defaults: {/&kubernetes: {as: rayjob, workers: 2}, /" pipeline.yaml
	test_code 3 cairn check >out 2>&1
	test_grep "pipeline.yaml:2:.*in .defaults. .as. is for steps over several nodes: name .rayjob. at the step" out
	test_grep "in .defaults. there is no .workers." out
	rm api/denied api/groups pipeline.yaml
'

test_expect 'rights that are missing are named' '
	echo "create jobs,get pods/log" >api/denied
	test_code 1 cairn doctor --on kubernetes --json >out
	test_is "$(json out "[c[\"detail\"] for c in d[\"checks\"] if c[\"name\"] == \"rights\"][0]")" "in the namespace lab these are missing: create jobs, get pods/log"
	rm api/denied
'

test_expect 'a version that is too old' '
	echo 29 >api/minor
	test_code 1 cairn doctor --on kubernetes >out
	test_grep "^problem  *version  *v1.29" out
	rm api/minor
'

test_expect 'a cluster whose Jobs no tasks can share' '
	echo no >api/arrays
	test_code 1 cairn doctor --on kubernetes >out
	test_grep "^problem  *jobs  *a Job that several tasks share would be refused: .*FailIndex" out
	test_grep "array: 1" out
	printf "kubernetes: {array: 1}\n" >cairn.yaml
	cairn doctor --on kubernetes >out
	test_grep "^ok  *jobs" out
	: >cairn.yaml
	rm api/arrays
'

test_expect --needs curl 'what pods are told of the store: a Secret that is not there, a name that nobody knows, what was not tried' '
	store() {
		printf "runner: kubernetes\nstore: s3://bucket/x\nkubernetes: {%s}\n" "$1" >cairn.yaml
		AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b cairn doctor >out || true
	}
	store "store_secret: keys"
	test_grep "^problem  *pods  *the Secret keys with the store.s credentials isn.t in the namespace lab" out
	curl -sf -X POST -H "Content-Type: application/json" -d "{\"metadata\": {\"name\": \"keys\"}}" \
		"http://127.0.0.1:$(cat api/port)/api/v1/namespaces/lab/secrets" >made
	store "store_secret: keys"
	test_grep "^ok  *pods  *are told to use the store s3://bucket/x; whether they reach it is seen with --deep" out
	store "store_secret: keys, store_options: {endpoint: \"http://no.such.invalid:9000\"}"
	test_grep "^warning  *pods  *are told to find the store at http://no.such.invalid:9000, and the name no.such.invalid isn.t known here" out
	store "store_account: reader"
	test_grep "^ok  *pods  *are told to use" out
	: >cairn.yaml
'

test_expect 'cairn.yaml names context, namespace and file' '
	mkdir -p conf
	cp kubeconfig conf/lab.yaml
	printf "runner: kubernetes\nstore: s3://bucket/x\nkubernetes: {kubeconfig: conf/lab.yaml, namespace: other}\n" >cairn.yaml
	KUBECONFIG=/nowhere AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b cairn doctor >out || true
	test_grep "conf/lab.yaml.*namespace other" out
	test_grep "^warning  *pods  *are given no credentials for the store s3://bucket/x" out
	printf "kubernetes: {context: there}\n" >cairn.yaml
	test_code 1 cairn doctor --on kubernetes >out
	test_grep "no cluster .none.; there are: c" out
	printf "kubernetes: {contxt: there}\n" >cairn.yaml
	test_code 1 cairn doctor --on kubernetes >out 2>err
	test_grep "did you mean .context" err
	: >cairn.yaml
'

test_expect 'no kubeconfig; nobody listens' '
	KUBECONFIG=/nowhere test_code 1 cairn doctor --on kubernetes >out
	test_grep "^problem  *kubeconfig  *no kubeconfig was found" out
	sed "s/127.0.0.1:[0-9]*/127.0.0.1:1/" "$KUBECONFIG" >dead
	KUBECONFIG=dead test_code 1 cairn doctor --on kubernetes >out
	test_grep "^problem  *cluster  *Kubernetes at http://127.0.0.1:1" out
'
test_done
