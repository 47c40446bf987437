#!/bin/bash
# `environment:`: made once from a lock file, in the key by that file's content, whole or not there, and again from the record.
# With pip from wheels that this file makes. conda is played by a program that makes what conda would.
. "$(dirname "$0")/../../lib.sh"

echo "# project" >cairn.yaml
export MAMBA_TEST_DIR=$TRASH # what the tools of this file have in common
reason() { cairn status --json | json /dev/stdin "[t['reason'] for t in d['tasks'] if t['task'] == '$1'][-1]"; }
message() { cairn status --json | json /dev/stdin "[t['message'] for t in d['tasks'] if t['task'] == '$1'][-1]"; }
builds() { cat "$TRASH"/builds 2>/dev/null | wc -l; }
building() { [ -e "$TRASH"/started ]; }

# wheel NAME VERSION TEXT: makes the wheel of a module, and prints its line of a requirements file
write wheel.py <<'PY'
import base64, hashlib, sys, zipfile
name, version, text = sys.argv[1:]
info = f"{name}-{version}.dist-info"
files = {f"{name}.py": f"word = {text!r}\n",
         f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
         f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
digest = lambda t: base64.urlsafe_b64encode(hashlib.sha256(t.encode()).digest()).rstrip(b"=").decode()
files[f"{info}/RECORD"] = "".join(f"{n},sha256={digest(t)},{len(t)}\n" for n, t in files.items()) + f"{info}/RECORD,,\n"
path = f"wheels/{name}-{version}-py3-none-any.whl"
with zipfile.ZipFile(path, "w") as z:
    for n, t in files.items():
        z.writestr(zipfile.ZipInfo(n), t)
print(f"{name}=={version} --hash=sha256:{hashlib.sha256(open(path, 'rb').read()).hexdigest()}")
PY
mkdir wheels
python3 wheel.py greeting 1.0 hello >one.txt
export PIP_NO_INDEX=1 PIP_FIND_LINKS="$PWD/wheels"

# ---- pip ---------------------------------------------------------------------------------------------------------------

write pip.yaml <<'YAML'
pipeline: pip
defaults: {environment: requirements.txt}
steps:
  say: {run: "python3 -c 'import greeting; print(greeting.word)' >s.txt; basename \"$VIRTUAL_ENV\" >>s.txt; command -v python3 >w.txt", outputs: {out: s.txt, where: w.txt}}
  again: {run: "python3 -m greeting; python3 -c 'import greeting; print(greeting.word * 2)' >s.txt", outputs: {out: s.txt}, sandbox: strict}
  plain: {run: "echo \"${VIRTUAL_ENV-none}\" >s.txt", outputs: {out: s.txt}, environment: none}
YAML

if python3 -c 'import venv, ensurepip' 2>/dev/null; then
	test_expect 'two steps have the packages of a requirements file, which are installed once' '
		cp one.txt requirements.txt
		cairn check pip.yaml
		cairn plan -v pip.yaml >plan
		test_grep "say: requirements.txt .pip., not made" plan
		cairn run pip.yaml >out 2>&1 || { cat out; exit 1; }
		test_is "$(grep -c "making the environment" out)" 1
		cairn get say/out -o - >said
		test_is "$(cat said)" "hello
env"
		test_grep "environments/[0-9a-f]*/env/bin/python3$" <(cairn get say/where -o -)
		test_is "$(cairn get again/out -o -)" hellohello
		cairn plan -v pip.yaml >plan
		test_grep "say: requirements.txt .pip., made" plan
		test_grep "3 hits" plan
	'
	test_expect 'an environment that is active in PATH does not matter' '
		mkdir -p active/bin active/lib/python3.1/site-packages/other-1.dist-info
		echo "version = 3.1" >active/pyvenv.cfg
		PATH="$PWD/active/bin:$PATH" cairn plan pip.yaml >plan
		test_grep "2 hits, 1 to run" plan
		PATH="$PWD/active/bin:$PATH" cairn run --force say pip.yaml
		test_is "$(cairn get say/where -o - | grep -c active)" 0
	'
	test_expect 'a hash that does not match fails the step, with what pip says' '
		sed "s/sha256:../sha256:00/" one.txt >requirements.txt
		test_code 1 cairn run pip.yaml say >out 2>&1
		test_grep "environment requirements.txt: pip can.t make it .exit status 1." out
		cairn logs say >log
		test_grep "DO NOT MATCH THE HASHES" log
		test_is "$(find .cairn/environments -name made | wc -l)" 1
	'
else
	test_skip 'environments made with pip' "this python3 can't make virtual environments (python3-venv)"
fi

# ---- what is no lock file, and what is missing -----------------------------------------------------------------------------

test_expect 'a file that does not say which packages is refused by check' '
	bad() { # LINE TEXT: what check says of a requirements file with this line
		printf "%b\n" "$1" >requirements.txt
		test_code 3 cairn check pip.yaml 2>err
		test_grep "$2" err
	}
	bad "# none\\n\\ngreeting==1.0" "requirements.txt:3: the requirement has no --hash"
	bad "greeting \\\\\\n  >=1\\nx==1 --hash=sha256:00" "requirements.txt:1: the requirement has no --hash"
	bad "-r other.txt" "stands alone"
	bad "-e ." "belongs to the step"
	bad "./greeting.whl --hash=sha256:00" "belongs to the step"
	bad "@EXPLICIT\\nhttps://example.org/linux-64/x-1.conda" "requirements.txt:2: the package has no digest"
	rm requirements.txt
	test_code 3 cairn check pip.yaml 2>err
	test_grep "requirements.txt isn.t in the project" err
	test_is "$(grep -c "requirements.txt" err)" 1
	test_code 4 cairn run pip.yaml 2>err
	test_grep "step .say.: environment: requirements.txt isn.t in the project" err
'
write uv.yaml <<'YAML'
pipeline: uv
steps: {s: {run: echo >o, outputs: {o: o}, environment: uv.lock}}
YAML
test_expect 'uv.lock stands beside its pyproject.toml, and needs uv when the step runs' '
	echo "version = 1" >uv.lock
	test_code 3 cairn check uv.yaml 2>err
	test_grep "uv needs it beside uv.lock: pyproject.toml isn.t in the project" err
	printf "[project]\nname = \"x\"\nversion = \"1\"\n" >pyproject.toml
	mkdir few
	for p in sh python3 uname env bash; do ln -s "$(command -v $p)" few/; done
	PATH=$PWD/few "$(command -v cairn)" check uv.yaml >out 2>&1
	test_grep "warning.*made with uv, which isn.t on this machine" out
	PATH=$PWD/few test_code 1 "$(command -v cairn)" run uv.yaml >out 2>&1
	test_grep "environment uv.lock is made with uv, which isn.t on PATH: install it" out
'

write cluster.yaml <<'YAML'
pipeline: cluster
steps: {s: {run: echo >o, outputs: {o: o}, environment: uv.lock, image: "registry.test/a@sha256:0123456789012345678901234567890123456789012345678901234567890123"}}
YAML
test_expect 'on a cluster the image brings it, and the key has both' '
	mkdir cluster
	cp cluster.yaml uv.yaml uv.lock pyproject.toml cluster
	cd cluster
	echo "runner: kubernetes" >cairn.yaml
	cairn plan -v cluster.yaml >plan
	test_grep "s: uv.lock .uv., in the image" plan
	key() { cairn plan --json cluster.yaml | json /dev/stdin "d[\"tasks\"][0][\"key\"]"; }
	key >one
	echo "# edited" >>pyproject.toml
	test_is "$(key)" "$(cat one)"
	echo "# other" >>uv.lock
	key >two
	test_must_fail cmp -s one two
	test_code 3 cairn plan uv.yaml 2>err
	test_grep "step .s. has no .image." err
'

# ---- conda, whose tool is ours here -------------------------------------------------------------------------------------------

mkdir tools
write tools/micromamba <<'SH'
#!/bin/sh
[ "$1 $2 $3" = 'create --yes --prefix' ] && [ "$5" = --file ] || { echo "what is $*"; exit 2; }
echo build >>"$MAMBA_TEST_DIR/builds"
mkdir -p "$4/bin" "$4/conda-meta"
: >"$MAMBA_TEST_DIR/started"
while [ -e "$MAMBA_TEST_DIR/hold" ]; do sleep 0.05; done
[ ! -e "$MAMBA_TEST_DIR/broken" ] || { echo 'no network'; exit 7; }
printf '#!/bin/sh\necho %s\n' "$(sed -n '/^http/s/.*#//p' "$6")" >"$4/bin/tool"
chmod +x "$4/bin/tool"
echo '{}' >"$4/conda-meta/tool-1.json"
SH
chmod +x tools/micromamba
export PATH="$PWD/tools:$PATH"
export hex=0123456789abcdef0123456789abcdef
explicit() { printf '# platform: linux-64\n@EXPLICIT\nhttps://example.org/linux-64/tool-1.conda#%s\n' "$1"; }
write conda.yaml <<'YAML'
pipeline: conda
defaults: {environment: conda.txt}
steps:
  a: {run: "tool >s.txt; echo \"$CONDA_PREFIX/bin/tool\" >w.txt; command -v tool | diff - w.txt; echo ${VIRTUAL_ENV:-none}", outputs: {out: s.txt}, retry: {max: 1, backoff: 10ms}, sandbox: strict}
  b: {run: "cat $CAIRN_INPUT_A >s.txt; tool >>s.txt", inputs: {a: "${{ steps.a.outputs.out }}"}, outputs: {out: s.txt}}
YAML
test_expect 'an explicit file of conda; a strict step sees its tools' '
	explicit $hex >conda.txt
	cairn run conda.yaml
	test_is "$(cairn get b/out -o -)" "$hex
$hex"
	test_is "$(builds)" 1
	cairn run conda.yaml
	test_is "$(builds)" 1
'
test_expect 'another lock file: the steps run again, and the old run is reproduced with what it had' '
	cairn runs --json | json /dev/stdin "d[\"runs\"][1][\"id\"]" >first
	explicit 4$hex >conda.txt
	cairn run conda.yaml
	test_grep "environment conda.txt changed" <(reason a)
	test_is "$(cairn get a/out -o -)" 4$hex
	chmod -R u+w .cairn/environments
	rm -r .cairn/environments
	cairn reproduce -q --json "$(cat first)" >report
	test_is "$(json report "d[\"verdict\"]")" identical
	test_is "$(builds)" 3
	test_is "$(grep -c $hex .cairn/environments/*/files/conda.txt)" 1
'
test_expect 'kill -9 while it is made: nothing that counts is left, and resume makes it' '
	explicit 1$hex >conda.txt
	rm -f "$TRASH"/started
	: >"$TRASH"/hold
	cairn run -q conda.yaml &
	wait_until 60 building
	kill -9 $!
	wait $! || :
	rm "$TRASH"/hold
	test_is "$(grep -lr tool-1 .cairn/environments/*/made | wc -l)" 1
	cairn resume
	test_is "$(cairn get b/out -o - | tail -n 1)" 1$hex
	test_is "$(builds)" 5
'
test_expect 'two runs at once: one makes it, the other waits' '
	explicit 2$hex >conda.txt
	rm -f "$TRASH"/started
	: >"$TRASH"/hold
	cairn run -q conda.yaml a &
	wait_until 60 building
	mkfifo lines
	cairn run --force b conda.yaml >lines 2>&1 &
	grep -m 1 "another run is making the environment of conda.txt" <lines
	cat lines >/dev/null &
	rm "$TRASH"/hold
	wait %1
	wait %2
	test_is "$(builds)" 6
'
test_expect 'a package that is gone: it is made again' '
	for f in .cairn/environments/*/env/conda-meta; do chmod u+w $f; rm -f $f/*; done
	cairn plan -v conda.yaml >plan
	test_grep "a: conda.txt .conda., not made" plan
	cairn run --force "*" conda.yaml
	test_is "$(builds)" 7
'
test_expect 'a retry makes it again, and the message has the last lines of the tool' '
	explicit 3$hex >conda.txt
	: >"$TRASH"/broken
	test_code 1 cairn run conda.yaml >out 2>&1
	test_is "$(builds)" 9
	test_grep "conda can.t make it .exit status 7.: no network; all that it printed: " <(message a)
	rm "$TRASH"/broken
	cairn run -q conda.yaml
'
test_expect --needs LOCAL_STORE 'gc removes what no run used for a month' '
	ls .cairn/environments | wc -l >before
	test_grep "removed 0 objects|nothing is removed" <(cairn store gc)
	test_is "$(ls .cairn/environments | wc -l)" "$(cat before)"
	find .cairn/environments -mindepth 1 -maxdepth 2 -exec touch -h -d "40 days ago" {} +
	cairn store gc --dry-run --json >gc
	test_is "$(json gc "d[\"environments\"]")" "$(cat before)"
	cairn run -q --force a conda.yaml
	cairn store gc >out
	test_grep "environments that no run has used for long" out
	test_is "$(ls .cairn/environments)" "$(basename "$(dirname "$(ls -d .cairn/environments/*/made)")")"
'

test_done
