#!/bin/bash
# What CI services take: the hook for pre-commit, the GitHub action, and what docs/guide/ci.md shows for each service, checked by the schemas that the services publish.
# shellcheck source=tools.sh
. "$(dirname "$0")/tools.sh"
. "$(dirname "$0")/../lib.sh"
packaging_tools

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
# A block of the page as the file that its service reads; the first is a step of a workflow.
test_expect 'the files of docs/guide/ci.md are there, and what they run is a command of cairn' '
	python3 - <<-"PY"
	import json, os, re, subprocess
	page = open(os.environ["SRC"] + "/docs/guide/ci.md").read()
	blocks = re.findall(r"^```yml\n(.*?)^```", page, re.M | re.S)
	names = ["workflow.yml", ".gitlab-ci.yml", "cloudbuild.yaml", "pre-commit-1.yaml", "pre-commit-2.yaml"]
	assert len(blocks) == len(names), "another block: say here which file it is"
	steps = "".join(f"      {line}\n" for line in blocks[0].splitlines())
	blocks[0] = f"on: push\njobs:\n  cairn:\n    runs-on: ubuntu-latest\n    steps:\n{steps}"
	commands = set()
	for name, block in zip(names, blocks):
	    open(name, "w").write(block)
	    commands |= set(re.findall(r"\bcairn (?:run|check)(?: --\w+)*", block))
	assert len(commands) >= 3, commands
	for command in commands:
	    subprocess.run([*command.split(), "--help"], check=True, stdout=subprocess.DEVNULL)
	PY
'
test_expect --needs check-jsonschema 'the published schemas of GitHub, GitLab and Cloud Build take them, and find a mistake' '
	check-jsonschema --builtin-schema vendor.github-workflows workflow.yml
	check-jsonschema --builtin-schema vendor.gitlab-ci .gitlab-ci.yml
	check-jsonschema --builtin-schema vendor.cloudbuild cloudbuild.yaml
	check-jsonschema --builtin-schema vendor.github-actions "$SRC/action.yml"
	sed "s/  script:/  scripts:/" .gitlab-ci.yml >wrong.yml
	test_must_fail check-jsonschema --builtin-schema vendor.gitlab-ci wrong.yml >out
	sed "s/using: composite/using: composed/" "$SRC/action.yml" >wrong.yml
	test_must_fail check-jsonschema --builtin-schema vendor.github-actions wrong.yml >out
'
test_expect --needs pre-commit 'pre-commit takes both forms of its configuration, and the hook' '
	pre-commit validate-config pre-commit-1.yaml
	pre-commit validate-config pre-commit-2.yaml
	pre-commit validate-manifest "$SRC/.pre-commit-hooks.yaml"
	sed "s/hooks:/hook:/" pre-commit-1.yaml >wrong.yaml
	test_must_fail pre-commit validate-config wrong.yaml >out
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
