# shellcheck shell=bash
# tests/lib.sh: what every shell test (tests/cli, tests/fault, tests/lint) is made of. Source it, don't run it.
#
# A test file is bash, tests the real binary from outside, and prints TAP. Each file gets one throw-away directory, with
# HOME and TMPDIR inside; tests of one file share it and run in order. tests/cli/README.md shows how to write one.
#
# Read from the environment:
#   CAIRN             the binary under test (default: $CAIRN_BUILD/cairn, build/cairn, the newest build-*/cairn)
#   CAIRN_TEST_KEEP   1: leave the throw-away directory and say where it is
#   CAIRN_TEST_STRICT 1: a missing binary is a failure (tests/run sets it), not a skipped file
#   CAIRN_TEST_ONLY   report only the tests whose name has this in it; those before them run first, since they may make their files
#   CAIRN_TEST_STORE  a server of tests/net/servers.sh (versitygw, minio, rclone, fake-gcs-server): each file gets one of its own, and what it runs
#                     has its store there (CAIRN_STORE). Tests that look into the directory .cairn/store say so: --needs LOCAL_STORE
# What a test can use:
#   $SRC the source tree, $TRASH the throw-away directory, $PWD = $TRASH/work, and `cairn` on PATH.

set -u -o pipefail
umask 022
test_home=$HOME test_xdg=${XDG_CACHE_HOME:-}
# No test asks a machine's metadata server for credentials, unless it plays that server itself.
export AWS_EC2_METADATA_DISABLED=true GCE_METADATA_HOST=127.0.0.1:1

SRC=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
test_file=$(basename "$0")
test_build=${CAIRN_BUILD:-${CAIRN:+$(dirname "$CAIRN")}}
test_build=${test_build:+$(realpath -m "$test_build")}
test_count=0 test_failed=0 test_ended=0

test_find_binary() {
	local c
	if [ -n "${CAIRN:-}" ]; then # what the caller names, or nothing: never another one in its place
		[ -x "$CAIRN" ] && realpath "$CAIRN"
		return
	fi
	for c in "${CAIRN_BUILD:+$CAIRN_BUILD/cairn}" "$SRC/build/cairn"; do
		[ -n "$c" ] && [ -x "$c" ] && { realpath "$c"; return; }
	done
	# shellcheck disable=SC2012 # our own build folders: newest first is what ls is for
	ls -t "$SRC"/build-*/cairn 2>/dev/null | sed -n 1p
}

# test_tool NAME: the path of a program that was built for tests; fails when there is none. The one beside the binary under test, before any other.
test_tool() {
	local c
	for c in "${test_build:+$test_build/tests/$1}" "${CAIRN:+$(dirname "$CAIRN")/tests/$1}" "$SRC"/b/tests/"$1" "$SRC"/build*/tests/"$1"; do
		[ -n "$c" ] && [ -x "$c" ] && { realpath "$c"; return; }
	done
	return 1
}

# ---- reports -------------------------------------------------------------------------------------------------------

test_say() { sed 's/^/# /' >&3; }

test_report() { # ok|not ok, name, [directive]
	test_count=$((test_count + 1))
	[ "$1" = ok ] || test_failed=$((test_failed + 1))
	echo "$1 $test_count - ${2//#/\\#}${3:+ # $3}" >&3
}

# test_skip NAME REASON: one test that can't be done here.
test_skip() { test_report ok "$1" "SKIP $2"; }

# test_skip_all REASON: the whole file; call it before the first test.
test_skip_all() {
	echo "1..0 # SKIP $1" >&3
	test_ended=1
	exit 0
}

# test_bail REASON: nothing after this makes sense. A failure without a plan; not TAP's "Bail out!", which would stop
# the other files too.
test_bail() {
	test_report 'not ok' "$test_file stopped: $1"
	test_ended=1
	exit 1
}

# Every file ends with this: without it the file has no plan, and prove counts it as broken.
test_done() {
	local said
	if ! said=$(test_sanitizers_silent); then
		test_report 'not ok' 'sanitizers are silent'
		test_say <<<"$said"
	fi
	[ "$test_count" -ne 0 ] || [ -z "${CAIRN_TEST_ONLY:-}" ] || test_report 'not ok' "a test has '$CAIRN_TEST_ONLY' in its name"
	echo "1..$test_count" >&3
	test_ended=1
	[ "$test_failed" -eq 0 ]
	exit
}

