#!/bin/bash
# What the NetworkPolicies that Cairn makes do to packets, where something holds them (`serve firewall`): a gang's pods reach each other and nobody else reaches them; the
# engine's pods are asked by those of their namespace, at one port. Each refusal is shown to be the policy's: without it the same question has an answer.
# shellcheck disable=SC2016 # expansions are the tests'
. "$(dirname "$0")/../../lib.sh"
# shellcheck source=tests/cluster/cluster.sh
. "$SRC/tests/cluster/cluster.sh"
[ -x "$(dirname "$CAIRN")/cairn-launch" ] || test_skip_all 'no cairn-launch: libjansson.a was not there when it was built'
test_have nft || test_skip_all 'no nft (Debian: nftables)'
[ -e /proc/sys/net/bridge/bridge-nf-call-iptables ] || test_skip_all 'this kernel shows netfilter nothing of what goes over a bridge'
cluster_begin s3 registry firewall
cluster_images
frames=$(cluster_do "$SRC/tests/cluster/images/debian_image" frames python3 openmpi-bin 2>&1) || { test_say <<<"$frames"; test_bail 'no image of Python'; }
cluster_push "$frames" frames:1 || { tail -n 20 "$TRASH/push.log" | test_say; test_bail 'the image of Python is not taken'; }
export PYTHON=$REGISTRY/frames:1 PEER=$SRC/tests/cluster/checks/policy_peer.py
cp "$PEER" .

# pod NAME NAMESPACE: listens at 8080, which it calls `web`, and at 9090; asks when it is told to. Its label: app=NAME.
pod() {
	kubectl -n "$2" create configmap peer --from-file="$PEER" --dry-run=client -o yaml | kubectl -n "$2" apply -f - >/dev/null
	kubectl -n "$2" apply -f - >/dev/null <<-Y
		apiVersion: v1
		kind: Pod
		metadata: {name: $1, labels: {app: $1}}
		spec:
		  automountServiceAccountToken: false
		  terminationGracePeriodSeconds: 0
		  securityContext: {runAsNonRoot: true, runAsUser: 10001, seccompProfile: {type: RuntimeDefault}}
		  containers:
		  - name: main
		    image: $PYTHON
		    command: [/usr/bin/python3, /peer/policy_peer.py, serve, "8080", "9090"]
		    ports: [{name: web, containerPort: 8080}]
		    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
		    volumeMounts: [{name: peer, mountPath: /peer}]
		  volumes: [{name: peer, configMap: {name: peer}}]
	Y
	kubectl -n "$2" wait --for=condition=Ready "pod/$1" --timeout=60s >/dev/null
}
address() { kubectl -n "$2" get pod "$1" -o 'jsonpath={.status.podIP}'; }
# ask NAME NAMESPACE TARGET…: what a pod gets there, one word a line.
ask() { kubectl -n "$2" exec "$1" -- /usr/bin/python3 /peer/policy_peer.py ask "${@:3}" | cut -d ' ' -f 2-; }
all_are() { [ -s "$2" ] && [ "$(sort -u "$2")" = "$1" ]; } # WORD FILE
# holds NAMESPACE/POLICY N: of so many pods, by now.
holds() { [ "$(grep -c "^$1 " "$CLUSTER/firewall.state")" -eq "$2" ]; }
refused() { cluster_inside nft list counter ip cairn_policies refused | sed -n 's/.*packets \([0-9]*\).*/\1/p'; }
policy() { # NAME SPEC, in the namespace `gang`
	kubectl -n gang apply -f - >/dev/null <<-Y
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: $1}
		spec: $2
	Y
}

cluster_namespace other restricted && kubectl label namespace other team=other >/dev/null || test_bail 'no namespace'
cluster_namespace gang restricted || test_bail 'no namespace'
cluster_yaml gang >cairn.yaml
{ pod near gang && pod plain gang && pod far other && kubectl -n gang expose pod plain --port=8080 >/dev/null; } || test_bail 'no pods to ask from'
PLAIN=$(address plain gang) NEAR=$(address near gang)
export PLAIN NEAR

