#!/bin/bash
# `cairn reproduce`: a past run again, from the store alone; what is the same, what isn't, and what the new run leaves behind. (tamper.t has what is lost or edited.)
. "$(dirname "$0")/../../lib.sh"
# shellcheck source=../../../examples/setup.sh
. "$SRC/examples/setup.sh"
setup_python sklearn matplotlib

cp -R "$SRC/examples/dice" "$SRC/examples/textstats" "$SRC/examples/digits" .
rm -rf {dice,textstats,digits}/.cairn

newest() { cairn -C "$1" runs --json >runs.json; json runs.json "d['runs'][0]['$2']"; }
verdict() { json report "next(t['verdict'] for t in d['tasks'] if t['task'] == '$1')"; }
output() { json report "next(o['$3'] for t in d['tasks'] if t['task'] == '$1' for o in t['outputs'] if o['name'] == '$2')"; }
metric() { json report "next(m['verdict'] for t in d['tasks'] if t['task'] == '$1' for m in t['metrics'] if m['name'] == '$2')"; }
seen_again() { [ "$(wc -l <seen)" = 2 ]; }
another_second() { [ "$(date +%s)" != "$1" ]; }

# ---- a machine that has nothing but the store -------------------------------------------------------------------------

test_expect 'textstats, in an empty directory: by prefix, by hash, by id; the same bytes' '
	cairn -C textstats run -q pipeline.yaml
	newest textstats hash >hash
	mv textstats/.cairn/store store
	rm -rf textstats
	mkdir empty
	cd empty
	cairn reproduce --trust "$(cut -c 1-8 ../hash)" --store ../store >../out
	test_exists .cairn/cairn.db
	cairn reproduce --trust -q "sha256:$(cat ../hash)"  --store ../store
	cat ../store/runs/*/"$(cat ../hash)" >../manifest
	cairn reproduce --trust -q --json "$(json ../manifest "d[\"run\"]")" --store ../store -o ../elsewhere/deep >../report
	cd ..
	test_exists elsewhere/deep/.cairn/cairn.db
	test_is "$(json report "[len(d[\"tasks\"]), d[\"verdict\"]]")" "[5, \"identical\"]"
	test_is "$(newest elsewhere/deep pipeline)" textstats
	cd empty
	cairn get report/page -r last --store ../store -o page
	test_grep "words" page
	cairn runs --json >runs
	# A reproduction. Only `last` itself means the newest run that is none.
	cairn tag -q last lastly --store ../store
	cairn reproduce --trust -q --json lastly --store ../store >report
	test_is "$(json report "d[\"original\"]")" "$(json runs "d[\"runs\"][0][\"hash\"]")"
'
test_expect 'an empty directory without a store is no place' '
	mkdir nothing
	cd nothing
	test_code 2 cairn reproduce abcdef 2>err
	test_grep "name the store" err
	test_missing .cairn
	test_code 4 cairn reproduce --trust abcdef --store ../store 2>err
	test_grep "no run .abcdef." err
'
if python3 -c 'import sklearn, matplotlib' 2>/dev/null; then
	test_expect 'digits, in an empty directory: bitwise, plots too' '
		cairn -C digits run -q pipeline.yaml
		newest digits hash >hash
		mv digits/.cairn/store digits-store
		cairn reproduce --trust -q --json "$(cat hash)" --store digits-store -o d >report
		test_is "$(json report "sorted({t[\"verdict\"] for t in d[\"tasks\"]})")" "[\"reproduced\"]"
		test_is "$(json report "[len(d[\"tasks\"]), d[\"verdict\"]]")" "[8, \"identical\"]"
	'
else
	test_skip 'digits' 'python3-sklearn or python3-matplotlib is missing'
fi

# ---- what isn't deterministic -----------------------------------------------------------------------------------------

# In the archive of `pack` are times of whole seconds: they differ once another one has begun.
test_expect 'dice: the nondeterministic step is found, named and located; what it feeds is given what was on record' '
	cairn -C dice run -q pipeline.yaml
	newest dice hash >hash
	cp hash first
	wait_until 5 another_second "$(date +%s)"
	mkdir fresh
	cd fresh
	test_code 11 cairn reproduce --trust -q --json "$(cat ../hash)" --store ../dice/.cairn/store --html ../page.html >../report
	test_is "$(cairn get urandom/throws --store ../dice/.cairn/store -o ../is)" ""
	cd ../dice
	cairn get urandom/throws -r "$(cat ../hash)" -o ../was
	cd ..
	test_is "$(verdict seeded)" reproduced
	test_is "$(verdict urandom)" diverged
	test_is "$(json report "d[\"first\"]")" urandom
	test_is "$(output urandom throws offset)" "$(($(cmp was is | sed "s/.* byte \([0-9]*\),.*/\1/") - 1))"
	test_is "$(verdict mean)" reproduced
	test_is "$(output mean means verdict)" identical
	test_is "$(metric mean time)" "within tolerance"
	test_is "$(verdict pack)" reproduced
	test_is "$(output pack archive verdict)" "identical after normalisation"
	test_is "$(output pack archive normaliser)" tar
	test_grep "urandom" page.html
