#!/bin/bash
# What the record says of the project's repository: commit, and whether anything differed.
. "$(dirname "$0")/../lib.sh"
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b

write pipeline.yaml <<'YAML'
pipeline: facts
steps:
  one: {run: "echo 1 >${{ outputs.o }}", outputs: {o: o.txt}}
YAML
touch cairn.yaml
facts() { cairn run -q >log 2>&1; cairn runs --json -n 1 >out; json out '"%s %s" % (d["runs"][0]["git_commit"], d["runs"][0]["git_dirty"])'; }

test_expect 'no repository, and one without a commit' '
	test_is "$(facts)" "None False"
	git init -q
	test_is "$(facts)" "None False"
'
test_expect 'a clean tree; the state directory is no difference' '
	git add pipeline.yaml cairn.yaml
	printf "log\nout\n" >.git/info/exclude
	git commit -qm first
	test_is "$(facts)" "$(git rev-parse HEAD) False"
'
test_expect 'an edit, a staged edit, an untracked file' '
	echo >>cairn.yaml
	test_is "$(facts)" "$(git rev-parse HEAD) True"
	git add cairn.yaml
	test_is "$(facts)" "$(git rev-parse HEAD) True"
	git commit -qm second
	test_is "$(facts)" "$(git rev-parse HEAD) False"
	touch "a new file"
	test_is "$(facts)" "$(git rev-parse HEAD) True"
	echo "a new file" >.gitignore
	git add .gitignore
	git commit -qm third
	test_is "$(facts)" "$(git rev-parse HEAD) False"
'
test_expect 'a project below the top, a linked work tree, a broken repository' '
	mkdir sub
	cp pipeline.yaml cairn.yaml sub
	git add sub
	git commit -qm sub
	(cd sub; printf "log\nout\n.cairn/\n" >>../.git/info/exclude; test_is "$(facts)" "$(git rev-parse HEAD) False")
	git worktree add -q ../linked
	(cd ../linked; test_is "$(facts)" "$(git rev-parse HEAD) False") || (cd ../linked; git status; false)
	echo nonsense >.git/HEAD
	test_is "$(facts)" "None False"
'
test_done
