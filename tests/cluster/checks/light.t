#!/bin/bash
# Pods without a sidecar, on a real cluster with a real object store: a step whose last tasks left little has them; the bytes, failures and logs are the same.
. "$(dirname "$0")/../../lib.sh"
# shellcheck source=tests/cluster/cluster.sh
. "$SRC/tests/cluster/cluster.sh"
cluster_begin s3 registry
cluster_images
cluster_namespace light restricted || test_bail 'no namespace'
cluster_yaml light >cairn.yaml
kubectl create secret generic cairn-secrets --from-literal=TOKEN=very-much-hidden >/dev/null
mkdir -p data/d
echo a >data/a.txt
echo b >data/d/b.txt
write lib/more.sh <<'E'
more() { echo more; }
E
# What the step does besides is the second word of its param.
write do.sh <<'E'
set -e
. lib/more.sh
echo "for $1, secretly $TOKEN"
if [ -e /cairn ]; then
	if echo x >/new; then echo the root can be written; exit 1; fi
	test "$(id -u)" != 0
	if [ -e /var/run/secrets/kubernetes.io ] || [ -n "$(env | sed -n '/testsecre[t]/p; /AWS[_]/p')" ]; then echo credentials in main; exit 1; fi
	if grep -q -r -i "testsecre[t]" /cairn /etc/cairn /tmp /proc/1/environ; then echo credentials in main; exit 1; fi
	ls /cairn/bin/cairn-init >/dev/null 2>&1 && echo beside a sidecar >/tmp/sidecar || echo alone >/tmp/alone
	if [ -e /tmp/alone ]; then test ! -e /cairn/bin; fi
fi
cat "$2/a.txt" "$2/d/b.txt" | tr a-z A-Z >"$3"
more >>"$3"
chmod 755 "$3"
echo '{"lines": 2}' >metrics.json
case $1 in
*fails*) exit 7 ;;
*sleeps*) sleep 600 ;;
*eats*) x=0123456789abcdef; while :; do x=$x$x; done ;;
*large*) head -c 100000 /dev/zero >"$3" ;;
*chats*) seq 5000 ;;
esac
E
write pipeline.yaml <<E
pipeline: light
params: {word: first}
inputs: {text: data/}
defaults: {image: $BUSYBOX, resources: {cpu: 100m, memory: 64Mi}}
steps:
  up:
    pack: 1
    matrix: {part: [a, b]}
    run: sh do.sh \${{ params.word }}-\${{ matrix.part }} \${{ inputs.text }} \${{ outputs.up }}
    code: [do.sh, lib/]
    inputs: {text: "\${{ inputs.text }}"}
    outputs: {up: up.txt}
    metrics: metrics.json
    secrets: [TOKEN]
    timeout: 100s
    retry: {max: 0, lost: 0, backoff: 100ms}
E
export CAIRN_SECRET_TOKEN=very-much-hidden
failure() { cairn status --json >s.json && json s.json 'sorted({t.get("failure", "none") for t in d["tasks"]})[0]'; }

test_expect 'the first run has sidecars; the next one none, and makes the bytes of this machine' '
	cairn run -q
	kubectl get configmaps -o name >maps
	test_must_fail grep cairn-init maps
	mkdir -p here
	cp -r data do.sh lib pipeline.yaml here/
	echo "store: store" >here/cairn.yaml
	start watch kubectl get pods -w -o "jsonpath={.spec.initContainers[*].name}-{.spec.containers[*].name} {.status.phase}{\"\\n\"}"
	cairn run -q -p word=second
	wait_until 30 grep -q "^-main Succeeded" watch.out
	test_must_fail grep "^cairn-main Pending" watch.out
	cairn -C here run -q -p word=second
	for part in a b; do
		rm -f one two
		cairn get "up[part=$part]/up" -o one
		cairn -C here get "up[part=$part]/up" -o "$PWD/two"
		test_cmp one two
		test -x one
	done
	cairn logs "up[part=a]" >log
	test_grep "for second-a, secretly" log
	test_must_fail grep very-much-hidden log
	cairn metrics >m
	test_grep lines m
	kubectl get configmaps -o name >maps
	test "$(grep -c cairn-init- maps)" = 1
'

test_expect 'plans go with their Job; the helper stays' '
	wait_until 60 eval "[ -z \"\$(kubectl get jobs,pods -o name)\" ]"
	wait_until 60 eval "[ \"\$(kubectl get configmaps -o name | grep -v kube-root-ca | grep -c .)\" = 1 ]"
'

test_expect 'failures are those of a pod with a sidecar' '
	code=0; cairn run -q -p word=fails 2>err || code=$?
	test_is "$code" 1
	test_grep "exit status 7" err
	test_grep "for fails-" err
	test_is "$(failure)" failed
	sed -i "s/timeout: 100s/timeout: 3s/" pipeline.yaml
	code=0; cairn run -q -p word=sleeps 2>err || code=$?
	test_is "$(failure)" timeout
	sed -i "s/timeout: 3s/timeout: 100s/" pipeline.yaml
	code=0; cairn run -q -p word=eats 2>err || code=$?
	test_is "$(failure)" oom
'

test_expect 'a long log is whole' '
	cairn run -q -p word=chats
	cairn logs "up[part=b]" >log
	seq 5000 >numbers
	tail -n 5000 log >end
	test_cmp numbers end
'

test_expect 'what is too large comes by a pod with a sidecar, without a failure, and is remembered' '
	cairn run -q -p word=large
	rm -f one
	cairn get "up[part=a]/up" -o one
	test "$(wc -c <one)" = 100000
	cairn run -q -p word=large-again
	rm -f one
	cairn get "up[part=a]/up" -o one
	test "$(wc -c <one)" = 100000
'

test_done
