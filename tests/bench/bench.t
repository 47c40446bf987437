#!/bin/bash
# The benchmark's own parts: each tool's graph makes the same files, a second time nothing, and the table says what it didn't measure.
TEST_NEEDS_CAIRN=0
. "$(dirname "$0")/../lib.sh"

# graph TOOL N: a fresh folder of that name with the graph in it
graph() {
	python3 -B -c 'import sys; sys.path.insert(0, sys.argv[1]); import graphs; getattr(graphs, sys.argv[2])(graphs.fresh(sys.argv[2]), int(sys.argv[3]))' \
		"$SRC/tests/bench" "$1" "$2"
}
# newest FOLDER: the time of the newest output, and how many there are
newest() { find "$1/out" -type f -printf '%T@\n' | sort -n | awk '{ n++; t = $1 } END { print n, t }'; }

test_expect --needs 'ninja make' 'the graphs of ninja and make give the same 25 files' '
	graph ninja 25
	graph make 25
	ninja --quiet -C ninja >log
	make -s -C make >>log
	diff -r ninja/out make/out
	test_is "$(find ninja/out -type f | wc -l)" 25
	test_is "$(find ninja/out -type f -exec sha256sum {} + | cut -d " " -f 1 | sort -u | wc -l)" 25
	test_is "$(tail -n 1 ninja/out/24) $(wc -l <ninja/out/24)" "24 6"
'
test_expect --needs snakemake 'so does the graph of Snakemake' '
	graph snakemake 25
	cd snakemake
	snakemake -q all -c 2 >../log 2>&1
	diff -r ../ninja/out out
'
test_expect --needs 'ninja make' 'a second time nothing is done' '
	before=$(newest ninja)$(newest make)
	ninja --quiet -C ninja >log
	make -s -C make >>log
	test_is "$(newest ninja)$(newest make)" "$before"
'
test_expect 'rounds are interleaved, medians of what was timed, failures named' '
	cat >m.py <<-"E"
	import os, sys
	sys.path.insert(0, sys.argv[1])
	from measure import Contender, interleaved, peak_rss
	order = []
	def prepare(name):
	    return lambda r: order.append((r, name)) or "."
	medians, reasons = interleaved([Contender("a", ["sh", "-c", "sleep 0.05"], prepare("a")), Contender("b", ["true"], prepare("b")),
	                                Contender("c", ["sh", "-c", "echo why; exit 3"], prepare("c"))], 3, "log.m", warm=1)
	assert [o for o in order if o[1] != "c"] == [(r, n) for r in (-1, 0, 1, 2) for n in "ab"], order
	assert set(medians) == {"a", "b"} and 0.05 <= medians["a"].seconds < 5 and medians["b"].seconds < medians["a"].seconds
	assert medians["b"].rss_bytes > 100000
	import shutil
	assert not shutil.which("time") or 100000 < peak_rss(["true"], ".", "log") < 5000000
	assert "why" in reasons["c"]
	E
	python3 -B m.py "$SRC/tests/bench"
'
test_expect --needs 'ninja git' 'the table has a row per measurement and no number that was not measured' '
	"$SRC/tests/bench/run" --cairn /none --only start,lineage,search >table 2>log
	test_grep "^\| start .* \| not measured \| ninja [0-9.]+ ms \|  \| 3 ms \|  \|$" table
	test_grep "^\| lineage closure, 1M artifacts \| not measured" table
	test_grep "^\| search, 60 trials, .* \| not measured \| bench_search isn.t built" table
	test_no_grep "met\b" table
'
test_expect --needs 'ninja git' 'a missed budget is said, and is an exit code with --check' '
	printf "#!/bin/sh\nsleep 0.05\n" >slow
	chmod +x slow
	test_code 1 "$SRC/tests/bench/run" --cairn "$PWD/slow" --only start --check >table 2>log
	test_grep "missed" table
'
test_expect 'what is met: both limits, and only what was measured' '
	cat >v.py <<-"E"
	import importlib.machinery, importlib.util, sys, types
	loader = importlib.machinery.SourceFileLoader("bench_run", sys.argv[1] + "/tests/bench/run")
	run = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_run", loader))
	loader.exec_module(run)
	from measure import Sample
	b = run.Bench(types.SimpleNamespace(cairn="x"), ".")
	both = {"cairn": Sample(2.0, 1), "ninja": Sample(1.0, 1)}
	for limit, ratio, want in ((3, None, True), (1, None, False), (None, 2.0, True), (None, 1.5, False), (3, 1.5, False), (1, 2.0, False)):
	    b.add("w", both, {}, "ninja", "b", limit, ratio)
	    assert b.rows[-1][5] is want and b.rows[-1][3] == "2.00", b.rows[-1]
	b.add("w", {"cairn": Sample(1.0, 1)}, {"ninja": "why"}, "ninja", "b", None, 2.0)
	assert b.rows[-1][5] is None and b.notes == ["w, ninja: why"]
	b.add("w", {"ninja": Sample(1.0, 1)}, {}, "ninja", "b", 3)
	assert b.rows[-1][5] is None and b.rows[-1][1] == "not measured"
	E
	python3 -B v.py "$SRC" 2>log
'
if [ -n "$CAIRN" ] && [ -x "$CAIRN" ]; then
	test_expect --needs 'ninja make git openssl' 'a small round with the binary under test' '
		"$SRC/tests/bench/run" --cairn "$CAIRN" --only start,noop,matrix,run,group,dataset,sweep,ingest --sizes 20 --run-tasks 20 --ingest-mib 4 --dataset-mib 4 >table 2>log
		test_no_grep "not measured|^Note" table
		test_grep "^\| 20 tasks in a concurrency group of 1 .*\| ≤ 1.3 × without \|" table
		test_grep "^\| prepare, train, evaluate of 4 MiB .*\| ≤ 1.1 × script \|" table
		test_grep "^\| disk beside the data of that, .mode: link. \| 0\.[0-9]+ × the data" table
		test_grep "^\| sweep of 20 tasks over 4 MiB .*\| ≤ 1.05 × script \|" table
	'
else
	test_skip 'a small round with the binary under test' 'no cairn binary'
fi
test_done
