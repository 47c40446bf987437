#!/bin/bash
# Every command line of cairn in the documents: in blocks of sh and console, and in the text. The program reads its command and options, and
# stops at --help. lines.t executes those of the blocks.
. "$(dirname "$0")/../lib.sh"

# understood FILE: for each line PLACE<TAB>WORDS of FILE.
understood() {
	python3 - "$1" <<'PY'
import json, subprocess, sys
bad = 0
for line in open(sys.argv[1]):
    place, words = line.rstrip("\n").split("\t")
    words = [{"COMMAND": "run", "…": "run", "NAME": "shard"}.get(w, w) for w in json.loads(words)]
    # An option that is only named may want a value.
    for more in [[]] + [["x"]] * words[-1:][0].startswith("--"):
        done = subprocess.run(["cairn", *words, *more, "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if "Usage: " in done.stdout and "\n  -h, --help" in done.stdout or words[0] == "step" and "Usage: " in done.stdout:
            break
    else:
        print(f"{place}: cairn {' '.join(words)}: {done.stdout.strip()[:300]}")
        bad = 1
sys.exit(bad)
PY
}
test_expect 'what is wrong is found: a command, an option' '
	printf "%s\n" "\`\`\`sh" "X=1 cairn runn | cat" "cairn run --jbos 2 # no" "cairn run --yes >x" "\`\`\`" "and \`cairn nothing\`" >bad.md
	python3 "$SRC/tests/docs/blocks.py" commands bad.md >commands
	test_lines 4 commands
	test_code 1 understood commands >out
	test_grep "^bad.md:2: cairn runn: .*unknown command" out
	test_grep "^bad.md:3: cairn run --jbos 2: .*unknown option" out
	test_grep "^bad.md:4: cairn run --yes: .*unknown option" out
	test_grep "^bad.md:6: " out
'
test_expect 'every command line of the documents is understood' '
	cd "$SRC"
	python3 tests/docs/blocks.py commands README.md SECURITY.md CONTRIBUTING.md docs/*.md docs/guide/*.md docs/reference/*.md >"$TRASH/work/commands"
	cd "$TRASH/work"
	test "$(wc -l <commands)" -ge 150
	understood commands >out || { cat out; false; }
'
test_expect 'a block is of a language that says what happens with it' '
	cd "$SRC"
	grep -n "^.\{3\}[^ ]" README.md SECURITY.md CONTRIBUTING.md docs/*.md docs/guide/*.md | grep -oE "^[^:]+:[0-9]+:\`\`\`.*" | grep -vE ":\`\`\`(sh|sh cluster|sh bucket|console|yaml|yml|python|text)$" >"$TRASH/work/odd" || true
	test_lines 0 "$TRASH/work/odd"
'
test_done
