#!/bin/bash
# The engine on the cluster: `cairn serve` as runners/kubernetes/deploy makes it, runs handed over from outside, and what befalls engines there: no Job is started twice, nothing
# that is finished is lost, and the bytes are those of a local run.
# shellcheck disable=SC2016 # expansions are the tests'
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/cluster/cluster.sh"
cluster_begin s3 registry
cluster_images
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
# The registry is the node's own, which a pod doesn't see: images by digest need no asking.
by_digest() { curl -s -o /dev/null -D - -H 'Accept: application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json' "http://$REGISTRY/v2/$1/manifests/$2" |
	tr -d '\r' | sed -n "s|^[Dd]ocker-[Cc]ontent-[Dd]igest: |$REGISTRY/$1@|p"; }
IMAGE=$(by_digest cairn test) BUSYBOX=$(by_digest busybox 1)
case $IMAGE$BUSYBOX in *sha256:*sha256:*) ;; *) test_bail 'the registry tells no digests' ;; esac
export PORT SERVER=http://127.0.0.1:$PORT TOKEN=0123456789abcdef0123456789abcdef NS=engine

# overlay [COMPONENT…]: what a user writes. The volume is a directory of this machine; everything else is the manifests'.
overlay() {
	local c
	mkdir -p overlay
	rm -rf overlay/deploy
	cp -r "$SRC/runners/kubernetes/deploy" overlay/deploy
	cat >overlay/kustomization.yaml <<-E
		namespace: $NS
		resources: [deploy]
		images: [{name: cairn, newName: "${IMAGE%@*}", digest: "${IMAGE##*@}"}]
		configMapGenerator: [{name: cairn-project, behavior: replace, files: [cairn.yaml]}]
		patches: [{target: {kind: PersistentVolumeClaim}, patch: '[{"op": "add", "path": "/spec/storageClassName", "value": ""}, {"op": "add", "path": "/spec/volumeName", "value": "engine"}]'}]
		components: [$(for c; do printf 'deploy/components/%s, ' "$c"; done)]
	E
	cat >overlay/cairn.yaml <<-E
		store: s3://tbucket/$NS
		store_options: {endpoint: "$S3_INSIDE", region: us-east-1, style: path}
		runner: kubernetes
		kubernetes:
		  image: $IMAGE
		  registries: ["$REGISTRY"]
		  store_secret: cairn-store
		  requests: {per_second: 200, burst: 400}
		serve: {lease: cairn}
	E
}
volume() {
	mkdir -p "$CLUSTER/volume"
	chmod 777 "$CLUSTER/volume"
	kubectl apply -f - >/dev/null <<-E
		apiVersion: v1
		kind: PersistentVolume
		metadata: {name: engine}
		spec: {capacity: {storage: 20Gi}, accessModes: [ReadWriteOnce], persistentVolumeReclaimPolicy: Retain, hostPath: {path: "$CLUSTER/volume"}}
	E
}
# The Service, at a port of loopback, for as long as the cluster is up, whichever pod is behind it.
forward() {
	kubectl -n "$NS" get service cairn -o 'jsonpath={.spec.clusterIP}' >cluster-ip
	start relay-in "$cluster/inside" "$CLUSTER" env -C "$CLUSTER" socat UNIX-LISTEN:engine.sock,fork,unlink-early "TCP:$(cat cluster-ip):8410"
	start relay env -C "$CLUSTER" socat "TCP-LISTEN:$PORT,bind=127.0.0.1,fork,reuseaddr" UNIX-CONNECT:engine.sock
}
answers() { [ "$(curl -s -o /dev/null -w '%{http_code}' --max-time 5 "$SERVER/readyz")" = 200 ]; }
ready() { wait_until 120 answers; }
from_outside() { (cd outside && CAIRN_SERVE_TOKEN=$TOKEN CAIRN_SERVER=$SERVER cairn "$@"); }
# shellcheck disable=SC2034 # run is the tests'
detach() { from_outside run --json --detach "$@" >handed.json && run=$(json handed.json 'd["run"]'); }
state() { from_outside status --json "$1" --server >state.json 2>/dev/null && json state.json 'd["run"]["state"]'; }
state_is() { [ "$(state "$1")" = "$2" ]; }
# ends RUN: well, with the bytes of the local run.
ends() {
	wait_until 180 state_is "$1" succeeded
	curl -s -H "Authorization: Bearer $TOKEN" "$SERVER/api/v1/runs/$1/tasks" >tasks.json
	json tasks.json "sorted((t[\"task\"], o[\"id\"]) for t in d[\"tasks\"] for o in t[\"outputs\"].values())" >bytes
	test_cmp "want-$2" bytes
}
pods_of() { cluster_created pods "$NS" | grep -v "^cairn-" >all-pods; wc -l <all-pods; } # of tasks, not the engine's own
once() { cluster_created jobs "$NS" | sort | uniq -d >twice; test_is "$(cat twice)" ""; }
engine_pod() { kubectl -n "$NS" get lease cairn -o 'jsonpath={.spec.holderIdentity}' | sed 's/_[0-9a-f]*$//'; }
running() { kubectl -n "$NS" get pods -l cairn.internal/run -o name 2>/dev/null | grep -c . || :; }
some_run() { [ "$(running)" -gt 0 ]; }
# kill9 POD: process 1 of its container, from the node.
kill9() {
	local uid
	uid=$(kubectl -n "$NS" get pod "$1" -o 'jsonpath={.metadata.uid}') || return 1
	cluster_inside sh -c 'for p in /proc/[0-9]*; do grep -q "$0" $p/cgroup 2>/dev/null && tr "\0" " " <$p/cmdline 2>/dev/null | grep -q "cairn serve" && kill -KILL ${p#/proc/} && echo killed; done; :' "$uid" | grep -q killed
}

