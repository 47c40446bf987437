#!/bin/bash
# Blobs that are larger than what fits into memory, through a bucket (whole and compressed), as a referenced input and
# as an export: what one machine made another one gets, byte for byte.
# With CAIRN_TEST_FULL=1 only: gigabytes are written several times. The same size goes through a directory store and
# `get` in cli/bigfile.t, always; through a pod in cli/pod.t and through a pack in unit/storage/test_limits.c with
# CAIRN_TEST_FULL=1. The limits themselves are tested in unit/storage/test_limits.c.
. "$(dirname "$0")/../servers.sh"
. "$(dirname "$0")/../../lib.sh"

server_can versitygw || test_skip_all "versitygw is neither there nor can it be built ($(server_build versitygw))"
BUCKET_TOOL=$(test_tool bucket_tool) || test_skip_all 'there is no bucket_tool: build it'
export BUCKET_TOOL
GIB=$((1024 * 1024 * 1024))
[ "${CAIRN_TEST_FULL:-0}" = 1 ] || test_skip_all 'writes 50 GiB: set CAIRN_TEST_FULL=1'
need=24
[ "$(df -Pk . | awk 'NR == 2 { print $4 }')" -ge $((need * 1024 * 1024)) ] || test_skip_all "needs $need GiB of free disk"
server s3 versitygw || test_bail 'versitygw does not start'
server_env s3 versitygw
port=$(server_port s3)
unset AWS_ENDPOINT_URL

# Zeros, but for random bytes where compressing is tried out: such a file is quickly made and goes up as it is.
write make.py <<'PY'
import os, sys
path, size, plain = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "plain"
with open(path, "wb") as f:
    f.truncate(size)
    for at in (0, (size - 16384) // 2, size - 16384) if plain else ():
        f.seek(at)
        f.write(os.urandom(16384))
PY

# machine NAME SIZE KIND: one of those that share the store.
machine() {
	mkdir -p "$1"
	cat >"$1/cairn.yaml" <<YAML
store: s3://tbucket/$3-$2
store_options: {endpoint: "http://127.0.0.1:$port", region: us-east-1, style: path}
YAML
	cat >"$1/pipeline.yaml" <<YAML
pipeline: large
steps:
  make:
    run: python3 $PWD/make.py \${{ outputs.o }} $2 $3
    outputs: {o: o.bin}
YAML
}

through() { # SIZE KIND
	machine ann "$1" "$2"
	machine bob "$1" "$2"
	cairn -C ann run -q
	cairn -C bob run -q --json >out
	test_is "$(json out '"%(executed)d %(hits)d" % d["counts"]')" "0 1"
	cairn -C bob get -q make/o -o got
	cairn -C ann get -q make/o -o want
	cmp ann/want bob/got
	test_is "$(stat -c %s bob/got)" "$1"
	rm -rf ann bob s3.data/tbucket/plain* s3.data/tbucket/zeros*
}

test_expect 'one byte more than 1 GiB, as it is' "through $((GIB + 1)) plain"
test_expect '5 GiB and a byte, as it is' "through $((5 * GIB + 1)) plain"
test_expect '5 GiB and a byte, compressed' "through $((5 * GIB + 1)) zeros"
test_expect 'an input of 5 GiB and a byte that is only referenced, and an export of it' '
	mkdir -p refer exported
	python3 make.py big.bin $((5 * GIB + 1)) plain
	"$BUCKET_TOOL" --endpoint "http://127.0.0.1:$port" --region us-east-1 s3://tbucket put big.bin raw/big.bin
	cat >refer/cairn.yaml <<-YAML
	store_options: {endpoint: "http://127.0.0.1:$port", region: us-east-1, style: path}
	YAML
	cat >refer/pipeline.yaml <<-YAML
	pipeline: refer
	inputs: {big: {uri: s3://tbucket/raw/big.bin, mode: reference, endpoint: "http://127.0.0.1:$port", region: us-east-1}}
	steps:
	  copy:
	    run: "cp --sparse=always \${{ inputs.big }} \${{ outputs.o }}"
	    inputs: {big: "\${{ inputs.big }}"}
	    outputs: {o: {path: o.bin, export: "file://$PWD/exported/"}}
	YAML
	cairn -C refer run -q
	cmp exported/o.bin big.bin
	test_is "$(stat -c %s exported/o.bin)" $((5 * GIB + 1))
	rm -rf refer exported big.bin s3.data/tbucket/raw
'
test_done
