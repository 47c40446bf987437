#!/bin/bash
# The wheels of cairn-engine: their layout, from any static program; and installed, when packaging/static has made the real one.
real_home=$HOME
# shellcheck source=tools.sh
. "$(dirname "$0")/tools.sh"
. "$(dirname "$0")/../lib.sh"
packaging_tools

static=$test_build/cairn-init
[ -e "$static" ] || test_skip_all 'no cairn-init beside cairn, which is the static program of this test'
real=
made() { XDG_CACHE_HOME=${test_xdg:-$real_home/.cache} "$SRC/packaging/static" "$@" x86_64; }
! made --check >lacks || real=$(made)
machine=$(uname -m)

test_expect 'a wheel has the program as a script, metadata and a true record' '
	"$SRC/packaging/wheel" "$static" '"$machine"' out >path
	grep -q "cairn_engine-[0-9.]*-py3-none-manylinux_2_17_$(uname -m).manylinux2014_$(uname -m).musllinux_1_1_$(uname -m).whl$" path
	python3 - "$(cat path)" "$static" <<-"PY"
	import base64, hashlib, sys, zipfile
	z = zipfile.ZipFile(sys.argv[1])
	names = z.namelist()
	script = [n for n in names if n.endswith(".data/scripts/cairn")]
	assert len(script) == 1, names
	assert z.getinfo(script[0]).external_attr >> 16 & 0o777 == 0o755
	assert z.read(script[0]) == open(sys.argv[2], "rb").read()
	record = [n for n in names if n.endswith("/RECORD")][0]
	listed = set()
	for line in z.read(record).decode().splitlines():
	    path, digest, size = line.rsplit(",", 2)
	    listed.add(path)
	    if path != record:
	        data = z.read(path)
	        assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode() and int(size) == len(data), path
	assert listed == set(names)
	assert b"Name: cairn-engine\n" in z.read([n for n in names if n.endswith("/METADATA")][0])
	assert b"Tag: py3-none-musllinux_1_1_" in z.read([n for n in names if n.endswith("/WHEEL")][0])
	PY
'
test_expect 'the same program gives the same bytes' '
	"$SRC/packaging/wheel" "$static" '"$machine"' again >path2
	cmp "$(cat path)" "$(cat path2)"
'
test_expect 'a program that needs libraries, or is for another processor, is refused' '
	test_must_fail "$SRC/packaging/wheel" "$CAIRN" '"$machine"' out 2>err
	test_grep "needs a loader and libraries" err
	other=aarch64
	if [ '"$machine"' = aarch64 ]; then other=x86_64; fi
	test_must_fail "$SRC/packaging/wheel" "$static" "$other" out 2>err
	test_grep "64-bit ELF file for $other" err
'
if python3 -m pip --version >/dev/null 2>&1; then
	test_expect 'pip takes it, and the program can be executed' '
		python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-index --no-deps --target site "$(cat path)"
		test -x site/bin/cairn
		cmp site/bin/cairn "$static"
	'
else
	test_skip 'pip takes it, and the program can be executed' 'no pip'
fi
for tool in auditwheel uv; do
	command -v "$tool" >/dev/null || test_skip "$tool takes it" "no $tool (pip install $tool)"
done
test_expect --needs auditwheel 'auditwheel finds nothing that the tag does not allow' '
	auditwheel show "$(cat path)" >shown 2>&1
	tr "\n" " " <shown >line
	test_grep "consistent with the following platform tag: +.(many|musl)linux_[0-9_]+_" line
	test_grep "requires no external shared libraries" line
'
if [ -z "$real" ]; then
	test_skip 'the real program, installed by pip' "$(cat lacks)"
else
	test_expect 'the real program, installed by pip in an empty environment, runs a pipeline' '
		"$SRC/packaging/wheel" '"$real"' x86_64 real >path
		python3 -m venv empty
		empty/bin/python -m pip install -q --disable-pip-version-check --no-index --no-deps "$(cat path)"
		empty/bin/cairn init project
		empty/bin/cairn -C project run
		empty/bin/python -m cairn -C project run >said 2>&1
		test_grep "2 tasks: nothing to do, all on record" said
	'
	if /usr/bin/python3 -c "import sklearn, matplotlib" 2>/dev/null; then
		test_expect 'and the digits example' '
			cp -r "$SRC/examples/digits" digits
			rm -rf digits/.cairn
			bin=$PWD/empty/bin
			mkdir tools
			ln -s /usr/bin/python3 tools/python3
			PATH=$PWD/tools:$PATH "$bin/cairn" -C digits run >said 2>&1
			test_grep "8 tasks, 8 executed" said
		'
	else
		test_skip 'and the digits example' 'Debian: python3-sklearn python3-matplotlib'
	fi
	test_expect --needs uv 'uv tool install takes it' '
		UV_TOOL_DIR=$PWD/tools UV_TOOL_BIN_DIR=$PWD/uvbin uv tool install --offline "$(cat path)"
		uvbin/cairn version
	'
fi
test_done