test_expect 'the firewall does what Kubernetes says of policies, to the packets of others than Cairn' '
	asked() { # a letter each: near at 8080, at 9090; far at 8080, at 9090: open or refused
		{ ask near gang tcp:$PLAIN:8080 tcp:$PLAIN:9090; ask far other tcp:$PLAIN:8080 tcp:$PLAIN:9090; } | sed "s/^open$/o/; s/^refused$/r/" | tr -d "\n"
	}
	n=0
	case_of() { # WANT SPEC-OF-INGRESS
		n=$((n + 1))
		policy case-$n "{podSelector: {matchLabels: {app: plain}}, policyTypes: [Ingress]$2}"
		wait_until 30 holds gang/case-$n 1
		test_is "$2: $(asked)" "$2: $1" || return 1
		kubectl -n gang delete networkpolicy case-$n >/dev/null
		wait_until 30 holds gang/case-$n 0
	}
	test_is "$(asked)" oooo
	case_of rrrr ""
	case_of rrrr ", ingress: []"
	case_of oooo ", ingress: [{}]"
	case_of oorr ", ingress: [{from: [{podSelector: {}}]}]"
	case_of oorr ", ingress: [{from: [{podSelector: {matchExpressions: [{key: app, operator: In, values: [near, far]}]}}]}]"
	case_of rroo ", ingress: [{from: [{namespaceSelector: {matchLabels: {team: other}}, podSelector: {matchLabels: {app: far}}}]}]"
	case_of rrrr ", ingress: [{from: [{namespaceSelector: {matchLabels: {team: other}}, podSelector: {matchLabels: {app: near}}}]}]"
	case_of oooo ", ingress: [{from: [{namespaceSelector: {matchLabels: {team: other}}}, {podSelector: {matchLabels: {app: near}}}]}]"
	case_of oror ", ingress: [{ports: [{port: web}]}]"
	case_of roro ", ingress: [{ports: [{port: 9000, endPort: 9100}]}]"
	case_of rrrr ", ingress: [{ports: [{port: 8080, protocol: UDP}]}]"
	case_of orro ", ingress: [{from: [{podSelector: {}}], ports: [{port: web}]}, {from: [{namespaceSelector: {matchLabels: {team: other}}}], ports: [{port: 9090}]}]"
	case_of rroo ", ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [$NEAR/32]}}]}]" # lint: private, in the cluster
	test_is "$(asked)" oooo
'

# --- a gang ---------------------------------------------------------------------------------------------------------------------------------

cat >gang.yaml <<Y
pipeline: gang
steps:
  train:
    run: /usr/bin/python3 policy_peer.py rank; echo done >o
    image: $PYTHON
    code: [policy_peer.py]
    env: {OUTSIDE: "tcp:plain:8080"}
    outputs: {o: o}
    distributed: {framework: torch, nodes: 2}
    resources: {cpu: 50m, memory: 128Mi}
Y
pod_of() { kubectl -n gang get pod -l "cairn.internal/step=train,batch.kubernetes.io/job-completion-index=$1" -o "jsonpath={.items[*].$2}"; }
main_of() { kubectl -n gang logs "$(pod_of "$1" metadata.name)" -c main 2>/dev/null | sed 's/^\[rank [01]\] //'; }
says() { main_of "$1" >"said-$1" && grep -q "$2" "said-$1"; }
tell() { local i; for i in 0 1; do kubectl -n gang exec "$(pod_of $i metadata.name)" -c main -- touch "/cairn/0/w/$1"; done; } # both ranks
gang_targets() { # each port of each rank
	local i port
	for i in 0 1; do
		for port in $(main_of $i | sed -n 's/^serves //p'); do
			echo "tcp:$(pod_of $i status.podIP):$port udp:$(pod_of $i status.podIP):$port"
		done
	done
}
asked_by() { # NAME NAMESPACE: what it gets at each of them, in NAME.got
	local targets
	mapfile -t targets <targets
	ask "$1" "$2" "${targets[@]}" >"$1.got"
}

