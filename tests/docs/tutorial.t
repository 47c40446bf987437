#!/bin/bash
# The tutorial and the README's tour, block after block, as a reader pastes them.
. "$(dirname "$0")/../lib.sh"

# paste NAME PAGE: all of its blocks, in a directory of their own.
paste_page() {
	mkdir "$1"
	python3 "$SRC/tests/docs/blocks.py" script "$2" >"$1.sh"
	cd "$1"
	bash -eu "../$1.sh" >"../$1.out" 2>&1 || { cat "../$1.out"; false; }
	cd ..
}
test_expect 'the tutorial works, and says what happens' '
	paste_page tutorial "$SRC/docs/guide/tutorial.md"
	test_grep "2 tasks, 1 executed, 1 on record" tutorial.out
	test_grep "4 tasks, 3 executed, 1 on record" tutorial.out
	test_grep "param seed changed: 7 → 8|seed 7 → 8" tutorial.out
	test_grep "gate failed: loss" tutorial.out
	test_grep "identical: every output is the same bytes" tutorial.out
'
test_expect 'what the tutorial does on a cluster can be said' '
	cd tutorial
	cairn check pipeline.yaml grid.yaml
	cp pipeline.yaml make.py fit.py cluster/
	cairn -C cluster check
'
test_expect 'the tour of the README works when it is pasted' '
	sed -n "/^## The tour/,/^## /p" "$SRC/README.md" >tour.md
	paste_page tour tour.md
	test "$(grep -c "^cairn" tour.sh)" -ge 10
	test_grep "on record, which saved" tour.out
	test_grep "identical" tour.out
'
test_done
