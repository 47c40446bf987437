#!/bin/bash
# The models of the shared store's protocol (storage/protocol.pml) and of collections in a directory
# (storage/local/collect.pml): Spin goes through all that they can do and finds nothing wrong; and finds something as soon
# as any one of their rules is switched off, which shows that each is needed, and that the check can fail.
. "$(dirname "$0")/../lib.sh"

if ! command -v spin >/dev/null || ! command -v cc >/dev/null; then
	test_skip_all 'no spin (tests/packages.txt), or no C compiler'
fi

# check MODEL RULE FLAGS...: what Spin's verifier, compiled with FLAGS, says with that rule off (0: all are on), in
# MODEL-RULE/out. It ends at the first error; where there is one, compiling takes longer than looking, if the last choices
# are tried first.
check() {
	dir=$(basename "$1" .pml)-$2
	mkdir -p "$dir"
	(cd "$dir" && spin "-DOFF=$2" -a "$1" && cc "${@:3}" -w -DSAFETY -DMEMLIM=2000 -o pan pan.c && ./pan -m100000 -w22) >"$dir/out" 2>&1
}

# sound MODEL: all that it can do is right.
sound() {
	check "$1" 0 -O2
	test_grep "errors: 0" "$dir/out"
	test_grep "Full statespace search" "$dir/out"
	test_no_grep "max search depth too small|memory limit|not completed" "$dir/out"
}

# needs_all MODEL RULES: without any one of them it isn't.
needs_all() {
	grep -oE "OFF != [0-9]+" "$1" | grep -oE "[0-9]+" >rules
	test_lines "$2" rules
	for rule in $(cat rules); do
		check "$1" "$rule" -O0 -DT_REVERSE
		test_grep "assertion violated" "$dir/out"
	done
}

test_expect 'every state that the protocol of a shared store can reach is sound' 'sound "$SRC/storage/protocol.pml"'
test_expect 'without any one of its rules it is not' 'needs_all "$SRC/storage/protocol.pml" 16'
test_expect 'every state of a collection beside runs, in a directory, is sound' 'sound "$SRC/storage/local/collect.pml"'
test_expect 'without any one of its rules it is not' 'needs_all "$SRC/storage/local/collect.pml" 8'

test_done
