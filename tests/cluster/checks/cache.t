#!/bin/bash
# The node's cache: what pods of a node have fetched stays there; large inputs are mounted out of it, in every kind of pod; the bucket is read once a node.
. "$(dirname "$0")/../../lib.sh"
# shellcheck source=tests/cluster/cluster.sh
. "$SRC/tests/cluster/cluster.sh"
[ -x "$(dirname "$CAIRN")/cairn-launch" ] || test_skip_all 'no cairn-launch: libjansson.a was not there when it was built'
PATH=/usr/bin:$PATH # Debian's python3
cluster_begin s3 registry
cluster_images

# A damaged copy tells where a pod takes its input from.
test_expect 'what a pod has fetched stays on its node for others; the program does not see it' '
	cluster_namespace two || return 1
	mkdir near
	cluster_yaml two "cache: {host_path: $CLUSTER/node-cache, size: 1Gi}" >near/cairn.yaml
	cluster_inside install -d -o 10001 -g 10001 -m 0700 "$CLUSTER/node-cache"
	head -c 16777216 /dev/urandom >near/big # large enough for a hint to the scheduler, and still one part
	cat >near/pipeline.yaml <<-E
		pipeline: near
		inputs: {big: big}
		defaults: {image: $BUSYBOX, resources: {cpu: 50m, memory: 32Mi}, retry: {store: 1, backoff: 10ms}}
		steps:
		  a: {run: "test ! -e /var/cache/cairn; wc -c <\${{ inputs.big }} >o", inputs: {big: "\${{ inputs.big }}"}, outputs: {o: o}}
		  b: {needs: [a], run: "cp \${{ inputs.big }} o", inputs: {big: "\${{ inputs.big }}"}, outputs: {o: o}}
	E
	cairn -C near run -q a
	copy=$(find "$CLUSTER/node-cache" -name "$(sha256sum <near/big | cut -d" " -f1)")
	test -n "$copy"
	chmod u+w "$copy"
	test_damage "$copy" 1000
	cairn -C near run --dry-run -o json >dry.json
	cairn -C near run -q
	cairn -C near status --json >status.json
	test_is "$(json status.json "[(t[\"failure\"], t[\"attempt\"]) for t in d[\"tasks\"] if t[\"task\"] == \"b\"]")" "[[\"store\", 1], [null, 2]]"
	cairn -C near get b/o -o got
	test_cmp near/big near/got
	# The first attempt of b prefers the node of a; the second is a retry, which may go anywhere.
	python3 - "$CLUSTER/log/audit.log" <<-"E"
	import json, sys
	hints = []
	for line in open(sys.argv[1]):
	    e = json.loads(line)
	    o = e["objectRef"]
	    if o["resource"] == "jobs" and o["namespace"] == "two" and e["responseStatus"]["code"] == 201:
	        job = e["requestObject"]
	        node = job["spec"]["template"]["spec"].get("affinity", {}).get("nodeAffinity", {})
	        hints.append((job["metadata"]["labels"]["cairn.internal/step"], node.get("preferredDuringSchedulingIgnoredDuringExecution")))
	node1 = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node1"]}]}
	assert hints == [("a", None), ("b", [{"weight": 100, "preference": node1}]), ("b", None)], hints
	(b,) = json.load(open("dry.json"))["items"]
	assert b["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == hints[1][1], b
	E
'

# By a claim, so that a restricted namespace takes it. `a` is the node's first pod that reads the file, so it gets a copy.
test_expect 'large inputs are mounted out of the cache: read-only, the same file for all; damage is found, and nothing is left' '
	cluster_namespace mounts restricted || return 1
	cache=$CLUSTER/claimed-cache
	cluster_claim node-cache mounts "$cache" 1Gi
	mkdir -p mounts/set
	cluster_yaml mounts "cache: {claim: node-cache, size: 1Gi}" >mounts/cairn.yaml
	head -c 67108864 /dev/urandom >mounts/big
	ln mounts/big mounts/set/same
	echo small >mounts/set/small
	cat >mounts/look <<-\E
		set -e
		if [ -e /var/cache/cairn ]; then echo the cache is seen; exit 1; fi
		if echo x >>"$1" || rm -f "$1"; then echo an input can be written; exit 1; fi 2>/dev/null
		stat -c "%i %a" "$1" >o
		sha256sum <"$1" >>o
	E
	cat >mounts/pipeline.yaml <<-E
		pipeline: mounts
		inputs: {big: big, set: set/}
		defaults: {image: $BUSYBOX, resources: {cpu: 50m, memory: 32Mi}, retry: {store: 1, backoff: 10ms}, code: [look]}
		steps:
		  a: {run: "sh look \${{ inputs.i }} a", inputs: {i: "\${{ inputs.big }}"}, outputs: {o: o}}
		  b: {needs: [a], run: "sh look \${{ inputs.i }} \${{ matrix.n }}", matrix: {n: [1, 2]}, inputs: {i: "\${{ inputs.big }}"}, outputs: {o: o}}
		  c: {needs: [b], run: "sh look \${{ inputs.i }}/same; cat \${{ inputs.i }}/small >>o", inputs: {i: "\${{ inputs.set }}"}, outputs: {o: o}}
		  d: {needs: [c], run: "sh look \${{ inputs.i }} d", inputs: {i: "\${{ inputs.big }}"}, outputs: {o: o}}
	E
	cairn -C mounts run -q c
	sum=$(sha256sum <mounts/big)
	copy=$(find "$cache" -path "*/blobs/*" -size +60000k)
	for task in a "b[n=1]" "b[n=2]" c; do
		cairn -C mounts get "$task/o" -o "$PWD/got-$task"
		test_is "$task $(sed -n 2p "got-$task")" "$task $sum"
		[ "$task" = a ] || test_is "$task $(sed -n 1p "got-$task")" "$task $(stat -c %i "$copy") 444"
	done
	test_is "$(sed -n 3p got-c)" small
	test_is "$(ls -A "$cache/pods")" ""
	test_is "$(stat -c %h "$copy")" 1
	chmod u+w "$copy"
	test_damage "$copy" 1000
	chmod u-w "$copy"
	cairn -C mounts run -q
	cairn -C mounts status --json >status.json
	test_is "$(json status.json "[(t[\"failure\"], t[\"attempt\"]) for t in d[\"tasks\"] if t[\"task\"] == \"d\"]")" "[[\"store\", 1], [null, 2]]"
	cairn -C mounts get d/o -o "$PWD/got-d"
	test_is "$(sed -n 2p got-d)" "$sum"
	test_is "$(ls -A "$cache/pods")" ""
'

# sent FILE: how often the bucket has sent all parts of its content, to anybody. A part may be put or got again when its answer is slow.
sent() {
	python3 - "$CLUSTER/log/s3.log" "$(basename "$(cached "$1")")" <<-"E"
		import re, sys
		lines = [line for line in open(sys.argv[1]) if f"/{sys.argv[2]} |" in line]
		parts = {m[1] for line in lines if "| PUT |" in line and (m := re.search(r"partNumber=(\d+)", line))}
		got = sum("| GET |" in line for line in lines)
		print(got // len(parts) if len(parts) > 1 else "it has one part")
	E
}
# ends STEP: the attempts of its tasks, and how they ended. cached FILE: its content in the cache.
ends() { cairn -C sets status --json >status.json; json status.json "sorted((t[\"attempt\"], t[\"failure\"] or \"\") for t in d[\"tasks\"] if t[\"step\"] == \"$1\")"; }
cached() { find "$cache" -path "*/blobs/*" -size "$(stat -c %s "$1")c"; } # each has a size of its own
# line_of FILE: what the script `look` prints of it when it is the cache's own. seen STEP: what it printed in all its tasks, each line with how often.
line_of() { echo "$(stat -c "%i %a" "$(cached "$1")") $(sha256sum <"$1" | cut -c 1-16)"; }
seen() {
	rm -rf got
	cairn -C sets get "$1/o" -o "$PWD/got" >/dev/null
	find got -type f -exec cat {} + | sort | uniq -c | sed "s/^ *//"
}
cache=$CLUSTER/sets-cache
export cache
export -f sent ends cached line_of seen
cluster_namespace sets restricted || test_bail 'no namespace'
cluster_claim node-cache sets "$cache" 4Gi
mkdir -p sets/set
cluster_yaml sets 'cache: {claim: node-cache, size: 4Gi}' >sets/cairn.yaml
head -c 67108864 /dev/urandom >sets/set/a
head -c 67108865 /dev/urandom >sets/set/b
echo small >sets/set/c
head -c 67108866 /dev/urandom >sets/single
cat >sets/look <<-'E'
	set -e
	if echo x >>"$1" || rm -f "$1"; then echo an input can be written; exit 1; fi 2>/dev/null
	echo "$(stat -c "%i %a" "$1") $(sha256sum <"$1" | cut -c 1-16)"
E
cat >sets/pipeline.yaml <<-E
	pipeline: sets
	inputs: {set: set/, single: single}
	defaults: {image: $BUSYBOX, resources: {cpu: 20m, memory: 32Mi}, retry: {store: 1, lost: 1, backoff: 10ms}, code: [look]}
	steps:
	  sweep:
	    matrix: {n: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]}
	    run: "true \${{ matrix.n }}; sh look \${{ inputs.i }}/a >o"
	    inputs: {i: "\${{ inputs.set }}"}
	    outputs: {o: o}
	    pack: 1
	  pack:
	    matrix: {n: [1, 2, 3, 4]}
	    run: "true \${{ matrix.n }}; sh look \${{ inputs.i }}/a >o; sh look \${{ inputs.f }} >>o"
	    inputs: {i: "\${{ inputs.set }}", f: "\${{ inputs.single }}"}
	    outputs: {o: o}
	    pack: 4
	  each:
	    matrix: {f: [a, b, c]}
	    run: "sh look \${{ inputs.f }} >o"
	    inputs: {f: "\${{ inputs.set }}/\${{ matrix.f }}"}
	    outputs: {o: o}
	    pack: 3
	  gang:
	    run: "sh look \${{ inputs.i }}/b; mkdir -p out"
	    inputs: {i: "\${{ inputs.set }}"}
	    outputs: {o: out/}
	    distributed: {framework: torch, nodes: 2}
	  hurt:
	    matrix: {n: [1, 2]}
	    run: "true \${{ matrix.n }} hurt; sh look \${{ inputs.i }}/a >o"
	    inputs: {i: "\${{ inputs.set }}"}
	    outputs: {o: o}
	    pack: 2
	  again:
	    run: "[ -e ckpt/was ] || { echo >ckpt/was; exit 9; }; sh look \${{ inputs.i }}/a >o"
	    inputs: {i: "\${{ inputs.set }}"}
	    outputs: {o: o}
	    checkpoint: ckpt
	    retry: {max: 1, backoff: 10ms}
	  later: {run: "cat \${{ inputs.i }} >o", inputs: {i: "\${{ steps.gang.outputs.o }}"}, outputs: {o: o}}
E

# Nothing of the project is in the store yet. What it shows is compared with what is made, below.
test_expect 'run --dry-run: the Jobs with what they mount out of the cache' '
	cairn -C sets run --dry-run -o json >dry.json
	test_missing "$cache/pods"
	test_is "$(cluster_count jobs sets)" 0
	cairn -C sets run --dry-run >dry.yaml
	test_grep "^# later: .*not known, nor what it mounts out of the node.s cache" dry.yaml
'

test_expect 'a sweep of 20 pods reads the bucket once, and all mount the same files' '
	cairn -C sets run -q sweep
	test_is "$(seen sweep)" "20 $(line_of sets/set/a)"
	test_is "$(cluster_count pods sets)" 20
	test_is "$(sent sets/set/a) $(sent sets/set/b)" "1 1"
'

# The single file is not in the cache yet: the pod has one copy of it, which its four tasks share.
test_expect 'tasks of a pack mount what they read, and share it' '
	cairn -C sets run -q pack
	seen pack >lines
	test_lines 2 lines
	test_grep "^4 $(line_of sets/set/a)$" lines
	test_grep "^4 [0-9]* 444 $(sha256sum <sets/single | cut -c 1-16)$" lines
	test_is "$(cluster_count pods sets)" 21
	test_is "$(sent sets/set/a) $(sent sets/single)" "1 1"
	test_is "$(ls -A "$cache/pods")" ""
'

test_expect 'tasks of a pack that read different files mount the large ones' '
	cairn -C sets run -q each
	seen each >lines
	test_lines 3 lines
	test_grep "^1 $(line_of sets/set/a)$" lines
	test_grep "^1 $(line_of sets/set/b)$" lines
	test_is "$(cluster_count pods sets)" 22
	test_is "$(sent sets/set/a) $(sent sets/set/b)" "1 1"
'

test_expect 'both pods of a gang mount the same files' '
	cairn -C sets run -q gang
	cairn -C sets logs gang >log
	test_is "$(grep -c "^.rank [01]. $(line_of sets/set/b)$" log)" 2
	test_is "$(cluster_count pods sets)" 24
	test_is "$(sent sets/set/b)" 1
	test_is "$(ls -A "$cache/pods")" ""
'

test_expect 'the retry of a program that failed mounts, too' '
	cairn -C sets run -q again
	test_is "$(ends again)" "[[1, \"failed\"], [2, \"\"]]"
	test_is "$(seen again)" "1 $(line_of sets/set/a)"
	test_is "$(sent sets/set/a)" 1
'

test_expect 'damage is found before a pack begins: its first task fails with class store, what is behind it is lost, and each runs again' '
	copy=$(cached sets/set/a)
	chmod u+w "$copy"
	test_damage "$copy" 1000
	chmod u-w "$copy"
	cairn -C sets run -q hurt
	test_is "$(ends hurt)" "[[1, \"lost\"], [1, \"store\"], [2, \"\"], [2, \"\"]]"
	# A copy for the one, the file that was fetched again for the other.
	seen hurt >lines
	test_lines 2 lines
	test_grep "^1 $(line_of sets/set/a)$" lines
	test_is "$(sent sets/set/a)" 2
	test_is "$(ls -A "$cache/pods")" ""
'

test_expect 'the Jobs were those that run --dry-run had shown' '
	python3 - "$CLUSTER/log/audit.log" <<-"E"
		import json, sys
		def mounts(job):
		    return [m for m in job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] if m["name"] == "cairn-cache"]
		def step(job):
		    return job["metadata"]["labels"]["cairn.internal/step"]
		shown = {step(o): mounts(o) for o in json.load(open("dry.json"))["items"] if o["kind"] == "Job" and step(o) != "later"}
		made = {}
		for line in open(sys.argv[1]):
		    e = json.loads(line)
		    o = e["objectRef"]
		    if o["resource"] == "jobs" and o["namespace"] == "sets" and e["verb"] == "create" and e["responseStatus"]["code"] == 201:
		        made.setdefault(step(e["requestObject"]), mounts(e["requestObject"]))  # the first attempts
		assert {k: len(v) for k, v in shown.items()} == {"sweep": 1, "pack": 8, "each": 2, "gang": 1, "again": 1, "hurt": 2}, shown
		assert shown == made, (shown, made)
	E
'
test_done
