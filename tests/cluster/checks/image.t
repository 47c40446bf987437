#!/bin/bash
# Cairn's own image on a real cluster: imported as a tar, and pulled by digest from a registry that it was pushed to; as its user, with a read-only root, in a restricted namespace.
# shellcheck disable=SC2016 # expansions are the tests'
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/cluster/cluster.sh"
for test_v in cairn-steps cairn-init cairn-launch; do
	[ -x "$(dirname "$CAIRN")/$test_v" ] || test_skip_all "there is no $test_v beside cairn"
done
cluster_begin registry

pod() { # NAME IMAGE
	cat <<-E
		apiVersion: v1
		kind: Pod
		metadata: {name: $1}
		spec:
		  restartPolicy: Never
		  automountServiceAccountToken: false
		  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
		  containers:
		  - name: version
		    image: $2
		    imagePullPolicy: IfNotPresent
		    args: [version, --json]
		    securityContext: &closed {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
		  - name: steps
		    image: $2
		    imagePullPolicy: IfNotPresent
		    command: [/usr/bin/cairn-steps, --help]
		    securityContext: *closed
		  - name: who
		    image: $2
		    imagePullPolicy: IfNotPresent
		    args: [image, --output, /proc/cairn.tar]
		    securityContext: *closed
	E
}
told() { # NAME: what its containers must have said
	kubectl wait --for=jsonpath="{.status.containerStatuses[0].state.terminated.exitCode}"=0 "pod/$1" --timeout=120s >/dev/null
	kubectl wait --for=jsonpath="{.status.containerStatuses[1].state.terminated.exitCode}"=0 "pod/$1" --timeout=120s >/dev/null
	kubectl logs "$1" -c version >out
	test_is "$(json out "d[\"version\"]")" "$(cairn version | cut -d " " -f 2)"
	kubectl logs "$1" -c steps >out
	test_grep "shard" out
}
export -f pod told
cluster_namespace images restricted || test_bail 'no namespace'

test_expect 'as a tar, by ctr images import' '
	cairn image --output cairn.tar --name registry.example/tools/cairn:imported >digest
	cluster_inside ctr images import "$PWD/cairn.tar" >out
	test_grep "registry.example/tools/cairn:imported" out
	pod tar registry.example/tools/cairn:imported | kubectl apply -f - >/dev/null
	told tar
'
test_expect 'pushed, and pulled by digest' '
	cairn image --push "$REGISTRY/tools/cairn:1" >pushed
	test_cmp digest pushed
	pod pulled "$REGISTRY/tools/cairn@$(cat pushed)" | kubectl apply -f - >/dev/null
	told pulled
	kubectl get pod pulled -o json >pod.json
	test_is "$(json pod.json "d[\"status\"][\"containerStatuses\"][0][\"imageID\"]")" "$REGISTRY/tools/cairn@$(cat digest)"
'
# The other processor's part is this image with another name for its processor: nobody here could execute a real one.
test_expect 'one image for two processors: the node takes its own part, of a tar and of the registry' '
	cairn image --output arm --name cairn:arm >out
	python3 - <<-"PY"
	import hashlib, json
	def read(digest):
	    return json.load(open("arm/blobs/sha256/" + digest[7:]))
	def blob(doc):
	    data = json.dumps(doc, sort_keys=True, separators=(",", ":")).encode()
	    digest = hashlib.sha256(data).hexdigest()
	    open("arm/blobs/sha256/" + digest, "wb").write(data)
	    return {"digest": "sha256:" + digest, "size": len(data)}
	index = json.load(open("arm/index.json"))
	manifest = read(index["manifests"][0]["digest"])
	config = read(manifest["config"]["digest"])
	config["architecture"] = "s390x"
	manifest["config"].update(blob(config))
	index["manifests"][0].update(blob(manifest))
	json.dump(index, open("arm/index.json", "w"))
	PY
	cairn image --output both.tar --name registry.example/tools/cairn:both --add arm >both
	cluster_inside ctr images import "$PWD/both.tar" >out
	test_grep "registry.example/tools/cairn:both" out
	pod both registry.example/tools/cairn:both | kubectl apply -f - >/dev/null
	told both
	cairn image --push "$REGISTRY/tools/cairn:both" --add arm >pushed2
	test_cmp both pushed2
	pod pulled2 "$REGISTRY/tools/cairn@$(cat pushed2)" | kubectl apply -f - >/dev/null
	told pulled2
'
test_expect 'nobody, in a root that can not be written to' '
	kubectl wait --for=jsonpath="{.status.containerStatuses[2].state.terminated.exitCode}"=4 pod/pulled --timeout=120s >/dev/null
	kubectl get pod pulled -o json >pod.json
	json pod.json "[c for c in d[\"status\"][\"containerStatuses\"] if c[\"name\"] == \"who\"][0]" >who
	test_grep "\"exitCode\": 4" who
'
test_expect 'a pull secret that may be read lets the plan of a run in, where nobody else is' '
	locked=127.0.0.1:$(python3 -c "import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); print(s.getsockname()[1])")
	CAIRN_TEST_REGISTRY=$test_xdg/cairn-tests/cluster/bin/registry start locked "$cluster/registry/serve" "$PWD/locked.d" "$locked" u:p
	printf "{\"auths\": {\"%s\": {\"auth\": \"%s\"}}}" "$locked" "$(printf u:p | base64)" >config.json
	wait_until 20 curl -s -o answer "http://$locked/v2/"
	DOCKER_CONFIG=$PWD cairn image --push "$locked/tools/cairn:1" >out
	kubectl create secret generic pull --type=kubernetes.io/dockerconfigjson --from-file=.dockerconfigjson=config.json >/dev/null
	write project/cairn.yaml <<-Y
		runner: kubernetes
		kubernetes: {namespace: images}
	Y
	write project/pipeline.yaml <<-Y
		pipeline: one
		steps:
		  a: {run: "true", image: "$locked/tools/cairn:1"}
	Y
	cd project
	test_code 3 cairn plan 2>err
	test_grep "pipeline.yaml:3:3: step .a.: image .* without credentials" err
	echo "kubernetes: {namespace: images, image_pull_secrets: [not-there, pull]}" >cairn.yaml
	echo "runner: kubernetes" >>cairn.yaml
	cairn plan >out
	test_grep "run +a +first run" out
'
test_done
