#!/bin/bash
# The N-th call of the system fails, for N = 1, 2, 3, … until it isn't called so often: the run ends in order, and the next one is right.
. "$(dirname "$0")/../lib.sh"

[ -z "$(nm "$CAIRN" 2>/dev/null | grep __asan_init)" ] || test_skip_all 'calls are preloaded, which the address sanitizer does not allow'
cc -shared -fPIC -O1 -o "$TRASH/nth.so" "$SRC/tests/fault/nth.c" -ldl 2>cc.log || test_skip_all 'no C compiler for the preloaded calls'

echo '# project' >cairn.yaml
echo input >in.txt
write pipeline.yaml <<'YAML'
pipeline: small
inputs: {t: in.txt}
defaults: {retry: {max: 0, backoff: 1ms}}
steps:
  a: {run: "cat ${{ inputs.t }} >o; echo log", inputs: {t: "${{ inputs.t }}"}, outputs: {o: o}}
  b: {run: "mkdir -p d; cat ${{ inputs.o }} >d/x", inputs: {o: "${{ steps.a.outputs.o }}"}, outputs: {d: d/}}
YAML

# faults CALL ERRNO STEP MAX: every STEP-th call up to MAX
faults() {
	local n rc fired=0
	for ((n = 1; n <= $4; n += $3)); do
		rm -rf .cairn fired
		rc=0
		timeout 60 env NTH_CALL="$1" NTH_N="$n" NTH_ERRNO="$2" NTH_FIRED="$PWD/fired" LD_PRELOAD="$TRASH/nth.so" "$CAIRN" run pipeline.yaml -q >out 2>err || rc=$?
		[ -e fired ] || break
		fired=$((fired + 1))
		case $rc in 0 | 1 | 3 | 4) ;; *)
			echo "$1 number $n: exit $rc"
			cat err
			return 1
			;;
		esac
		cairn run pipeline.yaml -q >out 2>err || { echo "after $1 number $n:"; cat err; return 1; }
		cairn get b/d -o got --replace 2>/dev/null
		test_is "$(cat got/x)" input
		cairn store verify >verify || { echo "after $1 number $n:"; cat verify; return 1; }
	done
	echo "$fired faults of $1"
	[ "$fired" -gt 0 ]
}

test_expect 'openat fails' 'faults openat 28 3 400'
test_expect 'open fails' 'faults open 5 2 200'
test_expect 'write: no space' 'faults write 28 1 100'
test_expect 'read fails' 'faults read 5 3 200'
test_expect 'pwrite (the database): no space' 'faults pwrite 28 3 300'
test_expect 'fdatasync and fsync fail' 'faults fdatasync 5 1 50
	faults fsync 5 1 50'
test_expect 'renameat2 fails' 'faults renameat2 28 1 60'
test_expect 'mkdirat fails' 'faults mkdirat 28 1 60'
test_expect 'a program cannot be started' 'faults clone 11 1 10'
test_expect 'out of memory' 'faults malloc 12 40 4000'
test_done
