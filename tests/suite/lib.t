#!/bin/bash
# lib.sh tests itself: that each helper passes when it should and, above all, that it fails when it should.
TEST_NEEDS_CAIRN=0
. "$(dirname "$0")/../lib.sh"

# inner FILE: runs a test file made from standard input, exit code in $rc, output in inner.out
inner() {
	{ echo 'TEST_NEEDS_CAIRN=0; . "$SRC/tests/lib.sh"'; cat; } >"$1"
	rc=0
	bash "$1" >inner.out 2>&1 || rc=$?
}

test_expect 'a passing file says so' '
	inner a.t <<-"E"
	test_expect "one" "true"
	test_done
	E
	test_is "$rc" 0
	test_grep "^ok 1 - one$" inner.out
	test_grep "^1\.\.1$" inner.out
'
test_expect 'any failing command fails the test, not only the last' '
	inner a.t <<-"E"
	test_expect "first fails" "
		false
		true
	"
	test_expect "in a pipe" "false | true"
	test_expect "unset variable" "echo \$nosuchvariable"
	test_expect "in a function" "f() { false; true; }
		f
		true"
	test_done
	E
	test_is "$rc" 1
	test_is "$(grep -c "^not ok" inner.out)" 4
	test_grep "^# failed: false" inner.out
'
test_expect 'lines that cannot fail are refused' '
	printf "%s\n" "test_expect one \" ! true\"" "test_expect two \"false &&" "true\"" test_done >script
	inner a.t <script
	test_is "$rc" 1
	test_grep "use test_must_fail" inner.out
	test_grep "one command a line" inner.out
	test_is "$(grep -c "^not ok" inner.out)" 2
'
test_expect 'one test by its name: what comes before it makes its files, and nothing is said of it' '
	export OUTER=$PWD
	inner a.t <<-"E"
	test_expect "makes" "echo x >made"
	test_expect "fails" "false"
	test_expect --needs nosuchprogram "needs" "false"
	test_expect "reads" "cat made"
	test_expect "comes later" "echo x >\$OUTER/later"
	test_done
	E
	test_is "$rc" 1
	rm later
	CAIRN_TEST_ONLY=reads bash a.t >out 2>&1
	test_is "$(grep -c "^ok" out)" 1
	test_grep "^ok 1 - reads$" out
	test_grep "^# before it, .fails. failed: exit 1$" out
	test_grep "^1\.\.1$" out
	test_missing later
	CAIRN_TEST_ONLY=nonesuch test_code 1 bash a.t >out 2>&1
	test_grep "^not ok 1 - a test has .nonesuch. in its name" out
'
test_expect 'a file that stops early fails' '
	inner a.t <<-"E"
	test_expect "one" "true"
	exit 0
	E
	test_is "$rc" 1
	test_grep "^not ok 2 - a.t ended early" inner.out
	test_no_grep "^1\.\." inner.out
'
test_expect 'a binary that is named and missing is not replaced by another one' '
	printf "%s\n" ". \"$SRC/tests/lib.sh\"" "test_expect one true" test_done >b.t
	CAIRN=/none CAIRN_TEST_STRICT=1 test_code 1 bash b.t >out
	test_grep "^not ok 1 - b.t stopped: no cairn binary" out
	CAIRN=/none CAIRN_TEST_STRICT=0 bash b.t >out
	test_grep "^1\.\.0 # SKIP no cairn binary" out
'
test_expect 'helpers fail when they should' '
	echo a >x; echo b >y
	for c in "test_cmp x y" "test_is a b" "test_grep b x" "test_no_grep a x" "test_no_grep a none" "test_lines 2 x" \
		"test_exists none" "test_missing x" "test_code 0 false" "test_code 1 true" "test_must_fail true" \
		"test_must_fail nosuchcommand" "test_must_fail sh -c \"exit 99\"" "test_must_fail sh -c \"kill -9 \\\$\\\$\"" \
		"TEST_WAIT_LEAST=0 wait_until 0 false" "test_have nosuchprogram"; do
		rc=0
		(eval "$c") >/dev/null 2>&1 || rc=$?
		[ $rc -ne 0 ] || { echo "passed: $c"; exit 1; }
	done
