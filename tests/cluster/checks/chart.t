#!/bin/bash
# The Helm chart: lint, the objects of the kustomize base, values that are wrong, values of the guides; and installed on the cluster, used, upgraded, removed.
# shellcheck disable=SC2016 # expansions are the tests'
. "$(dirname "$0")/../../lib.sh"
# shellcheck source=tests/cluster/cluster.sh
. "$SRC/tests/cluster/cluster.sh"
lacks=$(cluster_do "$cluster/build" --check helm) || test_skip_all "$lacks"
cluster_begin s3 registry
export CHART=$SRC/runners/kubernetes/deploy/chart
render() { helm template cairn "$CHART" -n ml "$@"; }

test_expect 'lint finds nothing, with the default values and those of the guides' '
	for f in values.yaml values/gke.yaml values/eks.yaml values/aks.yaml values/local.yaml values/kubeadm.yaml; do
		helm lint --strict "$CHART" -f "$CHART/$f" >out 2>&1 || { cat out; exit 1; }
	done
'

test_expect 'the objects are those of the kustomize base' '
	render >chart.yaml
	kubectl kustomize "$SRC/runners/kubernetes/deploy" >base.yaml
	for f in chart base; do kubectl create --dry-run=client -o json -f $f.yaml >$f.json; done
	python3 - <<-"P"
	import json
	def load(path):
	    text, at, all = open(path).read().strip(), 0, {}
	    while at < len(text):
	        o, at = json.JSONDecoder().raw_decode(text, at)
	        while at < len(text) and text[at].isspace():
	            at += 1
	        for i in o["items"] if o["kind"] == "List" else [o]:
	            name = i["metadata"]["name"] if i["kind"] != "ConfigMap" else "cairn-project"
	            i["metadata"] = {"name": name, "labels": i["metadata"].get("labels", {})}
	            i.get("data", {}).pop("cairn.yaml", None) # comments differ
	            for s in i.get("subjects", []):
	                s.pop("namespace", None)
	            template = i["spec"].get("template") if "spec" in i else None
	            if template:
	                template["metadata"].pop("annotations", None)
	                template["spec"]["containers"][0].pop("imagePullPolicy", None)
	                for v in template["spec"]["volumes"]:
	                    if "configMap" in v:
	                        v["configMap"]["name"] = "cairn-project" # its digest
	            all[i["kind"], name] = i
	    return all
	chart, base = load("chart.json"), load("base.json")
	assert sorted(chart) == sorted(base), (sorted(chart), sorted(base))
	for k in chart:
	    assert chart[k] == base[k], (chart[k], base[k])
	P
	python3 - <<-"P"
	import os, re
	chart = os.environ["CHART"]
	config = re.search(r"(?ms)^config:\n(.*?)^\S", open(chart + "/values.yaml").read()).group(1)
	base = open(chart + "/../cairn.yaml").read()
	bare = lambda text: sorted(re.sub(r"\s+#.*|^#.*", "", line).strip() for line in text.splitlines() if re.sub(r"\s*#.*", "", line).strip())
	assert bare(config) == bare(base), (bare(config), bare(base))
	P
'

test_expect 'wrong values are refused, in words' '
	refused() { # WORDS OPTION…
		local words=$1
		shift
		test_code 1 render "$@" >out 2>&1
		test_grep "$words" out
	}
	refused "tagg.* not allowed" --set image.tagg=1
	refused "give tag or digest, not both" --set-string image.tag=1 --set image.digest=sha256:$(printf "%064d" 1)
	refused "give one of aws, gcp and azure" --set identity.aws.roleArn=arn:aws:iam::123456789012:role/x --set identity.azure.clientId=x
	refused "/identity/aws/roleArn" --set identity.aws.roleArn=cairn
	refused "/config/runner" --set config.runner=local
	refused "both engines must be on the volume" --set standby=true --set-json "affinity={\"nodeAffinity\":{}}"
	refused "/pipelines" --set "pipelines.a/b=x"
