#!/bin/bash
# Whatever a name or a value holds, text that is assembled from it stays what it was meant to be: each medium is read by a parser of its own.
. "$(dirname "$0")/../../lib.sh"

inject() { python3 "$SRC/tests/cli/pipeline/inject.py" "$@"; }

test_expect 'a run of hostile names and values' '
	inject project
	test_code 1 cairn run -q 2>err
	cairn runs --json >runs.json
	test_is "$(json runs.json "d[\"runs\"][0][\"state\"]")" failed
'
test_expect 'JSON: values come back equal' 'inject json'
test_expect 'SQL: words are values' 'inject sql'
test_expect 'SVG is XML that holds the names' 'inject xml'
test_expect 'DOT and Mermaid' 'inject graph'
test_expect --needs dot 'Graphviz reads it' 'cairn graph --tasks --format dot | dot -Tsvg >dot.svg'
test_expect 'OpenLineage, SLSA and RO-Crate' 'inject exports'
test_expect 'a terminal gets nothing from others that it obeys' 'inject terminal'
test_expect 'a log: bytes are bytes, and at a terminal only its colours reach it' '
	mkdir log
	cd log
	touch cairn.yaml
	cat >pipeline.yaml <<-"Y"
	pipeline: log
	steps:
	  colours: {run: "printf \"\\\\033[1;31mred\\\\033[0m\\\\tplain \\\\033]0;title\\\\007 a\\\\rb\\\\r\\\\n\""}
	Y
	cairn run -q
	printf "\\033[1;31mred\\033[0m\\tplain \\033]0;title\\007 a\\rb\\r\\n" >want
	inject log
'
test_expect 'the page of a reproduction' 'inject html'
test_expect 'crontabs, systemd units and CronJobs' 'inject schedules'
test_expect "a cluster's objects" '
	mkdir cluster
	cd cluster
	inject project
	inject kubernetes
'
test_done
