#!/bin/bash
# What the record says of the project's repository: commit, and whether anything differed.
. "$(dirname "$0")/../../lib.sh"
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
	test_is "$(json out "d[\"runs\"][0][\"git_author\"]")" "$(git log -1 --format=%an)"
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

manifest() { hash=$(json out 'd["runs"][0]["hash"]'); cat "${1:-.}/.cairn/store/runs/${hash:0:2}/$hash" >manifest.json; }

test_expect 'the remote without credentials; submodules with commit and state, each' '
	mkdir super inner
	(cd inner; git init -q; echo 1 >f; git add f; git commit -qm inner)
	cd super
	cp ../pipeline.yaml ../cairn.yaml .
	printf "log\nout\nmanifest.json\n.cairn/\n" >.gitignore
	git init -q
	git -c protocol.file.allow=always submodule --quiet add ../inner mod
	git -c protocol.file.allow=always submodule --quiet add ../inner "dirty one"
	git add .
	git commit -qm all
	git remote add origin "https://me:ghp_secret@example.org/team/x.git?token=abc"
	test_is "$(facts)" "$(git rev-parse HEAD) False"
	manifest
	test_is "$(json manifest.json "d[\"git\"][\"remote\"]")" "https://example.org/team/x.git"
	echo 2 >>"dirty one/f"
	test_is "$(facts)" "$(git rev-parse HEAD) True"
	manifest
	inner=$(git -C mod rev-parse HEAD)
	test_is "$(json manifest.json "[[m[\"path\"], m[\"commit\"], m[\"dirty\"]] for m in d[\"git\"][\"submodules\"]]")" \
		"[[\"mod\", \"$inner\", false], [\"dirty one\", \"$inner\", true]]"
	(cd "dirty one"; git commit -qam two)
	facts >/dev/null
	manifest
	test_is "$(json manifest.json "d[\"git\"][\"submodules\"][1][\"dirty\"]")" true
	for url in "git@example.org:team/x.git" "ssh://git:pw@example.org/x ssh://git@example.org/x" "http://tok@h/x http://h/x" "/srv/x.git" "https://h/x#frag https://h/x"; do
		git remote set-url origin "${url%% *}"
		facts >/dev/null
		manifest
		test_is "$(json manifest.json "d[\"git\"][\"remote\"]")" "${url##* }"
	done
'
test_expect 'what was really there is what is kept: of a dirty checkout the edit, of an untracked one everything' '
	mkdir dirty
	cd dirty
	touch cairn.yaml
	printf "pipeline: facts\nsteps:\n  one: {run: sh ./s.sh, code: [s.sh, lib/], outputs: {o: o.txt}}\n" >pipeline.yaml
	mkdir lib
	echo committed >lib/text
	echo "cat lib/* >o.txt" >s.sh
	git init -q
	git add s.sh lib pipeline.yaml
	git commit -qm first
	echo edited >lib/text
	echo untracked >lib/zz
	test_is "$(facts)" "$(git rev-parse HEAD) True"
	git checkout -q lib
	rm lib/zz
	cairn get one@code -o ../there
	test_is "$(cat ../there/lib/text ../there/lib/zz)" "$(printf "edited\nuntracked")"
'
test_done
