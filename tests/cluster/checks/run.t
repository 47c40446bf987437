#!/bin/bash
# Pipelines on a real cluster with a real object store: the same bytes as on this machine, the second time without a single pod, logs while they run.
. "$(dirname "$0")/../../lib.sh"
# shellcheck source=tests/cluster/cluster.sh
. "$SRC/tests/cluster/cluster.sh"
PATH=/usr/bin:$PATH # Debian's python3 has the examples' packages
cluster_begin s3 registry
cluster_images
cluster_namespace one restricted || test_bail 'no namespace'
cluster_yaml one >cairn.yaml
mkdir -p data/d
echo a >data/a.txt
echo b >data/d/b.txt
write pipeline.yaml <<E
pipeline: small
params: {word: hello}
inputs: {text: data/}
defaults: {image: $BUSYBOX, resources: {cpu: 100m, memory: 64Mi}}
steps:
  up:
    run: |
      set -e
      echo for \${{ params.word }}, secretly \$TOKEN
      if [ -e /cairn ]; then
        if echo x >\${{ inputs.text }}/a.txt; then echo an input can be written; exit 1; fi
        if echo x >/new; then echo the root can be written; exit 1; fi
        test "\$(id -u)" != 0
        if [ -e /var/run/secrets/kubernetes.io ] || [ -n "\$(env | sed -n /testsecret/p)" ]; then echo credentials in main; exit 1; fi
      fi
      cat \${{ inputs.text }}/a.txt \${{ inputs.text }}/d/b.txt | tr a-z A-Z >\${{ outputs.up }}
      mkdir -p \${{ outputs.tree }}/sub
      cp \${{ outputs.up }} \${{ outputs.tree }}/sub/file
      echo '#!/bin/sh' >\${{ outputs.tree }}/run
      chmod +x \${{ outputs.tree }}/run
      ln -s sub/file \${{ outputs.tree }}/link
      echo '{"lines": 2}' >metrics.json
    inputs: {text: "\${{ inputs.text }}"}
    outputs: {up: up.txt, tree: tree/}
    metrics: metrics.json
    secrets: [TOKEN]
  count:
    matrix: {part: [a, b]}
    run: cat \${{ inputs.tree }}/link \${{ inputs.up }} | wc -l >\${{ outputs.n }}; echo \${{ matrix.part }} >>\${{ outputs.n }}
    inputs: {up: "\${{ steps.up.outputs.up }}", tree: "\${{ steps.up.outputs.tree }}"}
    outputs: {n: n}
  shards:
    uses: shard
    with: {samples_per_shard: 1, seed: 1}
    inputs: {data: "\${{ inputs.text }}"}
    outputs: {out: out/}
E
counts() { json "$1" '" ".join(str(d["counts"][k]) for k in ("executed", "hits", "failed", "blocked"))'; }
# same HERE THERE OUTPUT…: the bytes of outputs of the newest runs in two projects.
same() {
	local here=$1 there=$2 output
	shift 2
	for output; do
		rm -rf "$TRASH/a" "$TRASH/b"
		cairn -C "$here" get "$output" -o "$TRASH/a" >/dev/null || return 1
		cairn -C "$there" get "$output" -o "$TRASH/b" >/dev/null || return 1
		diff -r "$TRASH/a" "$TRASH/b" || return 1
	done
}

test_expect 'a pipeline runs as Jobs, in a restricted namespace' '
	kubectl create secret generic cairn-secrets --from-literal=TOKEN=very-much-hidden >/dev/null
	CAIRN_SECRET_TOKEN=very-much-hidden cairn run --json >first
	test_is "$(counts first)" "4 0 0 0"
	cairn get "count[part=a]/n" -o - >n
	printf "4\na\n" >want
	test_cmp want n
	cairn get up/tree -o tree
	test -x tree/run
	test_is "$(readlink tree/link)" sub/file
	test_is "$(cluster_count jobs one) $(cluster_count pods one)" "3 4" # the two of count share one
	cairn metrics >metrics
	test_grep "lines" metrics
'

test_expect 'what it printed is kept, without the secret; nothing of the store is in the Jobs' '
	cairn logs up >log
	test_grep "for hello, secretly" log
	test_no_grep "very-much-hidden" log
	test_no_grep "very-much-hidden|testsecret" "$CLUSTER/log/audit.log"
'

test_expect 'Jobs go when their end is on record' '
	wait_until 30 sh -c "test -z \"\$(kubectl get jobs -o name)\""
'

test_expect 'a second run makes no pod' '
	CAIRN_SECRET_TOKEN=very-much-hidden cairn run --json >second
	test_is "$(counts second)" "0 4 0 0"
	test_is "$(cluster_count jobs one) $(cluster_count pods one)" "3 4"
'

