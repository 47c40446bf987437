#!/bin/bash
# What the command line puts elsewhere: the store, the runner, the pipeline file, and what is forced.
. "$(dirname "$0")/../../lib.sh"

write pipeline.yaml <<'YAML'
pipeline: places
steps:
  one:
    run: echo 1 >${{ outputs.o }}
    outputs: {o: o.txt}
  two:
    run: cat ${{ inputs.i }} ${{ inputs.i }} >${{ outputs.o }}
    inputs: {i: "${{ steps.one.outputs.o }}"}
    outputs: {o: o.txt}
YAML
touch cairn.yaml
counts() { json "$1" '"%(executed)d %(hits)d" % d["counts"]'; }

test_expect '--force of one task executes that one; --from and --until are about steps' '
	mkdir matrix
	cd matrix
	echo "# project" >cairn.yaml
	printf "pipeline: m\nsteps:\n  m: {matrix: {x: [1, 2, 3]}, run: \"echo \${{ matrix.x }} >o\", outputs: {o: o}}\n" >pipeline.yaml
	cairn run -q
	cairn run -q --json --force "m[x=2]" >out
	test_is "$(json out "\"%(executed)d %(hits)d\" % d[\"counts\"]")" "1 2"
	cairn run -q --json --force "m[x=2]" --force m >out
	test_is "$(json out "\"%(executed)d %(hits)d\" % d[\"counts\"]")" "3 0"
	test_code 3 cairn run -q --force "m[x=4]" 2>err
	test_grep "force: step .m. has no task .m\[x=4\].; the first of its tasks is m.x=1." err
	test_code 3 cairn run -q --from "m[x=2]" 2>err
	test_grep "from takes a step, and .m.x=2.. is one of its tasks" err
'
test_expect '--force alone executes all that is selected, --force STEP that step' '
	cairn run -q --json >out
	test_is "$(counts out)" "2 0"
	cairn run -q --json >out
	test_is "$(counts out)" "0 2"
	cairn run -q --json --force >out
	test_is "$(counts out)" "2 0"
	cairn run -q --json --force pipeline.yaml >out
	test_is "$(counts out)" "2 0"
	cairn run -q --json --force two >out
	test_is "$(counts out)" "1 1"
	cairn run -q --json --force=one pipeline.yaml >out
	test_is "$(counts out)" "1 1"
	cairn plan --force --json >out
	test_is "$(json out "d[\"counts\"][\"hits\"]")" 0
'
test_expect '--store: seen from the working directory, and wins over CAIRN_STORE' '
	mkdir sub
	cd sub
	CAIRN_STORE=/nowhere/at/all cairn run -q --store ../other ../pipeline.yaml
	cd ..
	cairn store stat --json --store other >out
	test "$(json out "d[\"blobs\"][\"objects\"]")" -ge 2
	test_is "$(json out "d[\"uri\"]")" "$PWD/other"
	cairn get two -q --store other -o got
	test_is "$(cat got)" "1
1"
	cairn store verify -q --store other
	rm -r sub
'
test_expect '--store and --on of what is not there, or what cannot be' '
	test_code 2 cairn run --store= 2>err
	test_grep "store" err
	test_code 4 cairn run --on kubernetes 2>err
	test_grep "no kubeconfig was found .*: set KUBECONFIG" err
	test_code 2 cairn run --on moon 2>err
	cairn run -q --on local
'
test_expect 'a file of another name is the pipeline; a file named like a step hides no step' '
	cp pipeline.yaml flow.txt
	cairn run -q --json ./flow.txt two >out
	test_is "$(json out "d[\"path\"]")" flow.txt
	touch two
	cairn run -q --json two >out
	test_is "$(json out "d[\"path\"]")" pipeline.yaml
	test_code 2 cairn run none.txt 2>err || test_code 3 cairn run none.txt 2>err
	test_grep "none.txt" err
'
test_expect '--json is indented, its keys sorted' '
	cairn version --json >out
	test_is "$(sed -n 1p out)" "{"
	test_grep "^  \"compiler\": " out
	test_is "$(python3 -c "import json,sys; d=json.load(open(\"out\")); print(list(d) == sorted(d))")" True
	cairn secret list --json >out
	test_grep "^  \"secrets\": \[\]$" out
'
test_done
