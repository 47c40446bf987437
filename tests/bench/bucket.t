#!/bin/bash
# The benchmark of object storage at a small size: who is there does the work, and who isn't is named.
. "$(dirname "$0")/../net/servers.sh"
. "$(dirname "$0")/../lib.sh"
. "$SRC/tests/net/store/bucket.sh"

server_can versitygw || test_skip_all "versitygw is neither there nor can it be built ($(server_build versitygw))"

test_expect 'the table has a row each way for each client, and says what was not measured' '
	mkdir here
	"$SRC/tests/bench/bucket" --cairn "$CAIRN" --tool "$BUCKET_TOOL" --server "$servers_cache/bin/versitygw" --s5cmd ./none --rclone ./none --dvc ./none \
		--sets 20x1024,2x3000000 --rounds 1 --dir here >out
	for way in up down "into a folder"; do
		test_grep "^. 20 × 1 KiB $way . cairn . [0-9.]+ . [0-9.]+ . [0-9]+ . – . " out
	done
	test_grep "^. 20 × 1 KiB up . bucket_tool . [0-9.]+ . [0-9.]+ . [0-9]+ . [0-9.]+ . " out
	test_grep "^. 2 × 2,929 KiB down . cairn . [0-9.]+ . " out
	test_grep "^Note: s5cmd not measured" out
	test_grep "^Note: dvc not measured" out
	test_is "$(ls here)" ""
'
test_done