test_expect 'the same bytes as on this machine' '
	mkdir here
	cp -R data pipeline.yaml here/
	echo "runner: local" >here/cairn.yaml
	CAIRN_SECRET_TOKEN=very-much-hidden cairn -C here run >/dev/null
	same here . up/up up/tree "count[part=a]/n" "count[part=b]/n" shards/out
'

test_expect 'a changed param costs the pods of what it changes, no others' '
	CAIRN_SECRET_TOKEN=very-much-hidden cairn run -p word=bye --json >third
	test_is "$(counts third)" "1 3 0 0" # its outputs are the same: what is after it is a hit
	test_is "$(cluster_count pods one)" 5
'

test_expect 'expressions in settings, values, a loop, a used pipeline, an approval, a failure that counts for nothing, and finally' '
	mkdir -p words
	echo start >words/start.txt
	write words/sub.yaml <<-E
		pipeline: sub
		params: {word: x}
		inputs: {i: start.txt}
		defaults: {image: $BUSYBOX, resources: {cpu: 50m, memory: 64Mi}}
		steps:
		  add: {run: "{ cat \${{ inputs.i }}; echo \${{ params.word }}; } >\${{ outputs.o }}", inputs: {i: "\${{ inputs.i }}"}, outputs: {o: o}}
		outputs: {o: "\${{ steps.add.outputs.o }}"}
	E
	write words/words.yaml <<-E
		pipeline: words
		params: {image: "$BUSYBOX", mib: 48}
		inputs: {start: start.txt}
		defaults: {image: "\${{ params.image }}", resources: {cpu: 50m, memory: "\${{ params.mib + 16 }}Mi"}, timeout: "\${{ params.mib * 2 }}s"}
		steps:
		  find:
		    run: |
		      echo "{\"names\": [\"b\", \"a\"]}" >v.json
		    values: v.json
		  one:
		    each: "\${{ steps.find.values.names }}"
		    pack: 2
		    run: echo \${{ item }} >\${{ outputs.o }}
		    outputs: {o: o}
		  loop:
		    repeat: {until: "\${{ round == 3 }}", max: 5}
		    inputs: {i: {first: "\${{ inputs.start }}", then: "\${{ steps.loop.outputs.o }}"}}
		    run: "{ cat \${{ inputs.i }}; echo \${{ round }}; } >\${{ outputs.o }}"
		    outputs: {o: o}
		  part: {uses: ./sub.yaml, with: {word: y}, inputs: {i: "\${{ steps.loop.outputs.o }}"}}
		  flaky:
		    matrix: {n: [1, 2]}
		    fail_fast: false
		    continue_on_error: true
		    run: test \${{ matrix.n }} = 2
		  ask: {needs: [part], approve: {default: approve}, timeout: 1s}
		  last: {needs: [ask], run: "cat \${{ inputs.i }} >\${{ outputs.o }}", inputs: {i: "\${{ steps.part.outputs.o }}"}, outputs: {o: o}}
		finally:
		  tell: {run: "echo \${{ run.state }} \${{ join(failed.tasks, \",\") }} >\${{ outputs.o }}", outputs: {o: o}}
	E
	cp -R words words-here
	cp cairn.yaml words/
	echo "runner: local" >words-here/cairn.yaml
	(cd words && cairn run words.yaml --json >../words.json)
	test_is "$(counts words.json)" "11 0 1 0"
	(cd words-here && cairn run words.yaml --json >../words-here.json)
	same words-here words "one[a]/o" "loop[round=3]/o" last/o tell/o
	cairn -C words get tell/o -o - >told
	test_is "$(cat told)" "succeeded "
	cairn -C words get last/o -o - >lines
	test_is "$(tr "\n" " " <lines)" "start 1 2 3 y "
'

test_expect 'logs -f shows what a pod prints while it runs' '
	write slow.yaml <<-E
		pipeline: slow
		steps:
		  talk:
		    image: $BUSYBOX
		    resources: {cpu: 100m, memory: 64Mi}
		    run: "echo first; for i in 1 2 3 4 5 6; do sleep 1; done; echo last"
	E
	start slow cairn run slow.yaml
	wait_until 60 sh -c "kubectl get pods | grep -q talk.*Running"
	start follow cairn logs -f talk
	wait_until 20 grep -q first follow.out
	test_missing slow.rc
	wait_until 60 test -s slow.rc
	wait_until 60 test -s follow.rc
	test_is "$(cat slow.rc) $(cat follow.rc)" "0 0"
	test_grep last follow.out
'