'
test_expect 'dice: the exit code says how far it is the same' '
	cd dice
	cairn tag "$(cat ../first)" dice/first
	cairn reproduce -q dice/first --step seeded
	test_code 10 cairn reproduce -q "$(cat ../first)" --step seeded --step mean --json >../report
	test_is "$(json ../report "d[\"verdict\"]")" "within tolerance"
	test_code 10 cairn reproduce -q "$(cat ../first)" --step pack
	test_code 11 cairn reproduce -q "$(cat ../first)" --step urandom
	test_code 10 cairn reproduce -q "$(cat ../first)" --skip urandom --json >../report
	cd ..
	test_is "$(verdict urandom)" "not selected"
	test_is "$(verdict mean)" reproduced
'
test_expect 'dice, chained: what comes after the divergence is told apart' '
	cd dice
	test_code 11 cairn reproduce -q "$(cat ../first)" --chained --json >../report
	cd ..
	test_is "$(json report "d[\"first\"]")" urandom
	test_is "$(json report "[t[\"task\"] for t in d[\"tasks\"] if t[\"after_divergence\"]]")" "[\"mean\", \"pack\"]"
	cd dice
	cairn reproduce -q "$(cat ../first)" --chained --step seeded --json >../report
	cd ..
	test_is "$(verdict urandom)" "not selected"
'
test_expect 'names that the run has not' '
	cd dice
	test_code 3 cairn reproduce "$(cat ../first)" --step urandon 2>err
	test_grep "no step or task .urandon. .did you mean .urandom." err
	test_code 3 cairn reproduce "$(cat ../first)" --skip nothing 2>err
'

# ---- what a reproduction leaves behind --------------------------------------------------------------------------------

test_expect 'it answers for no other run, and is an observation' '
	cd dice
	cairn run -q --json pipeline.yaml >../run
	test_is "$(json ../run "d[\"counts\"][\"executed\"]")" 0
	cairn run -q --json pipeline.yaml urandom >../run
	test_is "$(json ../run "d[\"counts\"][\"executed\"]")" 0
	cairn get urandom/throws -r last -o ../now
	test_cmp ../was ../now
	cairn store verify --json >../verified
	test_is "$(json ../verified "sorted(n[\"task\"] for n in d[\"nondeterminism\"])")" "[\"pack\", \"urandom\"]"
'
test_expect 'a reproduction where nothing is on record adds no hit' '
	cp -R dice/.cairn/store bare
	chmod -R u+w bare
	rm -rf bare/actions
	mkdir machine
	cd machine
	test_code 11 cairn reproduce --trust -q "$(cat ../hash)" --store ../bare
	rm -rf .cairn
	cp ../dice/*.sh ../dice/pipeline.yaml ../dice/cairn.yaml .
	cairn run -q --json pipeline.yaml --store ../bare >../run
	test_is "$(json ../run "d[\"counts\"][\"executed\"]")" 4
'
test_expect 'both runs are kept until it is dropped, whatever the retention says' '
	rm -rf dice/.cairn
	cd dice
	cairn run -q pipeline.yaml seeded
	cairn runs --json >../runs.json
	first=$(json ../runs.json "d[\"runs\"][0][\"hash\"]")
	cairn reproduce -q $first
	cairn run -q pipeline.yaml seeded -p throws=10
	cairn run -q pipeline.yaml seeded -p throws=20
	cairn store gc -n --keep-runs 1 --grace 0s --json >../kept
	cairn reproduce --drop $first
	cairn store gc -n --keep-runs 1 --grace 0s --json >../dropped
	test "$(json ../dropped "d[\"condemned\"]")" -gt "$(json ../kept "d[\"condemned\"]")"
	test_code 4 cairn reproduce --drop $first 2>err
	test_grep "neither a reproduction" err
'

# ---- what a run can have been -----------------------------------------------------------------------------------------

mkdir shapes
touch shapes/cairn.yaml
write shapes/pipeline.yaml <<'YAML'
pipeline: shapes
params: {words: [a, b]}
steps:
  list:
    run: mkdir -p d && for w in x y; do echo $w >d/$w.txt; done && cp d/* ${{ outputs.d }} && echo '{"n":2,"many":[1,2]}' >m.json
    outputs: {d: out/}
    metrics: m.json
  each:
    each: "${{ steps.list.outputs.d }}/*.txt"
    run: cat ${{ inputs.f }} ${{ inputs.f }} >${{ outputs.o }}
    inputs: {f: "${{ item }}"}
    outputs: {o: o.txt}
  matrix:
    matrix: {w: "${{ params.words }}", k: [1, 2]}
    run: echo ${{ matrix.w }}${{ matrix.k }} >${{ outputs.o }}
    outputs: {o: o.txt}
  gathered:
    run: ls ${{ inputs.e }} ${{ inputs.m }} >${{ outputs.o }}
    inputs: {e: "${{ steps.each.outputs.o }}", m: "${{ steps.matrix.outputs.o }}"}
    outputs: {o: o.txt}
  never:
    if: "${{ steps.list.metrics.n > 2 }}"
    run: exit 1
    needs: [list]
  side:
    run: date +%N >${{ outputs.o }}
    cache: false
    outputs: {o: o.txt}
  quiet:
    run: "true"
    needs: [gathered]
  checked:
    run: echo '{"v":1}' >m.json; echo 1 >${{ outputs.o }}
    outputs: {o: o.txt}
    metrics: m.json
    gate: {v: ">= 2"}
  after:
    run: echo ${{ inputs.o }}
    inputs: {o: "${{ steps.checked.outputs.o }}"}
  broken:
    run: exit 3
  alarm:
    if: "${{ always() }}"
    run: "true"
    needs: [broken]
YAML
test_expect 'fan-outs, conditions, gates, failures: as they were then' '
	cd shapes
	test_code 1 cairn run -q -k -p words=[a,b,c] pipeline.yaml
	cairn runs --json >../runs.json
	json ../runs.json "d[\"runs\"][0][\"hash\"]" >../hash
	test_code 11 cairn reproduce -q --json "$(cat ../hash)" >../report
	cd ..
	test_is "$(json report "[t[\"task\"] for t in d[\"tasks\"] if t[\"verdict\"] == \"diverged\"]")" "[\"side\"]"
	test_is "$(json report "[t[\"task\"] for t in d[\"tasks\"] if t[\"verdict\"] == \"not selected\"]")" "[\"never\", \"after\"]"
	test_is "$(json report "len([t for t in d[\"tasks\"] if t[\"verdict\"] == \"reproduced\"])")" 14
	test_is "$(json report "[t[\"why\"] for t in d[\"tasks\"] if t[\"task\"] == \"broken\"][0][:20]")" "failed then as now: "
	cd shapes
	cairn reproduce -q --json "$(cat ../hash)" --chained --step gathered --step checked >../report
	test_is "$(json ../report "sorted({t[\"step\"] for t in d[\"tasks\"] if t[\"verdict\"] == \"reproduced\"})")" \
		"[\"checked\", \"each\", \"gathered\", \"list\", \"matrix\"]"
	test_code 11 cairn reproduce -q --json "$(cat ../hash)" --chained >../report
	cd ..
	test_is "$(json report "[t[\"task\"] for t in d[\"tasks\"] if t[\"verdict\"] == \"diverged\"]")" "[\"side\"]"
'
test_expect 'one task of a fan-out' '
	cd shapes
	cairn reproduce -q --json "$(cat ../hash)" --step "each[y.txt]" >../report
	test_is "$(json ../report "[t[\"task\"] for t in d[\"tasks\"] if t[\"verdict\"] == \"reproduced\"]")" "[\"each[y.txt]\"]"
'
mkdir keeper
touch keeper/cairn.yaml
write keeper/pipeline.yaml <<'YAML'
pipeline: keeper
steps:
  open:
    run: 'test -n "$TOKEN" && echo in >${{ outputs.o }}'
    secrets: [TOKEN]
    outputs: {o: o.txt}
  count: {run: "wc -c <${{ inputs.o }} >${{ outputs.n }}", inputs: {o: "${{ steps.open.outputs.o }}"}, outputs: {n: n.txt}}
YAML
test_expect 'a secret that is not here: that step is not comparable, and why; with it, it is' '
	cd keeper
	CAIRN_SECRET_TOKEN=x cairn run -q
	test_code 12 cairn reproduce -q --json last >../report
	cd ..
	test_is "$(verdict open)" "not comparable"
	json report "d[\"tasks\"][0][\"why\"]" >why
	test_grep TOKEN why
	test_is "$(verdict count)" reproduced
	CAIRN_SECRET_TOKEN=x cairn -C keeper reproduce -q last
	test_code 12 cairn -C keeper reproduce -q --json last --chained >report
	test_is "$(verdict count)" "not comparable"
'
test_expect 'a run that was interrupted has nothing to be held against' '
	mkdir stopped
	cd stopped
	touch cairn.yaml
	printf "pipeline: stopped\nsteps:\n  wait: {run: \"touch $PWD/up; sleep 60\"}\n" >pipeline.yaml
	cairn run -q pipeline.yaml &
	engine=$!
	wait_until 20 test -e up
	kill -INT $engine
	test_code 130 wait $engine
	test_code 12 cairn reproduce last 2>err
'

test_expect --needs git 'a checkout with edits and with files that git does not know' '
	git init -q checkout
	cd checkout
	printf "cat two.sh >\$1\n" >one.sh
	touch cairn.yaml
	git add .
	git commit -qm first
	echo "# edited" >>one.sh
	echo untracked >two.sh
	printf "pipeline: dirty\nsteps:\n  a: {run: \"sh one.sh \${{ outputs.o }}\", code: [two.sh], outputs: {o: o.txt}}\n" >pipeline.yaml
	cairn run -q
	cairn runs --json >../runs.json
	hash=$(json ../runs.json "d[\"runs\"][0][\"hash\"]")
	test_is "$(json ../runs.json "d[\"runs\"][0][\"git_dirty\"]")" true
	mv .cairn/store ../checkout-store
	cd ..
	rm -rf checkout
	cairn reproduce --trust -q "$hash" --store checkout-store -o from-dirty
	cd from-dirty
	test_is "$(cairn get a/o -r last --store ../checkout-store -o -)" untracked
'
test_expect 'the keys are those of then, the salt of the project included' '
	mkdir salted
	cd salted
	echo "salt: pepper" >cairn.yaml
	printf "pipeline: salted\nsteps:\n  a: {run: \"date +%%N >\${{ outputs.o }}\", outputs: {o: o.txt}}\n" >pipeline.yaml
	cairn run -q
	echo "salt: sugar" >cairn.yaml
	test_code 11 cairn reproduce -q last
	cairn store verify --json >../verified
	test_is "$(json ../verified "[n[\"task\"] for n in d[\"nondeterminism\"]]")" "[\"a\"]"
'

# ---- kill -9 ----------------------------------------------------------------------------------------------------------

test_expect 'kill -9 in mid-reproduction: resume goes on with it, as it was asked for' '
	mkdir slow
	cd slow
	touch cairn.yaml
	cat >pipeline.yaml <<EOF
pipeline: slow
steps:
  first: {run: "date +%N >\${{ outputs.o }}", outputs: {o: o.txt}}
  second:
    run: "echo at >>$PWD/seen; while [ -e $PWD/hold ]; do sleep 0.05; done; cp \${{ inputs.o }} \${{ outputs.o }}"
    inputs: {o: "\${{ steps.first.outputs.o }}"}
    outputs: {o: o.txt}
EOF
	cairn run -q
	touch hold
	cairn reproduce -q last -j 1 2>err &
	engine=$!
	wait_until 20 seen_again
	kill -9 $engine
	wait $engine || :
	rm hold
	test_code 11 cairn resume -q --json >../report
	cd ..
	test_is "$(verdict first)" diverged
	test_is "$(verdict second)" reproduced
	test_is "$(json report "d[\"mode\"]")" isolated
	cairn -C slow status --json "$(json report "d[\"is\"][\"id\"]")" >s
	test_is "$(json s "len([t for t in d[\"tasks\"] if t[\"task\"] == \"first\"])")" 1
'

test_expect 'a gate that fails then and now proves nothing of metrics that differ' '
	mkdir gate
	cd gate
	touch cairn.yaml
	cat >pipeline.yaml <<EOF
pipeline: gate
steps:
  judge:
    run: echo x >>$PWD/count; printf {\"m\":%s} \$(wc -l <$PWD/count) >m.json
    metrics: m.json
    gate: {m: ">= 100"}
EOF
	test_code 1 cairn run -q
	test_code 11 cairn reproduce last --json >../report
	cd ..
	test_is "$(verdict judge)" diverged
'
test_done
