#!/bin/bash
# What CI services take from the repository: the hook for pre-commit, and the GitHub action.
. "$(dirname "$0")/../lib.sh"

test_expect 'the hook and the action are what their services read' '
	python3 - <<-"PY"
	import os, re, sys
	try:
	    import yaml
	except ImportError:
	    sys.exit(0)
	src = os.environ["SRC"]
	hook, = yaml.safe_load(open(src + "/.pre-commit-hooks.yaml"))
	assert hook["id"] == "cairn-check" and hook["entry"] == "cairn check" and hook["language"] == "system", hook
	assert re.search(hook["files"], "sub/pipeline.yaml") and not re.search(hook["files"], "a.yaml")
	action = yaml.safe_load(open(src + "/action.yml"))
	assert action["runs"]["using"] == "composite"
	used = set(re.findall(r"inputs\.([a-z]+)", open(src + "/action.yml").read()))
	assert used == set(action["inputs"]), (used, set(action["inputs"]))
	PY
'
test_expect 'the step of the action runs a command in the directory of the project' '
	cairn init project
	python3 - >step.sh <<-"PY"
	import os, re
	print(re.findall(r"run: (bash .*)$", open(os.environ["SRC"] + "/action.yml").read(), re.M)[-1])
	PY
	(cd project && CAIRN_COMMAND="cairn run" bash ../step.sh) >out 2>&1
	test_grep "succeeded" out
	(cd project && CAIRN_COMMAND="cairn run nothing.yaml; true" test_must_fail bash ../step.sh) >out 2>&1
'
test_expect --needs 'pre-commit git' 'pre-commit runs the hook: a wrong pipeline is no commit' '
	mkdir hooks
	cp "$SRC/.pre-commit-hooks.yaml" hooks/
	git init -q hooks
	git -C hooks add -A
	git -C hooks commit -qm hooks
	git init -q project
	cd project
	git add pipeline.yaml cairn.yaml
	PRE_COMMIT_HOME=$TRASH/cache pre-commit try-repo ../hooks cairn-check --files pipeline.yaml >../out 2>&1
	echo "stepz: {}" >>pipeline.yaml
	test_must_fail env PRE_COMMIT_HOME=$TRASH/cache pre-commit try-repo ../hooks cairn-check --files pipeline.yaml >../out 2>&1
	test_grep "unknown key .stepz" ../out
'
test_done
