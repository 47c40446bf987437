#!/bin/bash
# Two writers with partly the same keys, clients killed with -9 at any time, a collector that never rests: at the end every manifest that is left is whole,
# by a walker that knows nothing of our code. A minute; ten with tests/run --full, or CAIRN_TEST_SOAK_SECONDS.
. "$(dirname "$0")/../servers.sh"
. "$(dirname "$0")/../../lib.sh"

server_can versitygw || test_skip_all "versitygw is neither there nor can it be built ($(server_build versitygw))"
server gw versitygw || test_bail 'versitygw does not start'
server_env gw versitygw
seconds=60
[ "${CAIRN_TEST_FULL:-0}" = 0 ] || seconds=600
seconds=${CAIRN_TEST_SOAK_SECONDS:-$seconds}
export seconds CAIRN_STORE=$SERVER_URI/soak CAIRN_TEST_LEASE=20s CAIRN_TEST_MARK_GAP=1s
walk() { python3 "$SRC/tests/net/store/walker.py" "$CAIRN_STORE" >walked 2>problems || { head -n 20 problems; return 1; }; }

test_expect 'the walker finds what is missing, and what is not as it was' '
	export CAIRN_STORE=$SERVER_URI/small
	mkdir small
	touch small/cairn.yaml
	echo "{pipeline: p, steps: {a: {run: \"seq 9 >\${{ outputs.d }}/f; head -c 300000 /dev/urandom >\${{ outputs.d }}/g\", outputs: {d: d/}}}}" >small/pipeline.yaml
	cairn -C small run -q
	walk
	test_is "$(json walked "[d[\"manifests\"], d[\"problems\"]]")" "[1, 0]"
	blob=$(find gw.data/tbucket/small/blobs -type f)
	cp "$blob" kept
	test_damage "$blob"
	test_must_fail walk
	test_grep "match its name" problems
	test_grep "run .*: blob .* is missing" problems
	rm "$blob"
	test_must_fail walk
	cp kept "$blob"
	pack=$(ls gw.data/tbucket/small/packs/* | grep -v idx | sed -n 1p)
	test_damage "$pack" 40
	test_must_fail walk
	test_grep "has other bytes" problems
'
test_expect "two writers, kills and a collector for $seconds seconds: what is left is whole" '
	mkdir soak
	python3 "$SRC/tests/net/store/soak.py" soak "$seconds" >done 2>wrong || { head -n 40 wrong; false; }
	walk
	{ echo -n "soak: "; cat done; echo -n "left: "; cat walked; } | sed "s/^/# /" >report
	cat report >"${CAIRN_TEST_SOAK_REPORT:-/dev/null}"
	test "$(json done "d.get(\"killed\", 0)")" -ge 3
	test "$(json done "d.get(\"run\", 0)")" -ge 5
	test "$(json walked "d[\"manifests\"]")" -ge 2
	[ "$seconds" -lt 60 ] || test "$(json done "d.get(\"deleted\", 0)")" -ge 1
'
test_expect 'others find what is left' '
	# What a run found and a collector has listed meanwhile counts as absent for others until the next one looks. Of one that was killed
	# the lock counts for as long as a lease.
	wait_until 120 cairn -C soak/collector store gc -q --keep-runs 1000 --grace 1h
	for who in new other; do
		mkdir $who
		cp soak/ann/*.yaml $who
	done
	cairn -C new store pull --json >out
	test_is "$(json out "d[\"missing\"]")" 0
	for who in new other; do
		cairn -C $who run -q --json -p shared=1 -p own=ann-last >out
		test_is "$(json out "[d[\"counts\"][\"executed\"], d[\"counts\"][\"hits\"]]")" "[1, 5]" # one step may not be taken from the cache
	done
	for who in new other; do cairn -C $who store verify -q; done
'
test_done
