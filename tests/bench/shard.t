#!/bin/bash
# The benchmark of shard at a small size: each tool does the work, and what isn't there is named.
. "$(dirname "$0")/../lib.sh"

[ -x "$(dirname "$(realpath "$CAIRN")")/cairn-steps" ] || test_skip_all 'no cairn-steps beside cairn'

test_expect 'the table has a row a tool, and says what was not measured' '
	"$SRC/tests/bench/shard" --cairn "$CAIRN" --sets 30x1024 --rounds 1 --dir . --python ./none >out
	test_grep "^. 30 files of 1 KiB" out
	test_grep "^. cairn . [0-9.]+ . [0-9,]+ . 1.00 " out
	test_grep "^. GNU tar . .* (met|\*\*missed\*\*)" out
	test_grep "^Note: webdataset not measured" out
	test_is "$(ls)" out
'
test_done
