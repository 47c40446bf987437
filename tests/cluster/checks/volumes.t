#!/bin/bash
# Inputs from volumes that hold data already: pods mount them, read-only; what `pin` says stands for their content.
. "$(dirname "$0")/../../lib.sh"
# shellcheck source=tests/cluster/cluster.sh
. "$SRC/tests/cluster/cluster.sh"
PATH=/usr/bin:$PATH # Debian's python3
cluster_begin s3 registry
cluster_images
cluster_namespace sets restricted || test_bail 'no namespace'
cluster_yaml sets 'schedule_within: 30s' 'image_within: 5s' >cairn.yaml
volume=$CLUSTER/volume
mkdir -p "$volume/train/deep"
echo one >"$volume/train/a.txt"
echo two >"$volume/train/deep/b.txt"
chmod -R a+rX "$volume"
kubectl apply -f - >/dev/null <<-E
	apiVersion: v1
	kind: PersistentVolume
	metadata: {name: sets}
	spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany], storageClassName: "", hostPath: {path: "$volume"}, claimRef: {name: sets, namespace: sets}}
	---
	apiVersion: v1
	kind: PersistentVolumeClaim
	metadata: {name: sets, namespace: sets}
	spec: {accessModes: [ReadWriteMany], storageClassName: "", volumeName: sets, resources: {requests: {storage: 1Gi}}}
E
pipeline() { # PIN [PATH]
	cat <<-E
		pipeline: sets
		inputs:
		  train: {claim: sets, path: ${2:-train}, pin: "$1"}
		  all: {claim: sets, pin: "$1"}
		defaults: {image: $BUSYBOX, resources: {cpu: 50m, memory: 32Mi}}
		steps:
		  use:
		    matrix: {file: [a.txt, deep/b.txt]}
		    run: |
		      set -e
		      if touch \${{ inputs.dir }}/new; then echo the volume can be written; exit 1; fi
		      cat \${{ inputs.dir }}/a.txt \${{ inputs.all }}/train/deep/b.txt \${{ inputs.part }} >\${{ outputs.o }}
		    inputs: {dir: "\${{ inputs.train }}", all: "\${{ inputs.all }}", part: "\${{ inputs.train }}/\${{ matrix.file }}"}
		    outputs: {o: o.txt}
		    retry: {max: 0, backoff: 10ms}
	E
}

test_expect 'a claim, a directory and a file in it are mounted read-only, and outputs come as always' '
	pipeline 1 >pipeline.yaml
	cairn run -q
	cairn get "use[file=a.txt]/o" -o a
	cairn get "use[file=deep_b.txt]/o" -o b
	test_is "$(tr "\n" " " <a)" "one two one "
	test_is "$(tr "\n" " " <b)" "one two two "
	cairn lineage "use[file=a.txt]/o" >lineage
	test_grep "claim://sets/train" lineage
'
test_expect 'the pin stands for the content: as long as it stays, every task is a hit; then none is' '
	before=$(cluster_count jobs sets)
	echo three >"$volume/train/a.txt"
	cairn run -q
	test_is "$(cluster_count jobs sets)" "$before"
	pipeline 2 >pipeline.yaml
	cairn why "use[file=a.txt]" >why
	test_grep "input" why
	cairn run -q
	cairn get "use[file=a.txt]/o" -o a2
	test_is "$(tr "\n" " " <a2)" "three two three "
	cairn reproduce "$(cairn runs --json | python3 -c "import json, sys; print(json.load(sys.stdin)[\"runs\"][0][\"id\"])")" >reproduced
	test_grep "use.file=a.txt. .*reproduced" reproduced
'
test_expect 'on this machine it is one clear error' '
	test_code 1 cairn run -q --on local 2>err
	test_grep "input .dir. is claim://sets/train, a volume of a Kubernetes cluster, which this machine can.t read: execute the step there, with .--on kubernetes." err
'
test_expect 'a claim that is not there: in words' '
	pipeline 4 | sed "s/claim: sets/claim: other/" >pipeline.yaml
	test_code 1 timeout 120 cairn run -q 2>err
	cairn status --json >status.json
	json status.json "d[\"tasks\"][0][\"message\"]" >message
	test_grep "persistentvolumeclaim .other. not found" message
'
test_done
