# shellcheck shell=bash
# tests/cluster/cluster.sh: what the tests here begin with. Source it after lib.sh.
#
#   cluster_begin [PART…]        skips the file where a cluster can't be; brings one up, with these servers: s3, registry; ends it with the file
#   cluster_images               Cairn's own image and busybox into the registry: $IMAGE, $BUSYBOX
#   cluster_namespace NAME [restricted]   with the Secrets that pods need, and made the current one
#   cluster_claim NAME NAMESPACE DIR SIZE   a claim for a directory of the node that everybody can write to
#   cluster_yaml NAMESPACE [LINE…]        cairn.yaml for it; LINEs are added to `kubernetes`
#   cluster_jobs, cluster_pods   what was ever created there (names), from the API server's own audit: cluster_audit
# shellcheck disable=SC2034,SC2154 # used by the tests; of lib.sh


cluster=$SRC/tests/cluster
CLUSTER=$TRASH/cluster
# lib.sh takes the caches away. A cluster that is kept keeps no pipe open that the test's reports go into.
cluster_do() { HOME=$test_home XDG_CACHE_HOME=$test_xdg "$@" 3>&-; }

cluster_end() {
	if [ "${CAIRN_TEST_KEEP:-0}" = 1 ] && [ "$test_status" -ne 0 ]; then
		echo "# the cluster is still up: $CLUSTER" >&3
	else
		cluster_do "$cluster/down" "$CLUSTER" >/dev/null 2>&1
	fi
}

cluster_begin() {
	local lacks part
	lacks=$(cluster_do "$cluster/build" --check) || true
	[ -z "$lacks" ] || test_skip_all "$lacks"
	test_xdg=${test_xdg:-$test_home/.cache}
	export PATH=$test_xdg/cairn-tests/cluster/bin:$PATH KUBECONFIG=$CLUSTER/kubeconfig
	test_when_over cluster_end
	export S3_INSIDE=http://10.250.0.1:7070 # lint: private, where pods find the store that `s3` serves
	mkdir -p "$CLUSTER"
	cluster_do "$cluster/up" "$CLUSTER" >"$TRASH/up.out" 2>&1 || { test_say <"$TRASH/up.out"; tail -n 20 "$CLUSTER/log/node.log" | test_say; test_bail 'the cluster does not come up'; }
	for part; do
		cluster_serve "$part" || test_bail "the cluster's $part does not start"
	done
}

# cluster_serve s3|s3-readonly|registry, cluster_stop NAME
cluster_serve() {
	local port
	port=$(cluster_do "$cluster/serve" "$CLUSTER" "$1") || return 1
	case $1 in
	s3)
		export S3=http://127.0.0.1:$port AWS_ACCESS_KEY_ID=testkey AWS_SECRET_ACCESS_KEY=testsecret-not-to-be-shown AWS_REGION=us-east-1
		;;
	s3-readonly) export S3_READONLY_INSIDE=http://10.250.0.1:7071 ;; # lint: private, likewise
	registry) export REGISTRY=127.0.0.1:$port ;;
	esac
}
cluster_stop() { cluster_do "$cluster/serve" "$CLUSTER" --stop "$1"; }
cluster_inside() { cluster_do "$cluster/inside" "$CLUSTER" "$@"; }

# cluster_push TAR NAME:TAG: an image of `image` or `cairn image`, into containerd and the registry.
cluster_push() {
	local name
	name=$(tar -xOf "$1" index.json | python3 -c 'import json, sys; print(json.load(sys.stdin)["manifests"][0]["annotations"]["io.containerd.image.name"])') || return 1
	cluster_inside ctr images import "$1" >>"$TRASH/push.log" 2>&1 || return 1
	cluster_inside ctr images tag --force "$name" "$REGISTRY/$2" >>"$TRASH/push.log" 2>&1 || return 1
	cluster_inside ctr images push --plain-http "$REGISTRY/$2" >>"$TRASH/push.log" 2>&1
}
cluster_images() {
	export IMAGE=$REGISTRY/cairn:test BUSYBOX=$REGISTRY/busybox:1
	cairn image --push "$IMAGE" >"$TRASH/push.log" 2>&1 || { test_say <"$TRASH/push.log"; test_bail 'no image of Cairn'; }
	cluster_push "$test_xdg/cairn-tests/cluster/images/busybox.tar" busybox:1 || { test_say <"$TRASH/push.log"; test_bail 'no image of busybox'; }
}

cluster_namespace() {
	kubectl create namespace "$1" >/dev/null || return 1
	[ "${2:-}" != restricted ] || kubectl label namespace "$1" pod-security.kubernetes.io/enforce=restricted >/dev/null || return 1
	kubectl -n "$1" create secret generic cairn-store --from-literal=AWS_ACCESS_KEY_ID=testkey --from-literal=AWS_SECRET_ACCESS_KEY=testsecret-not-to-be-shown --from-literal=AWS_ENDPOINT_URL="$S3_INSIDE" >/dev/null || return 1
	kubectl config set-context --current --namespace="$1" >/dev/null
}

cluster_claim() {
	install -d -m 0777 "$3"
	kubectl apply -f - >/dev/null <<-E
		apiVersion: v1
		kind: PersistentVolume
		metadata: {name: "$2-$1"}
		spec: {capacity: {storage: $4}, accessModes: [ReadWriteMany], storageClassName: "", hostPath: {path: "$3"}, claimRef: {name: "$1", namespace: "$2"}}
		---
		apiVersion: v1
		kind: PersistentVolumeClaim
		metadata: {name: "$1", namespace: "$2"}
		spec: {accessModes: [ReadWriteMany], storageClassName: "", volumeName: "$2-$1", resources: {requests: {storage: $4}}}
	E
}

cluster_yaml() {
	local namespace=$1 line
	shift
	cat <<-E
		store: s3://tbucket/$namespace
		store_options: {endpoint: "$S3", region: us-east-1, style: path}
		runner: kubernetes
		kubernetes:
		  namespace: $namespace
		  image: $IMAGE
		  registries: ["$REGISTRY"]
		  store_secret: cairn-store
		  store_options: {endpoint: "${CLUSTER_STORE:-$S3_INSIDE}", region: us-east-1, style: path}
		  requests: {per_second: 200, burst: 400}
	E
	for line; do
		echo "  $line"
	done
}

# cluster_created jobs|pods NAMESPACE: the names of all that were ever made there, one a line and creation, as the API server's audit log has them.
cluster_created() {
	python3 - "$CLUSTER/log/audit.log" "$@" <<-'E'
		import json, sys
		log, resource, namespace = sys.argv[1:4]
		for line in open(log):
		    try:
		        e = json.loads(line)
		    except ValueError: # the last line, half written
		        continue
		    o = e.get("objectRef", {})
		    if e["verb"] == "create" and o.get("resource") == resource and o.get("namespace") == namespace and not o.get("subresource") \
		            and e["responseStatus"]["code"] == 201 and "dryRun=" not in e["requestURI"]:
		        print(e.get("responseObject", {}).get("metadata", {}).get("name") or o.get("name") or "?")
	E
}
cluster_count() { cluster_created "$@" | wc -l; }