'
test_expect 'helpers pass when they should' '
	echo a >x; echo a >y
	test_cmp x y; test_is a a; test_grep a x; test_no_grep b x; test_lines 1 x; test_exists x; test_missing none
	test_code 3 sh -c "exit 3"; test_must_fail false; wait_until 0 true; test_have sh
	echo "{\"a\": [1, \"b\"]}" >j; test_is "$(json j "d[\"a\"][1]")" b; test_is "$(json j "d[\"a\"]")" "[1, \"b\"]"
'
test_expect 'needs that are missing skip, with the reason' '
	inner a.t <<-"E"
	test_expect --needs nosuchprogram "one" "false"
	test_done
	E
	test_is "$rc" 0
	test_grep "^ok 1 - one # SKIP needs nosuchprogram" inner.out
'
test_expect 'a test that finds on its way that it cannot be done here is a skipped one, not a passed one' '
	inner a.t <<-"E"
	test_expect "one" "f() { false || test_cannot \"no such thing here\"; }
		f
		touch after"
	test_expect "two" "test_must_fail test -e after"
	test_done
	E
	test_is "$rc" 0
	test_grep "^ok 1 - one # SKIP no such thing here$" inner.out
	test_grep "^ok 2 - two$" inner.out
'

test_expect 'HOME, TMPDIR and the current directory are inside the throw-away directory' '
	case $HOME in "$TRASH"/*) ;; *) exit 1 ;; esac
	case $TMPDIR in "$TRASH"/*) ;; *) exit 1 ;; esac
	test_is "$PWD" "$TRASH/work"
'
test_expect 'the throw-away directory goes, read-only files too, and the processes with it' '
	inner a.t <<-"E"
	test_expect "one" "mkdir ro; echo a >ro/f; chmod -R a-w ro; start bg sleep 300; cp bg.pid $HOME/../../bgpid; echo $TRASH >$TRASH/../trash"
	test_done
	E
	test_is "$rc" 0
	test_missing "$(cat "$TMPDIR"/trash)"
	wait_until 5 test_gone "$(cat "$TMPDIR"/bgpid)"
'
test_expect 'a sanitizer that spoke in any process fails the test, or the file' '
	inner a.t <<-"E"
	test_expect "one" "(echo ==1==ERROR: leak >$TRASH/sanitizer.1) &
		wait"
	test_expect "two" "echo ==2==Unable to get registers from thread 3. >$TRASH/sanitizer.2" # was killed meanwhile
	echo late >"$TRASH/sanitizer.2"
	test_done
	E
	test_is "$rc" 1
	test_grep "^not ok 1 - one" inner.out
	test_grep "^# ==1==ERROR: leak" inner.out
	test_grep "^ok 2 - two" inner.out
	test_grep "^not ok 3 - sanitizers are silent" inner.out
'
test_expect --needs gcc 'undefined behaviour is said with its place: in a program, in a process that nobody waits for, in a unit test' '
	flags=$(sed -n "s/.*add_compile_options(\(-fsanitize-undefined-trap[^)]*\)).*/\1/p" "$SRC/CMakeLists.txt")
	test -n "$flags"
	flags="-g1 -no-pie -fsanitize=address,undefined -fno-sanitize-recover=all $flags"
	write ub.c <<-"E"
	int main(int n, char **v)
	{
	    (void)v;
	    return n + 0x7fffffff;
	}
	E
	gcc $flags -o ub ub.c
	test_code 99 ./ub
	test_grep "AddressSanitizer: ILL" "$TRASH"/sanitizer.*
	test_grep "#0 .* in main .*ub.c:4" "$TRASH"/sanitizer.*
	rm "$TRASH"/sanitizer.*
	(./ub &)
	said() { grep -q "ub.c:4" "$TRASH"/sanitizer.*; }
	wait_until 20 said
	rm "$TRASH"/sanitizer.*
	write unit.c <<-"E"
	#include "unit.h"
	static void test_sum(void **state)
	{
	    static int n = 0x7fffffff;
	    assert_non_null(state);
	    n++;
	}
	int main(void)
	{
	    const struct CMUnitTest tests[] = { cmocka_unit_test(test_sum) };
	    return cmocka_run_group_tests(tests, NULL, NULL);
	}
	E
	gcc $flags -I"$SRC/tests" -o unit unit.c -lcmocka
	rc=0
	env -u ASAN_OPTIONS -u LSAN_OPTIONS ./unit >out 2>err || rc=$?
	test_is "$rc" 1
	test_grep "AddressSanitizer: ILL" err
	test_grep "in test_sum .*unit.c:6" err
'
test_expect 'start and stop' '
	start s sh -c "trap \"exit 7\" TERM; echo up; while :; do sleep 0.05; done"
	wait_until 5 grep -q up s.out
	test_is "$(stop s TERM)" 7
'
test_expect 'test_when_finished runs after a failure too' '
	inner a.t <<-"E"
	test_expect "one" "test_when_finished \"echo bye >$TRASH/work/bye; cp $TRASH/work/bye $HOME/../../bye\"; false"
	test_done
	E
	test_is "$rc" 1
	test_exists "$TMPDIR"/bye
'
test_expect 'test_when_over runs at the end, the last one first, and leaves the exit status alone' '
	over=$PWD/over
	ends_with() { # STATUS LINE
		printf "%s\n" "test_when_over \"echo first \\\$test_status >>$over; exit 3\"" "test_when_over \"echo last >>$over; false\"" "$2" >script
		rm -f "$over"
		inner a.t <script
		test_is "$rc" "$1" || return 1
		test_is "$(paste -sd " " "$over")" "last first $1"
	}
	ends_with 0 "test_expect one true; test_done"
	ends_with 1 "test_expect one false; test_done"
	ends_with 1 "test_bail because"
	ends_with 1 "exit 7"
'
test_expect 'a second signal does not cut the end of a file short' '
	mkfifo held
	{
		echo "TEST_NEEDS_CAIRN=0; . \"\$SRC/tests/lib.sh\""
		echo "test_when_over \"echo x >$PWD/began; cat $PWD/held >$PWD/over\""
		echo "test_expect one \"touch $PWD/up; wait_until 200 false\""
		echo test_done
	} >a.t
	start cut bash a.t
	wait_until 20 test -e up
	kill "$(cat cut.pid)"
	pkill -P "$(cat cut.pid)" # it waits for this one first
	wait_until 20 test -e began
	kill "$(cat cut.pid)"
	echo y >held
	wait_until 20 test -s cut.rc
	test_is "$(cat over) $(cat cut.rc)" "y 1"
'
test_expect 'a cluster that is kept leaves the exit status alone, and the pipe that reports go into' '
	mkdir fake
	printf "%s\n" "#!/bin/sh" >fake/build
	printf "%s\n" "#!/bin/sh" "sleep 300 >/dev/null 2>&1 </dev/null &" "echo \$! >$PWD/up.pid" >fake/up
	printf "%s\n" "#!/bin/sh" "kill \$(cat $PWD/up.pid); touch $PWD/was-down" >fake/down
	chmod +x fake/*
	printf "%s\n" ". \"\$SRC/tests/cluster/cluster.sh\"" "cluster=$PWD/fake" cluster_begin "test_expect one \"\$1\"" test_done >script
	inner a.t <script
	run() { # KEEP COMMAND STATUS: a pipe is read to its end, and up.pid would hold it open
		rm -f was-down
		CAIRN_TEST_KEEP=$1 timeout 60 bash -c "set -o pipefail; bash a.t $2 | cat >out" || test_is "$?" "$3" || return 1
		test_is "$(grep -c "^not ok" out)" "$3"
	}
	run 1 false 1
	test_grep "^# the cluster is still up" out
	test_missing was-down
	kill "$(cat up.pid)"
	run 0 false 1
	test_exists was-down
	run 1 true 0
	test_exists was-down
'
test_done