mkdir outside
write outside/pipeline.yaml <<YAML
pipeline: away
params: {n: 1, s: 1}
inputs: {data: data.txt}
steps:
  one:
    image: $BUSYBOX
    run: "sleep \${{ params.s }}; cat \${{ inputs.data }} >o; echo \${{ params.n }} >>o"
    inputs: {data: "\${{ inputs.data }}"}
    outputs: {o: o}
  two:
    matrix: {i: [1, 2, 3]}
    image: $BUSYBOX
    run: "sleep \${{ params.s }}; sh lib.sh \${{ inputs.o }} \${{ matrix.i }} >o"
    code: [lib.sh]
    inputs: {o: "\${{ steps.one.outputs.o }}"}
    outputs: {o: o}
  three:
    image: $BUSYBOX
    run: "sleep \${{ params.s }}; cat \${{ inputs.o }}/* | sort >o"
    inputs: {o: "\${{ steps.two.outputs.o }}"}
    outputs: {o: o}
YAML
echo 'while read -r line; do echo "$2: $line"; done <"$1"' >outside/lib.sh
echo hello >outside/data.txt
cluster_namespace $NS restricted
cluster_yaml $NS >outside/cairn.yaml
kubectl -n $NS create secret generic cairn-token --from-literal=token=$TOKEN >/dev/null
volume

# want N: the contents that a run on this machine gives, with no cluster and no store of ours.
want() {
	mkdir -p local
	cp outside/lib.sh outside/data.txt local/
	sed '/^ *image:/d' outside/pipeline.yaml >local/pipeline.yaml
	: >local/cairn.yaml
	(cd local && cairn run -q -p n="$1" -p s=0 >/dev/null &&
		python3 - "$PWD/.cairn/cairn.db" <<-'P'
			import json, sqlite3, sys
			db = sqlite3.connect(sys.argv[1])
			rows = db.execute("SELECT a.task, c.digest FROM io JOIN attempt a ON a.id = io.attempt JOIN content c ON c.id = io.content WHERE io.dir = 1 AND a.run = (SELECT max(rowid_) FROM run)")
			print(json.dumps(sorted([task, "sha256:" + digest.hex()] for task, digest in rows)))
		P
	) >"want-$1"
}

test_expect 'the manifests are taken by a namespace that enforces `restricted`, strictly' '
	overlay standby pull-secrets
	kubectl apply --dry-run=server --validate=strict -k overlay >out 2>err
	test_no_grep "[Ww]arning" err
	for kind in serviceaccount role.rbac rolebinding.rbac configmap/cairn-project- persistentvolumeclaim deployment.apps service networkpolicy.networking; do
		test_grep "^$kind.*created" out
	done
'

