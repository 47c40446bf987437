#!/bin/bash
# The rules of the house on the tree, and each of them on samples that it must reject: a rule that can't fail is a defect.
TEST_NEEDS_CAIRN=0
. "$(dirname "$0")/../lib.sh"

LINT="$SRC/tests/lint/lint.py"

# lint_start NAME: a lint.py that is asked what it thinks: lint_ask NAME DIR RULE, with the output and status of `lint.py --root DIR RULE`.
declare -A asks answers
lint_start() {
	local fd
	mkfifo "$TRASH/$1.asks" "$TRASH/$1.answers"
	python3 "$LINT" --ask <"$TRASH/$1.asks" >"$TRASH/$1.answers" 3>&- &
	exec {fd}>"$TRASH/$1.asks"
	asks[$1]=$fd
	exec {fd}<"$TRASH/$1.answers"
	answers[$1]=$fd
}
lint_ask() {
	local line
	printf '%s\t%s\n' "$2" "$3" >&"${asks[$1]}"
	while IFS= read -ru "${answers[$1]}" line; do
		[[ $line != '= '* ]] || return "${line#= }"
		printf '%s\n' "$line"
	done
	echo 'lint.py has ended' >&2
	return 3
}

# lint RULE: on the sample tree
lint() { lint_ask samples "$TRASH/work/tree" "$1"; }

# sample PATH: a new sample tree with one file, from standard input
sample() {
	rm -rf "$TRASH/work/tree"
	write "$TRASH/work/tree/$1"
}

# also PATH: one more file
also() { write "$TRASH/work/tree/$1"; }

# rejects RULE PATTERN: the rule says so, once or more
rejects() {
	test_code 1 lint "$1" >said
	test_grep "$2" said
}

accepts() {
	lint "$1" >said || { cat said; return 1; }
	test_lines 0 said
}

# ---- the tree itself -------------------------------------------------------------------------------------------------

# What was clean and is the same isn't asked again. The samples remember nothing.
XDG_CACHE_HOME=${test_xdg:-$test_home/.cache} lint_start tree
lint_start samples
while IFS=$'\t' read -r rule about; do
	needs=python3
	[ "$rule" != shell ] || needs='python3 shellcheck'
	[ "$rule" != form ] || needs='python3 clang-format'
	[ "$rule" != headers_alone ] || needs='python3 pkg-config'
	test_expect --needs "$needs" "$rule: $about" "lint_ask tree '' $rule"
done < <(python3 "$LINT" --list)
test_expect 'there are rules' "test $test_count -ge 11"

# ---- samples -----------------------------------------------------------------------------------------------------------

test_expect 'arrows: right ones' '
	sample engine/base/err.h <<<"/* x */"
	also storage/store.h <<<"/* x */"
	also engine/record/db.c <<<"#include \"base/err.h\"
#include \"storage/store.h\"
#include <base/other.h>
#include <stdio.h>"
	accepts arrows
'
for pair in 'engine/base model/a.h' 'engine/model storage/a.h' 'storage model/a.h' 'storage runners/a.h' 'runners storage/a.h' 'steps storage/a.h' \
	'engine/record plan/a.h' 'engine/plan run/a.h' 'engine/plan runners/a.h' 'engine/run cli/a.h' 'engine/model record/a.h'; do
	test_expect "arrows: ${pair% *} must not include ${pair#* }" "
		sample ${pair% *}/x.c <<<'#include \"${pair#* }\"'
		for room in engine/model engine/record engine/plan engine/run engine/cli storage runners; do also \$room/a.h <<<''; done
		rejects arrows 'x.c:1: .* must not include'
	"
done
test_expect 'arrows: another room internal.h, a relative path, a missing file, no room' '
	sample engine/plan/internal.h <<<""
	also engine/run/x.c <<<"#include \"plan/internal.h\"
