#!/bin/bash
# A real API server checks what is made for attempts: every golden object of tests/unit/runners/job, strictly and in a namespace that enforces `restricted` Pod Security, and what
# `cairn run --dry-run` shows.
cluster=$(cd "$(dirname "$0")/.." && pwd)
lacks=$("$cluster/build" --check)
programs=${XDG_CACHE_HOME:-$HOME/.cache} go_home=$HOME # lib.sh takes both away
. "$cluster/../lib.sh"
[ -z "$lacks" ] || test_skip_all "$lacks"
export cluster XDG_CACHE_HOME=$programs PATH=$programs/cairn-tests/cluster/bin:$PATH

# cluster_crds OPERATOR: its definitions, by the version in operators/OPERATOR/go.mod.
cluster_crds() {
	local folder=$cluster/operators/$1 module dir
	module=$(sed -n 's/^tool \([^ ]*\)$/\1/p' "$folder/go.mod")
	module=${module%/cmd/*}
	(cd "$folder" && HOME=$go_home timeout 120 go mod download "$module") || return 1
	dir=$(cd "$folder" && HOME=$go_home go list -mod=readonly -m -f '{{.Dir}}' "$module") || return 1
	for f in "$dir"/manifests/base/crds/{,trainer.}kubeflow.org_*.yaml "$dir"/manifests/base/kubeflow.org_mpijobs.yaml "$dir"/config/components/crd/bases/*.yaml \
		"$dir"/config/crd/bases/{ray.io_rayjobs,sparkoperator.k8s.io_sparkapplications}.yaml; do
		case $f in
		*/crds/*mpijobs.yaml) ;; # the training operator's older one
		*) [ ! -f "$f" ] || { echo ---; cat "$f"; } ;;
		esac
	done
}

test_when_over '"$cluster/down" "$PWD/c" >/dev/null 2>&1'
"$cluster/up" "$PWD/c" >up.out 2>&1 || { test_say <up.out; test_say <c/log/node.log; test_bail 'the cluster does not come up'; }
export KUBECONFIG=$PWD/c/kubeconfig
kubectl create namespace ml >/dev/null
kubectl label namespace ml pod-security.kubernetes.io/enforce=restricted pod-security.kubernetes.io/warn=restricted >/dev/null
kubectl apply -f - >/dev/null <<-'E'
	apiVersion: scheduling.k8s.io/v1
	kind: PriorityClass
	metadata: {name: high}
	value: 1000
	---
	apiVersion: node.k8s.io/v1
	kind: RuntimeClass
	metadata: {name: nvidia}
	handler: nvidia
	---
	apiVersion: v1
	kind: ServiceAccount
	metadata: {name: reader, namespace: ml}
	---
	apiVersion: v1
	kind: ServiceAccount
	metadata: {name: cairn-store, namespace: ml}
	E
wait_until 30 kubectl -n ml get serviceaccount default
all=$SRC/tests/unit/runners/job golden=$PWD/golden
mkdir golden
cp "$all"/*.yaml "$all"/*/*.yaml golden
rm golden/as-*.yaml
cp "$all"/kinds/as-one-node.yaml golden # a Job all the same
n_golden=$(find "$golden" -name '*.yaml' | wc -l)
n_host=$(grep -lE "^ +hostPath:" "$golden"/*.yaml | wc -l)
export all golden n_golden n_host

test_expect 'every golden object is accepted, strictly, without a warning' '
	kubectl create --dry-run=server --validate=strict -f "$golden" -o name >out 2>said
	sed -i "/would violate PodSecurity .restricted:latest.: restricted volume types .volume .cairn-cache. uses/d" said # what `cache: {host_path}` needs
	test_cmp /dev/null said
	test_is "$(grep -c "^job.batch/" out)" "$n_golden"
	test_grep "^service/" out
	test_grep "^networkpolicy.networking.k8s.io/" out
'

# But for those whose cache is a directory of the node.
test_expect 'the pods of every golden Job are accepted where restricted is enforced' '
	kubectl create --dry-run=client -f "$golden" -o json >all.json
	python3 - <<-E >pods.json
		import json
		text, at, items = open("all.json").read().strip(), 0, []
		while at < len(text):
		    o, at = json.JSONDecoder().raw_decode(text, at)
		    items += o["items"] if o["kind"] == "List" else [o]
		    while at < len(text) and text[at].isspace():
		        at += 1
		templates = [o["spec"]["template"] for o in items if o["kind"] == "Job"]
		pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {**t["metadata"], "name": f"pod-{i}", "namespace": "ml"}, "spec": t["spec"]} for i, t in enumerate(templates)]
		print(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
	E
	test_code 1 kubectl create --dry-run=server --validate=strict -f pods.json -o name >out 2>said
	test_is "$(grep -c "restricted volume types .volume .cairn-cache. uses restricted volume type .hostPath" said)" "$n_host"
	test_lines "$n_host" said
	test_is "$(grep -c "^pod/" out)" $((n_golden - n_host))
'

# Of each pod its node, and what the scheduler says. placed N PATTERN: so many of them are as the pattern says.
places() { kubectl -n ml get pods -o jsonpath='{range .items[*]}{.spec.nodeName} {.status.conditions[?(@.type=="PodScheduled")].message}{"\n"}{end}'; }
placed() { test "$(places | grep -c "$2")" = "$1"; }
# The pods are never started: there is no such image.
test_expect 'the nodes of an elastic step get their places only after its first node' '
	kubectl create --dry-run=client -f "$golden/elastic.yaml" -o json >elastic.json
	python3 - <<-E
		import json
		job = json.JSONDecoder().raw_decode(open("elastic.json").read())[0]
		job = job["items"][0] if job["kind"] == "List" else job
		for i in range(3):
		    t = json.loads(json.dumps(job["spec"]["template"]))
		    t["metadata"] |= {"name": f"node-{i}", "namespace": "ml"}
		    t["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] = str(i)
		    t["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "10m"}}
		    json.dump({"apiVersion": "v1", "kind": "Pod", **t}, open(f"node-{i}.json", "w"))
	E
	kubectl create -f node-1.json -f node-2.json >/dev/null
	wait_until 60 placed 2 "^ .*pod affinity rules" || { places; exit 1; }
	kubectl create -f node-0.json >/dev/null
	wait_until 60 placed 3 "^node1 $" || { places; exit 1; }
	kubectl -n ml delete pods --all --force --grace-period=0 >/dev/null 2>&1
'

# The operators' own definitions, out of their modules; none of them runs here (but for Spark's, operators.t and ray.t have them).
crds=()
for operator in training mpi jobset trainer ray spark; do
	text=$(cluster_crds "$operator" 2>&1) || { crds=(); break; }
	echo "$text" >"crds-$operator.yaml"
	crds+=("crds-$operator.yaml")
done
if [ ${#crds[@]} -eq 0 ]; then
	test_skip "every operator's object is accepted, strictly, by its published schema" "their modules can't be had: $(tail -n 1 <<<"$text")"
else
	export CRDS=${crds[*]}
	test_expect "every operator's object is accepted, strictly, by its published schema" '
		for f in $CRDS; do kubectl apply --server-side -f $f >/dev/null; done
		kubectl wait --for=condition=Established crd --all --timeout=60s >/dev/null
		n=0
		mkdir as
		for f in "$all"/kinds/as-*.yaml; do # without what is only added to an object that is there
			python3 -c "import sys; print(\"---\n\".join(d for d in sys.stdin.read().split(\"---\n\") if \"\nspec:\" in d), end=\"\")" <"$f" >as/"${f##*/}"
		done
		for f in as/*.yaml; do
			kubectl create --dry-run=server --validate=strict -f "$f" -o name >out 2>said || { cat said; exit 1; }
			test_cmp /dev/null said
			n=$((n + 1))
		done
		test_is $n 12
		for kind in pytorchjob tfjob xgboostjob jaxjob mpijob jobset trainjob rayjob sparkapplication; do
			test_grep "^$kind" <(kubectl create --dry-run=server -f "as/as-$kind.yaml" -o name)
		done
		sed "s/cleanPodPolicy/cleanPodsPolicy/" "$all/kinds/as-tfjob.yaml" >bad.yaml
		test_code 1 kubectl create --dry-run=server --validate=strict -f bad.yaml 2>said
		test_grep "cleanPodsPolicy" said
		sed "s/memoryOverhead/memoryOverload/" as/as-sparkapplication.yaml >bad.yaml
		test_code 1 kubectl create --dry-run=server --validate=strict -f bad.yaml 2>said
		test_grep "memoryOverload" said
	'
fi

test_expect 'what is not restricted, or misspelt, is refused: the checks can fail' '
	sed "s/readOnlyRootFilesystem: true/privileged: true/" "$golden/plain.yaml" >bad.yaml
	kubectl create --dry-run=client -f bad.yaml -o json >bad.json
	json bad.json "json.dumps({\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"bad\", \"namespace\": \"ml\"}, \"spec\": d[\"spec\"][\"template\"][\"spec\"]})" >pod.json
	test_code 1 kubectl create --dry-run=server -f pod.json 2>said
	test_grep "[Pp]rivileged" said
	sed "s/allowPrivilegeEscalation: false/allowPrivilegeEscalation: true/" "$golden/plain.yaml" >bad.yaml
	kubectl create --dry-run=client -f bad.yaml -o json >bad.json
	json bad.json "json.dumps({\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"bad\", \"namespace\": \"ml\"}, \"spec\": d[\"spec\"][\"template\"][\"spec\"]})" >pod.json
	test_code 1 kubectl create --dry-run=server -f pod.json 2>said
	test_grep "violates PodSecurity" said
	sed "s/backoffLimit/backofLimit/" "$golden/plain.yaml" >bad.yaml
	test_code 1 kubectl create --dry-run=server --validate=strict -f bad.yaml 2>said
	test_grep "backofLimit" said
'

test_expect 'run --dry-run=client and =server; nothing is made' '
	mkdir -p project/data
	cd project
	echo a >data/a.txt
	cat >cairn.yaml <<-E
		runner: kubernetes
		store: $PWD/store
		kubernetes: {namespace: ml, image: "registry.test/cairn@sha256:0123456789012345678901234567890123456789012345678901234567890123", store_claim: shared, cloud: gke}
	E
	cat >pipeline.yaml <<-E
		pipeline: p
		defaults: {image: "registry.test/a@sha256:0123456789012345678901234567890123456789012345678901234567890123"}
		steps:
		  prep:
		    run: cp \${{ inputs.raw }} \${{ outputs.o }}
		    inputs: {raw: data/a.txt}
		    outputs: {o: o.txt}
		  many: {run: "echo \${{ item }} > \${{ outputs.o }}", each: [1, 2, 3], pack: 2, outputs: {o: o.txt}}
		  train:
		    run: python train.py
		    spot: true
		    distributed: {framework: torch, nodes: 2}
		    inputs: {d: "\${{ steps.prep.outputs.o }}"}
		    outputs: {m: m/}
	E
	cairn run --dry-run -o yaml >client.yaml 2>said
	test_grep "^5 objects; 0 tasks on record, without a pod" said
	test_grep "^# many\[1\], many\[2\], many\[3\]" client.yaml
	test_grep "^# train: waits" client.yaml
	kubectl create --dry-run=server --validate=strict -f client.yaml -o name >out 2>said
	test_cmp /dev/null said
	test_is "$(grep -c . out)" 5
	cairn run --dry-run=server -o json >server.json 2>said
	test_is "$(json server.json "sorted(o[\"kind\"] for o in d[\"items\"])")" "[\"Job\", \"Job\", \"Job\", \"NetworkPolicy\", \"Service\"]"
	test_is "$(json server.json "all(o[\"metadata\"][\"uid\"] for o in d[\"items\"])")" true
	test_is "$(kubectl -n ml get jobs,services,networkpolicies -o name)" ""
	test_missing .cairn/work
'

test_expect 'what the server would refuse is told in its words' '
	cd project
	kubectl -n ml create quota tight --hard=count/jobs.batch=0 >/dev/null
	test_code 3 cairn run --dry-run=server >out 2>said
	test_grep "prep: .*exceeded quota: tight" said
	test_grep "^# refused by the server:" out
	kubectl -n ml delete quota tight >/dev/null
	sed "s/spot: true/kubernetes: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{wrong: 1}]}}}}/" pipeline.yaml >bad.yaml
	test_code 3 cairn run bad.yaml --dry-run=server >out 2>said
	test_grep "train: .*unknown field.*wrong" said
'
test_done
