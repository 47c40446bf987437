#!/bin/bash
# The benchmark on simulated nodes at a small size: it measures what it says, and a task costs few requests, whatever the machine.
. "$(dirname "$0")/../lib.sh"
. "$SRC/tests/cluster/cluster.sh"

lacks=$(cluster_do "$SRC/tests/cluster/build" --check) || true
[ -z "$lacks" ] || test_skip_all "$lacks"

test_expect 'Cairn and bare Jobs: their rows; Cairn asks less than once a task, since tasks share a Job' '
	cluster_do "$SRC/tests/bench/cluster" --only cairn --only bare --tasks 20 --cairn "$CAIRN" >out 2>err || { cat err; false; }
	test_grep "^. bare Jobs . 20 . [0-9.]+ s . [0-9.]+ . 2.[0-9]+ . [0-9]+ MB . " out
	test_grep "^. cairn . 20 . [0-9.]+ s . [0-9.]+ . 0.[0-9]+ . [0-9]+ MB . " out
	test_grep " 20 create jobs" err # the bare ones
	test_grep "^#  +1 create jobs" err
'
test_expect 'in_flight.py: a row for each number of tasks, which share Jobs' '
	"$SRC/tests/bench/in_flight.py" --cairn "$CAIRN" 20 70 >out
	test_grep "^. 20 . 1 . [0-9.]+ MB .$" out
	test_grep "^. 70 . 2 . [0-9.]+ MB .$" out
'
test_done