#include \"../plan/internal.h\"
#include \"plan/none.h\"
#include \"internal.h\"
#include <plan/internal.h>"
	also engine/odd/y.c <<<""
	rejects arrows "x.c:1: .* is internal to plan"
	test_grep "x.c:2: .* a room" said
	test_grep "x.c:3: .*exist" said
	test_grep "x.c:4: .* a room" said
	test_grep "x.c:5: .* quotes" said
	test_grep "odd/y.c:1: lies in no room" said
'
test_expect --needs pkg-config 'headers_alone: needs another header, warns, cannot come twice' '
	sample engine/base/a.h <<<"size_t a(void);"
	rejects headers_alone "a.h:1: .*alone"
	sample engine/base/b.h <<<"static int b(void) { return 0; }"
	rejects headers_alone "b.h:1"
	sample engine/base/c.h <<<"struct c { int x; };"
	rejects headers_alone "c.h:1"
	sample storage/d.h <<<"#ifndef D
#define D
#include <stddef.h>
size_t d(void);
#endif"
	accepts headers_alone
'
test_expect 'headers_say: no purpose, wrong guard' '
	sample engine/base/a.h <<<"#ifndef A_H
#define A_H
#endif"
	rejects headers_say "must open with"
	test_grep "guard CAIRN_BASE_A_H" said
	sample engine/base/a.h <<<"/* base/a.h — nothing. */
#ifndef CAIRN_BASE_A_H
#define CAIRN_BASE_A_H
#endif"
	rejects headers_say "must open with ./[*] engine/base/a.h — purpose"
	sample engine/base/a.h <<<"/* engine/base/a.h — nothing. */
#ifndef CAIRN_BASE_A_H
#define CAIRN_BASE_A_H
#endif"
	accepts headers_say
'
for call in 'strcpy(a, b)' 'sprintf(a, "x")' 'gets(a)' 'strtok(a, b)' 'atoi (a)' 'alloca(3)' 'system("ls")' 'popen(a, b)' 'malloc(3)' 'strdup(a)' \
	'time(NULL)' 'usleep(3)' 'printf("x")' 'fprintf(stderr, "x")' 'fputs(a, stdout)' 'exit(1)' 'mktemp(a)' 'rand()' 'localtime(&t)'; do
	test_expect "calls: $call" "
		sample storage/x.c <<'E'
void f(void)
{
	$call;
}
E
		rejects calls '^storage/x.c:3: '
	"
done
test_expect 'calls: in comments and strings, as members, in other names, excused, at home, in the command line' '
	sample storage/x.c <<<"/* strcpy(a, b) */ // atoi(x)
