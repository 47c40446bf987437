#!/bin/bash
# The engine of a reproduction is killed at many points: it goes on as the reproduction that it was, and says what it would have said.
. "$(dirname "$0")/../lib.sh"

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: many
steps:
  a:
    matrix: {i: [0, 1, 2, 3, 4, 5]}
    run: echo ${{ matrix.i }} >o; echo a${{ matrix.i }} >>"$HOME/done"
    outputs: {o: o}
  b:
    matrix: {i: [0, 1, 2, 3, 4, 5]}
    run: sed s/^/b/ ${{ inputs.a }} >o; echo b${{ matrix.i }} >>"$HOME/done"
    inputs: {a: "${{ steps.a.outputs.o }}"}
    outputs: {o: o}
  dice:
    run: date +%N >o; echo dice >>"$HOME/done"
    outputs: {o: o}
  all:
    run: cat ${{ inputs.b }}/* ${{ inputs.dice }} | grep -c . >o; echo all >>"$HOME/done"
    inputs: {b: "${{ steps.b.outputs.o }}", dice: "${{ steps.dice.outputs.o }}"}
    outputs: {o: o}
YAML
cairn run -q >/dev/null
hash=$(cairn runs --json >runs; json runs 'd["runs"][0]["hash"]')
export hash

# Kills it when `done` has N lines. MODE: --chained or nothing
killed_at() {
	: >"$HOME/done"
	rm -f run.rc run.pid
	start run cairn reproduce "$hash" -q -j2 $2
	wait_until 30 sh -c "[ \$(wc -l <'$HOME/done') -ge $1 ] || [ -e run.rc ]"
	kill -9 "$(cat run.pid)" 2>/dev/null || true
	wait_until 30 test -s run.rc
	if [ "$(cat run.rc)" -ne 11 ]; then
		rc=0
		cairn resume -q --json >report 2>err || rc=$?
		if [ $rc -ne 11 ]; then # it was killed before its first word, or after the run's last
			test_grep "no run is waiting|nothing to resume" err
			test_code 11 cairn reproduce "$hash" -q --json $2 >report
			: >"$HOME/done"
		fi
		test_is "$(json report '[t["task"] for t in d["tasks"] if t["verdict"] == "diverged"]')" '["dice"]'
		test_is "$(json report 'len([t for t in d["tasks"] if t["verdict"] == "reproduced"])')" 13
	fi
	# Two tasks can have been at work when it died, and the outputs of two were taken in; everything else exactly once.
	[ "$(wc -l <"$HOME/done")" -le 18 ]
	cairn run -q --json >out
	test_is "$(json out 'd["counts"]["executed"]')" 0
	cairn store verify >v
}

for n in 0 1 3 6 9 12 13 14; do
	test_expect "kill -9 after $n tasks, then resume" "killed_at $n ''"
done
for n in 2 8 13; do
	test_expect "chained: kill -9 after $n tasks, then resume" "killed_at $n --chained"
done
test_done