test_expect 'the engine comes up, and its account suffices' '
	overlay
	kubectl apply -k overlay >/dev/null
	kubectl -n $NS rollout status deployment/cairn --timeout=120s >/dev/null || { kubectl -n $NS describe pods; kubectl -n $NS logs deployment/cairn; exit 1; } >&2
	forward
	ready
	cp "$KUBECONFIG" account.yaml
	kubectl --kubeconfig account.yaml config set-credentials account --token="$(kubectl -n $NS create token cairn)" >/dev/null
	kubectl --kubeconfig account.yaml config set-context --current --user=account >/dev/null
	echo "serve: {lease: cairn}" >>outside/cairn.yaml
	(cd outside && KUBECONFIG=../account.yaml cairn doctor --on kubernetes --deep >../out) || { cat out >&2; exit 1; }
	test_grep "^ok  *rights" out
	test_grep "^ok  *jobs" out
	test_grep "^ok  *pod  *ran on node1, read from and wrote to s3://tbucket/engine" out
	gone() { [ "$(kubectl -n $NS get jobs -o name | wc -l)" = 0 ]; }
	wait_until 30 gone
'

test_expect 'a run that is handed over from outside: its bytes are those of a local run; the second costs no pod' '
	want 1
	before=$(pods_of)
	detach
	ends "$run" 1
	test_is "$(($(pods_of) - before))" 5
	from_outside status "$run" --server >out
	test_grep "^$run succeeded" out
	from_outside logs "one" --run "$run" --server >out
	detach
	ends "$run" 1
	test_is "$(($(pods_of) - before))" 5
	once
'

n=10
for at in 0 2 4 6; do
	n=$((n + 1))
	export n at
	test_expect "kill -9 of the engine $at s after a pod began: the next goes on, and no Job is started twice" '
		want $n
		before=$(pods_of)
		detach -p n=$n -p s=2
		wait_until 60 some_run
		sleep $at # lint: the moments differ, and none is waited for
		kill9 "$(engine_pod)"
		ends "$run" $n
		test_is "$(($(pods_of) - before))" 5
		once
	'
done

test_expect 'its pod is deleted, twice in a run: once in order, once by force' '
	want 20
	before=$(pods_of)
	detach -p n=20 -p s=3
	wait_until 60 some_run
	kubectl -n $NS delete pod "$(engine_pod)" >/dev/null
	ready
	kubectl -n $NS delete pod "$(engine_pod)" --force --grace-period=0 >/dev/null 2>&1
	ends "$run" 20
	test_is "$(($(pods_of) - before))" 5
	once
'

test_expect 'an API server that is away for longer than the Lease lasts' '
	want 21
	before=$(pods_of)
	detach -p n=21 -p s=2
	wait_until 60 some_run
	cluster_inside sh -c "kill -STOP \$(pidof kube-apiserver)"
	sleep 25 # lint: that long is what is tested
	cluster_inside sh -c "kill -CONT \$(pidof kube-apiserver)"
	ends "$run" 21
	test_is "$(($(pods_of) - before))" 5
	once
'

test_expect 'two engines: one acts, the other stands by, and takes over' '
	overlay standby
	kubectl apply -k overlay >/dev/null
	both() { [ "$(kubectl -n $NS get pods -l app.kubernetes.io/name=cairn -o json | json /dev/stdin "sum(c[\"ready\"] or c.get(\"started\", False) for p in d[\"items\"] for c in p[\"status\"].get(\"containerStatuses\", []))")" = 2 ]; }
	wait_until 120 both
	ready
	test_is "$(kubectl -n $NS get pods -l app.kubernetes.io/name=cairn -o json | json /dev/stdin "sum(c[\"ready\"] for p in d[\"items\"] for c in p[\"status\"][\"containerStatuses\"])")" 1
	want 30
	before=$(pods_of)
	detach -p n=30 -p s=3
	wait_until 60 some_run
	first=$(engine_pod)
	kubectl -n $NS delete pod "$first" --force --grace-period=0 >/dev/null 2>&1
	moved() { [ "$(engine_pod)" != "$first" ]; }
	wait_until 60 moved
	ends "$run" 30
	test_is "$(($(pods_of) - before))" 5
	once
'

test_expect 'a run is cancelled from outside: its pods go' '
	detach -p n=40 -p s=600
	wait_until 60 some_run
	from_outside cancel "$run" --server --now >out
	wait_until 120 state_is "$run" cancelled
	none() { [ "$(running)" = 0 ]; }
	wait_until 60 none
'

test_done
