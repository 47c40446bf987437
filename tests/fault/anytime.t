#!/bin/bash
# kill -9 at moments that nobody chose: after a pause that grows from run to run. What is finished stays, nothing is done twice,
# nothing is left running, and the results are those of a run that nobody disturbed.
. "$(dirname "$0")/../lib.sh"

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: anytime
steps:
  a:
    matrix: {i: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]}
    run: echo ${{ matrix.i }} >o; echo a${{ matrix.i }} >>"$HOME/done"
    outputs: {o: o}
  b:
    matrix: {i: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]}
    run: sed s/^/b/ ${{ inputs.a }} >o; echo b${{ matrix.i }} >>"$HOME/done"
    inputs: {a: "${{ steps.a.outputs.o }}"}
    outputs: {o: o}
  all:
    run: cat ${{ inputs.b }}/* | sort >o; echo all >>"$HOME/done"
    inputs: {b: "${{ steps.b.outputs.o }}"}
    outputs: {o: o}
YAML
TASKS=41

# What goes on in this project: programs that carry an attempt's mark and this directory.
strays() { grep -lz '^CAIRN_ATTEMPT=' /proc/[0-9]*/environ 2>/dev/null | xargs -r grep -lzF "$TRASH" 2>/dev/null; }
no_strays() { [ -z "$(strays)" ]; }
# shellcheck disable=SC2046 # paths of /proc have no spaces
no_guards() { [ -z "$(grep -lzF "$TRASH" $(grep -l '^cairn-guard$' /proc/[0-9]*/comm 2>/dev/null | sed 's/comm$/environ/') /dev/null 2>/dev/null)" ]; }

test_expect 'undisturbed' '
	: >"$HOME/done"
	cairn run pipeline.yaml -q
	test_lines "$TASKS" "$HOME/done"
	cairn get all/o -o - >want
'

# killed MS: kills the engine MS milliseconds after its start, takes the run up, compares.
killed() {
	local rc
	rm -rf .cairn "$HOME/done"
	: >"$HOME/done"
	rc=0
	timeout -s KILL "$(printf '0.%03d' "$1")" cairn run pipeline.yaml -q -j3 >out 2>err || rc=$?
	wait_until 20 no_strays
	wait_until 20 no_guards
	cp "$HOME/done" before
	[ -d .cairn ] || cairn run pipeline.yaml -q
	if ! cairn resume -q >out 2>err; then
		test_grep 'no run is waiting' err # it was killed before its first commit, or after its last
		cairn run pipeline.yaml -q
	fi
	cairn get all/o -o got --replace
	test_cmp want got
	test_is "$(sort -u "$HOME/done" | wc -l)" "$TASKS"
	# A task can have written its line and not be on record yet: three at work at most, and three that are taken in, each once more.
	[ "$(wc -l <"$HOME/done")" -le $((TASKS + 6)) ] || { sort "$HOME/done" | uniq -c | sort -rn | sed -n 1,10p; return 1; }
	test_is "$(sort "$HOME/done" | uniq -c | awk '$1 > 2' | wc -l)" 0
	cairn store verify >v
	cairn doctor >doctor
	python3 -c 'import sqlite3; r = sqlite3.connect(".cairn/cairn.db").execute("PRAGMA integrity_check").fetchall(); assert r == [("ok",)], r'
	# Nothing is left to do.
	cairn run pipeline.yaml --json >again
	test_is "$(json again 'd["counts"]["hits"]')" "$TASKS"
}

for ms in ${ANYTIME_MS:-2 5 9 14 20 27 35 44 54 65 77 90 104 119 135 160 200 250 300 400 500}; do
	test_expect "kill -9 after $ms ms" "killed $ms"
done
test_done
