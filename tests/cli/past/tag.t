#!/bin/bash
# cairn tag: names of runs, that move and keep their history, pin against gc, and are everybody's in a shared store.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
write pipeline.yaml <<'Y'
pipeline: fashion
params: {n: 1}
steps:
  train: {run: "echo model ${{ params.n }} >${{ outputs.model }}", outputs: {model: m}}
Y

id() { cairn runs --json -n 0 | json /dev/stdin "d['runs'][$1]['id']"; }

test_expect 'a name stands for a run wherever a run can be named' '
	for n in 1 2 3; do cairn run -q -p n=$n; done
	cairn tag "$(id 2)" fashion/best
	test_is "$(cairn get fashion/best:model -o -)" "model 1"
	test_is "$(cairn get fashion/best/train/model -o -)" "model 1"
	test_is "$(cairn get train --run fashion/best -o -)" "model 1"
	cairn status fashion/best --json >out
	test_is "$(json out "d[\"run\"][\"params\"][\"n\"]")" 1
	cairn get fashion/best -o dir
	test_is "$(cat dir/outputs/train/model)" "model 1"
	cairn diff fashion/best last >out
	cairn logs -r fashion/best train >out
'
test_expect 'it moves, with history; another name of the same run' '
	cairn tag "$(id 1)" fashion/best -m "better by 2"
	cairn tag "$(id 0)" fashion/best
	cairn tag "$(id 1)" v2
	test_is "$(cairn get fashion/best:model -o -)" "model 3"
	cairn tag --history fashion/best --json >out
	test_is "$(json out "[t[\"run\"] for t in d[\"tags\"]]")" "[\"$(id 0)\", \"$(id 1)\", \"$(id 2)\"]"
	test_is "$(json out "d[\"tags\"][1][\"note\"]")" "better by 2"
	cairn tag --list --json >out
	test_is "$(json out "[[t[\"name\"], t[\"run\"]] for t in d[\"tags\"]]")" "[[\"fashion/best\", \"$(id 0)\"], [\"v2\", \"$(id 1)\"]]"
	cairn tag >out
	test_lines 3 out
'
test_expect 'taken away: it names nothing, but its history is kept' '
	cairn tag --delete v2
	test_code 4 cairn get v2:model -o - 2>err
	test_code 4 cairn tag --delete v2 2>err
	cairn tag --history v2 --json >out
	test_is "$(json out "[t[\"hash\"] is None for t in d[\"tags\"]]")" "[true, false]"
	test_is "$(cairn tag --json | json /dev/stdin "len(d[\"tags\"])")" 1
	cairn tag "$(id 1)" v2
	test_is "$(cairn get v2:model -o -)" "model 2"
'
test_expect 'what cannot be a name, or has none' '
	for bad in last Best -x a//b a/ .x fashion-2bcdf abcd deadbeef "a b" "$(printf "%0101d" 0)" ""; do
		test_code 2 cairn tag last -- "$bad" 2>err
		test_lines 1 err
	done
	test_code 4 cairn tag nosuch name 2>err
	test_code 2 cairn tag last 2>err
	test_code 2 cairn tag --list --delete x 2>err
	test_code 4 cairn tag --history never 2>err
	for good in a 1.2 x/y_z-1 abc; do cairn -q tag last $good; cairn -q tag --delete $good; done
'
test_expect 'gc keeps what a name means, and not what it meant' '
	old=$(cairn get fashion/best -o one; cat one/outputs/train/model)
	for n in 4 5 6; do cairn run -q -p n=$n; done
	cairn tag last v2
	find .cairn/store -exec touch -h -d "-3 days" {} +
	cairn store gc --keep-runs 1 --grace 0 >out
	CAIRN_TEST_MARK_GAP=0 cairn store gc --keep-runs 1 --grace 0 >out
	test_grep "removed [1-9]" out
	cairn get fashion/best -o two
	test_is "$(cat two/outputs/train/model)" "$old"
	test_is "$(cairn get fashion/best:model -o -)" "model 3"
	test_code 1 cairn get "$(id 4)" -o three 2>err || test_code 4 cairn get "$(id 4)" -o three 2>err
'
test_expect 'gc keeps runs that a directory has of another project, and those that a lost database knew' '
	mkdir shared
	cd shared
	export CAIRN_TEST_MARK_GAP=0
	for p in ann bob; do
		mkdir $p
		echo "store: ../both" >$p/cairn.yaml
		printf "pipeline: $p\nparams: {n: 1}\nsteps:\n  s: {run: \"echo $p \${{ params.n }} >o\", outputs: {o: o}}\n" >$p/pipeline.yaml
		cairn -C $p run -q
	done
	sweep() {
		find both -exec touch -h -d "-3 days" {} +
		cairn -C $1 store gc --grace 0 ${2-} >out
		find both -exec touch -h -d "-3 days" {} +
		cairn -C $1 store gc --grace 0 ${2-} >out
	}
	sweep ann
	test_is "$(cairn -C bob get s/o -o -)" "bob 1"
	cairn -C ann runs --json >ann.json
	id=$(json ann.json "d[\"runs\"][0][\"id\"]")
	rm ann/.cairn/cairn.db*
	sweep ann
	cairn -C ann store reindex -q >out
	test_is "$(cairn -C ann get s/o -r "$id" -o -)" "ann 1"
	for n in 2 3; do cairn -C bob run -q -p n=$n; done
	sweep ann "--keep-runs 1"
	test_is "$(cairn -C bob get s/o -r last -o -) $(cairn -C ann get s/o -r "$id" -o -)" "bob 3 ann 1"
	test_is "$(find both/runs -type f | wc -l)" 3 # of bob also the one that ann has on record
'
test_expect 'names survive the database' '
	cairn tag --json >names.1
	cairn tag --history v2 --json >history.1
	rm .cairn/cairn.db*
	cairn store reindex -q >out
	cairn tag --json >names.2
	cairn tag --history v2 --json >history.2
	test_cmp names.1 names.2
	test_cmp history.1 history.2
	test_is "$(cairn get fashion/best:model -o -)" "model 3"
'
test_expect 'a record of a name that is damaged or not one is left out' '
	mkdir -p .cairn/store/tags/ab
	for text in "{}" "[]" "x" "{\"cairn_tag\":1,\"at_ns\":5,\"name\":\"last\",\"run\":null}" "{\"cairn_tag\":1,\"at_ns\":-5,\"name\":\"ok\",\"run\":null}" "{\"cairn_tag\":1,\"at_ns\":5,\"name\":\"ok\",\"run\":\"xyz\"}"; do
		h=$(printf "%s" "$text" | sha256sum | cut -c1-64)
		mkdir -p ".cairn/store/tags/${h:0:2}"
		printf "%s" "$text" >".cairn/store/tags/${h:0:2}/$h"
	done
	cairn tag --json >names.2
	test_cmp names.1 names.2
'
test_expect 'two projects with one directory as store: a name given in one is the other one'"'"'s' '
	mkdir p1 p2
	for p in p1 p2; do
		printf "store: ../both\n" >$p/cairn.yaml
		cp pipeline.yaml $p
	done
	(cd p1; cairn run -q; cairn -q tag last team/best)
	cd p2
	cairn tag --json >out
	test_is "$(json out "d[\"tags\"][0][\"name\"]")" team/best
	test_is "$(cairn get team/best:model -o -)" "model 1"
	cairn runs --json >out
	test_is "$(json out "len(d[\"runs\"])")" 1
'
test_done
