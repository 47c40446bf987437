#!/bin/bash
# kill -9 at the points where something becomes durable or visible: the N-th commit, fsync, rename, write of the database, for N = 1, 2, 3, …
# (where there are very many: every so manieth) until the run comes to its end. Then `cairn resume`: what was on record as finished isn't executed again, and the results are
# those of a run that nobody disturbed.
. "$(dirname "$0")/../lib.sh"

[ -z "$(nm "$CAIRN" 2>/dev/null | grep __asan_init)" ] || test_skip_all 'calls are preloaded, which the address sanitizer does not allow'
cc -shared -fPIC -O1 -o "$TRASH/nth.so" "$SRC/tests/fault/nth.c" -ldl 2>cc.log || test_skip_all 'no C compiler for the preloaded calls'

echo '# project' >cairn.yaml
write in/a <<<'one'
write in/b <<<'two'
# Ten tasks with all that a run writes: trees and blobs, a fan-out that is known late, metrics, a gate, a retry, an uncacheable one.
write pipeline.yaml <<'YAML'
pipeline: points
inputs: {raw: in/}
defaults: {retry: {max: 3, backoff: 1ms}}
steps:
  split:
    run: "mkdir -p parts; for f in ${{ inputs.raw }}/*; do cp $f parts/; done; echo three >parts/c; echo split >>\"$HOME/done\""
    inputs: {raw: "${{ inputs.raw }}"}
    outputs: {parts: parts/}
  each:
    each: "${{ steps.split.outputs.parts }}/*"
    run: "tr a-z A-Z <${{ inputs.p }} >o; echo each-$(cat ${{ inputs.p }}) >>\"$HOME/done\""
    inputs: {p: "${{ item }}"}
    outputs: {o: o}
  score:
    matrix: {k: [1, 2]}
    run: "echo '{\"acc\": 0.${{ matrix.k }}}' >m.json; cat ${{ inputs.all }}/* | sort >o; echo log; echo score-${{ matrix.k }} >>\"$HOME/done\""
    inputs: {all: "${{ steps.each.outputs.o }}"}
    outputs: {o: o}
    metrics: m.json
    gate: {acc: "> 0"}
  volatile:
    run: "echo v >o; echo volatile >>\"$HOME/done\""
    outputs: {o: o}
    cache: false
  empty:
    run: "mkdir -p d; echo empty >>\"$HOME/done\""
    outputs: {d: d/}
  link:
    run: "mkdir -p d; ln -s x d/y; echo x >d/x; chmod +x d/x; echo link >>\"$HOME/done\""
    outputs: {d: d/}
  all:
    run: "cat ${{ inputs.s }}/* ${{ inputs.v }} ${{ inputs.l }}/y >o; ls ${{ inputs.e }} >>o; echo all >>\"$HOME/done\""
    inputs: {s: "${{ steps.score.outputs.o }}", v: "${{ steps.volatile.outputs.o }}", e: "${{ steps.empty.outputs.d }}", l: "${{ steps.link.outputs.d }}"}
    outputs: {o: o}
YAML
TASKS=10

strays() { grep -lz '^CAIRN_ATTEMPT=' /proc/[0-9]*/environ 2>/dev/null | xargs -r grep -lzF "$TRASH" 2>/dev/null; }
no_strays() { [ -z "$(strays)" ]; }

# Tasks that are on record as finished, as the words that they write; of a copy, so that nobody else opens the database.
write finished.py <<'PY'
import glob, os, shutil, sqlite3, sys
os.makedirs("copy", exist_ok=True)
for f in glob.glob("copy/*"):
    os.unlink(f)
for f in glob.glob(".cairn/cairn.db*"):
    shutil.copy(f, "copy")
try:
    rows = sqlite3.connect("copy/cairn.db").execute("SELECT task FROM attempt WHERE ended_ns > 0 AND failure = 0").fetchall()