const char *s = \"system(x)\";
void f(void) { o->time(3); o.exit(1); my_strcpy(a, b); snprintf(a, 3, \"%d\", x); _exit(3); }
	strcpy(a, b); /* lint: strcpy fits, sized above */
	/* lint: strcpy fits, sized above */
	strcpy(a, b);"
	also engine/base/mem.c <<<"void *p = malloc(3);"
	also engine/cli/x.c <<<"	printf(\"hello\"); exit(3);"
	accepts calls
	sample storage/x.c <<<"	strcpy(a, b); /* lint: atoi is another call */"
	rejects calls "strcpy"
	sample tests/unit/x.c <<<"	sleep(1);"
	rejects calls "sleep"
'
test_expect --needs clang-format 'form: a file that clang-format would change, a configuration that it does not know' '
	sample storage/x.c <<<"int  f(void);"
	also .clang-format <"$SRC/.clang-format"
	rejects form "storage/x.c:1: clang-format"
	sample storage/x.c <<<"int f(void);"
	also .clang-format <"$SRC/.clang-format"
	accepts form
	also .clang-format <<<"NoSuchKey: 1"
	rejects form "clang-format:1"
'
test_expect 'lengths: long file, long function, long line, hidden brace' '
	sample storage/x.c < <(seq 1201)
	rejects lengths "x.c:1202: .* in a file"
	sample storage/x.c < <(printf "int f(int a,\n\tint b)\n{\n"; seq 150 | sed "s/.*/	a++;/"; echo "}")
	rejects lengths "x.c:3: f has 152 lines"
	sample storage/x.c < <(printf "/* "; head -c 95 /dev/zero | tr "\\0" x; echo " */")
	rejects lengths "columns"
	sample storage/x.c <<<"int f(int a) {
	return a;
}"
	rejects lengths "brace stands alone"
	sample storage/x.c < <(printf "static const int t[] = {\n"; seq 400 | sed "s/.*/	1,/"; printf "};\nint f(void)\n{\n	return 1;\n}\n")
	accepts lengths
'
test_expect 'whitespace' '
	sample a.c <<<"int a; "
	rejects whitespace "a.c:1: blanks"
	sample a.yaml <<<"	a: 1"
	rejects whitespace "a.yaml:1: indented with a tab"
	sample a.md < <(printf "a\r\n")
	rejects whitespace "a.md:1: carriage"
	sample a.md < <(printf "a")
	rejects whitespace "no newline"
	sample a.md < <(printf "a\n\n")
	rejects whitespace "empty lines"
	sample a.c <<<"/* a
 * b */
	int c;"
	accepts whitespace
'
test_expect 'unfinished' '
	sample a.c < <(echo "/* TO""DO later */")
	rejects unfinished "a.c:1"
	sample a.c <<<"mkstemp(\"a.XXXXXX\");"
	accepts unfinished
'
test_expect 'private: paths, hosts, addresses, keys' '
	for bad in /ro""ot/x /ho""me/joe/x "https:""//mirror.corp.net/a" 10.""1.2.3 "-----BEGIN PRIVATE"" KEY-----"; do
		sample a.md <<<"see $bad here"
		rejects private "^a.md:1: "
	done
	sample a.md <<<"/home/user/x ~/work/x ./work/x \$HOME/work/x https://github.com/a https://s3.example.org 127.0.0.1 1.10.2.3.4"
	accepts private
'
test_expect 'named_files: of a README' '
	sample runners/README.md <<<"see \`job/job.h\`, \`run.c\` and \`old/\`"
	also runners/kubernetes/job/job.h <<<""
	also runners/run.c <<<""
	rejects named_files "^runners/README.md:1: there is no old/"
	sample runners/README.md <<<"see \`job.h\` of \`runners/kubernetes/\`, \`cmd_NAME.c\`, \`a b.c\`"
	also runners/kubernetes/job/job.h <<<""
	accepts named_files
	sample runners/README.md <<<"see \`jobs.h\`"
	also runners/kubernetes/job/job.h <<<""
	rejects named_files "no jobs.h"
'
test_expect 'links: to no file, to no heading' '
	sample docs/a.md < <(printf "%s\n" "# A, \`b\` again" "[a](a.md#a-b-again), [b](#a-b-again), [web](https://example.org/#x)" "[top](../README.md)")
	also README.md <<<"[a](docs/a.md#a-b-again), [d](docs/)"
	accepts links
	also README.md <<<"[a](docs/b.md)"
	rejects links "^README.md:1: the link docs/b.md leads to no file"
	also README.md <<<"[a](docs/a.md#c)"
	rejects links "^README.md:1: docs/a.md has no heading for #c"
'

test_expect 'layout: strangers, no README, script bits, size' '
	sample lib/a.c <<<""
	rejects layout "^lib:1: no folder"
	sample engine/a.c <<<""
	rejects layout "^engine:1: has no README"
	sample notes.txt <<<""
	rejects layout "top level"
	sample tests/odd/x.c <<<""
	rejects layout "tests/ has the folders"
	sample tests/README.md <<<""
	also tests/x.sh <<<"#!/bin/sh"
	rejects layout "x.sh:1: a script that"
	chmod +x tree/tests/README.md tree/tests/x.sh
	rejects layout "README.md:1: executable"
	chmod -x tree/tests/README.md
	accepts layout
	head -c 1100000 /dev/zero >tree/tests/big
	rejects layout "big:1: over"
'
test_expect --needs shellcheck 'shell: what shellcheck warns of' '
	sample a.sh <<<"#!/bin/sh
cd \$1
rm -rf \$2/*
for f in \$(ls); do echo \"\$f\"; done
[ \$a == 1 ]"
	rejects shell "a.sh:"
	sample a.sh <<<"#!/bin/sh
echo \"\$1\""
	accepts shell
'
test_expect 'shell_tests: sleeps, does not end' '
	sample tests/cli/a.t < <(printf "echo a\n\tsle""ep 3\ntest_done\n")
	rejects shell_tests "a.t:2: .*sleep"
	sample tests/cli/a.t <<<"test_expect a true"
	rejects shell_tests "test_done"
'
test_expect 'shell_tests: a trap on EXIT takes the exit status' '
	sample tests/cli/a.t < <(printf "%s\n" "te+st_begin || tr+ap \"x; te+st_exit\" EXIT" test_done | tr -d +)
	rejects shell_tests "a.t:1: a trap on EXIT"
	sample tests/cluster/cluster.sh < <(printf "\t%s\n" "tr+ap end EX+IT" | tr -d +)
	rejects shell_tests "cluster.sh:1: a trap on EXIT"
	sample tests/cli/a.t < <(printf "%s\n" "# no trap on EXIT" "trap \"exit 0\" TERM" test_done)
	also tests/lib.sh <<<"tr""ap test_exit EXIT"
	accepts shell_tests
'
test_expect 'clocks: what waits does not wait by the wall clock' '
	sample storage/a.c <<<"int64_t f(void) { clock_gettime(CLOCK_REALTIME, &t); }"
	rejects clocks "a.c:1: CLOCK_REALTIME is the wall clock"
	sample storage/a.c <<<"int64_t f(void) { clock_gettime(CLOCK_REALTIME, &t); /* lint: CLOCK_REALTIME for records */ }"
	accepts clocks
	sample storage/a.c <<<"void f(void) { pthread_timedjoin_np(t, NULL, &until); }"
	rejects clocks "a.c:1: pthread_timedjoin_np"
	sample storage/a.c <<<"void f(void) { pthread_cond_timedwait(&c, &l, &until); }"
	rejects clocks "a.c:1: .*CLOCK_MONOTONIC"
	sample storage/a.c < <(printf "void f(void) { pthread_cond_init(&c, NULL); }\nvoid g(void) { pthread_cond_timedwait(&c, &l, &until); }\n")
	rejects clocks "a.c:1: .*CLOCK_MONOTONIC"
	sample storage/a.c < <(printf "void f(void) { thread_cond_init(&c); }\nvoid g(void) { pthread_cond_timedwait(&c, &l, &until); }\n")
	accepts clocks
	sample storage/a.c < <(printf "void f(void) { threads_init(&t); }\nvoid g(void) { pthread_cond_timedwait(&c, &l, &until); }\n")
	accepts clocks
