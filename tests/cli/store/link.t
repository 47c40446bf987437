#!/bin/bash
# `mode: link`: data of the project is linked into the store, not copied; a change of it is found.
. "$(dirname "$0")/../../lib.sh"

echo 'workspace: auto' >cairn.yaml
write p.yaml <<'YAML'
pipeline: p
inputs: {d: {uri: data/, mode: link}}
steps:
  s: {run: "cat inputs/d/a inputs/d/sub/b >o; inputs/d/tool", inputs: {d: "${{ inputs.d }}"}, outputs: {o: o}}
YAML
mkdir -p data/sub
head -c 3000000 /dev/urandom >data/a
echo b >data/sub/b
: >data/empty
printf '#!/bin/sh\necho tool\n' >data/tool
chmod +x data/tool
touch -d '2020-01-01 12:00' data/a data/sub/b data/tool

links() { stat -c %h "$1"; }
mode() { stat -c %a "$1"; }

test_expect --needs LOCAL_STORE 'a file is hashed once, linked and read-only; times, executables and empty files stay' '
	cairn run p.yaml -q
	test_is "$(links data/a) $(mode data/a)" "2 444"
	test_is "$(links data/sub/b) $(mode data/sub/b)" "2 444"
	test_is "$(links data/tool) $(mode data/tool)" "1 755"
	test_is "$(links data/empty)" 1
	test_is "$(stat -c %y data/a | cut -c 1-19)" "2020-01-01 12:00:00"
	find .cairn/store/linked -type f >linked
	test_lines 2 linked
	find .cairn/store/blobs -size +1000k >large
	test_lines 1 large
	cairn get s/o -o got -q
	cat data/a data/sub/b | cmp - got
'

test_expect --needs LOCAL_STORE 'a copy has the same key, and the second run reads no file again' '
	sed "s/, mode: link//" p.yaml >copy.yaml
	cairn plan copy.yaml --json >plan.json
	test_grep "\"hit\"" plan.json
	: >trace
	if test_have strace; then ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 strace -f -e trace=openat,open -o trace cairn run p.yaml --json >hit.json; fi
	cairn run p.yaml --json >hit.json
	test_is "$(json hit.json "d[\"counts\"][\"hits\"]")" 1
	test_no_grep "\"a\"" trace
'

test_expect --needs LOCAL_STORE 'verify reads it, gc keeps it' '
	cairn store verify >out
	test_grep " 0 problems" out
	cairn store gc >out
	find .cairn/store/linked -type f >linked
	test_lines 2 linked
'

test_expect --needs LOCAL_STORE 'links of the files in workspaces cost no second reading' '
	cairn run p.yaml --force -q
	cairn run p.yaml --json >hit.json
	test_is "$(json hit.json "d[\"counts\"][\"hits\"]")" 1
	echo "workspace: auto" >cairn.yaml
'

test_expect --needs LOCAL_STORE 'a file that was changed in place is named once; the store no longer has its old content' '
	chmod u+w data/a
	printf 12345678 | dd of=data/a bs=8 conv=notrunc 2>dd.log
	test_code 4 cairn run p.yaml 2>err
	test_grep "data/a was changed after it was linked into the store" err
	find .cairn/store/linked -type f >linked
	test_lines 1 linked
	cairn run p.yaml --json >new.json
	test_is "$(json new.json "d[\"counts\"][\"executed\"]")" 1
	test_is "$(links data/a) $(mode data/a)" "2 444"
	cairn get s/o -o got2 -q
	cat data/a data/sub/b | cmp - got2
'

test_expect --needs LOCAL_STORE 'a change with the old time and size is found when the bytes are used' '
	chmod u+w data/a
	printf 87654321 | dd of=data/a bs=8 seek=7 conv=notrunc 2>dd.log
	touch -d "2020-01-01 12:00" data/a
	chmod 444 data/a
	rm -f .cairn/statcache
	cairn store verify >out 2>&1 || true
	test_grep "was changed after it was linked" out
	find .cairn/store/linked -type f >linked
	test_lines 1 linked
'

test_expect --needs LOCAL_STORE 'a change while a step reads it fails the step' '
	write race.yaml <<-YAML
	pipeline: race
	inputs: {d: {uri: data2/, mode: link}}
	steps:
	  s: {run: "chmod u+w \"\$HERE/data2/x\"; echo more >>\"\$HERE/data2/x\"; cat inputs/d/x >o", inputs: {d: "\${{ inputs.d }}"}, outputs: {o: o}, env: {HERE: "$PWD"}}
	YAML
	mkdir data2
	head -c 100000 /dev/urandom >data2/x
	echo "workspace: copy" >cairn.yaml
	test_code 4 cairn run race.yaml 2>err
	test_grep "data2/x was changed after it was linked" err
	cairn plan race.yaml --json >plan.json
	test_no_grep "\"hit\"" plan.json
	echo "workspace: auto" >cairn.yaml
'

test_expect --needs LOCAL_STORE 'two equal files, and a file with other links' '
	mkdir data3
	head -c 50000 /dev/urandom >data3/x
	cp data3/x data3/y
	echo z >data3/z
	ln data3/z data3/z2
	sed "s/race/three/; s/data2/data3/g; s/{run: .*, inputs/{run: \"cat inputs\/d\/* >o\", inputs/" race.yaml >three.yaml
	cairn run three.yaml -q
	cairn get s/o -o got3 -q
	cat data3/* | cmp - got3
	test_is "$(links data3/z) $(mode data3/z2)" "3 444"
	cairn run three.yaml --json >hit.json
	test_is "$(json hit.json "d[\"counts\"][\"hits\"]")" 1
'

test_expect --needs LOCAL_STORE 'what cannot be linked is said: private files, files of others, other disks' '
	mkdir data4
	echo p >data4/p
	chmod 600 data4/p
	sed "s/three/four/; s/data3/data4/g" three.yaml >four.yaml
	test_code 3 cairn run four.yaml 2>err
	test_grep "data4/p can.t be linked into the store: the store.s files can be read by all" err
	test_grep "leave out .mode: link. and it is copied" err
	test_is "$(mode data4/p)" 600
	if [ "$(id -u)" -eq 0 ]; then
		chmod 644 data4/p
		chown 65534 data4/p
		test_code 3 cairn run four.yaml 2>err
		test_grep "it belongs to another user" err
	fi
	if [ -w /dev/shm ] && [ "$(stat -c %d /dev/shm)" != "$(stat -c %d .)" ]; then
		far=$(mktemp -d /dev/shm/cairn-test-XXXXXX)
		echo "store: $far/s" >cairn.yaml
		echo q >data4/p2
		rm -f data4/p
		test_code 3 cairn run four.yaml 2>err || { rm -r "$far"; return 1; }
		rm -r "$far"
		echo "workspace: auto" >cairn.yaml
		test_grep "the store is on another file system" err
	fi
'

test_done
