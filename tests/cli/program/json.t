#!/bin/bash
# --json: every answer is as `cairn help json --json` describes it, and every error is a document.
. "$(dirname "$0")/../../lib.sh"
python3 -c 'import jsonschema; jsonschema.Draft202012Validator' 2>/dev/null || test_skip_all 'needs python3-jsonschema 4.0'

mkdir a e
# Keeps an answer in a/. Standard error stays empty.
keep() {
	local name=$1 code=$2
	shift 2
	test_code "$code" cairn "$@" --json >"a/$name.json" 2>err || { cat err >&2; return 1; }
	test_is "$(cat err)" ""
}
# Keeps what is told on standard error in e/: one line. Standard output is empty.
wrong() {
	local name=$1 code=$2
	shift 2
	test_code "$code" cairn "$@" >out 2>"e/$name.json"
	test_is "$(cat out)" ""
	test_lines 1 "e/$name.json"
	test_is "$(json "e/$name.json" "d[\"exit\"]")" "$code"
}

mkdir data p
echo one >data/one.txt
write p/in.csv <<<'a'
write pipeline.yaml <<'YAML'
pipeline: all
params: {lr: 0.1, go: true}
inputs: {d: data/}
steps:
  make:
    run: |
      cp ${{ inputs.d }}/one.txt ${{ outputs.o }}
      echo '{"loss":0.5}' >m.json
    inputs: {d: "${{ inputs.d }}"}
    outputs: {o: o.txt}
    metrics: m.json
  odd:
    run: head -c 8 /dev/urandom >${{ outputs.r }}; echo ${{ params.lr }} >>${{ outputs.r }}
    outputs: {r: r.txt}
    needs: [make]
  train:
    uses: train
    run: for i in 1 2; do echo "loss=0.$i step=$i"; done
  skipped:
    run: touch ${{ outputs.o }}
    if: "${{ !params.go }}"
    outputs: {o: o.txt}
  use:
    run: python3 use.py ${{ inputs.o }} >${{ outputs.u }}
    inputs: {o: "${{ steps.make.outputs.o }}"}
    outputs: {u: u.txt}
    tools: [python3]
  both:
    matrix: {x: [1, 2]}
    run: echo ${{ matrix.x }} >${{ outputs.b }}
    outputs: {b: b.txt}
sweeps:
  tune: {params: {lr: [0.2, 0.3]}, minimize: make.loss, search: grid}
schedules:
  nightly: {cron: "0 3 * * *"}
  rare: {cron: "0 0 1 1 *"}
YAML
write report.yaml <<'YAML'
pipeline: report
steps: {s: {run: "true"}}
schedules:
  after: {on: {pipeline: pipeline.yaml}}
  pushed: {on: {webhook: push, secret: TOKEN}}
YAML
echo 'import sys; print(open(sys.argv[1]).read())' >use.py

test_expect 'answers before a run' '
	cairn help json --json >schema.json
	cp schema.json a/help.json
	keep init 0 init
	keep version 0 version
	keep check 0 check
	keep plan 0 plan -v
	mkdir -p imported
	printf "stages: {a: {cmd: echo hi >o.txt, outs: [o.txt]}}\nplots: [x]\n" >imported/dvc.yaml
	PATH=/usr/bin:$PATH PYTHONPATH=$SRC/python/src keep import 0 import imported/dvc.yaml
	keep why 0 why make
	keep graph 0 graph
	keep doctor 0 doctor
	keep list-none 0 schedule list
'
test_expect 'answers of runs and about them' '
	keep run 0 run
	keep run-again 0 run --force odd -p lr=0.2
	cairn runs --json >r
	first=$(json r "d[\"runs\"][1][\"id\"]")
	cairn tag last best -m note 2>/dev/null
	keep status 0 status
	keep runs 0 runs --sort loss
	keep plan-hits 0 plan
	keep why-run 0 why odd --run last
	keep metrics 0 metrics
	keep series 0 metrics --plot loss
	keep diff 0 diff "$first" last
	keep diff-all 0 diff --all "$first" last
	keep lineage 0 lineage use/u
	keep down 0 lineage --down make/o
	keep lineage-metric 0 lineage make@metric.loss
	keep get 0 get make/o -o got.txt
	keep get-step 0 get both/b -o both
	keep get-run 0 get last -o run
	keep get-metric 0 get make@metric.loss
	keep tags 0 tag --list
	keep reproduce 0 reproduce last --step make
	keep odd 11 -q reproduce last --step odd
	keep drop 0 reproduce last --drop
	keep twice 0 run --force make --twice make
	keep sweep 0 sweep tune
	keep trials 0 runs --sweep tune
	keep token 0 serve token add ada --role operator --expires 1h
	keep token-none 0 serve token add eve
	keep token-list 0 serve token list
	keep token-revoke 0 serve token revoke eve
	keep secret-none 0 secret list
	printf 12345678 | cairn secret set TOKEN
	keep secret 0 secret list
'
test_expect 'answers about schedules and the store' '
	keep trigger 0 schedule trigger nightly --here
	keep backfill 0 schedule backfill rare 2026-01-01..2026-01-02
	keep list 0 schedule list
	keep next 0 schedule next -n 2
	keep pause 0 schedule pause nightly
	keep history 0 schedule history
	keep notices 0 schedule notices
	keep verify 0 store verify
	keep gc 0 store gc --dry-run
	keep stat 0 store stat
	keep reindex 0 store reindex
	keep notices-none 0 schedule notices
	chmod u+w .cairn/store/blobs/*/*
	for f in .cairn/store/blobs/*/*; do echo damaged >"$f"; done
	keep verify-bad 1 store verify
	keep image 0 image --output image.tar
