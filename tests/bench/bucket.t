#!/bin/bash
# The benchmark of object storage at a small size: each tool does the work, and what isn't there is named.
TEST_NEEDS_CAIRN=0
. "$(dirname "$0")/../net/servers.sh"
. "$(dirname "$0")/../lib.sh"
. "$SRC/tests/net/bucket.sh"

server_can versitygw || test_skip_all "versitygw is neither there nor can it be built ($(server_build versitygw))"

test_expect 'the table has a row each way, and says what was not measured' '
	mkdir here
	"$SRC/tests/bench/bucket" --tool "$BUCKET_TOOL" --server "$servers_cache/bin/versitygw" --s5cmd ./none --sets 20x1024,2x3000000 --rounds 1 --dir here >out
	test_grep "^. 20 × 1 KiB up . [0-9.]+ . – . – . [0-9]+ . met" out
	test_grep "^. 2 × 2,929 KiB down . [0-9.]+ . " out
	test_grep "^Note: s5cmd not measured" out
	test_is "$(ls here)" ""
'
test_done
