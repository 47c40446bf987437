#!/bin/bash
# cairn doctor: says what is wrong, and what to do about it; looking changes nothing.
. "$(dirname "$0")/../../lib.sh"

test_expect 'a sound project: exit 0, nothing is made' '
	touch cairn.yaml
	cairn doctor >out 2>err
	test_lines 0 err
	test_no_grep "^problem" out
	test_grep "^ok  *sqlite" out
	test_missing .cairn
	cairn -q doctor >out
	test_no_grep "^ok" out
'
test_expect 'hashing with plain instructions, though the cpu has better ones, is a problem' '
	grep -qw sha_ni /proc/cpuinfo || test_cannot "this processor has no SHA instructions"
	cairn doctor >out
	test_grep "ok +sha +libcrypto uses the SHA instructions" out
	OPENSSL_ia32cap=:~0x20000000 test_code 1 cairn doctor >out
	test_grep "problem +sha +the cpu has SHA instructions, but libcrypto doesn.t use them" out
	test_grep "unset OPENSSL_ia32cap" out
'
test_expect '--json' '
	cairn doctor --json >out
	test_is "$(json out "d[\"healthy\"]")" true
	test_is "$(json out "{c[\"state\"] for c in d[\"checks\"]} <= {\"ok\", \"warning\"}")" true
'
test_expect 'tools that the pipeline names' '
	printf "pipeline: x\nsteps:\n  a: {run: x, tools: [\"no-such-tool --version\", \"sh -c true\"]}\n" >pipeline.yaml
	test_code 1 cairn doctor >out
	test_grep "step a needs no-such-tool" out
	test_grep "→ install it" out
	test_no_grep "needs sh" out
	rm pipeline.yaml
'
test_expect 'no project' '
	mkdir "$TRASH/outside"
	cd "$TRASH/outside"
	test_code 1 cairn doctor >out
	test_grep "cairn init" out
'
test_expect 'an invalid pipeline and configuration' '
	printf "pipeline: x\n" >bad.yaml
	test_code 1 cairn doctor bad.yaml >out 2>err
	test_grep "^problem  *pipeline" out
	mkdir broken
	echo "nonsense: 1" >broken/cairn.yaml
	test_code 1 cairn -C broken doctor >out 2>err
	test_grep "^problem  *project" out
	test_grep "^ok  *time" out
'
test_expect 'a damaged database and a secret that others may read' '
	mkdir -p .cairn/secrets
	head -c 8192 /dev/urandom >.cairn/cairn.db
	echo x >.cairn/secrets/OPEN
	chmod 644 .cairn/secrets/OPEN
	test_code 1 cairn doctor >out
	test_grep "^problem  *database" out
	test_grep "^problem  *secrets .*chmod 600" out
'

test_expect 'a shared store is really asked' '
	mkdir away
	echo "store: s3://away/x" >away/cairn.yaml
	export AWS_ENDPOINT_URL=http://127.0.0.1:1 AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b
	unset CAIRN_STORE
	test_code 1 cairn -C away doctor --json >out
	test_is "$(json out "[c[\"state\"] for c in d[\"checks\"] if c[\"name\"] == \"store\"]")" "[\"problem\"]"
	test_code 1 cairn -C away doctor >out
	test_grep "s3://away/x doesn.t answer as it should: .*127.0.0.1" out
'

test_done
