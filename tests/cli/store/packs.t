#!/bin/bash
# Results of many small tasks in a directory store: a pack each turn, not two files each.
. "$(dirname "$0")/../../lib.sh"

export CAIRN_TEST_MARK_GAP=0s

echo '# project' >cairn.yaml
cat >pipeline.yaml <<'YAML'
pipeline: many
params: {n: 1}
steps:
  t:
    matrix: {i: [0, 1, 2, 3, 4, 5, 6, 7], k: [0, 1, 2, 3, 4]}
    run: "echo ${{ matrix.i }}-${{ matrix.k }}-${{ params.n }} >o; echo '{\"m\": ${{ matrix.k }}}' >m.json"
    outputs: {o: o}
    metrics: m.json
YAML
records() { find .cairn/store/actions -type f | wc -l; }
packs() { find .cairn/store/packs -name '*.idx' | wc -l; }
bytes() { cat .cairn/store/packs/* | wc -c; }
export -f records packs bytes

test_expect 'records of 40 tasks are one pack, which another database finds and believes' '
	cairn run -q
	test_is "$(records)" 0
	test_is "$(packs)" 1
	test_is "$(cat .cairn/store/version)" "cairn store 2"
	mv .cairn/cairn.db away.db
	rm -f .cairn/cairn.db-*
	cairn run -q --json >run.json
	test_is "$(json run.json "d[\"counts\"][\"hits\"]")" 40
	cairn store verify -q
	rm -f .cairn/cairn.db*
	mv away.db .cairn/cairn.db
	cairn why "t[i=3,k=2]" >why
	test_grep "t\\[" why
'

test_expect 'what gc keeps and removes in a pack' '
	cairn run -q -p n=2
	test_is "$(packs)" 2
	cairn tag -q "$(cairn runs --json | python3 -c "import json, sys; print(json.load(sys.stdin)[\"runs\"][0][\"id\"])")" keep
	find .cairn/store -type f -exec touch -d "3 days ago" {} +
	before=$(bytes)
	cairn store gc -q --keep 1ms
	cairn store gc -q --keep 1ms
	test "$(bytes)" -lt "$before"
	cairn store verify -q
	cairn run -q -p n=2 --json >run.json
	test_is "$(json run.json "d[\"counts\"][\"hits\"]")" 40
	rm -f .cairn/cairn.db*
	cairn run -q -p n=2 --json >run.json
	test_is "$(json run.json "d[\"counts\"][\"hits\"]")" 40
	cairn run -q -p n=1 --json >run.json
	test_is "$(json run.json "d[\"counts\"][\"executed\"]")" 40
'

test_expect 'a damaged pack costs what is in it, and nothing else' '
	chmod u+w .cairn/store/packs/*
	for f in .cairn/store/packs/*.idx; do
		f=${f%.idx}
		dd if=/dev/zero of="$f" bs=100 seek=10 count=100 conv=notrunc status=none
	done
	rm -f .cairn/cairn.db*
	cairn run -q --json >run.json
	test_is "$(json run.json "d[\"counts\"][\"hits\"] + d[\"counts\"][\"executed\"]")" 40
	test "$(json run.json "d[\"counts\"][\"executed\"]")" -gt 0
	test_must_fail cairn store verify -q
	cairn run -q --force t
	cairn run -q --force t -p n=2
	cairn store verify -q
'

test_expect 'killed at any moment, a resumed run has all results on record' '
	for n in 3 4 5; do
		start killed cairn run -q -p n=$n
		wait_until 60 test -d .cairn/work
		kill -9 "$(cat killed.pid)"
		wait_until 60 test -s killed.rc
		cairn resume -q || cairn run -q -p n=$n
		cairn store verify -q
		rm -f killed.*
		cairn run -q -p n=$n --json >run.json
		test_is "$(json run.json "d[\"counts\"][\"hits\"]")" 40
	done
'

test_done