# ---- prerequisites -------------------------------------------------------------------------------------------------

# test_have NAME: NAME is ROOT, NONROOT, SANITIZED, LOCAL_STORE or a program. True or false.
test_have() {
	case $1 in
	ROOT) [ "$(id -u)" -eq 0 ] ;;
	NONROOT) [ "$(id -u)" -ne 0 ] ;;
	SANITIZED) [ -n "${CAIRN:-}" ] && grep -qa '__asan_init\|__tsan_init' "$CAIRN" ;;
	LOCAL_STORE) [ -z "${CAIRN_TEST_STORE:-}" ] ;;
	*) command -v "$1" >/dev/null 2>&1 ;;
	esac
}

# ---- the tests -----------------------------------------------------------------------------------------------------

# Under `set -e` neither `! cmd` nor a failure on the left of `&&` ends the script: such lines can't fail the test.
test_check_script() {
	if grep -Eq '^[[:space:]]*! ' <<<"$1"; then
		echo 'a line that starts with `!` cannot fail: use test_must_fail'
		return 1
	elif grep -Eq '&&[[:space:]]*$' <<<"$1"; then
		echo 'a line that ends with `&&` can lose its failure: one command a line, without it'
		return 1
	fi
}

# test_expect [--needs 'A B'] NAME SCRIPT: SCRIPT runs in a subshell, in $TRASH/work, under `set -eu -o pipefail`: the
# first command that fails ends and fails the test. State goes from one test to the next in files only.
test_expect() {
	local needs='' need name script rc out before=0
	if [ "$1" = --needs ]; then
		needs=$2
		shift 2
	fi
	[ $# -eq 2 ] || test_bail "test_expect wants a name and a script, got $# arguments"
	name=$1 script=$2
	case $name in
	*"${CAIRN_TEST_ONLY:-}"*) test_wanted=$((test_wanted - 1)) ;;
	*) [ $test_wanted -ne 0 ] || return 0; before=1 ;;
	esac
	for need in $needs; do
		test_have "$need" || { [ $before -eq 1 ] || test_skip "$name" "needs $need"; return 0; }
	done
	if ! out=$(test_check_script "$script"); then
		test_report 'not ok' "$name"
		test_say <<<"$out"
		return 0
	fi
	out=$TRASH/out.$((test_count + 1))
	rm -f "$TRASH/cannot"
	(
		cd "$TRASH/work" || exit 1
		trap 'test_subshell_exit' EXIT
		set -e -E
		trap 'echo "failed: $BASH_COMMAND (exit $?)" >&2' ERR
		eval "$script"
	) >"$out" 2>&1 </dev/null 3>&-
	rc=$?
	if ! test_sanitizers_silent >>"$out"; then
		[ $rc -ne 0 ] || rc='0, but a sanitizer spoke'
	fi
	if [ $before -eq 1 ]; then
		[ "$rc" = 0 ] || echo "before it, '$name' failed: exit $rc" | test_say
		rm -f "$out"
	elif [ "$rc" = 0 ] && [ -s "$TRASH/cannot" ]; then
		test_skip "$name" "$(cat "$TRASH/cannot")"
		rm -f "$out"
	elif [ "$rc" = 0 ]; then
		test_report ok "$name"
		rm -f "$out"
	else
		test_report 'not ok' "$name"
		{
			echo "exit $rc; the last lines of what it printed:"
			tail -n 60 "$out" | cut -c 1-400
		} | test_say
	fi
	return 0
}

# test_cannot REASON: inside a test, which finds that this machine lacks something; it ends as a skipped one.
test_cannot() {
	echo "$1" >"$TRASH/cannot"
	exit 0
}

