#!/bin/bash
# cairn check: all that is wrong with pipeline files, at once, with its place.
. "$(dirname "$0")/../../lib.sh"

touch cairn.yaml
write good.yaml <<'Y'
pipeline: good
steps:
  a:
    run: echo hi >${{ outputs.o }}
    outputs: {o: o.txt}
  b:
    run: cat ${{ inputs.i }}
    inputs: {i: "${{ steps.a.outputs.o }}"}
Y
write bad.yaml <<'Y'
pipeline: bad
steps:
  a: {run: x, timeuot: 1h}
  b:
    run: x
	needs: [a]
Y
write two.yaml <<'Y'
pipeline: two
steps:
  a: {run: x, timeuot: 1h, needs: [äöü]}
Y

test_expect 'a good file' '
	cairn check good.yaml >out 2>err
	test_is "$(cat out)" "good.yaml: valid, pipeline good with 2 steps"
	test_lines 0 err
	cairn -q check good.yaml >out 2>err
	test_lines 0 out
'
test_expect 'every error with its line and a caret; exit 3' '
	test_code 3 cairn check two.yaml >out 2>err
	test_lines 0 out
	cat >want <<-E2
	two.yaml:3:15: unknown key \`timeuot\` (did you mean \`timeout\`?)
	      a: {run: x, timeuot: 1h, needs: [äöü]}
	                  ^
	E2
	head -n 3 err >got
	test_cmp want got
	test_grep "^two.yaml:3:36: " err
	test_is "$(sed -n 6p err)" "                                       ^"
	test_is "$(tail -n 1 err)" "cairn: two.yaml: 2 errors"
'
test_expect 'one error is said once' '
	printf "pipeline: x\nsteps:\n  a: {run: x, timeuot: 1h}\n" >one.yaml
	test_code 3 cairn check one.yaml 2>err
	test_is "$(grep -c timeuot err)" 2 # the message, and the line of the file
	test_lines 3 err
	test_code 3 cairn graph one.yaml 2>err
	test_is "$(grep -c "unknown key" err)" 1
	test_is "$(tail -n 1 err)" "cairn: one.yaml: 1 error"
'
test_expect 'a syntax error has its place too' '
	test_code 3 cairn check bad.yaml 2>err
	test_grep "^bad.yaml:6:1: " err
'
test_expect 'several files: all are looked at' '
	test_code 3 cairn check bad.yaml good.yaml none.yaml >out 2>err
	test_grep "good.yaml: valid" out
	test_grep "bad.yaml:6" err
	test_grep "none.yaml" err
'
test_expect 'pipeline.yaml is the default, from a folder below the project too' '
	test_code 3 cairn check 2>err
	test_grep "pipeline.yaml" err
	mkdir -p sub
	cp good.yaml sub/pipeline.yaml
	cd sub
	cairn check >out
	test_grep "^pipeline.yaml: valid" out
'
test_expect '--json: one document, whatever was found' '
	test_code 3 cairn check --json two.yaml good.yaml none.yaml >out 2>err
	test_lines 0 err
	test_is "$(json out "[f[\"valid\"] for f in d[\"files\"]]")" "[false, true, false]"
	test_is "$(json out "d[\"files\"][0][\"problems\"][0][\"line\"]")" 3
	test_is "$(json out "d[\"files\"][0][\"problems\"][1][\"column\"]")" 36
	test_is "$(json out "d[\"files\"][1][\"steps\"]")" 2
	test_is "$(json out "d[\"files\"][2][\"problems\"][0][\"severity\"]")" error
'
test_expect 'hostile bytes in names and lines reach no terminal' '
	printf "pipeline: x\nsteps: {a: {run: x, \"k\\\\e[2J\": 1}}\n" >esc.yaml
	test_code 3 cairn check esc.yaml 2>err
	test_code 1 grep -q "$(printf "\033")" err
	cp two.yaml "$(printf "e\033vil.yaml")"
	test_code 3 cairn check "$(printf "e\033vil.yaml")" 2>err
	test_code 1 grep -q "$(printf "\033")" err
'
test_expect 'no project: the file alone is checked, wherever it lies' '
	mkdir -p "$TRASH/alone"
	cp good.yaml two.yaml "$TRASH/alone"
	(cd / && test_code 0 cairn check "$TRASH/alone/good.yaml") >out
	test_grep "valid, pipeline good with 2 steps" out
	cairn check "$TRASH/alone/good.yaml" >out # from a project, too
	test_grep "valid" out
	(cd "$TRASH/alone" && test_code 3 cairn check two.yaml 2>&1) >out
	test_grep "unknown key .timeuot" out
	(cd "$TRASH/alone" && cairn version && cairn help check) >out
'
test_expect 'braces without a dollar sign: a warning where they look like a reference' '
	cat >braces.yaml <<-Y
	pipeline: braces
	params: {lr: 1}
	steps:
	  a: {run: "echo \${{ params.lr }} {{ params.lr }} {{ .Values.x }} {{item}} {{ steps.x", outputs: {o: o}}
	  b: {run: "echo {{ params.lr }}, where no expression is", outputs: {o: o}}
	Y
	cairn check braces.yaml >out 2>err
	test_grep "^braces.yaml:4:35: warning: .{{. without .\\$. is plain text: write \\$\{\{ params.lr \}\} for the value" err
	test_grep "^braces.yaml:5:18: warning: .{{. without" err
	test_is "$(grep -c warning err)" 2
'
test_expect 'a pattern that matches nothing in an input that is here, and names that no image has: a warning' '
	mkdir -p pictures/x/y
	touch pictures/a.png pictures/x/y/b.tar pictures/.c.jpg
	cat >globs.yaml <<-Y
	pipeline: globs
	inputs: {d: pictures/, none: nothere/}
	steps:
	  a: {each: "\${{ inputs.d }}/*.jpg", run: "true", inputs: {f: "\${{ item }}"}, image: "Bad/Name:tag"}
	  b: {each: "\${{ inputs.d }}/*.png", run: "true", inputs: {f: "\${{ item }}"}, image: "python:3.11"}
	  c: {each: "\${{ inputs.d }}/**/*.tar", run: "true", inputs: {f: "\${{ item }}"}}
	  d: {each: "\${{ inputs.d }}/**/*.txt", run: "true", inputs: {f: "\${{ item }}"}}
	  e: {each: "\${{ inputs.d }}/x/*/", run: "true", inputs: {f: "\${{ item }}"}}
	  f: {each: "\${{ inputs.none }}/*", run: "true", inputs: {f: "\${{ item }}"}}
	  g: {each: "\${{ inputs.d }}/x/*.png", run: "true", inputs: {f: "\${{ item }}"}}
	Y
	cairn check globs.yaml >out 2>err
	grep -o "warning: .*" err >got
	cat >want <<-E2
	warning: input \`none\`: nothere isn\x27t here now; a run needs it
	warning: \`each\` of step \`a\`: \`*.jpg\` matches nothing in input \`d\`, which has a.png, x
	warning: step \`a\`: \`Bad/Name:tag\` is not the name of an image: its path may have lower-case letters, digits and single separators between them
	warning: \`each\` of step \`d\`: \`**/*.txt\` matches nothing in input \`d\`, which has a.png, x
	warning: \`each\` of step \`g\`: \`x/*.png\` matches nothing in input \`d\`, which has a.png, x
	E2
	sed -i "s/.x27/\x27/" want
	test_cmp want got
	echo "runner: kubernetes" >>cairn.yaml
	test_when_finished "sed -i /^runner:/d \"$PWD/cairn.yaml\""
	test_code 3 cairn check globs.yaml 2>err
	test_grep "^globs.yaml:4:3: step .a.: .Bad/Name:tag. is not the name of an image" err
'
test_expect 'what a run needs and is not here: code is an error, the rest a warning, all at once' '
	cat >needs.yaml <<-Y
	pipeline: needs
	inputs: {raw: data/raw/}
	steps:
	  a:
	    run: python3 prepare.py \${{ inputs.raw }} >\${{ outputs.o }}
	    code: [lib/]
	    env_file: [uv.lock]
	    inputs: {raw: "\${{ inputs.raw }}"}
	    secrets: [NOBODYS_TOKEN]
	    tools: [nosuchtool --version]
	    resources: {gpu: 60, cpu: 9000, memory: 900Ti}
	    outputs: {o: o}
	  b: {run: "./b.sh \${{ inputs.o }}", inputs: {o: "\${{ steps.a.outputs.o }}"}}
	  c: {run: "echo >c.sh; sh c.sh", needs: [a]}
	Y
	test_code 3 cairn check needs.yaml --json >out
	json out "\"\n\".join(\"%d %s %s\" % (p[\"line\"], p[\"severity\"], p[\"message\"]) for p in d[\"files\"][0][\"problems\"])" >got
	sed -i "s/gets [0-9.]* here/gets N here/; s/has [0-9.]* [A-Za-z]*$/has N/" got
	cat >want <<-E2
	2 warning input \`raw\`: data/raw isn\x27t here now; a run needs it
	4 error step \`a\`: \`code\` names lib, which isn\x27t in the project
	4 error step \`a\`: \`env_file\` names uv.lock, which isn\x27t in the project
	4 warning step \`a\`: secret NOBODYS_TOKEN is not set; set it with \`cairn secret set NOBODYS_TOKEN\`, or as CAIRN_SECRET_NOBODYS_TOKEN in the environment
	4 warning step \`a\`: the tool nosuchtool isn\x27t on this machine
	4 warning step \`a\` can\x27t run here: it asks for 60 GPUs; this machine has N
	4 warning step \`a\` asks for 9000 cpus and gets N here
	4 warning step \`a\` asks for 900 TiB of memory; this machine has N
	5 error step \`a\` runs prepare.py, which isn\x27t in the project
	13 error step \`b\` runs b.sh, which isn\x27t in the project
	E2
	sed -i "s/\\\\x27/$(printf "\\047")/g" want
	sed -i "s/this machine has [0-9]*$/this machine has N/" got
	test_cmp want got
	mkdir -p data/raw lib
	touch prepare.py b.sh uv.lock
	CAIRN_SECRET_NOBODYS_TOKEN=abcdef cairn check needs.yaml 2>err
	test_no_grep "isn.t in the project|isn.t here now|NOBODYS_TOKEN" err
	CAIRN_RUNNER=kubernetes cairn check needs.yaml 2>err # what a cluster has isn\x27t known here
	test_lines 0 err
	rm -r data lib prepare.py b.sh uv.lock
'
test_expect 'an account that a driver of Spark needs may be that of cairn.yaml' '
	cat >spark.yaml <<-Y
	pipeline: spark
	steps:
	  etl: {run: x, image: spark, kubernetes: {as: sparkapplication, token: true}}
	Y
	CAIRN_RUNNER=local cairn check spark.yaml 2>err
	test_grep "^spark.yaml:3:3: warning: step .etl. can.t run on a cluster: .kubernetes.as: sparkapplication.: the driver makes" err
	CAIRN_RUNNER=kubernetes test_code 3 cairn check spark.yaml 2>err
	test_grep "^spark.yaml:3:3: step .etl.: .*so the step needs .service_account: NAME., an account that may create" err
	cp cairn.yaml before.yaml
	echo "kubernetes: {service_account: spark}" >>cairn.yaml
	test_when_finished "mv \"$PWD/before.yaml\" \"$PWD/cairn.yaml\""
	CAIRN_RUNNER=kubernetes cairn check spark.yaml 2>err
	test_lines 0 err
'
test_expect 'a broken cairn.yaml has its place' '
	mkdir broken
	cd broken
	echo "jbos: 4" >cairn.yaml
	test_code 3 cairn check 2>err
	test_grep "cairn.yaml:1:1: .*did you mean .jobs." err
'

test_expect 'the words of other tools get ours' '
	printf "pipeline: w\nstages: {a: {run: x}}\n" >w.yaml
	test_code 3 cairn check w.yaml 2>err
	test_grep "unknown key .stages. .here it is .steps.." err
	cat >w.yaml <<-W
	pipeline: w
	steps:
	  a: {cmd: x, deps: {}, outs: {}, depends_on: [b], when: "true", container: x, resources: {mem: 1Gi}}
	W
	test_code 3 cairn check w.yaml 2>err
	for pair in cmd:run deps:inputs outs:outputs depends_on:needs when:if container:image mem:memory; do
		test_grep "unknown key .${pair%:*}. .here it is .${pair#*:}.." err
	done
'
test_expect 'numbers that would be shown otherwise than they are written are refused, with the way to write them' '
	printf "pipeline: n\nparams: {v: %s}\nsteps: {a: {run: \"echo \${{ params.v }}\"}}\n" 3.10 >n.yaml
	test_code 3 cairn check n.yaml 2>err
	test_grep "2:13: .3.10. is read as the number 3.1: write 3.1, or .3.10. for the text" err
	for bad in 010 -010 00 0.50 "[1, 2.20]" 0x10 0o10; do
		printf "pipeline: n\nparams: {v: %s}\nsteps: {a: {run: \"echo \${{ params.v }}\"}}\n" "$bad" >n.yaml
		test_code 3 cairn check n.yaml 2>err
		test_grep "is read as the number" err
	done
	for good in 0 10 0.5 -0.05 1.0 1e-10 1.5e10 "\"3.10\"" "[100, 0.1]" "{type: float, default: 0.50}"; do
		printf "pipeline: n\nparams: {v: %s}\nsteps: {a: {run: \"echo \${{ params.v }}\"}}\n" "$good" >n.yaml
		cairn check n.yaml
	done
	printf "pipeline: n\nparams: {v: [1]}\nsteps: {a: {run: \"echo \${{ params.v }}\"}}\n" >n.yaml
	for bad in "[1,2" "1,2]" "["; do
		test_code 3 cairn plan n.yaml -p "v=$bad" 2>err
		test_grep "list" err
	done
'

test_expect 'an axis that the step does not use is a warning, unless each task is executed anyway' '
	cat >axis.yaml <<-W
	pipeline: axis
	steps:
	  same: {run: "echo hi", matrix: {seed: [1, 2, 3]}}
	  used: {run: "echo \${{ matrix.seed }} >\${{ outputs.o }}", matrix: {seed: [1, 2]}, outputs: {o: o}}
	  by: {run: "cat \${{ inputs.o }}", matrix: {seed: [1, 2]}, inputs: {o: "\${{ steps.used.outputs.o }}"}}
	  always: {run: "date", matrix: {time: [1, 2]}, cache: false}
	W
	cairn check axis.yaml >out 2>err
	test_grep "axis .seed. of step .same. is used nowhere in it" err
	test_is "$(grep -c warning: err)" 1
'

test_done
