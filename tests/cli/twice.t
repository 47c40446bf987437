#!/bin/bash
# `cairn run --twice`: what is executed is executed twice and compared at once.
. "$(dirname "$0")/../lib.sh"

cp -R "$SRC/examples/dice" .
rm -rf dice/.cairn
verdict() { json report "next(t['verdict'] for t in d['tasks'] if t['task'] == '$1')"; }

test_expect 'the step that is not deterministic is named, with file and byte' '
	cd dice
	test_code 11 cairn run --twice pipeline.yaml >../out
	cd ..
	test_grep "urandom diverged first" out
	test_grep "throws.*at byte [0-9]+" out
	test_no_grep "seeded .*diverged" out
'
test_expect 'with --json, the report of the second execution, each task with the inputs of the first' '
	cd dice
	test_code 11 cairn run -q --twice --json --force pipeline.yaml >../report
	cd ..
	test_is "$(verdict seeded)" reproduced
	test_is "$(verdict urandom)" diverged
	test_is "$(verdict mean)" reproduced
	test_is "$(json report "d[\"mode\"]")" isolated
'
test_expect 'what is on record is not executed, not even once; --force does' '
	cd dice
	cairn run -q --twice pipeline.yaml 2>../err
	cairn run --twice pipeline.yaml 2>../err
	test_grep "nothing was executed" ../err
	cairn run -q --json --twice pipeline.yaml -p throws=50 seeded >../report
	cd ..
	test_is "$(json report "[t[\"task\"] for t in d[\"tasks\"] if t[\"verdict\"] == \"reproduced\"]")" "[\"seeded\"]"
'
test_expect 'only what was executed is executed twice' '
	cd dice
	test_code 11 cairn run -q --json --twice pipeline.yaml --force urandom urandom >../report
	cd ..
	test_is "$(verdict urandom)" diverged
	test_is "$(json report "len(d[\"tasks\"])")" 1
'
test_expect 'what the first execution made is what others get' '
	cd dice
	rm -rf .cairn
	test_code 11 cairn run -q --json --twice pipeline.yaml urandom >../report
	was=$(json ../report "d[\"tasks\"][0][\"outputs\"][0][\"was\"]")
	cairn run -q --json pipeline.yaml urandom >../run
	test_is "$(json ../run "d[\"counts\"][\"hits\"]")" 1
	cairn get urandom/throws -r last -o ../throws
	test_is "sha256:$(sha256sum <../throws | cut -c 1-64)" "$was"
'
test_expect 'a failed run stays failed, whatever is the same' '
	mkdir failing
	cd failing
	touch cairn.yaml
	printf "pipeline: failing\nsteps:\n  good: {run: \"echo 1 >\${{ outputs.o }}\", outputs: {o: o}}\n  bad: {run: exit 1, needs: [good]}\n" >pipeline.yaml
	test_code 1 cairn run -q --twice --json >../report
	cd ..
	test_is "$(verdict good)" reproduced
	test_is "$(verdict bad)" "not selected"
'
test_done