# What a sanitizer says goes into a file: it is seen also of a process at whose end nobody looks. A process that is killed
# while it looks for leaks at its end can say that a thread of it is gone, and nothing else: that is no finding.
test_sanitizers_silent() {
	local f silent=0
	for f in "$TRASH"/sanitizer.*; do
		[ -e "$f" ] || continue
		if grep -qvE '^==[0-9]+==Unable to get registers from thread [0-9]+\.$' "$f"; then
			silent=1
			cat "$f"
		fi
		rm -f "$f"
	done
	return $silent
}

# How many tests are still to be reported; negative: nobody knows, all are looked at.
test_wanted=-1
if [ -n "${CAIRN_TEST_ONLY:-}" ]; then
	test_wanted=$(grep -E '^[[:space:]]*test_expect ' "$0" | grep -cF -- "$CAIRN_TEST_ONLY")
	[ "$test_wanted" -ne 0 ] || test_wanted=-1
fi

test_cleanups=''
# test_when_finished COMMAND: inside a test; run when that test ends, however it ends. Last registered runs first.
test_when_finished() { test_cleanups="$1"$'\n'"$test_cleanups"; }

test_subshell_exit() {
	local rc=$?
	trap - EXIT ERR
	set +e
	[ -z "$test_cleanups" ] || eval "$test_cleanups"
	exit $rc
}

# ---- what tests say --------------------------------------------------------------------------------------------------

# Died of a signal, was not found, or a sanitizer spoke: never an acceptable way to fail.
test_is_crash() { [ "$1" -ge 126 ] || [ "$1" -eq 99 ]; }

# test_code N COMMAND...: COMMAND must exit with N, exactly. Its output goes where you redirect it.
test_code() {
	local want=$1 rc=0
	shift
	"$@" || rc=$?
	[ $rc -eq "$want" ] || { echo "exit $rc, not $want: $*" >&2; return 1; }
}

# test_must_fail COMMAND...: must fail in an orderly way.
test_must_fail() {
	local rc=0
	"$@" || rc=$?
	[ $rc -ne 0 ] || { echo "succeeded, but must fail: $*" >&2; return 1; }
	! test_is_crash $rc || { echo "crashed or not found (exit $rc): $*" >&2; return 1; }
}

# test_cmp WANT GOT: same bytes, or a diff.
test_cmp() { diff -u -- "$1" "$2" >&2; }

# test_is GOT WANT: the same text.
test_is() { [ "$1" = "$2" ] || { printf 'got:  %s\nwant: %s\n' "$1" "$2" >&2; return 1; }; }

# test_grep PATTERN FILE / test_no_grep PATTERN FILE: extended regular expression; shows the file when wrong.
test_grep() { grep -Eq -- "$1" "$2" || { echo "no /$1/ in $2:" >&2; tail -n 60 "$2" >&2; return 1; }; }
test_no_grep() {
	[ -e "$2" ] || { echo "no file $2" >&2; return 1; }
	! grep -En -- "$1" "$2" >&2 || { echo "/$1/ must not be in $2" >&2; return 1; }
}

# test_lines N FILE: FILE has N lines.
test_lines() {
	local n
	n=$(wc -l <"$2") || return 1
	[ "$n" -eq "$1" ] || { echo "$2 has $n lines, not $1:" >&2; tail -n 60 "$2" >&2; return 1; }
}

test_exists() { local f; for f; do [ -e "$f" ] || [ -L "$f" ] || { echo "$f is missing" >&2; return 1; }; done; }
test_missing() { local f; for f; do [ ! -e "$f" ] && [ ! -L "$f" ] || { echo "$f is there" >&2; return 1; }; done; }

# json FILE EXPR: prints a Python expression over the parsed document `d`; strings bare, the rest as JSON. (-SE: Python without packages
# starts in two thirds of the time, and tests do this thousands of times.)
json() {
	python3 -SE -c 'import json, sys
d = json.load(open(sys.argv[1]))
v = eval(sys.argv[2])
print(v if isinstance(v, str) else json.dumps(v, sort_keys=True))' "$1" "$2"
}

# scrub: a filter that takes digests, times and this directory out of output, for golden files.
scrub() {
	sed -E -e "s|$TRASH|TRASH|g" -e 's/sha256:[0-9a-f]{12,64}/sha256:HASH/g' -e 's/\b[0-9a-f]{64}\b/HASH/g' \
		-e 's/[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+Z?/TIME/g' -e 's/\b[0-9]+(\.[0-9]+)? ?(ns|us|µs|ms|s|min)\b/TIME/g'
}

