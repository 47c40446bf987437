#!/bin/bash
# The Python package: its tests with pytest, every Python that is here, types, style, and a wheel in an empty environment.
. "$(dirname "$0")/../lib.sh"

python=/usr/bin/python3
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || test_skip_all 'there is no Python 3.8 or newer'
CAIRN_BINARY=$(command -v cairn)
export CAIRN=$CAIRN_BINARY CAIRN_BINARY PYTHONDONTWRITEBYTECODE=1
cache=${test_xdg:-$test_home/.cache}/cairn-tests/python

# pythons: each Python from 3.8 to 3.13 that is installed, once.
pythons() {
	local p
	for p in /usr/bin/python3 /usr/bin/python3.*[0-9] /usr/local/bin/python3.*[0-9] "$test_home"/.pyenv/versions/3.*/bin/python3; do
		[ -x "$p" ] && "$p" -c 'import sys; v = sys.version_info[:2]; (3, 8) <= v <= (3, 13) and print("%d.%d" % v, sys.executable)' 2>/dev/null
	done | sort -V | awk '!seen[$1]++'
}

# venv NAME PACKAGE…: an environment with packages from PyPI. Kept for later runs, and made only where CAIRN_TEST_FULL asks for it.
venv() {
	local dir=$cache/$1
	shift
	[ -e "$dir/done" ] && { echo "$dir"; return; }
	[ "${CAIRN_TEST_FULL:-0}" = 1 ] || return 1
	rm -rf "$dir"
	mkdir -p "$cache"
	{ "$python" -m venv "$dir" && HOME=$test_home "$dir/bin/pip" install -q "$@"; } >"$TRASH/venv.log" 2>&1 || return 1
	touch "$dir/done"
	echo "$dir"
}

if "$python" -c 'import pytest, yaml' 2>/dev/null; then
	test_expect 'its tests, with pytest' '
		cd "$SRC/python"
		"$python" -m pytest -q -p no:cacheprovider --basetemp="$TRASH/pytest" tests >"$TRASH/out" 2>&1 || { cat "$TRASH/out"; false; }
		tail -n 1 "$TRASH/out"
	'
else
	test_skip 'its tests, with pytest' 'Debian: python3-pytest, python3-yaml'
fi

while read -r version program; do
	export program
	test_expect "python $version: it imports, runs a pipeline, and reads what that made" '
		"$program" "$SRC/python/tests/smoke.py" >out 2>&1 || { cat out; false; }
	'
done < <(pythons)

if types=$(venv check mypy ruff); then
	export types
	test_expect 'mypy --strict and ruff have nothing to say' '
		cd "$SRC/python"
		"$types/bin/mypy" --cache-dir "$TRASH/mypy"
		"$types/bin/ruff" check --no-cache .
		"$types/bin/ruff" format --no-cache --check .
	'
else
	test_skip 'mypy --strict and ruff have nothing to say' 'CAIRN_TEST_FULL=1 gets them from PyPI'
fi

if mlflow=$(venv mlflow mlflow pytest pandas); then
	export mlflow
	test_expect 'runs go out to a real MLflow server, and its runs come in; tables with pandas' '
		cd "$SRC/python"
		"$mlflow/bin/python" -m pytest -q -p no:cacheprovider --basetemp="$TRASH/ml" tests/test_mlflow.py tests/test_project.py
	'
else
	test_skip 'runs go out to a real MLflow server, and its runs come in' 'CAIRN_TEST_FULL=1 gets MLflow from PyPI'
fi

if trainers=$(venv trainers 'pytorch-lightning==2.2.5' 'transformers==4.40.2' 'accelerate==0.29.3' 'numpy<2' 'setuptools<70' pytest); then
	export trainers
	test_expect 'the trainers of Hugging Face and Lightning leave their curves' '
		cd "$SRC/python"
		"$trainers/bin/python" -m pytest -q -p no:cacheprovider --basetemp="$TRASH/tr" tests/test_trainers.py
	'
else
	test_skip 'the trainers of Hugging Face and Lightning leave their curves' 'CAIRN_TEST_FULL=1 gets them from PyPI'
fi

if snakemake=$(venv snakemake snakemake pytest pyyaml); then
	export snakemake
	test_expect 'a Snakefile is imported by the real Snakemake' '
		cd "$SRC/python"
		PATH=$snakemake/bin:$PATH "$snakemake/bin/python" -m pytest -q -p no:cacheprovider --basetemp="$TRASH/smk" tests/test_import.py -k snakemake
	'
else
	test_skip 'a Snakefile is imported by the real Snakemake' 'CAIRN_TEST_FULL=1 gets Snakemake from PyPI'
fi

if build=$(venv build build hatchling); then
	export build
	test_expect 'a wheel has the types, no dependency, and works in an empty environment' '
		cp -r "$SRC/python" "$SRC/CMakeLists.txt" "$TRASH"
		cd "$TRASH/python"
		"$build/bin/python" -m build --no-isolation --wheel -o "$TRASH/dist" . >"$TRASH/log" 2>&1 || { cat "$TRASH/log"; false; }
		"$python" -m zipfile -l "$TRASH"/dist/*.whl >"$TRASH/list"
		test_grep "cairn/py.typed" "$TRASH/list"
		test_no_grep "tests/" "$TRASH/list"
		"$python" -m venv "$TRASH/empty"
		"$TRASH/empty/bin/pip" install -q --no-index "$TRASH"/dist/*.whl
		cd /
		"$TRASH/empty/bin/python" -m cairn version
		"$TRASH/empty/bin/python" -c "import cairn; print(cairn.__file__)" | grep -F "$TRASH/empty"
	'
else
	test_skip 'a wheel has the types, no dependency, and works in an empty environment' 'CAIRN_TEST_FULL=1 gets hatchling from PyPI'
fi

test_expect 'cairn import says how to get the package where python3 lacks it, also as JSON' '
	mkdir -p bin
	printf "#!/bin/sh\nexec $python -I \"\$@\"\n" >bin/python3
	chmod +x bin/python3
	PATH=$PWD/bin:$PATH test_code 4 cairn import dvc.yaml 2>err
	test_grep "pip install" err
	PATH=$PWD/bin:$PATH test_code 4 cairn import dvc.yaml --json 2>err
	json err "d[\"errors\"][0][\"hint\"]" >hint
	test_grep "pip install .cairn-engine.import." hint
'

if "$python" -c 'import yaml' 2>/dev/null; then
	test_expect 'cairn import hands on its options, and its answer is as docs/json.md says' '
		printf "stages:\n  a:\n    cmd: echo hi >o.txt\n    outs: [o.txt]\nplots: [x]\n" >dvc.yaml
		touch cairn.yaml
		mkdir -p py
		ln -sf "$python" py/python3
		export PATH=$PWD/py:$PATH PYTHONPATH=$SRC/python/src
		cairn import dvc.yaml -o p.yaml --json >got
		test_is "$(json got "d[\"schema\"], d[\"format\"], d[\"path\"], d[\"steps\"], d[\"notes\"][0][\"line\"]")" "[\"cairn.import/1\", \"dvc\", \"p.yaml\", 1, 5]"
		test_code 2 cairn import dvc.yaml -o p.yaml 2>err
		test_grep "exists already" err
		cairn import dvc.yaml -o p.yaml --replace >out
		test_grep "dvc.yaml:5: plots" out
		cairn run -q p.yaml
	'
else
	test_skip 'cairn import hands on its options' 'Debian: python3-yaml'
fi
test_done
