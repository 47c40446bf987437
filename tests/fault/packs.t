#!/bin/bash
# Packs of a directory store: the disk is full, or the engine is killed, at each call that makes a pack or writes one again.
# No result is lost that the database has on record, and what is left in the store is sound.
. "$(dirname "$0")/../lib.sh"

[ -z "$(nm "$CAIRN" 2>/dev/null | grep __asan_init)" ] || test_skip_all 'calls are preloaded, which the address sanitizer does not allow'
cc -shared -fPIC -O1 -o "$TRASH/nth.so" "$SRC/tests/fault/nth.c" -ldl 2>cc.log || test_skip_all 'no C compiler for the preloaded calls'

export CAIRN_TEST_MARK_GAP=0s
echo '# project' >cairn.yaml
# Enough results of one turn for a pack (PACKS_WORTH).
write pipeline.yaml <<'YAML'
pipeline: many
params: {n: 1}
steps:
  t:
    matrix: {i: [0, 1, 2, 3, 4, 5], k: [0, 1, 2, 3, 4, 5]}
    run: "echo ${{ matrix.i }}-${{ matrix.k }}-${{ params.n }} >o"
    outputs: {o: o}
YAML
TASKS=36

strays() { grep -lz '^CAIRN_ATTEMPT=' /proc/[0-9]*/environ 2>/dev/null | xargs -r grep -lzF "$TRASH" 2>/dev/null; }
no_strays() { [ -z "$(strays)" ]; }
at() { # CALL N ERRNO WORDS: that call on a file of packs/
	env NTH_CALL="$1" NTH_N="$2" NTH_ERRNO="$3" NTH_PATH=packs/ NTH_FIRED="$PWD/fired" LD_PRELOAD="$TRASH/nth.so" "$CAIRN" "${@:4}" >out 2>err
}
hits() { json run.json 'd["counts"]["hits"]'; }

# each_call ERRNO: a run in which the n-th such call fails (28: no space) or kills.
each_call() {
	local call n fired=0 rc told
	for call in openat write fsync renameat2; do
		for ((n = 1; n <= 20; n++)); do
			rm -rf .cairn fired
			rc=0
			at "$call" "$n" "$1" run || rc=$?
			[ -e fired ] || break
			fired=$((fired + 1))
			echo "$call number $n: exit $rc"
			if [ "$1" = kill ]; then
				wait_until 20 no_strays
				cairn resume -q || cairn run -q
				told=1
			else
				test_is "$rc" 0 || { cat err; return 1; }
				told=$(cat out err | grep -c 'could not be written' || :)
			fi
			cairn store verify >verify || { cat verify; return 1; }
			cairn run -q --json >run.json
			test_is "$(hits)" "$TASKS"
			rm -f .cairn/cairn.db* # what others find in the store
			cairn run -q --json >run.json
			if [ "$told" = 0 ]; then
				test_is "$(hits)" "$TASKS"
			else
				test_is "$(json run.json 'd["counts"]["hits"] + d["counts"]["executed"]')" "$TASKS"
			fi
			cairn store verify >verify || { cat verify; return 1; }
		done
	done
	echo "$fired points"
	[ "$fired" -gt 4 ]
}

test_expect 'the disk is full at each call that makes a pack: results stay' 'each_call 28'
test_expect 'killed at each call that makes a pack' 'each_call kill'

# gc writes a pack again, without what is dead in it.
test_expect 'killed, and no space, where gc writes a pack again' '
	rm -rf .cairn
	cairn run -q
	cairn run -q -p n=2
	cairn tag -q "$(cairn runs --json | python3 -c "import json, sys; print(json.load(sys.stdin)[\"runs\"][0][\"id\"])")" keep
	find .cairn/store -type f -exec touch -d "3 days ago" {} +
	cairn store gc -q --keep 1ms
	cp -a .cairn before
	fired=0
	for how in kill 28; do
		for call in openat write fsync renameat2 unlinkat; do
			for n in 1 2 3 4 5 6 7 8 9; do
				rm -rf .cairn fired
				cp -a before .cairn
				rc=0
				at $call $n $how store gc -q --keep 1ms || rc=$?
				[ -e fired ] || break
				fired=$((fired + 1))
				echo "$call number $n, $how: exit $rc"
				cairn store verify >verify || { cat verify; return 1; }
				rm -f .cairn/cairn.db*
				cairn run -q -p n=2 --json >run.json
				test_is "$(hits)" $TASKS
				cairn store gc -q --keep 1ms
				cairn store verify >verify || { cat verify; return 1; }
			done
		done
	done
	echo "$fired points"
	test "$fired" -gt 4
'
test_done
