#!/bin/bash
# Image, resources, timeout and retries of each task by expressions.
. "$(dirname "$0")/../../lib.sh"

unset CAIRN_STORE
digest() { printf 'sha256:%064d' "$1"; }
export KUBECONFIG=$PWD/kubeconfig
cat >kubeconfig <<-'E'
	apiVersion: v1
	kind: Config
	clusters: [{name: lab, cluster: {server: "https://127.0.0.1:1"}}]
	users: [{name: me, user: {token: x}}]
	contexts: [{name: lab, context: {cluster: lab, user: me, namespace: ml}}]
	current-context: lab
	E
cat >cairn.yaml <<-E
	store: $PWD/store
	kubernetes:
	  image: "registry.test/cairn@$(digest 1)"
	  store_claim: shared
	E
cat >maps.yaml <<-E
	pipeline: maps
	params: {mem: 100Mi, limit: 60}
	defaults: {image: "registry.test/base@$(digest 2)"}
	steps:
	  cat-os:
	    run: cat /etc/os-release
	    matrix: {image: ["debian@$(digest 3)", "alpine@$(digest 4)"], big: [false, true]}
	    image: registry.test/\${{ matrix.image }}
	    resources: {memory: "\${{ params.mem }}", cpu: "\${{ choose(matrix.big, 2, 0.5) }}"}
	    timeout: \${{ params.limit }}s
	  maps:
	    run: cat /etc/os-release >\${{ matrix.os }}
	    matrix: {include: [{os: debian, of: 6}, {os: alpine, of: 7}]}
	    image: registry.test/\${{ matrix.os }}@sha256:000000000000000000000000000000000000000000000000000000000000000\${{ matrix.of }}
	  plain: {run: "true"}
	  made: {run: "mkdir o; echo >o/1; echo >o/2", outputs: {o: o/}}
	  files:
	    run: x
	    each: "\${{ steps.made.outputs.o }}/*"
	    inputs: {f: "\${{ item }}"}
	    image: registry.test/f@\${{ choose(params.limit > 1, '$(digest 5)', '') }}
	    resources: {memory: "\${{ item.name }}Gi"}
	E

test_expect 'on a cluster each task has its own image and resources' '
	cairn run maps.yaml --on kubernetes --dry-run=client -o json >objects.json 2>err
	python3 - <<-"P" >got
		import json
		objects = json.load(open("objects.json"))
		for o in objects.get("items", objects) if isinstance(objects, dict) else objects:
		    if o["kind"] != "Job":
		        continue
		    pod = o["spec"]["template"]["spec"]
		    main = [c for c in pod["containers"] if c["name"] == "main"][0]
		    print(o["metadata"]["labels"]["cairn.internal/step"], main["image"][-1:], main["resources"]["requests"].get("cpu"), main["resources"].get("limits", {}).get("memory"))
	P
	sort got >sorted
	test_grep "^cat-os 3 2000m 104857600$" sorted
	test_grep "^cat-os 3 500m 104857600$" sorted
	test_grep "^cat-os 4 2000m 104857600$" sorted
	test_grep "^cat-os 4 500m 104857600$" sorted
	test_is "$(grep "^maps" sorted | cut -d " " -f 1,2 | tr "\n" " ")" "maps 6 maps 7 "
	test_grep "^plain 2 " sorted
	test_grep "^files 5 " sorted
'

write local.yaml <<'YAML'
pipeline: local
params: {t: 300, n: 1, dir: nowhere}
steps:
  a:
    run: |
      echo x >>${{ params.dir }}/tries-${{ matrix.k }}
      test ${{ matrix.k }} = 1 || sleep 300
    matrix: {k: [1, 2]}
    timeout: ${{ choose(matrix.k == 2, '0.3', '300') }}s
    retry: {max: "${{ choose(matrix.k == 2, params.n, 0) }}", backoff: 10ms}
    resources: {cpu: "${{ matrix.k * 0.5 }}", memory: "${{ matrix.k }}Mi"}
YAML

test_expect 'timeout and retries are those of the task' '
	cairn check local.yaml
	test_code 1 cairn run local.yaml -q -p dir="$PWD" --keep-going 2>err
	test_grep "a.k=2. .*timeout of 0.3s" err
	test_lines 1 tries-1
	test_lines 2 tries-2
'

test_expect 'they change no key, unless the step says so; then each task has its own' '
	cairn plan local.yaml -p dir="$PWD" -p t=200 -p n=3 >plan
	test_grep "1 hit, 1 to run" plan
	sed "s|    retry:|    key: {resources: true}\n    retry:|" local.yaml >keyed.yaml
	test_code 1 cairn run keyed.yaml -q -p dir="$PWD" --keep-going 2>err
	cairn plan keyed.yaml -p dir="$PWD" >plan
	test_grep "1 hit, 1 to run" plan
	sed -i "s|matrix.k . 0.5|choose(matrix.k == 1, 0.25, 1)|" keyed.yaml
	cairn plan keyed.yaml -p dir="$PWD" >plan
	test_grep "a.k=1. .*resources" plan
'

test_expect 'a wrong value is an error at its place before anything runs' '
	cairn check local.yaml
	test_code 3 cairn run maps.yaml -p mem=lots 2>err
	test_grep "maps.yaml:9:25: .memory.: .lots. is not a size" err
	test_code 3 cairn plan maps.yaml -p limit=0 2>err
	test_grep "maps.yaml:10:[0-9]+: .timeout. must be more than 0" err
	sed -i "s|timeout: .*|timeout: \${{ steps.b.metrics.x }}s|" local.yaml
	test_code 3 cairn check local.yaml 2>err
	test_grep "local.yaml:9:[0-9]+: .*steps.* can.t be used here: .*known before other steps end" err
'

test_done
