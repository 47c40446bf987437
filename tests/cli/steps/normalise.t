#!/bin/bash
# cairn-steps normalise: each format with what it leaves out of account, and with a real difference that must be found and located.
# The files and what is expected of each pair come from normalise_files.py.
. "$(dirname "$0")/../../lib.sh"

STEPS=$(dirname "$CAIRN")/cairn-steps
[ -x "$STEPS" ] || test_skip_all "no $STEPS"
PYTHON=/usr/bin/python3 # Debian's, which has numpy from its packages
$PYTHON -c "import numpy" 2>/dev/null || test_skip_all "needs python3-numpy"
normalise() { "$STEPS" normalise "$@"; }

write check.py <<'PY'
"""check.py NAME ANSWER: holds the one line against what is expected."""
import json, sys
want = json.load(open("files/expect.json"))[sys.argv[1]]
lines = open(sys.argv[2]).read().splitlines()
assert len(lines) == 1, lines
got = json.loads(lines[0])
for key in ("verdict", "normaliser", "member"):
    assert got.get(key) == want[key], f"{sys.argv[1]}: {key} is {got.get(key)!r}, not {want[key]!r}: {got}"
assert (want["detail"] or "") in (got.get("detail") or ""), f"{sys.argv[1]}: {want['detail']!r} not in {got}"
assert want["verdict"] == "none" or got["detail"], got
PY
mkdir -p files
$PYTHON "$SRC/tests/cli/steps/normalise_files.py" files bomb || test_bail 'the files were not made'

test_expect 'there are pairs of all formats, with both verdicts' '
	python3 - <<-"PY"
	import json
	seen = {(v["normaliser"], v["verdict"]) for v in json.load(open("files/expect.json")).values()}
	for name in ("tar", "gzip", "zip", "png", "npy", "npz", "json", "gzip+tar"):
	    assert (name, "same") in seen and (name, "different") in seen, name
	PY
'
for pair in $(cd files && ls ./*.old | sed 's,^./,,; s/\.old$//'); do
	case $pair in bomb*) continue ;; esac
	test_expect "$pair" "
		normalise files/$pair.old files/$pair.new >answer
		python3 check.py $pair answer
		normalise files/$pair.old files/$pair.old >answer
		test_no_grep different answer
	"
done
test_expect --needs zstd 'zstd: level and frames don'"'"'t count, bytes do' '
	zstd -q -1 files/text.old -o old.zst
	zstd -q -19 files/text.old -o new.zst
	zstd -q files/text.new -o other.zst
	normalise old.zst new.zst >answer
	test_is "$(json answer "d[\"verdict\"], d[\"normaliser\"]")" "[\"same\", \"zstd\"]"
	normalise old.zst other.zst >answer
	test_is "$(json answer "d[\"verdict\"]")" different
	test_grep "byte 70000: 0x" answer
	printf "\x50\x2a\x4d\x18\x04\0\0\0abcd" | cat new.zst - >skipped.zst
	normalise old.zst skipped.zst >answer
	test_is "$(json answer "d[\"verdict\"]")" none
	head -c 100 new.zst >cut.zst
	normalise old.zst cut.zst >answer
	test_is "$(json answer "d[\"verdict\"]")" none
'
test_expect 'what unpacks to more than is allowed ends without an answer, and leaves nothing behind' '
	mkdir -p temp
	TMPDIR=$PWD/temp normalise --max 100Mi files/bomb.old files/bomb.new >answer
	test_grep "more than 104857600 bytes" answer
	python3 check.py bomb-deep <(normalise files/bomb-deep.old files/bomb-deep.new)
	test_is "$(ls temp)" ""
'
test_expect 'a hole at the end of a sparse member has a size' '
	for size in 300000 600000; do
		mkdir holes$size
		truncate -s $size holes$size/hole.bin
		printf begin >holes$size/end.bin
		truncate -s $size holes$size/end.bin
		for member in hole.bin end.bin; do
			tar -C holes$size -S -cf $member.$size.tar $member
			tar -C holes$size -cf $member.$size.full.tar $member
		done
	done
	for member in hole.bin end.bin; do
		normalise $member.300000.tar $member.600000.tar >answer
		test_is "$(json answer "[d[\"verdict\"], d[\"member\"]]")" "[\"different\", \"$member\"]"
		normalise $member.300000.tar $member.300000.full.tar >answer
		test_is "$(json answer "d[\"verdict\"]")" same
	done
	normalise --max 1Mi hole.bin.600000.tar hole.bin.600000.full.tar >answer
	test_grep "more than 1048576 bytes" answer
'
test_expect 'a zip without members accounts for no bytes' '
	python3 - <<-E
		import struct
		for name, rest in ("old", b"one thing"), ("new", b"a thing or two"):
		    head = b"PK\3\4" + rest
		    open(f"none.{name}.zip", "wb").write(head + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 0, 0, 0, len(head), 0))
	E
	normalise none.old.zip none.new.zip >answer
	test_is "$(json answer "d[\"verdict\"]")" none
'
test_expect 'a wrong use and a file that is not there' '
	test_code 2 normalise files/text.old 2>err
	test_code 1 normalise files/text.old nowhere 2>err
	test_lines 1 err
'
test_done
