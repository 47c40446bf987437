#!/bin/bash
# cairn store gc of one project beside a run of another one that has the same directory as its store.
. "$(dirname "$0")/../../lib.sh"

export CAIRN_STORE=$PWD/store CAIRN_TEST_MARK_GAP=0s
mkdir -p ann/code bob
echo '# project' | tee ann/cairn.yaml >bob/cairn.yaml
echo data >ann/in.txt
echo 'cat "$1"; echo code' >ann/code/first.sh
cat >ann/pipeline.yaml <<'YAML'
pipeline: ann
inputs: {i: in.txt}
steps:
  first:
    run: "sh code/first.sh ${{ inputs.i }} >o; mkdir -p d/e; cp o d/e/f"
    code: [code]
    inputs: {i: "${{ inputs.i }}"}
    outputs: {o: o, d: d/}
  wait:
    run: "echo >>\"$HOME/begun\"; while [ ! -e \"$HOME/go\" ]; do sleep 0.02; done"
    needs: [first]
    cache: false
  last:
    run: "cat ${{ inputs.o }} ${{ inputs.d }}/e/f ${{ inputs.i }} >r; sh code/first.sh r >>r2"
    code: [code]
    needs: [wait]
    cache: false
    inputs: {o: "${{ steps.first.outputs.o }}", d: "${{ steps.first.outputs.d }}", i: "${{ inputs.i }}"}
    outputs: {r: r, r2: r2}
YAML
cat >bob/pipeline.yaml <<'YAML'
pipeline: bob
steps: {a: {run: "echo a >o", outputs: {o: o}}}
YAML
begun() { [ "$(cat "$HOME/begun" 2>/dev/null | wc -l)" -ge "$1" ]; }
# As if all that lies in the store, and what a run holds there, were so old.
age() { find store -type f -exec touch -d "$1 ago" {} +; }
objects() { find store/blobs store/trees store/actions store/runs -type f | wc -l; }
gc() { cairn -C bob store gc --keep 1ms -q && cairn -C bob store gc --keep 1ms -q; }
export -f begun age objects gc

test_expect 'what a run at work has found stays, however long it takes' '
	touch "$HOME/go"
	cairn -C ann run -q
	cairn -C bob run -q
	rm "$HOME/go" "$HOME/begun"
	age "3 days"
	start ann-run cairn -C ann run -q
	wait_until 60 begun 1
	gc
	age "5 hours"
	gc
	age "9 hours"
	gc
	touch "$HOME/go"
	wait_until 60 test -s ann-run.rc
	test_is "$(cat ann-run.rc)" 0
	cairn -C ann status --json >status.json
	test_is "$(json status.json "d[\"run\"][\"counts\"][\"hits\"]")" 1
	cairn -C ann get -q last/r -o r
	printf "data\ncode\ndata\ncode\ndata\n" >want
	test_cmp want ann/r
	test_is "$(ls store/leases)" ""
'

test_expect 'a run that was killed holds nothing: space comes back' '
	rm "$HOME/go" "$HOME/begun"
	start dead cairn -C ann run -q
	wait_until 60 begun 1
	kill -9 "$(cat dead.pid)"
	wait_until 60 test -s dead.rc
	test_is "$(ls store/leases | wc -l)" 1
	age "3 days"
	gc
	test_is "$(ls store/leases)" ""
	test_is "$(objects)" 0
'
test_expect 'what a kept run names and nobody finds is told' '
	mkdir lone
	echo "store: s" >lone/cairn.yaml
	cp bob/pipeline.yaml lone/
	unset CAIRN_STORE
	cairn -C lone run -q --json >run.json
	cairn -C lone store gc --dry-run --json >gc.json 2>err
	test_is "$(json gc.json "d[\"lost\"]")" 0
	test_lines 0 err
	hash=$(json run.json "d[\"hash\"]")
	rm -f "lone/s/runs/$(cut -c 1-2 <<<"$hash")/$hash"
	cairn -C lone store gc --dry-run --json >gc.json 2>err
	test_is "$(json gc.json "d[\"lost\"]")" 1
	test_grep "1 manifests and trees of runs that are kept are missing" err
'
test_done