'
test_expect 'cancel' '
	write slow.yaml <<-YAML
	pipeline: slow
	steps:
	  a: {run: "touch $PWD/begun; sleep 600"}
	YAML
	start slow cairn run slow.yaml --json
	wait_until 60 test -e begun
	keep running 0 status
	keep cancel 0 cancel --now
	wait_until 60 test -s slow.rc
	test_is "$(cat slow.rc)" 130
'
test_expect 'a step that asks' '
	write ask.yaml <<-YAML
	pipeline: ask
	steps:
	  a: {approve: {message: go?}}
	YAML
	start ask cairn run ask.yaml --json
	asks() { cairn status --json >asked 2>/dev/null && grep -q "waiting for approval" asked; }
	wait_until 60 asks
	keep waiting 0 runs
	keep asks 0 status
	keep approve 0 approve last a -m fine
	wait_until 60 test -s ask.rc
	test_is "$(cat ask.rc)" 0
'
test_expect 'a failed task: the answer on standard output, the reason on standard error' '
	write fail.yaml <<-YAML
	pipeline: fail
	steps:
	  a: {run: "echo this is why; exit 3"}
	  b: {run: "true", needs: [a]}
	YAML
	test_code 1 cairn run fail.yaml --json >a/failed.json 2>e/failed.json
	test_is "$(json a/failed.json "d[\"state\"]")" failed
	test_lines 1 e/failed.json
	test_grep "task a failed after .*exit status 3.nthis is why" e/failed.json
	keep status-failed 0 status
	test_code 1 cairn run fail.yaml --json -v --twice >a/failed.json 2>e/failed-v.json
	test_lines 1 e/failed-v.json
'
test_expect 'errors are one document, wherever they come from' '
	wrong option 2 run --jsn --json
	test_grep "did you mean .--json" e/option.json
	wrong no-json 2 logs --json
	wrong command 2 frob --json
	wrong operand 2 diff a b c --json
	wrong directory 4 -C nowhere version --json
	wrong run 4 status nosuch-run --json
	wrong choice 2 runs --state odd --json
	wrong what 4 get nothing/here --json
	printf "steps:\n  a: {run: x, timeuot: 1h}\n  b: {run: x, needs: [c]}\n" >bad.yaml
	for command in plan run graph why; do
		if [ $command = why ]; then set -- bad.yaml a; else set -- bad.yaml; fi
		wrong bad-$command 3 $command "$@" --json
		test_is "$(json e/bad-$command.json "[(e[\"file\"], e[\"line\"], e[\"column\"], e[\"hint\"]) for e in d[\"errors\"]][1:2]")" \
			"[[\"bad.yaml\", 2, 15, \"did you mean \`timeout\`?\"]]"
	done
	keep check-bad 3 check bad.yaml
	test_is "$(json a/check-bad.json "d[\"files\"][0][\"problems\"][1][\"hint\"]")" "did you mean \`timeout\`?"
	printf "retention: {runs: many}\n" >p/cairn.yaml
	sed -i s/timeuot/when/ bad.yaml
	wrong peers 3 plan bad.yaml --json
	test_is "$(json e/peers.json "d[\"errors\"][1][\"hint\"]")" "here it is \`if\`"
	wrong config 3 -C p runs --json
	test_grep "cairn.yaml" e/config.json
	wrong unsigned 2 schedule backfill rare 2026 --json
'
test_expect 'only warnings: the answer, and the warnings' '
	printf "pipeline: w\nsteps:\n  a: {run: \"true\", matrix: {x: [1, 2]}}\n" >warn.yaml
	cairn plan warn.yaml --json >a/warned.json 2>e/warned.json
	test_is "$(json e/warned.json "(len(d[\"errors\"]), len(d[\"warnings\"]), d[\"exit\"], d[\"warnings\"][0][\"line\"])")" "[0, 1, 0, 3]"
	cairn -q plan warn.yaml --json >a/warned.json 2>err
	test_is "$(cat err)" ""
'
test_expect 'a raw command has its own words' '
	test_must_fail cairn step nosuch --json 2>err
	test_no_grep schema err
'
test_expect 'every answer is as the schema says, and has all that it says' '
	python3 "$SRC/tests/cli/program/answers.py" schema.json a/*.json e/*.json --all --but=cairn.detached/1 --but=cairn.store-push/1 \
		--but=cairn.store-pull/1 --but=cairn.store-probe/1 --but=cairn.schedule-trigger/1 --but=cairn.sweep/1.counts.stopped \
		--but=cairn.store-stat/1.shared --but=cairn.schedule-notices/1.notices --but=cairn.reproduce/1.environment \
		--but=cairn.store-verify/1.origins.problems --but=Run.exports --but=Export --but=cairn.plan/1.environments \
		--but=Run.caused_by --but=Run.expected_end # tests/serve/schedule/events.t and tests/serve/api/run_tasks.t have them
'
test_expect 'a member that the schema lacks is found, and one that is missing' '
	mkdir bad
	json a/version.json "{**d, \"more\": 1}" >bad/more.json
	test_code 1 python3 "$SRC/tests/cli/program/answers.py" schema.json bad/more.json >out
	test_grep "more. was unexpected" out
	json a/version.json "{k: v for k, v in d.items() if k != \"compiler\"}" >bad/less.json
	test_code 1 python3 "$SRC/tests/cli/program/answers.py" schema.json bad/less.json >out
	test_grep "compiler. is a required" out
'
test_expect 'docs/json.md is the page that the program prints' '
	cairn help json >page
	test_cmp "$SRC/docs/json.md" page
	test_code 2 cairn help run --json 2>err
'
test_done
