#!/bin/bash
# The static program: what it may need (nothing), its size and start, an empty root file system, and all parts of Cairn from one file. With --full: both processors,
# and two builds in different folders, compared.
real_home=$HOME
. "$(dirname "$0")/../lib.sh"

static() { HOME=$real_home XDG_CACHE_HOME=${test_xdg:-$real_home/.cache} "$SRC/packaging/static" "$@"; }
if [ "${CAIRN_TEST_FULL:-0}" = 0 ] && ! static --check x86_64 >lacks; then
	test_skip_all "$(cat lacks)"
fi
static x86_64 >path || test_skip_all 'the static program cannot be built here'
PROGRAM=$(cat path)
[ "$(uname -m)" = x86_64 ] || test_skip_all 'a program for x86_64 does not run here'
export PROGRAM

test_expect 'it needs no library and no loader, tells nothing about where it was built, and has 15 MB at most' '
	readelf -lW "$PROGRAM" >segments
	test_no_grep "INTERP|DYNAMIC" segments
	test "$(stat -c %s "$PROGRAM")" -le 15000000
	strings -n 6 "$PROGRAM" >strings
	test_no_grep "$SRC|'"$real_home"'/|cairn-packaging" strings
'
# A start of the program costs the processor so much; how long it takes also depends on what else the machine does.
test_expect 'a start costs 2 ms at most' '
	python3 - <<-"PY" >ms
	import os, resource, subprocess
	costs = []
	for _ in range(200):
	    before = resource.getrusage(resource.RUSAGE_CHILDREN)
	    pid = os.posix_spawn(os.environ["PROGRAM"], ["cairn", "version"], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
	    _, _, used = os.wait4(pid, 0)
	    costs.append(used.ru_utime + used.ru_stime)
	costs.sort()
	print(costs[len(costs) // 2] * 1000)
	PY
	echo "median $(cat ms) ms"
	awk "{ exit !(\$1 <= 2) }" ms
'
test_expect 'version -v names the libraries, with a SQLite that has no WAL-reset bug' '
	"$PROGRAM" version -v >out
	test_grep "^openssl 3[.]" out
	"$PROGRAM" version --json >out
	python3 -c "
import json
v = tuple(int(n) for n in json.load(open(\"out\"))[\"libraries\"][\"sqlite\"].split(\".\"))
assert v >= (3, 51, 3), v"
'
# The C library must run what tells libcrypto of the cpu: without it hashing takes five times as long.
test_expect 'it hashes by the instructions that the cpu has for that' '
	says="the cpu has no SHA instructions"
	if grep -qwE "sha_ni|sha2" /proc/cpuinfo; then says="libcrypto uses the SHA instructions"; fi
	"$PROGRAM" doctor >out || test $? = 1
	test_grep "ok +sha +$says" out
'
test_expect 'one file has the built-in steps: by cairn step, by its other name, and as the engine calls them' '
	"$PROGRAM" step --help >out
	test_grep shard out
	ln -s "$PROGRAM" cairn-steps
	./cairn-steps shard --help >out
	test_grep samples_per_shard out
	"$PROGRAM" init --template image-classification pictures
	"$PROGRAM" -C pictures run
	"$PROGRAM" -C pictures run 2>out
	test_code 2 "$PROGRAM" shard 2>err
'
test_expect 'and git facts, without git or libgit2' '
	git init -q repository
	git -C repository -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m one
	"$PROGRAM" init repository
	"$PROGRAM" -C repository run
	"$PROGRAM" -C repository runs --json >out
	grep -q "$(git -C repository rev-parse HEAD)" out
'
test_expect 'the server answers, with the web interface and the documents' '
	"$PROGRAM" init served
	start serve "$PROGRAM" -C served serve --listen 127.0.0.1:0
	wait_until 30 grep -Eq "address=127.0.0.1:[0-9]+" serve.out
	address=$(grep -Eo "127.0.0.1:[0-9]+" serve.out | sed -n 1p)
	python3 -c "import sys, urllib.request; print(urllib.request.urlopen(\"http://\" + sys.argv[1] + \"/healthz\").status)" "$address" >status
	curl -s -H "Accept: text/html" "http://$address/" >page
	curl -s "http://$address/docs/guide/tutorial.html" >tutorial
	stop serve
	test_grep 200 status
	test_no_grep "has no web interface" page
	test_grep "<h1 id=\"tutorial\">" tutorial
'
if [ -e /etc/ssl/certs/ca-certificates.crt ] && [ -d /usr/share/zoneinfo/Europe ]; then
	test_expect 'the image of one file has all programs in it' '
		"$PROGRAM" image --output image.tar >digest
		mkdir image
		tar -xf image.tar -C image
		find image/blobs -type f -size +1M >layers
		test_lines 1 layers
		tar -tvzf "$(cat layers)" >files
		test_grep "usr/bin/cairn$" files
		test_grep "usr/bin/cairn-steps -> cairn$" files
		test_grep "^-rwxr-xr-x .* usr/lib/cairn/cairn-init$" files
		test_grep "^-rwxr-xr-x .* usr/lib/cairn/cairn-launch$" files
		test_no_grep "\.so" files
	'
else
	test_skip 'the image of one file has all programs in it' 'no CA certificates or time zones here'
fi
test_expect --needs ROOT 'in a root file system that has nothing else' '
	mkdir -p empty/dev empty/tmp empty/project
	cp "$PROGRAM" empty/cairn
	: >empty/dev/null
	chmod 666 empty/dev/null
	chroot empty /cairn version >out
	test_grep "^cairn " out
	cp "$SRC/pipelines/hello/pipeline.yaml" empty/project/
	chroot empty /cairn -C /project check >out 2>&1
	chroot empty /cairn step shard --help >out
	test_grep samples_per_shard out
'

if [ "${CAIRN_TEST_FULL:-0}" = 0 ]; then
	test_skip 'two builds in different folders have the same bytes' 'takes an hour: tests/run --full'
	test_skip 'arm64' 'takes an hour: tests/run --full'
	test_done
fi
# Sources, libraries and build are all at other places; only what was fetched and the compiler are the same.
test_expect 'two builds of two checkouts in different folders have the same bytes' '
	mkdir -p "$TRASH/a/folder of another name"
	cd "$TRASH/a/folder of another name"
	git init -q .
	(cd "$SRC"; git -c safe.directory="*" ls-files -z -c -o --exclude-standard | xargs -0 tar -cf -) | tar -xf -
	git add -A
	HOME='"$real_home"' XDG_CACHE_HOME='"${test_xdg:-$real_home/.cache}"' packaging/static --root "$TRASH/elsewhere" x86_64 >"$TRASH/path2"
	cmp "$PROGRAM" "$(cat "$TRASH/path2")"
	for helper in cairn-init cairn-launch; do
		cmp "$(dirname "$PROGRAM")/$helper" "$(dirname "$(cat "$TRASH/path2")")/$helper"
	done
'
static aarch64 >path64 || true
export PROGRAM64; PROGRAM64=$(cat path64)
test_expect --needs qemu-aarch64-static 'arm64 runs a pipeline by qemu' '
	qemu-aarch64-static "$PROGRAM64" version >out
	test_grep "^cairn " out
	test "$(stat -c %s "$PROGRAM64")" -le 15000000
'
# Root file systems of distributions, as far as they can be had from Debian's archive.
for suite in bullseye bookworm trixie; do
	test_expect --needs 'ROOT mmdebstrap' "Debian $suite: init, run and a second run of all hits" '
		mmdebstrap --quiet --variant=essential '$suite' root-'$suite'
		cp "$PROGRAM" root-'$suite'/usr/local/bin/cairn
		chroot root-'$suite' /bin/sh -c "cd /tmp && cairn init p && cd p && cairn run && cairn run" >said 2>&1
		test_grep "2 tasks: nothing to do, all on record" said
		rm -rf root-'$suite'
	'
done
test_done
