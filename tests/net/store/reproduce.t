#!/bin/bash
# `cairn reproduce` on a machine that has nothing but the address of a bucket, and `cairn run` on one that shares it afterwards.
. "$(dirname "$0")/../servers.sh"
. "$(dirname "$0")/../../lib.sh"

server_can versitygw || test_skip_all "versitygw is neither there nor can it be built ($(server_build versitygw))"
server s3 versitygw || test_bail 'versitygw did not start'
server_env s3 versitygw

cp -R "$SRC/examples/textstats" "$SRC/examples/dice" .
rm -rf {textstats,dice}/.cairn
verdicts() { json report "sorted({t['verdict'] for t in d['tasks']})"; }

test_expect 'an empty directory and s3://: pipeline, code and inputs come from there, and the results go there' '
	cairn -C textstats run -q pipeline.yaml --store s3://tbucket/team
	cairn -C textstats runs --json >runs.json
	json runs.json "d[\"runs\"][0][\"hash\"]" >hash
	rm -rf textstats
	mkdir empty
	cd empty
	cairn reproduce --trust -q --json "$(cut -c 1-10 ../hash)" --store s3://tbucket/team >../report
	cd ..
	test_is "$(verdicts)" "[\"reproduced\"]"
	test_is "$(json report "[len(d[\"tasks\"]), d[\"verdict\"]]")" "[5, \"identical\"]"
	cairn reproduce --trust -q --json "$(json report "d[\"was\"][\"id\"]")" --store s3://tbucket/team -o other >report
	test_is "$(verdicts)" "[\"reproduced\"]"
	cairn reproduce --trust -q "$(json report "d[\"is\"][\"hash\"]")" --store s3://tbucket/team -o third
'
test_expect 'a reproduction that diverged is nobody else'"'"'s hit' '
	cairn -C dice run -q pipeline.yaml urandom --store s3://tbucket/dice
	cairn -C dice get urandom/throws -r last -o was --store s3://tbucket/dice
	cairn -C dice runs --json >runs.json
	json runs.json "d[\"runs\"][0][\"hash\"]" >hash
	test_code 11 cairn reproduce --trust -q "$(cat hash)" --store s3://tbucket/dice -o again
	cp -R "$SRC/examples/dice" second
	rm -rf second/.cairn
	cairn -C second run -q --json pipeline.yaml urandom --store s3://tbucket/dice >run
	test_is "$(json run "d[\"counts\"][\"hits\"]")" 1
	cairn -C second get urandom/throws -r last -o is --store s3://tbucket/dice
	test_cmp dice/was second/is
'
test_expect 'a bucket that has lost its content' '
	rm -rf dice/.cairn again
	cairn -C dice run -q pipeline.yaml --store s3://tbucket/less
	cairn -C dice runs --json >runs.json
	json runs.json "d[\"runs\"][0][\"hash\"]" >hash
	rm -rf s3.data/tbucket/less/blobs s3.data/tbucket/less/packs
	test_code 12 cairn reproduce --trust "$(cat hash)" --store s3://tbucket/less -o again 2>err
	test_grep "run .*: " err
'
test_done