# write PATH: standard input into PATH, parents made.
write() {
	mkdir -p "$(dirname "$1")"
	cat >"$1"
}

# ---- waiting and processes -------------------------------------------------------------------------------------------

# wait_until SECONDS COMMAND...: until COMMAND succeeds; fails when the deadline passes. The only way to wait. No deadline is shorter
# than four minutes, whatever a test thinks: what takes a second here takes a minute beside fifteen others.
# Others compute meanwhile. So it pauses without a process of its own: 20 ms, 100 ms when it has waited for two seconds, and three times as
# long as COMMAND took (cairn with sanitizers takes 0.05 s, kubectl 0.1), up to 300 ms.
wait_until() {
	local test_least=${TEST_WAIT_LEAST:-240}
	local test_deadline=$((SECONDS + ($1 > test_least ? $1 : test_least) + 1)) test_soon=$((SECONDS + 2)) test_never test_began test_pause test_rc=0
	shift
	exec {test_never}<>"$TRASH/never" # a FIFO that nobody writes into: reading from it is the pause
	until test_began=${EPOCHREALTIME/[.,]/} && "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $test_deadline ] || { echo "never came true: $*" >&2; test_rc=1; break; }
		test_pause=$((3 * (${EPOCHREALTIME/[.,]/} - test_began)))
		[ $test_pause -le 300000 ] || test_pause=300000
		[ $SECONDS -lt $test_soon ] || [ $test_pause -ge 100000 ] || test_pause=100000
		[ $test_pause -ge 20000 ] || test_pause=20000
		printf -v test_pause 0.%06d "$test_pause"
		read -rt "$test_pause" -u "$test_never" _ || :
	done
	exec {test_never}>&-
	return $test_rc
}

# FILE [OFFSET]: inverts a byte. A fixed byte is, now and then, what random content has there anyway.
test_damage() {
	perl -e 'open my $f, "+<", $ARGV[0] or die "$ARGV[0]: $!\n"; seek $f, $ARGV[1], 0; read($f, my $b, 1) == 1 or die "$ARGV[0] ends before $ARGV[1]\n";
		seek $f, $ARGV[1], 0; print $f ~$b; close $f or die "$ARGV[0]: $!\n"' "$1" "${2:-0}"
}

test_gone() { ! kill -0 "$1" 2>/dev/null || [ "$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null)" = Z ]; }

# start NAME COMMAND...: in the background, in its own session; output in NAME.out, process id in NAME.pid. Killed, with
# what is left in its session, when the file ends. The exit status is in NAME.rc once the command ended. (TEST_START_DIR: where those files are.)
TEST_START_DIR=''
start() {
	local name=$1 dir=${TEST_START_DIR:-$TRASH/work}
	shift
	# The subshell must not carry the file's own exit trap.
	setsid bash -c 'echo $$ >"$0.sid"; "$@" & echo $! >"$0.pid.tmp"; mv "$0.pid.tmp" "$0.pid"; wait $!; echo $? >"$0.rc"' \
		"$dir/$name" "$@" >"$dir/$name.out" 2>&1 </dev/null 3>&- &
	disown # how it ends isn't the shell's to tell
	echo "$dir/$name.sid" >>"$TRASH/sessions"
	wait_until 20 test -s "$dir/$name.pid"
}

# stop NAME SIGNAL: and wait until it is gone; its exit status is printed.
stop() {
	kill "-${2:-TERM}" "$(cat "$TRASH/work/$1.pid")" 2>/dev/null
	wait_until 30 test -s "$TRASH/work/$1.rc" && cat "$TRASH/work/$1.rc"
}

test_kill_sessions() {
	local f sid
	[ -f "$TRASH/sessions" ] || return 0
	while read -r f; do
		sid=$(cat "$f" 2>/dev/null) || continue
		[ -n "$sid" ] && pkill -KILL -s "$sid" 2>/dev/null
	done <"$TRASH/sessions"
}

# ---- a shared store ---------------------------------------------------------------------------------------------------

