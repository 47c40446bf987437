#!/bin/bash
# The command line itself: help, wrong use, where output goes.
. "$(dirname "$0")/../../lib.sh"

test_expect 'no command: the list of commands, exit 2' '
	test_code 2 cairn >out
	test_grep "^  run  *run a pipeline" out
'
test_expect '--help of the program and of every command' '
	cairn --help >out
	sed -nE "s/^  ([a-z]+)  .*/\1/p" out >names
	test "$(wc -l <names)" -ge 20
	while read -r name; do
		cairn "$name" --help >one
		test_grep "^Usage: cairn $name" one
		test_grep "^Example" one
		cairn help "$name" >two
		test_cmp one two
	done <names
	cairn store gc --help >one
	test_grep " --dry-run " one
'
test_expect 'help of expressions names every function and operator' '
	cairn help expressions >out
	for word in params.NAME "item, item.name" "+ - * / // %" "always()" "min(list)" "choose(condition, a, b)"; do
		grep -F -- "  $word" out
	done
	COLUMNS=60 cairn help expressions >out
	test "$(wc -L <out)" -le 60
'
test_expect 'help is no wider than the terminal' '
	COLUMNS=60 cairn run --help >out
	test "$(sed -n "/^Options/,/^JSON/p" out | wc -L)" -le 60
'
test_expect 'an unknown command is exit 2 and names the nearest' '
	test_code 2 cairn chekc 2>err
	test_is "$(cat err)" "cairn: unknown command \`chekc\` (did you mean \`check\`?); see \`cairn --help\`"
	test_code 2 cairn store gcc 2>err
	test_grep "did you mean .gc." err
	test_code 2 cairn x.yaml 2>err
	test_grep "cairn run x.yaml" err
'
test_expect 'an unknown option is exit 2 and names the nearest' '
	test_code 2 cairn run --forse x 2>err
	test_grep "did you mean .--force." err
	test_code 2 cairn run -Z 2>err
	test_code 2 cairn version --color=blue 2>err
	test_grep "auto, always or never" err
	test_code 2 cairn version extra 2>err
	test_code 2 cairn run -j many 2>err
'
test_expect 'version: text, -v, --json, --version' '
	cairn version >out
	test_grep "^cairn [0-9]" out
	test_lines 1 out
	cairn --version >two
	test_cmp out two
	cairn -v version >out
	test_grep "^sqlite 3" out
	cairn version --json >out
	test_is "$(json out "\"cairn \" + d[\"version\"]")" "$(cat two)"
'
test_expect '-C works in another directory, one that is not there is exit 4' '
	mkdir elsewhere
	touch elsewhere/cairn.yaml
	test_code 3 cairn -C elsewhere check 2>err
	test_grep "pipeline.yaml" err
	test_code 4 cairn -C nowhere version 2>err
	test_grep nowhere err
'
test_expect 'colour: NO_COLOR wins over the environment, --color over both' '
	CLICOLOR_FORCE=1 cairn help run >out
	grep -q "$(printf "\033")" out
	NO_COLOR=1 CLICOLOR_FORCE=1 cairn help run >out
	test_code 1 grep -q "$(printf "\033")" out
	NO_COLOR=1 cairn graph --help --color always >out
	cairn help run >out
	test_code 1 grep -q "$(printf "\033")" out
'
test_expect 'a full disk under standard output is an error, not a success' '
	test -w /dev/full || test_cannot "there is no /dev/full"
	test_code 4 cairn --help >/dev/full 2>err
	test_grep "cannot write to standard output" err
'
test_expect 'a reader that goes away is not worth a message' '
	python3 - <<-"PY"
	import os, subprocess
	read, write = os.pipe()
	os.close(read)
	for restore, want in (True, (0, -13)), (False, (0,)):  # whoever starts it may ignore SIGPIPE
	    r = subprocess.run(["cairn", "help", "--man"], stdout=write, stderr=subprocess.PIPE, restore_signals=restore)
	    assert r.returncode in want and not r.stderr, r
	PY
'
test_expect 'started without standard streams' '
	cairn version >&-  2>&-
	cairn version <&- >out
'
test_expect 'man: one page, all pages, pages as files' '
	cairn man run >one
	cairn help --man run >two
	test_cmp one two
	test_grep "^.TH CAIRN-RUN 1" one
	cairn man >all
	test "$(grep -c "^.TH" all)" -gt 25
	cairn man --output some store gc
	cairn man store gc >one
	test_cmp one some/cairn-store-gc.1
	test_is "$(ls some)" cairn-store-gc.1
	cairn man --output every
	test_is "$(cat every/* | grep -c "^.TH")" "$(grep -c "^.TH" all)"
'
test_expect --needs mandoc 'man pages have no warning' '
	cairn help --man --output pages
	test_exists pages/cairn.1
	test_exists pages/cairn-store-gc.1
	for page in pages/*.1; do
		mandoc -T lint -W warning "$page" >warnings || { cat warnings; exit 1; }
	done
'
test_expect 'help of what is not there' '
	test_code 2 cairn help rnu 2>err
	test_grep "did you mean .run." err
	test_code 2 cairn help store gcc 2>err
	test_code 2 cairn help run --output x 2>err
	test_code 2 cairn man rnu 2>err
	test_grep "did you mean .run." err
'
test_expect 'docs/reference is what the program prints' '
	cairn help --reference reference
	test_cmp "$SRC/docs/reference" reference
	test_is "$(ls reference | wc -l)" 6
	test_grep "^## .steps.NAME.$" reference/pipeline.md
	test_grep "^. .nodes. . a whole number from 1 to 4096" reference/pipeline.md
	test_grep "starts_with.text, part." reference/expressions.md
	test_grep "^## cairn store gc$" reference/commands.md
	test_grep "^. 130 " reference/exit-codes.md
	test_is "$(grep -c "^## [A-Z]* /" reference/http.md)" "$(grep -c "^.{ \"[A-Z]*\", \"/" "$SRC/engine/serve/api/table.c")"
	test_grep "^## POST /api/v1/runs/{run}/cancel$" reference/http.md
	test_code 2 cairn help run --reference x 2>err
	test_code 4 cairn help --reference /dev/null/x 2>err
	test_lines 1 err
'

test_done
