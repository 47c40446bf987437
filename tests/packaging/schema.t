#!/bin/bash
# `cairn schema`, and what editors make of it: the YAML language server (npm, yaml-language-server) over all pipelines of the tree.
real_home=$HOME
. "$(dirname "$0")/../lib.sh"

test_expect 'cairn schema prints the schema of the tree' '
	cairn schema >schema.json
	cmp "$SRC/pipelines/schema.json" schema.json
	cairn schema --help >help
	test_grep "yaml-language-server" help
'
test_expect 'a new project names it in the first line of its pipeline, and has it there' '
	cairn init new
	head -n 1 new/pipeline.yaml >line
	test_grep "^# yaml-language-server: .schema=.cairn/schema.json$" line
	cmp schema.json new/.cairn/schema.json
'

# The server is installed once, into a cache, by exact versions and hashes.
cache=${XDG_CACHE_HOME:-$real_home/.cache}/cairn-packaging/language-server
want=$(sha256sum "$SRC/tests/packaging/language_server/package-lock.json" | cut -c 1-16)
server=$cache/$want/node_modules/yaml-language-server/bin/yaml-language-server
if [ ! -e "$server" ] && command -v npm >/dev/null; then
	mkdir -p "$cache/$want"
	cp "$SRC"/tests/packaging/language_server/package*.json "$cache/$want/"
	(cd "$cache/$want" && HOME=$real_home timeout 300 npm ci --no-audit --no-fund --ignore-scripts) >npm.log 2>&1 || true
fi
if [ ! -e "$server" ] || ! command -v node >/dev/null; then
	test_skip 'the YAML language server' 'no node, or npm could not get yaml-language-server'
	test_done
fi

ask() { timeout 120 node "$SRC/tests/packaging/language_server.mjs" "$server" "$TRASH/work/schema.json" "$@"; }
test_expect 'no example and no template has a problem for it, by the schema that its first line names' '
	for name in $(cd "$SRC/pipelines" && printf "%s\n" */ | tr -d /); do
		cairn init --template "$name" "$name"
	done
	ask */pipeline.yaml "$SRC"/examples/*/pipeline.yaml >problems
	test_lines 0 problems
'
test_expect 'it marks a key that does not exist, and a wrong type, at their places' '
	write bad.yaml <<-YAML
	pipeline: bad
	steps:
	  train:
	    run: "true"
	    timeuot: 1h
	    outputs: 7
	YAML
	ask bad.yaml >problems
	test_grep "^bad.yaml:5:5: .*timeuot" problems
	test_grep "^bad.yaml:6:14: " problems
'
test_expect 'it completes the keys of a step' '
	printf "pipeline: new\nsteps:\n  train:\n    run: \"true\"\n    ou\n" >half.yaml
	ask --complete half.yaml:5:7 >labels
	test_grep "^outputs$" labels
	test_grep "^retry$" labels
'
test_done
