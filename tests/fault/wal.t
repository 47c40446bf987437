#!/bin/bash
# The engine is killed when the database's WAL has its full size, and when that is being emptied: the next process reads it, and nothing
# is lost or done twice. What a power cut tore from its end is executed again.
. "$(dirname "$0")/../lib.sh"

echo '# project' >cairn.yaml
tasks=1500 # each adds 50 KB
write pipeline.yaml <<YAML
pipeline: large
steps:
  t:
    matrix: {i: [$(seq -s, $tasks)]}
    run: echo \${{ matrix.i }} >o; echo \${{ matrix.i }} >>"\$HOME/done"
    outputs: {o: o}
YAML

bytes() { stat -c %s "$1" 2>/dev/null || echo 0; }

# wal_has BYTES / db_has BYTES: or the run has ended, which the test finds.
wal_has() { [ "$(bytes .cairn/cairn.db-wal)" -ge "$1" ] || [ -e run.rc ]; }
db_has() { [ "$(bytes .cairn/cairn.db)" -ge "$1" ] || [ -e run.rc ]; }

# kill_when CONDITION...: kills what `start run` began
kill_when() {
	wait_until 60 "$@"
	[ ! -e run.rc ] || { cat run.out; return 1; }
	kill -9 "$(cat run.pid)"
	wait_until 30 test -s run.rc
	rm -f run.rc run.pid
}

# went_well TWICE: the run has succeeded, at most so many tasks were executed twice, and the database is sound.
went_well() {
	cairn runs --json >runs
	test_is "$(json runs 'd["runs"][0]["state"]') $(json runs 'len(d["runs"])')" "succeeded 1"
	test_is "$(sort -u "$HOME/done" | wc -l)" $tasks
	[ "$(wc -l <"$HOME/done")" -le $((tasks + $1)) ]
	test_is "$(python3 -c 'import sqlite3; c = sqlite3.connect(".cairn/cairn.db"); print(c.execute("PRAGMA integrity_check").fetchone()[0],
		c.execute("SELECT count(DISTINCT task) FROM attempt WHERE failure = 0 AND ended_ns").fetchone()[0])')" "ok $tasks"
	cairn run pipeline.yaml -q --json >again
	test_is "$(json again '"{executed} {hits}".format(**d["counts"])')" "0 $tasks"
}

test_expect 'kill -9 just before a WAL of 64 MiB is emptied' '
	: >"$HOME/done"
	start run cairn run pipeline.yaml -q -j2
	kill_when wal_has 62000000
	cp -r .cairn full
	ended=$(wc -l <"$HOME/done")
	cp "$HOME/done" full.done
	[ $(bytes .cairn/cairn.db) -lt 1000000 ]
	cairn status --json >status
	[ $ended -gt 100 ]
'

test_expect 'kill -9 as soon as it begins to be emptied, then resume' '
	start run cairn resume -q -j2
	kill_when db_has 100000
	cairn resume -q -j2
	went_well 8
'

# Where a power cut leaves it: the last transactions weren't on the disk yet.
test_expect 'a WAL with a torn end: what was lost is executed again' '
	rm -rf .cairn
	mv full .cairn
	cp full.done "$HOME/done"
	dd if=/dev/zero of=.cairn/cairn.db-wal bs=1 seek=$(($(bytes .cairn/cairn.db-wal) - 300000)) count=2000 conv=notrunc 2>/dev/null
	cairn resume -q -j2
	went_well 20
'

test_done