'
test_expect 'unused: what nobody calls, what only its own file or a test calls' '
	sample storage/a.h < <(printf "int a(void);\nint b(int (*f)(int), int x);\n")
	also storage/a.c < <(printf "int a(void)\n{\n\treturn 0;\n}\n\nint b(int (*f)(int), int x)\n{\n\treturn a();\n}\n")
	also storage/c.c < <(printf "static int c(void)\n{\n\treturn b(0, 0);\n}\n")
	rejects unused "a.c:1: only this file calls a"
	test_lines 1 said
	also tests/unit/storage/t.c <<<"int t = a();"
	accepts unused
	rm tree/storage/c.c
	rejects unused "a.c:6: nobody calls b"
	also tests/unit/storage/t.c <<<"int t = a() + b(0, 0); /* and in a comment: b() */"
	rejects unused "a.c:6: nobody calls b"
	sed -i "s|^int b|/* lint: unused but by a test of the machine */\n&|" tree/storage/a.c
	accepts unused
	mv tree/storage/a.c tree/storage/a.txt
	also runners/fake_a.c < <(printf "int d(void)\n{\n\treturn 0;\n}\n")
	accepts unused
'
test_expect 'prefixes: a function that others call says whose it is' '
	sample storage/pack.c < <(printf "int find(int n)\n{\n\treturn n;\n}\n")
	rejects prefixes "pack.c:1: find"
	sample storage/pack.c < <(printf "static int find(int n)\n{\n\treturn n;\n}\n\nint pack(void)\n{\n\treturn find(1);\n}\n\nint pack_find(void)\n{\n\treturn pack();\n}\n")
	accepts prefixes
