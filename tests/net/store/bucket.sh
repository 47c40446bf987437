# shellcheck shell=bash
# tests/net/store/bucket.sh: for *.t files that drive storage/bucket/bucket.h against a server; source it after lib.sh.

BUCKET_TOOL=$(test_tool bucket_tool) || test_skip_all 'there is no bucket_tool: build it'
export BUCKET_TOOL

head -c 1000 /dev/urandom >small
head -c 16777216 /dev/urandom >sixteen
head -c 40000000 /dev/urandom >big
head -c 40000000 /dev/urandom >big2
: >empty
for test_v in 1 2 3 4 5 6 7 8; do head -c 100 /dev/urandom >"racer$test_v"; done

# b [OPTION...] COMMAND...: bucket_tool in $URI.
b() {
	local options=()
	while [ "${1#--}" != "$1" ]; do
		options+=("$1")
		[ "$1" = --anonymous ] || { shift; options+=("$1"); }
		shift
	done
	"$BUCKET_TOOL" --tries 6 "${options[@]}" "${URI:-s3://tbucket/pre}" "$@"
}