test_expect 'a gang meets at any port, by name, and gets answers from others; nobody else gets in, in its namespace or another' '
	start gang cairn run gang.yaml
	for i in 0 1; do wait_until 120 says $i "^outside answers$" || { cat gang.out; main_of $i; exit 1; }; done
	policy=$(kubectl -n gang get networkpolicy -l cairn.internal/step=train -o "jsonpath={.items[*].metadata.name}")
	wait_until 30 holds gang/$policy 2
	gang_targets | tr " " "\n" >targets
	test_lines 12 targets
	before=$(refused)
	asked_by near gang
	asked_by far other
	all_are refused near.got || { cat near.got; exit 1; }
	all_are refused far.got || { cat far.got; exit 1; }
	test_is "$(cat near.got far.got | grep -c .)" 24
	[ $(($(refused) - before)) -ge 24 ] # by the firewall, and not because nobody was there
'

test_expect 'without the policy all of them get in' '
	kubectl -n gang get networkpolicy -l cairn.internal/step=train -o json >policy.json
	policy=$(json policy.json "d[\"items\"][0][\"metadata\"][\"name\"]")
	kubectl -n gang delete networkpolicy $policy >/dev/null
	wait_until 30 holds gang/$policy 0
	asked_by near gang
	asked_by far other
	all_are open near.got || { cat near.got; exit 1; }
	all_are open far.got || { cat far.got; exit 1; }
	python3 -c "if True:
		import json
		for o in json.load(open(\"policy.json\"))[\"items\"]:
			o[\"metadata\"] = {k: v for k, v in o[\"metadata\"].items() if k in (\"name\", \"namespace\", \"labels\", \"annotations\", \"ownerReferences\")}
			print(json.dumps(o))" | kubectl create -f - >/dev/null
	wait_until 30 holds gang/$policy 2
	asked_by near gang
	all_are refused near.got || { cat near.got; exit 1; }
'

test_expect 'the ranks meet anew under the policy, and the step ends well: names, the store, logs; its policy goes with it' '
	tell again
	for i in 0 1; do wait_until 60 says $i "^again: True True True True True True True$" || { main_of $i; exit 1; }; done
	tell end
	wait_until 120 test -s gang.rc
	test_is "$(cat gang.rc)" 0 || { cat gang.out; exit 1; }
	cairn get train/o -o got
	test_is "$(cat got)" done
	cairn logs train >log
	for r in 0 1; do test_grep "^\[rank $r\] met rank $((1 - r)) at 6$" log; done
	wait_until 60 eval "[ -z \"\$(kubectl -n gang get networkpolicies -o name)\" ]"
'

# --- the engine -----------------------------------------------------------------------------------------------------------------------------

# The manifests as they are, but for a volume that goes with the pod.
engine() {
	local digest
	digest=$(curl -s -o /dev/null -D - -H 'Accept: application/vnd.oci.image.manifest.v1+json' "http://$REGISTRY/v2/cairn/manifests/test" | tr -d '\r' | sed -n 's/^[Dd]ocker-[Cc]ontent-[Dd]igest: //p')
	mkdir -p overlay
	cp -r "$SRC/runners/kubernetes/deploy" overlay/deploy
	cat >overlay/kustomization.yaml <<-E
		namespace: engine
		resources: [deploy]
		images: [{name: cairn, newName: "${IMAGE%:*}", digest: "$digest"}]
		configMapGenerator: [{name: cairn-project, behavior: replace, files: [cairn.yaml]}]
		patches:
		- {target: {kind: PersistentVolumeClaim}, patch: '{\$patch: delete, apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: cairn}}'}
		- {target: {kind: Deployment}, patch: '[{"op": "replace", "path": "/spec/template/spec/volumes/0", "value": {"name": "state", "emptyDir": {}}}]'}
	E
	{ cluster_yaml engine; echo 'serve: {lease: cairn}'; } | sed "s|$S3\"|$S3_INSIDE\"|" >overlay/cairn.yaml
	kubectl create namespace engine >/dev/null
	kubectl label namespace engine pod-security.kubernetes.io/enforce=restricted >/dev/null
	kubectl -n engine create secret generic cairn-store --from-literal=AWS_ACCESS_KEY_ID=testkey --from-literal=AWS_SECRET_ACCESS_KEY=testsecret-not-to-be-shown --from-literal=AWS_ENDPOINT_URL="$S3_INSIDE" >/dev/null
	kubectl -n engine create secret generic cairn-token --from-literal=token=0123456789abcdef0123456789abcdef >/dev/null
	kubectl apply -k overlay >/dev/null
	kubectl -n engine rollout status deployment/cairn --timeout=120s >/dev/null || { kubectl -n engine describe pods; kubectl -n engine logs deployment/cairn; return 1; } >&2
}
engine_pod() { kubectl -n engine get pods -l app.kubernetes.io/component=engine -o "jsonpath={.items[*].$1}"; }
# A second port in the engine's own pod, which it doesn't open itself.
other_port() {
	# shellcheck disable=SC2016 # for the shell inside
	start other_port "$cluster/inside" "$CLUSTER" bash -c 'for p in /proc/[0-9]*; do
		if grep -q "$0" $p/cgroup 2>/dev/null && grep -q serve $p/cmdline; then exec nsenter -t ${p#/proc/} -n -- python3 "$1" serve 9999; fi
	done' "$(engine_pod metadata.uid)" "$PEER"
	wait_until 30 grep -q '^serves 9999$' other_port.out
}

test_expect 'the engine is asked by the pods of its namespace at its port, and by the node; at no other port, and by no other pod' '
	engine
	pod near engine
	wait_until 30 holds engine/cairn 1
	other_port
	engine_pod status.podIP >ip
	in_by_address=tcp:$(cat ip):8410 in_by_name=tcp:cairn.engine.svc.cluster.local:8410
	test_is "$(ask near engine tcp:$(cat ip):9999)" refused
	test_is "$(ask far other tcp:$(cat ip):9999)" refused
	test_is "$(ask far other tcp:$(cat ip):8410)" refused
	test_is "$(ask far other tcp:cairn.engine.svc.cluster.local:8410)" refused
	get="import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=10).status)"
	for name in cairn $(cat ip); do
		test_is "$(kubectl -n engine exec near -- /usr/bin/python3 -c "$get" http://$name:8410/readyz)" 200
	done
	test_is "$(cluster_inside curl -s -o /dev/null -w "%{http_code}" http://$(cat ip):8410/readyz)" 200
'

test_expect 'without the policy the engine is asked from anywhere, at any port; with it again, not' '
	targets="tcp:$(cat ip):8410 tcp:$(cat ip):9999"
	get="import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=10).status)"
	kubectl -n engine delete networkpolicy cairn >/dev/null
	wait_until 30 holds engine/cairn 0
	test_is "$(ask far other tcp:$(cat ip):9999)" open
	test_is "$(ask near engine tcp:$(cat ip):9999)" open
	test_is "$(kubectl -n other exec far -- /usr/bin/python3 -c "$get" http://$(cat ip):8410/readyz)" 200
	kubectl apply -k overlay >/dev/null
	wait_until 30 holds engine/cairn 1
	ask far other $targets >far.got
	all_are refused far.got || { cat far.got; exit 1; }
	test_is "$(kubectl -n engine get pods -l app.kubernetes.io/component=engine -o "jsonpath={.items[*].status.containerStatuses[*].restartCount}")" 0
'
test_done