'
test_expect 'design notes: a long file begins with its own' '
	sample storage/pack.c < <(printf "/* packs */\n"; yes "int a;" | head -160)
	rejects design_notes "pack.c:1: 161 lines, and no note"
	sample storage/pack.c < <(printf "/* storage/pack.c — packs.\n * How.\n * Who.\n */\n"; yes "int a;" | head -160)
	accepts design_notes
	sample storage/pack.c < <(yes "int a;" | head -100)
	accepts design_notes
'
test_expect 'limits: what limits.h defines comes from there' '
	sample storage/a.c < <(printf "#include <stdio.h>\n\nchar path[PATH_MAX];\n")
	rejects limits "a.c:3: PATH_MAX needs #include <limits.h>"
	sample storage/a.c < <(printf "#include <limits.h>\n\nchar path[PATH_MAX]; /* not INT_MAX */\n")
	accepts limits
	sample storage/a.c <<<"/* PATH_MAX is too short */"
	accepts limits
'
test_expect 'kinds: a file is more than a blob' '
	sample storage/a.c <<<"bool f(const struct content_id *id) { return id->kind == CONTENT_BLOB; }"
	rejects kinds "a.c:1: .*content_is_file"
	sample storage/a.c <<<"bool f(const struct content_id *id) { return content_is_file(id); /* == CONTENT_BLOB */ }"
	accepts kinds
'
test_expect 'statements: bound by type, in one place' '
	sample engine/record/rows/a.c <<<"void f(void) { sqlite3_bind_int(s, 1, 7); }"
	rejects statements "a.c:1: sqlite3_bind_int.. is record/db_sql.c"
	sample engine/record/rows/a.c <<<"int f(void) { return sqlite3_column_int64 (s, 0); }"
	rejects statements "a.c:1: sqlite3_column_int64"
	sample engine/cli/a.c <<<"#include \"record/db_sql.h\""
	rejects statements "a.c:1: SQL is written in engine/record"
	sample engine/record/db_sql.c <<<"void f(void) { sqlite3_bind_int(s, 1, 7); }"
	also engine/record/rows/a.c <<<"#include \"record/db_sql.h\""
	also engine/cli/b.c <<<"int f(void) { return sqlite3_libversion_number(); /* sqlite3_step(s) */ }"
	accepts statements
'
test_expect 'shell_tests: waits for what is asked once' '
	sample tests/cli/a.t < <(printf "\twait_until 60 te""st \"\$(count)\" = 1\ntest_done\n")
	rejects shell_tests "a.t:1: .*asked once"
'
test_expect 'lost_failures: where set -e does not look' '
	for bad in "cmp a b && cmp c d" "	cairn get x -o o && cmp o x" "te+st_code 1 x || : # why" \
		"if te+st_code 4 cairn x; then te+st_grep y z; fi" "te+st_grep a b || true" \
		"if ca+irn x 2>err; then return 1; fi"; do
		sample tests/cli/a.t < <(printf "\t%s\ntest_done\n" "${bad//+/}")
		rejects lost_failures "^tests/cli/a.t:1: "
	done
	for call in "look 1 || return 1" "if look 1; then x; fi" "wait_until 3 look 1" \
		"test_must_fail look 1" "look 1 && x"; do
		look="look() {\n\ttest_is a b\n\ttest_is c d\n}\n"
		sample tests/cli/a.t < <(printf "$look\ntest_expect x \"\n\t%s\n\"\ntest_done\n" "$call")
		rejects lost_failures "a.t:7: .*only the last assertion|a.t:7: .*left of &&"
	done
	sample tests/cli/a.t < <(
		printf "one() {\n\ttest_is a b || return 1\n\ttest_is c d\n}\n"
		printf "\t%s\n" "one || return 1" "[ a ] && b" "a && exit 1" "a && b || exit 1" \
			"x() { a && b; }" "echo \"a && b\"" "if a && b; then c; fi" "if test_have x; then y; fi" \
			"test_is a b || { cat x; false; }"
		echo test_done
	)
	accepts lost_failures
