#!/bin/bash
# Steps that use a whole pipeline: what they share with it, how their tasks are named, and that every command knows them.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
mkdir -p data lib
echo raw >data/a.txt
write lib/train.yaml <<'YAML'
pipeline: trainer
params:
  lr: {type: float, default: 0.1, min: 0, max: 1}
  folds: [0, 1]
inputs: {raw: data/a.txt}
outputs: {model: "${{ steps.train.outputs.model }}", all: "${{ steps.join.outputs.out }}"}
metrics: {acc: "${{ steps.join.metrics.acc }}"}
defaults: {env: {WHO: inner}}
steps:
  prep:
    run: (cat ${{ inputs.raw }}; echo $WHO) > ${{ outputs.out }}
    inputs: {raw: "${{ inputs.raw }}"}
    outputs: {out: p.txt}
  train:
    run: (cat ${{ inputs.p }}; echo ${{ params.lr }} ${{ matrix.fold }}) > ${{ outputs.model }}
    matrix: {fold: "${{ params.folds }}"}
    inputs: {p: "${{ steps.prep.outputs.out }}"}
    outputs: {model: m.txt}
  join:
    run: |
      cat ${{ inputs.all }}/* > ${{ outputs.out }}
      echo '{"acc": 0.5}' > m.json
    inputs: {all: "${{ steps.train.outputs.model }}"}
    outputs: {out: o.txt}
    metrics: m.json
YAML
write outer.yaml <<'YAML'
pipeline: outer
params: {rate: 0.5}
defaults: {env: {WHO: outer}}
steps:
  make: {run: "echo made > ${{ outputs.o }}", outputs: {o: o.txt}}
  sub:
    uses: ./lib/train.yaml
    with: {lr: "${{ params.rate }}"}
    inputs: {raw: "${{ steps.make.outputs.o }}"}
  again:
    uses: lib/train.yaml
    needs: [sub]
  last:
    run: cat ${{ inputs.a }} ${{ inputs.m }}/* > ${{ outputs.o }}
    inputs: {a: "${{ steps.sub.outputs.all }}", m: "${{ steps.again.outputs.model }}"}
    outputs: {o: o}
    if: "${{ steps.sub.metrics.acc > 0.4 }}"
  never: {uses: ./lib/train.yaml, with: {lr: 0.9}, if: "${{ params.rate > 5 }}"}
YAML

# Names of the tasks that a run's --json says were executed, sorted.
executed() {
	cairn status --json >status.json
	json status.json '" ".join(sorted(t["task"] for t in d["tasks"]))'
}

test_expect 'its steps are tasks named step/inner, with its own defaults, params and inputs' '
	cairn run outer.yaml -q
	test_is "$(executed)" "again/join again/prep again/train[fold=0] again/train[fold=1] last make sub/join sub/prep sub/train[fold=0] sub/train[fold=1]"
	cairn get sub/join/out -o - >got
	test_is "$(tr "\n" " " <got)" "made inner 0.5 0 made inner 0.5 1 "
	cairn get again/join/out -o - >got
	test_is "$(tr "\n" " " <got)" "raw inner 0.1 0 raw inner 0.1 1 "
	cairn status -v >status
	test_grep "never/join +" status
	test_grep "^skipped" status
'

test_expect 'keys are those of the pipeline alone: neither way anything runs twice' '
	cairn run lib/train.yaml -q --json >run.json
	test_is "$(json run.json "d[\"counts\"][\"executed\"]")" 0
	cairn run lib/train.yaml -q -p lr=0.7
	cairn run outer.yaml -q -p rate=0.7 --json >run.json
	cairn run outer.yaml -q -p rate=0.7 --json >run.json
	test_is "$(json run.json "d[\"counts\"][\"executed\"]")" 0
	echo other >data/a.txt
	cairn run lib/train.yaml -q
	cairn run outer.yaml -q --json >run.json
	test_is "$(json run.json "d[\"counts\"][\"executed\"]")" 1
	test_is "$(executed)" last
'

test_expect 'a step that uses a pipeline names all of its tasks: run, plan, why, logs, --force, --from, --until; a single one is step/inner' '
	cairn plan outer.yaml sub --force sub/join >plan
	test_grep "sub/join .*forced" plan
	test_no_grep "again|last" plan
	cairn run outer.yaml -q --force again
	test_is "$(executed)" "again/join again/prep again/train[fold=0] again/train[fold=1]"
	cairn run outer.yaml -q --force again --until sub
	test_is "$(executed)" ""
	cairn run outer.yaml -q --from again --force "again/train[fold=1]"
	test_is "$(executed)" "again/train[fold=1]"
	cairn run outer.yaml -q "sub/train[fold=1]" --force "sub/train[fold=1]"
	test_is "$(executed)" "sub/train[fold=1]"
	cairn why outer.yaml sub >why
	test_is "$(cut -d: -f1 why | tr "\n" " ")" "sub/prep sub/train[fold=0] sub/train[fold=1] sub/join "
	cairn why outer.yaml sub/train -p rate=0.25 >why
	test_grep "sub/train.fold=0.: would run: param lr changed: " why
	cairn logs last sub >logs
	test_code 3 cairn run outer.yaml "sub[fold=1]" 2>err
	test_grep "no step .sub." err
	test_code 3 cairn run outer.yaml --shell sub 2>err
	test_grep "name one of its steps, as sub/prep" err
	test_code 3 cairn run outer.yaml su 2>err
	test_grep "no step .su." err
	cairn graph outer.yaml >graph
	test_grep "sub/train ×2" graph
	cairn graph outer.yaml --json >graph.json
	test_grep "sub/train" graph.json
	cairn metrics --step sub >metrics
	test_grep "sub/join" metrics
'

test_expect 'params are checked against their declarations when a run starts' '
	test_code 3 cairn run outer.yaml -p rate=2 2>err
	test_grep "outer.yaml:8:16: step .sub., with.lr: must be at most 1, not 2" err
	test_code 3 cairn run outer.yaml -p lr=0.1 2>err
	test_grep "has no param .lr." err
'

test_expect 'a change of the used file is seen, also by the cache of parsed pipelines' '
	cairn plan outer.yaml sub >plan
	sed -i "s/WHO: inner/WHO: changed/" lib/train.yaml
	cairn plan outer.yaml sub >plan
	test_grep "run +sub/prep" plan
	sed -i "s/WHO: changed/WHO: inner/" lib/train.yaml
	cairn plan outer.yaml sub >plan
	test_no_grep "run +sub/prep" plan
'

test_expect 'a failure inside fails the run; what needs the step is blocked, also behind a clean-up step that always runs' '
	write lib/fails.yaml <<-"Y"
	pipeline: fails
	outputs: {o: "${{ steps.a.outputs.o }}"}
	steps:
	  a: {run: "echo o >o; exit 3", outputs: {o: o}}
	  b: {run: "true", needs: [a]}
	  tidy: {run: "true", needs: [b], if: "${{ always() }}"}
	Y
	write f.yaml <<-"Y"
	pipeline: f
	steps:
	  s: {uses: ./lib/fails.yaml}
	  after: {run: "true", needs: [s]}
	  with: {run: "cat ${{ inputs.o }}", inputs: {o: "${{ steps.s.outputs.o }}"}}
	  alarm: {run: "echo alarm", needs: [s], if: "${{ failed() }}"}
	Y
	test_code 1 cairn run f.yaml -q
	test_is "$(executed)" "alarm s/a s/tidy"
	cairn status --json >status.json
	test_is "$(json status.json "sorted(t[\"task\"] for t in d[\"not_executed\"] if t[\"state\"] == \"blocked\")")" "[\"after\", \"s/b\", \"with\"]"
'

test_expect 'a run is made again without the checkout: its manifest has all files' '
	cairn run outer.yaml -q -p rate=0.6
	cairn get last -o run
	test -f run/pipeline/lib/train.yaml
	cairn status --json >status.json
	json status.json "d[\"run\"][\"hash\"]" >hash
	mkdir elsewhere
	cp cairn.yaml elsewhere/
	cd elsewhere
	cairn reproduce --trust -q --json "$(cat ../hash)" --store ../.cairn/store >../report
	cd ..
	test_is "$(json report "sorted({t[\"verdict\"] for t in d[\"tasks\"]})")" "[\"not selected\", \"reproduced\"]"
	test_grep "sub/train.fold=1." report
	cairn store reindex -q
	cairn why outer.yaml sub >why
	test_grep "sub/prep: hit" why
'

test_expect 'its steps may have code, and temporary outputs: their facts are in the manifest' '
	echo "cat \"\$1\"; echo code" >show.sh
	write lib/code.yaml <<-"Y"
	pipeline: code
	outputs: {out: "${{ steps.two.outputs.o }}"}
	steps:
	  one: {run: "sh show.sh data/a.txt >o", code: [show.sh, data], outputs: {o: {path: o, temp: true}}}
	  two: {matrix: {k: [1, 2]}, run: "cat ${{ inputs.o }} >o; echo ${{ matrix.k }} >>o", inputs: {o: "${{ steps.one.outputs.o }}"}, outputs: {o: o}}
	Y
	write c.yaml <<-"Y"
	pipeline: c
	steps:
	  s: {uses: ./lib/code.yaml}
	  last: {run: "cat ${{ inputs.r }}/* >o", inputs: {r: "${{ steps.s.outputs.out }}"}, outputs: {o: o}}
	Y
	cairn run -q c.yaml
	find .cairn/store -type f -exec touch -d "3 days ago" {} +
	CAIRN_TEST_MARK_GAP=0s cairn store gc --grace 1ms -q
	CAIRN_TEST_MARK_GAP=0s cairn store gc --grace 1ms -q
	test_code 4 cairn get last/s/one/o -o got 2>err
	cairn reproduce -q last --json >report
	test_is "$(json report "sorted(t[\"verdict\"] for t in d[\"tasks\"])")" "[\"reproduced\", \"reproduced\", \"reproduced\", \"reproduced\"]"
'

test_expect 'a run that was killed inside of it goes on where it stopped' '
	write lib/slow.yaml <<-Y
	pipeline: slow
	params: {n: 1}
	steps:
	  a: {run: "echo \${{ params.n }} >o; echo a >>\"$PWD/executed\"", outputs: {o: o}}
	  b: {run: "cat \${{ inputs.o }}; echo b >>\"$PWD/executed\"; while [ ! -e \"$PWD/go\" ]; do sleep 0.05; done", inputs: {o: "\${{ steps.a.outputs.o }}"}}
	Y
	write k.yaml <<-"Y"
	pipeline: k
	params: {m: 4}
	steps: {s: {uses: ./lib/slow.yaml, with: {n: "${{ params.m + 1 }}"}}}
	Y
	start killed cairn run k.yaml
	wait_until 20 grep -q b executed
	kill -9 "$(cat killed.pid)"
	wait_until 20 test -s killed.rc
	touch go
	cairn resume -q last:k
	test_is "$(tr "\n" " " <executed)" "a b b "
'

test_expect 'files that are none, lie outside of the project, or never end, are refused in words' '
	echo "pipeline: o" >../outside.yaml
	ln -s ../outside.yaml link.yaml
	ln -s lib/train.yaml inside.yaml
	mkfifo pipe.yaml
	mkdir dir.yaml
	truncate -s 100M big.yaml
	write hostile.yaml <<-"Y"
	pipeline: h
	steps:
	  a: {uses: ./link.yaml}
	  b: {uses: ../outside.yaml}
	  c: {uses: ./pipe.yaml}
	  d: {uses: ./dir.yaml}
	  e: {uses: ./big.yaml}
	  f: {uses: /etc/passwd.yaml}
	  g: {uses: ./inside.yaml}
	Y
	test_code 3 cairn check hostile.yaml >said 2>&1
	test_grep "hostile.yaml:3:13: .link.yaml. is a symbolic link that leads out of the project" said
	test_grep "hostile.yaml:4:13: .* leads out of the project" said
	test_grep "hostile.yaml:5:13: .*pipe.yaml is not a regular file" said
	test_grep "hostile.yaml:6:13: .*dir.yaml is not a regular file" said
	test_grep "hostile.yaml:7:13: .*big.yaml is larger than" said
	test_grep "hostile.yaml:8:13: .* is absolute" said
	test_no_grep "hostile.yaml:9" said
	rm big.yaml pipe.yaml
'

test_expect 'a file that is used 100 times, and 1,000 steps in one, run once' '
	(
		printf "pipeline: t\noutputs: {o: \"\${{ steps.s999.outputs.o }}\"}\nsteps:\n"
		for i in $(seq 0 999)
		do
			printf "  s%d: {run: \"echo %d >o\", outputs: {o: o}}\n" $i $((i % 5))
		done
	) >lib/thousand.yaml
	(
		printf "pipeline: h\nsteps:\n"
		for i in $(seq 0 9)
		do
			printf "  u%d: {uses: ./lib/thousand.yaml}\n" $i
		done
	) >ten.yaml
	cairn run ten.yaml -q --json >run.json
	test_is "$(json run.json "d[\"counts\"][\"executed\"]")" 5
	test_is "$(json run.json "d[\"counts\"][\"total\"]")" 10000
'

test_done