test_expect 'small neighbours share a pod' '
	write pack.yaml <<-E
		pipeline: packed
		steps:
		  each:
		    image: $BUSYBOX
		    resources: {cpu: 100m, memory: 64Mi}
		    matrix: {n: [1, 2, 3, 4, 5, 6, 7, 8]}
		    pack: 4
		    run: echo \${{ matrix.n }} >\${{ outputs.n }}
		    outputs: {n: n}
	E
	before=$(cluster_count pods one)
	cairn run pack.yaml -j 8 --json >packed
	test_is "$(counts packed)" "8 0 0 0"
	made=$(($(cluster_count pods one) - before))
	test $made -le 3
	cairn get "each[n=7]/n" -o - >n
	test_is "$(cat n)" 7
'

test_expect 'they do so without being told once some of them were short; a failure and a time limit are those of one task' '
	sed -i "/pack: 4/d; s/matrix: .*/matrix: {n: [11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26]}\n    timeout: 3s\n    retry: {max: 0, timeout: 0}/" pack.yaml
	sed -i "s/run: /run: if [ \${{ matrix.n }} = 11 ]; then exit 3; elif [ \${{ matrix.n }} = 13 ]; then sleep 60; fi; /" pack.yaml
	before=$(cluster_count pods one)
	test_code 1 cairn run --keep-going pack.yaml --json >packed
	test_is "$(counts packed)" "14 0 2 0"
	test_is "$(($(cluster_count pods one) - before))" 8
	cairn status --json >status.json
	test_is "$(json status.json "[[t[\"task\"], t[\"failure\"]] for t in d[\"tasks\"] if t[\"failure\"]]")" "[[\"each[n=11]\", \"failed\"], [\"each[n=13]\", \"timeout\"]]"
	cairn get "each[n=14]/n" -o - >n
	test_is "$(cat n)" 14
'

# Of five tasks, two a pod, the last pod has one; it is deleted, and its task made again alone.
test_expect 'tasks that are ready together are the pods of one Job, and each ends for itself' '
	write many.yaml <<-E
		pipeline: many
		steps:
		  each:
		    image: $BUSYBOX
		    resources: {cpu: 50m, memory: 32Mi}
		    matrix: {n: [1, 2, 3, 4, 5]}
		    pack: 2
		    retry: {lost: 1}
		    inputs: {first: data/a.txt}
		    run: |
		      [ \${{ matrix.n }} != 5 ] || sleep 5
		      [ -z "\${JOB_COMPLETION_INDEX:-}" ]
		      cat \${{ inputs.first }} >\${{ outputs.n }}; echo \${{ matrix.n }} >>\${{ outputs.n }}
		    outputs: {n: n}
	E
	jobs=$(cluster_count jobs one) pods=$(cluster_count pods one)
	start many cairn run many.yaml
	third() { kubectl get pods -l batch.kubernetes.io/job-completion-index=2 -o jsonpath="{.items[*].metadata.name} {.items[*].status.phase}"; }
	wait_until 60 sh -c "$(declare -f third); third | grep Running"
	kubectl delete pod "$(third | cut -d" " -f1)" >/dev/null
	wait_until 120 test -s many.rc
	test_is "$(cat many.rc)" 0
	test_is "$(($(cluster_count jobs one) - jobs)) $(($(cluster_count pods one) - pods))" "2 4"
	cairn status --json >status.json
	test_is "$(json status.json "[(t[\"failure\"], t[\"attempt\"]) for t in d[\"tasks\"] if t[\"task\"] == \"each[n=5]\"]")" "[[\"lost\", 1], [null, 2]]"
	for n in 1 2 3 4 5; do
		cairn get "each[n=$n]/n" -o - >got
		{ cat data/a.txt; echo $n; } >want
		test_cmp want got
	done
	wait_until 60 sh -c "test -z \"\$(kubectl get jobs,pods -o name)\""
'

# example NAME PACKAGE…: on the cluster and here, from the same files.
example() {
	local name=$1 image
	shift
	image=$(cluster_do "$cluster/images/debian_image" "$name" "$@") || return 1
	cluster_push "$image" "$name:1" || { tail -n 5 "$TRASH/push.log"; return 1; }
	cp -R "$SRC/examples/$name" "$name"
	rm -rf "$name/.cairn" # of one who tried the example in this checkout
	cp -R "$name" "$name-here"
	cluster_yaml one >"$name/cairn.yaml"
	echo 'runner: local' >"$name-here/cairn.yaml"
	sed -i "s|^steps:|defaults: {image: $REGISTRY/$name:1, resources: {cpu: 400m, memory: 512Mi}}\nsteps:|; s/cpu: 2, memory: 2Gi/cpu: 1, memory: 2Gi/" "$name/pipeline.yaml"
	cairn -C "$name" run --json >"$name.there" || { cairn -C "$name" status; return 1; }
	cairn -C "$name-here" run --json >"$name.here" || return 1
	test_is "$(counts "$name.there")" "$(counts "$name.here")"
}

if python3 -c 'import sklearn, matplotlib' 2>/dev/null; then
test_expect 'a fan-out over what a pod made' '
	write fan.yaml <<-E
		pipeline: fan
		defaults: {image: $BUSYBOX, resources: {cpu: 100m, memory: 64Mi}}
		steps:
		  make:
		    run: "mkdir -p parts; for i in 1 2 3; do echo \$i >parts/\$i; done"
		    outputs: {parts: parts/}
		  double:
		    each: "\${{ steps.make.outputs.parts }}/*"
		    pack: 3
		    inputs: {part: "\${{ item }}"}
		    run: cat \${{ inputs.part }} \${{ inputs.part }} >\${{ outputs.o }}
		    outputs: {o: o}
	E
	cairn run fan.yaml --json >fan
	test_is "$(counts fan)" "4 0 0 0"
'

	test_expect 'the example digits, end to end, gives the same bytes as here' '
		example digits python3 python3-sklearn python3-matplotlib python3-joblib fonts-dejavu-core
		same digits-here digits extract/digits prepare/train prepare/test "train[kernel=rbf,c=1]/model" "train[kernel=linear,c=10]/model" evaluate/evaluation report/report
		before=$(cluster_count pods one)
		cairn -C digits run --json >again
		test_is "$(json again "d[\"counts\"][\"executed\"]")" 0
		test_is "$(cluster_count pods one)" "$before"
	'
else
	test_skip 'the example digits, end to end' 'no sklearn'
fi
if [ "${CAIRN_TEST_FULL:-0}" = 1 ] && python3 -c 'import torch' 2>/dev/null; then
	test_expect 'the example fashion, end to end, gives the same bytes as here' '
		example fashion python3 python3-torch python3-numpy dataset-fashion-mnist dpkg
		same fashion-here fashion shard/train train/model predict/predictions evaluate/report
	'
else
	test_skip 'the example fashion, end to end' 'takes minutes: CAIRN_TEST_FULL=1'
fi

test_expect '--cache off: nobody.s results are taken, though all goes through the bucket' '
	cat >off.yaml <<-E
		pipeline: alone
		defaults: {image: $BUSYBOX, resources: {cpu: 50m, memory: 32Mi}}
		steps:
		  a: {run: "echo from a >o", outputs: {o: o}}
		  b: {run: "cat \${{ inputs.i }} >o", inputs: {i: "\${{ steps.a.outputs.o }}"}, outputs: {o: o}}
	E
	before=$(cluster_count jobs one)
	cairn run off.yaml >plain.out 2>&1
	test_no_grep waits plain.out
	CAIRN_DIR=$PWD/off.state cairn run -q --cache off off.yaml
	test_is "$(cluster_count jobs one)" $((before + 4))
	CAIRN_DIR=$PWD/off.state cairn get b/o -o off.o
	test_is "$(cat off.o)" "from a"
	CAIRN_DIR=$PWD/on.state cairn run -q off.yaml
	test_is "$(cluster_count jobs one)" $((before + 4))
'
# The second step writes TensorBoard's event files: loss at step 1.
test_expect --needs script 'the newest numbers of a training in a pod are shown while it runs; its curve grows for whoever looks' '
	cat >trains.yaml <<-E
		pipeline: trains
		defaults: {image: $BUSYBOX, resources: {cpu: 50m, memory: 64Mi}}
		steps:
		  t:
		    run: "i=0; while [ \$i -lt 600 ]; do i=\$((i + 1)); echo loss=0.\$i step=\$i; sleep 1; done; echo x >o"
		    outputs: {o: o}
		    cache: false
		    distributed: {framework: torch, procs_per_node: 1}
		  b:
		    run: "echo EQAAAAAAAACdbbUuEAEqDQoLCgRsb3NzFQAAAD9RGCn8 | base64 -d >tb/events.out.tfevents.1; sleep 600"
		    series: tb/
		    cache: false
	E
	start server cairn serve --listen 127.0.0.1:0
	wait_until 60 grep -q " serving " server.out
	url=$(sed -n "s/.* listening address=\(127[^ ]*\).*/http:\/\/\1/p" server.out | sed -n 1p)/api/v1/runs/last/series
	start trains env TERM=xterm CAIRN_TEST_KUBE_SERIES=1s script -qec "cairn run trains.yaml" /dev/null
	wait_until 150 grep -q "loss=0\.[0-9]" trains.out
	curves() { python3 -c "import json, sys, urllib.request as r; print(json.dumps({s[\"task\"]: s[\"points\"][0][:2] for s in json.load(r.urlopen(sys.argv[1]))[\"series\"] if s[\"metric\"] == \"loss\"}))" "$url" >curves; }
	both() { curves && grep -q "\"t\":" curves && grep -q "\"b\": \[1.0, 0.5\]" curves; }
	wait_until 150 both
	test_missing trains.rc
	cairn cancel
	wait_until 60 test -s trains.rc
	test_is "$(stop server TERM)" 0
'

test_done