'

cluster_images
digest=$(curl -s -o /dev/null -D - -H 'Accept: application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json' "http://$REGISTRY/v2/cairn/manifests/test" |
	tr -d '\r' | sed -n 's|^[Dd]ocker-[Cc]ontent-[Dd]igest: ||p')
box=$(curl -s -o /dev/null -D - -H 'Accept: application/vnd.oci.image.manifest.v1+json' "http://$REGISTRY/v2/busybox/manifests/1" | tr -d '\r' | sed -n 's|^[Dd]ocker-[Cc]ontent-[Dd]igest: ||p')
export digest TOKEN=0123456789abcdef0123456789abcdef
cluster_namespace chart restricted || test_bail 'no namespace'
kubectl -n chart create secret generic cairn-token --from-literal=token=$TOKEN >/dev/null
mkdir -p "$CLUSTER/volume"
chmod 777 "$CLUSTER/volume"
kubectl apply -f - >/dev/null <<-E
	apiVersion: v1
	kind: PersistentVolume
	metadata: {name: cairn}
	spec: {capacity: {storage: 20Gi}, accessModes: [ReadWriteOnce], persistentVolumeReclaimPolicy: Retain, hostPath: {path: "$CLUSTER/volume"}}
E
cat >values.yaml <<-E
	image: {repository: "$REGISTRY/cairn", tag: "", digest: "$digest"}
	pipelines:
	  often.yaml: |
	    pipeline: often
	    steps: {a: {image: "$REGISTRY/busybox@$box", run: echo hello >o, outputs: {o: o}, resources: {cpu: 50m}}}
	    schedules: {now: {cron: "* * * * *"}}
	config:
	  store: s3://tbucket/chart
	  store_options: {endpoint: "$S3_INSIDE", region: us-east-1, style: path}
	  kubernetes: {image: "$REGISTRY/cairn@$digest", registries: ["$REGISTRY"], requests: {per_second: 200, burst: 400}}
E
install() { helm upgrade --install cairn "$CHART" -n chart -f "$CHART/values/kubeadm.yaml" -f values.yaml --wait --timeout 120s "$@" >out 2>&1 || { cat out; kubectl -n chart get pods,events; kubectl -n chart logs deployment/cairn --tail=20; return 1; }; }
api() { cluster_inside curl -s --max-time 5 -H "Authorization: Bearer $TOKEN" "http://$(kubectl -n chart get service cairn -o 'jsonpath={.spec.clusterIP}'):8410/api/v1/$1"; }
succeeded() { api runs >runs.json && test "$(json runs.json 'any(r["state"] == "succeeded" for r in d["runs"])')" = true; }

test_expect 'installed where a quota and limits hold, the engine runs a pipeline of the values' '
	install
	test_is "$(kubectl -n chart get limitrange,resourcequota,networkpolicy -o name | wc -l)" 5
	wait_until 150 succeeded || { cat runs.json; kubectl -n chart get events; exit 1; }
	test_is "$(kubectl -n chart get deployment cairn -o "jsonpath={.spec.template.spec.containers[0].image}")" "$REGISTRY/cairn@$digest"
'

test_expect 'upgraded with a second engine: the runs are still known; removed: the volume stays' '
	helm upgrade cairn "$CHART" -n chart -f "$CHART/values/kubeadm.yaml" -f values.yaml --set standby=true >/dev/null
	two() { [ "$(kubectl -n chart get pods -l app.kubernetes.io/component=engine --field-selector=status.phase=Running -o name | wc -l)" = 2 ]; }
	wait_until 120 two
	wait_until 60 succeeded
	helm uninstall cairn -n chart --wait >/dev/null
	test_is "$(kubectl -n chart get persistentvolumeclaim -o name)" persistentvolumeclaim/cairn
	test_is "$(kubectl -n chart get deployment,role,limitrange -o name)" ""
'
test_done
