#!/bin/bash
# The model of the shared store's protocol (storage/protocol.pml): Spin goes through all that it can do and finds nothing
# wrong; and finds something as soon as any one of its rules is switched off, which shows that each is needed, and that
# the check can fail.
. "$(dirname "$0")/../lib.sh"

if ! command -v spin >/dev/null || ! command -v cc >/dev/null; then
	test_skip_all 'no spin (tests/packages.txt), or no C compiler'
fi
model=$SRC/storage/protocol.pml

# check RULE OPTIMISE: what Spin's verifier says with that rule off (0: all are on), in RULE/out. It ends at the first error;
# where there is one, compiling takes longer than looking.
check() {
	mkdir -p "$1"
	(cd "$1" && spin "-DOFF=$1" -a "$model" && cc "$2" -w -DSAFETY -DMEMLIM=2000 -o pan pan.c && ./pan -m100000 -w22) >"$1/out" 2>&1
}

test_expect 'every state that the protocol can reach is sound' '
	check 0 -O2
	test_grep "errors: 0" 0/out
	test_grep "Full statespace search" 0/out
	test_no_grep "max search depth too small|memory limit|not completed" 0/out
'

test_expect 'without any one of its rules it is not' '
	grep -oE "OFF != [0-9]+" "$model" | grep -oE "[0-9]+" >rules
	test_lines 15 rules
	for rule in $(cat rules); do
		check "$rule" -O0
		test_grep "assertion violated" "$rule/out"
	done
'

test_done
