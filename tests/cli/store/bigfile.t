#!/bin/bash
# A file larger than 4 GiB, nearly all of it a hole: through the store into an input and out again, its length and its bytes on both sides
# of each 32-bit border as they were, and nothing of the hole on disk.
. "$(dirname "$0")/../../lib.sh"

free_kib=$(df -Pk . | awk 'NR == 2 { print $4 }')
[ "$free_kib" -ge $((12 * 1024 * 1024)) ] || test_skip_all "needs 12 GiB of free disk, here are $((free_kib / 1024 / 1024))"
truncate -s 5G probe 2>/dev/null || test_skip_all 'this file system has no files of 5 GiB'
[ "$(du -k probe | cut -f 1)" -lt 1024 ] || { rm -f probe; test_skip_all 'this file system has no holes in files'; }
rm -f probe

echo '# project' >cairn.yaml
SIZE=$((5 * 1024 * 1024 * 1024 + 13))
# Where something is written: both sides of 2 GiB, 4 GiB, and both ends.
MARKS="0 2147483646 2147483648 4294967294 4294967297 $((SIZE - 1))"
export MARKS

write mark.py <<'PY'
import os, sys
path, size, marks = sys.argv[1], int(sys.argv[2]), [int(m) for m in sys.argv[3:]]
fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
os.ftruncate(fd, size)
for i, at in enumerate(marks):
    os.pwrite(fd, bytes([65 + i]), at)
PY
write look.py <<'PY'
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
print(os.fstat(fd).st_size, *(os.pread(fd, 1, int(m)).decode() for m in sys.argv[2:]))
print("small" if os.fstat(fd).st_blocks * 512 < 1 << 20 else f"{os.fstat(fd).st_blocks * 512} bytes on disk")
PY
{
	cat <<-'YAML'
	pipeline: big
	steps:
	  make:
	YAML
	echo "    run: python3 mark.py \${{ outputs.o }} $SIZE $MARKS"
	cat <<-'YAML'
	    outputs: {o: o.bin}
	  look:
	YAML
	echo "    run: python3 look.py \${{ inputs.o }} $MARKS >r"
	cat <<-'YAML'
	    inputs: {o: "${{ steps.make.outputs.o }}"}
	    outputs: {r: r}
	YAML
} >pipeline.yaml
printf '%s A B C D E F\nsmall\n' "$SIZE" >want

test_expect 'it comes to the next step as it was, and holes stay holes' '
	cairn run pipeline.yaml -q
	cairn get look/r -o got
	test_cmp want got
	[ "$(du -sk .cairn | cut -f 1)" -lt 10240 ]
'

test_expect 'it is taken out as it was' '
	cairn get make/o -o out.bin
	python3 look.py out.bin $MARKS >got.out
	test_cmp want got.out
'

test_expect 'the second run has nothing to do' '
	cairn run pipeline.yaml --json >again
	test_is "$(json again "d[\"counts\"][\"hits\"]")" 2
'
test_done