'
test_expect 'rooms: a test that is in none, a name without a test' '
	sample tests/rooms.txt <<<"run ^core_ cli/run/run cli/gone"
	also tests/cli/run/run.t <<<test_done
	also tests/net/kubernetes/kube.t <<<test_done
	rejects rooms "rooms.txt:1: there is no tests/cli/gone.t"
	rejects rooms "tests/net/kubernetes/kube.t:1: is no room"
	test_no_grep "run.t" said
'
# (Cut in two by a +, so that the rule doesn't find its own samples.)
for bad in '| he+ad -n 1' '| gr+ep -q x' '| gr+ep -Eiq x' '| gr+ep x >/dev/null' '| gr+ep -m 1 x' '| se+d 3q' '| se+d -n "/x/{p;q}"' '| re+ad x' '| aw+k "{ print; exit }"' \
	'|+
	head -n 1' '|& he+ad' '| LC_ALL=C gr+ep -q x'; do
	test_expect "pipes: ls $(tr -d '+\n' <<<"$bad")" "
		sample tests/cli/a.t <<'E'
ls ${bad//+/}
E
		rejects pipes '^tests/cli/a.t:[12]: '
	"
done
test_expect 'pipes: readers to the end, files, where there is no status to lose' '
	sample tests/cli/a.t <<"E"
ls | sed -n 1p; head -n 1 out; grep -q x out || head err
ls | while read -r x; do echo "$x"; done
ls | grep x | sed "s/q/r/" | tail -n 1
cmp x <(cat y | head -c 3)
wait_until 3 sh -c "cat y | grep -q x"
# ls | head
E
	accepts pipes
	sample tests/cli/a.t <<"E"
cmp x <(cat y) | he+ad
bash -c "cat y | gr+ep -q x"
E
	sed -i s/+// tree/tests/cli/a.t
	rejects pipes "a.t:1"
	test_grep "a.t:2" said
'
test_expect 'folders: more than a glance takes in' '
	sample storage/f1.c <<<""
	for n in $(seq 2 25); do also "storage/f$n.c" <<<""; done
	also storage/f25.c <<<"again"
	accepts folders
	also storage/more/f.c <<<""
	rejects folders "storage:1: has 26 entries"
	sample tests/fuzz/corpus/yaml/1 <<<""
	for n in $(seq 2 30); do also "tests/fuzz/corpus/yaml/$n" <<<""; done
	accepts folders
'
test_expect 'an unknown rule and an empty tree are errors' '
	sample a <<<""
	test_code 2 lint nosuchrule >said
	mkdir empty
	test_code 2 lint_ask samples "$PWD/empty" arrows >said
'
test_expect 'lint.py by itself: the same words and status, several rules, all of them' '
	lint_py() { python3 "$LINT" --root "$TRASH/work/tree" "$@"; }
	sample storage/x.c <<<"	strcpy(a, b); "
	also README.md <<<"# x"
	for rule in calls whitespace arrows nosuchrule; do
		rc=0 alone=0
		lint "$rule" >said || rc=$?
		lint_py "$rule" >alone.said || alone=$?
		test_is "$alone" "$rc"
		test_cmp said alone.said
	done
	test_code 1 lint_py whitespace calls arrows >said
	test_grep "x.c:1: blanks" said
	test_grep "strcpy" said
	test_lines 2 said
	test_code 1 lint_py >said
	test_grep "has no README.md" said
	test_code 2 python3 "$LINT" --root "$PWD/empty" arrows >said
'
test_done