# A server of this file's own; whatever runs has its store there.
test_serve_store() {
	local program=$CAIRN_TEST_STORE
	TEST_START_DIR=$TRASH/store
	mkdir -p "$TEST_START_DIR"
	# shellcheck source=net/servers.sh
	HOME=$test_home XDG_CACHE_HOME=$test_xdg . "$SRC/tests/net/servers.sh"
	server_can "$program" || test_skip_all "there is no $program: tests/net/servers.sh $program"
	server store "$program" || test_bail "$program does not start"
	server_env store "$program"
	export CAIRN_STORE=$SERVER_URI/${test_file%.*}
	TEST_START_DIR=''
}

# ---- set-up ------------------------------------------------------------------------------------------------------------

test_at_end=''
# test_when_over COMMAND: outside of the tests; run when the file ends, however it ends, after all that start began is killed. It can read
# the file's exit status, test_status, and not change it. A file sets no trap on EXIT of its own: the status would be the trap's.
test_when_over() { test_at_end="$1"$'\n'"$test_at_end"; }

test_exit() {
	local test_status=$?
	trap - EXIT
	trap : INT TERM # a second one doesn't cut this short
	test_kill_sessions
	[ $test_ended -eq 1 ] || { test_report 'not ok' "$test_file ended early (exit $test_status)"; test_status=1; }
	(eval "$test_at_end")
	cd / || exit 1
	if [ "${CAIRN_TEST_KEEP:-0}" = 1 ]; then
		echo "# kept: $TRASH" >&3
	else
		chmod -R u+rwX "$TRASH" 2>/dev/null # stores hold read-only files
		rm -rf "$TRASH"
	fi
	exit "$test_status"
}

exec 3>&1

CAIRN=$(test_find_binary)
TRASH=$(mktemp -d "${TMPDIR:-/tmp}/cairn-${test_file%.*}.XXXXXX") || test_bail 'no temporary directory'
TRASH=$(realpath "$TRASH")
trap test_exit EXIT
trap 'exit 130' INT TERM

# Nothing of the caller's Cairn, git or terminal settings reaches a test.
for test_v in $(compgen -e | grep -E '^(CAIRN_|GIT_|NO_COLOR$|CLICOLOR)' | grep -v '^CAIRN_TEST_'); do
	unset "$test_v"
done
unset test_v
# Servers that tests start are named by their projects' files, which the user must allow.
export CAIRN_TRUST_ENDPOINTS='*'
export HOME=$TRASH/home TMPDIR=$TRASH/tmp XDG_CONFIG_HOME=$TRASH/home/.config XDG_CACHE_HOME=$TRASH/home/.cache
export LC_ALL=C.UTF-8 TZ=UTC TERM=dumb COLUMNS=100 PATH=$TRASH/bin:$PATH CAIRN SRC TRASH
export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org
test_sanitizers=exitcode=99:log_path=$TRASH/sanitizer
# What is undefined traps (CMakeLists.txt).
export ASAN_OPTIONS=$test_sanitizers:handle_sigill=2:${ASAN_OPTIONS:-} LSAN_OPTIONS=exitcode=99:${LSAN_OPTIONS:-} \
	UBSAN_OPTIONS=$test_sanitizers:print_stacktrace=1:${UBSAN_OPTIONS:-} \
	TSAN_OPTIONS=$test_sanitizers:${TSAN_OPTIONS:-}
mkdir -p "$TRASH"/home "$TRASH"/tmp "$TRASH"/bin "$TRASH"/work && mkfifo "$TRASH/never" || test_bail 'no work directory'
cd "$TRASH/work" || test_bail 'no work directory'
if [ -n "$CAIRN" ]; then
	ln -s "$CAIRN" "$TRASH/bin/cairn"
elif [ "${TEST_NEEDS_CAIRN:-1}" = 1 ]; then
	[ "${CAIRN_TEST_STRICT:-0}" = 1 ] && test_bail 'no cairn binary: set CAIRN or build one'
	test_skip_all 'no cairn binary: set CAIRN or build one'
fi
[ -z "${CAIRN_TEST_STORE:-}" ] || test_serve_store