except sqlite3.OperationalError:
    rows = []
words = {"each[a]": "each-one", "each[b]": "each-two", "each[c]": "each-three", "score[k=1]": "score-1", "score[k=2]": "score-2"}
for (task,) in rows:
    print(words.get(task, task))
PY

test_expect 'undisturbed' '
	cairn run -q
	cairn get all/o -o want
	test_lines "$TASKS" "$HOME/done"
	sort "$HOME/done" >want.done
	python3 finished.py | sort >finished
	test_cmp want.done finished
'

# What was at work, or taken in, when it was killed may have written its word and not be on record: EXTRA of them.
# Everything else exactly once: what is on record isn't executed again.
look() { # EXTRA
	local word
	test_is "$(sort -u "$HOME/done" | wc -l)" "$TASKS"
	while read -r word; do
		[ "$word" = volatile ] && continue # never cached: a run that begins anew executes it again
		test_is "$word $(grep -cx -- "$word" "$HOME/done")" "$word $(grep -cx -- "$word" before)"
	done <finished
	[ "$(wc -l <"$HOME/done")" -le $((TASKS + $1)) ] || { sort "$HOME/done" | uniq -c; return 1; }
	cairn get all/o -o got --replace
	test_cmp want got
	cairn store verify >verify || { cat verify; return 1; }
	test_is "$(find .cairn/work -mindepth 1 -maxdepth 1 ! -name 'trash-*' | wc -l)" 0
}

# go_on: takes the run up, or begins anew when it was killed before its first commit or after its last.
go_on() {
	if ! cairn resume -q >out 2>err; then
		test_grep 'no run is waiting|nothing was run' err
		cairn run -q >out 2>err || { cat err; false; }
	fi
}

killed() { env NTH_CALL="$1" NTH_N="$2" NTH_ERRNO=kill NTH_FIRED="$PWD/fired" LD_PRELOAD="$TRASH/nth.so" "$CAIRN" "${@:3}" >out 2>err; }

# points CALL STEP MAX: every STEP-th, up to MAX
points() {
	local n=1 fired=0
	for ((n = 1; n <= $3; n += $2)); do
		rm -rf .cairn fired "$HOME/done"
		: >"$HOME/done"
		killed "$1" "$n" run -q -j2 || :
		[ -e fired ] || break
		fired=$((fired + 1))
		wait_until 20 no_strays
		python3 finished.py >finished
		cp "$HOME/done" before
		echo "after $1 number $n"
		go_on
		look 5
	done
	echo "$fired points of $1"
	[ "$fired" -gt 0 ]
}

# The same, and what takes the run up is killed at its own N-th too.
points_twice() {
	local n fired=0
	for ((n = 1; n <= $3; n += $2)); do
		rm -rf .cairn fired "$HOME/done"
		: >"$HOME/done"
		killed "$1" "$n" run -q -j2 || :
		[ -e fired ] || break
		rm -f fired
		wait_until 20 no_strays
		killed "$1" "$n" resume -q -j2 || :
		[ ! -e fired ] || fired=$((fired + 1))
		wait_until 20 no_strays
		python3 finished.py >finished
		cp "$HOME/done" before
		echo "after twice $1 number $n"
		go_on
		look 10
	done
	echo "$fired second kills at $1"
	[ "$fired" -gt 0 ]
}

test_expect 'before each commit' 'points commit 1 200'
test_expect 'after each commit' 'points committed 1 200'
test_expect 'at each fdatasync and fsync' 'points fdatasync 1 100
	points fsync 1 100'
test_expect 'at renames' 'points renameat2 3 200
	points rename 1 200
	points renameat 2 200'
test_expect 'at writes of the database' 'points pwrite 5 600'
test_expect 'at removals' 'points unlinkat 9 400'
test_expect 'at each start of a program' 'points clone 1 100'
test_expect 'before each commit, and again while it is taken up' 'points_twice commit 1 200'
test_done
