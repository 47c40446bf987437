#!/bin/bash
# `cairn run --twice`: what is executed is executed twice and compared at once.
. "$(dirname "$0")/../../lib.sh"

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
# The database fails as it is asked for what the first execution made, once that is on record.
failing='
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
struct sqlite3_stmt;
const char *sqlite3_sql(struct sqlite3_stmt *);
int sqlite3_step(struct sqlite3_stmt *s)
{
	static int n;
	int (*real)(struct sqlite3_stmt *) = dlsym(RTLD_NEXT, "sqlite3_step");
	const char *sql = sqlite3_sql(s);
	if (sql && strstr(sql, "FROM attempt WHERE run = ? ORDER BY id") && ++n == atoi(getenv("STEP_N")))
		return 10; /* SQLITE_IOERR */
	return real(s);
}'
if [ "$(nm "$CAIRN" 2>/dev/null | grep __asan_init)" ]; then
	test_skip 'a database that fails' 'calls are preloaded, which the address sanitizer does not allow'
elif ! echo "$failing" | cc -shared -fPIC -x c -o "$TRASH/failing.so" - -ldl 2>/dev/null; then
	test_skip 'a database that fails' 'no C compiler for the preloaded calls'
else
	test_expect 'a database that fails between the two executions: one error, and it ends in order' '
		mkdir -p between
		cd between
		touch cairn.yaml
		echo "{pipeline: p, steps: {a: {run: echo 1}}}" >pipeline.yaml
		told=0
		for n in 1 2 3 4 5 6 7 8; do
			rc=0
			MALLOC_PERTURB_=165 STEP_N=$n LD_PRELOAD=$TRASH/failing.so \
				cairn run --twice --force >out 2>err || rc=$?
			[ $rc = 0 ] && break
			test_is "$rc" 4
			test_is "$(grep -c "^cairn:" err)" 1
			if grep -q "succeeded" out; then told=$((told + 1)); fi
		done
		test "$told" -ge 1
	'
fi
test_done
