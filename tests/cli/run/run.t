#!/bin/bash
# Running pipelines: what is executed, what is a hit, what fails and how.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: basic
params:
  word: hello
inputs:
  text: data/text.txt
steps:
  upper:
    run: tr a-z A-Z <${{ inputs.text }} >${{ outputs.upper }}
    inputs: {text: "${{ inputs.text }}"}
    outputs: {upper: upper.txt}
  count:
    run: grep -c . ${{ inputs.upper }} >${{ outputs.n }}
    inputs: {upper: "${{ steps.upper.outputs.upper }}"}
    outputs: {n: n.txt}
  greet:
    run: echo ${{ params.word }} >${{ outputs.out }}
    outputs: {out: out.txt}
YAML
mkdir data
printf 'a\nb\n' >data/text.txt

# counts FILE: "executed hits failed blocked" of a --json run
counts() { json "$1" '" ".join(str(d["counts"][k]) for k in ("executed", "hits", "failed", "blocked"))'; }

test_expect 'a first run executes everything' '
	cairn run --json >out
	test_is "$(counts out)" "3 0 0 0"
	cairn get count/n -o - >n
	test_is "$(cat n)" 2
'

test_expect 'a second run is all hits' '
	cairn run --json >out
	test_is "$(counts out)" "0 3 0 0"
'

test_expect 'a changed param reruns only what uses it, and why says so' '
	cairn why greet -p word=bye >why
	test_grep "param word changed: hello → bye" why
	cairn run --json -p word=bye >out
	test_is "$(counts out)" "1 2 0 0"
'

test_expect 'the order of a list is no change: a hit; and why names what did change' '
	mkdir -p order/data
	touch order/cairn.yaml order/data/a order/data/b
	lists() { # INPUTS OUTPUTS TOOLS
		write order/pipeline.yaml <<-Y
		pipeline: order
		inputs: {a: data/a, b: data/b}
		steps:
		  one:
		    run: "cat inputs/y inputs/x >o1; cp inputs/x o2; echo \$W"
		    env: {W: v, V: w}
		    tools: [$3]
		    secrets: [T2_TOKEN, T1_TOKEN]
		    inputs: {$1}
		    outputs: {$2}
		Y
	}
	export CAIRN_SECRET_T1_TOKEN=12345678901 CAIRN_SECRET_T2_TOKEN=12345678902
	lists "y: \"\${{ inputs.b }}\", x: \"\${{ inputs.a }}\"" "q: o1, p: o2" "sh -c true, cat"
	cairn -C order run --json >out
	test_is "$(counts out)" "1 0 0 0"
	lists "x: \"\${{ inputs.a }}\", y: \"\${{ inputs.b }}\"" "p: o2, q: o1" "cat, sh -c true"
	cairn -C order plan --json >plan
	test_is "$(json plan "[t[\"state\"] for t in d[\"tasks\"]]")" "[\"hit\"]"
	cairn -C order run --json >out
	test_is "$(counts out)" "0 1 0 0"
	echo new >order/data/b
	cairn -C order why one >why
	test_grep "input y changed" why
	test_must_fail grep -Eq "added|removed|output|tool|secret" why
	cairn -C order run --json >out
	cairn -C order get one/q -o - >q
	test_is "$(cat q)" new
	cairn -C order get one/p -o - >p
	test_is "$(cat p)" ""
'

test_expect 'a changed input reruns what depends; an equal result keeps the rest (early cut-off)' '
	printf "b\na\n" >data/text.txt
	cairn run --json >out
	test_is "$(counts out)" "2 1 0 0"
	printf "b\nc\n" >data/text.txt
	cairn plan --json >plan
	test_is "$(json plan "[t[\"state\"] for t in d[\"tasks\"]]")" "[\"run\", \"waiting\", \"hit\"]"
	sed -i "s/grep -c . /cat /" pipeline.yaml
	cairn run -q
	printf "B\nc\n" >data/text.txt
	cairn run --json >out
	test_is "$(counts out)" "1 2 0 0"
'

test_expect --needs LOCAL_STORE 'a missing output object is a miss, and its producer runs again' '
	rm .cairn/store/blobs/*/"$(cairn lineage --json greet/out -r last >l; json l "d[\"artifact\"][7:]")"
	cairn run --json >out
	test_is "$(counts out)" "1 2 0 0"
	cairn store verify
'

test_expect --needs LOCAL_STORE 'a damaged object is found where it is read, set aside and made again' '
	id=$(cairn lineage --json upper/upper >l; json l "d[\"artifact\"][7:]")
	chmod 644 .cairn/store/blobs/*/$id
	tr A-Z X-ZA-W <.cairn/store/blobs/${id:0:2}/$id >damaged
	cp damaged .cairn/store/blobs/${id:0:2}/$id
	test_code 1 cairn store verify >verify
	test_grep "set aside" verify
	cairn run --json >out
	test_is "$(counts out)" "1 2 0 0"
	cairn store verify
'

blob() { cairn lineage --json "$1" -r last >l; json l 'd["artifact"][7:]'; } # TASK/OUTPUT

test_expect --needs LOCAL_STORE 'content that is gone and that nobody needs is not made again; it is once somebody does' '
	write absent.yaml <<YAML
pipeline: absent
params: {p: 1, q: 1}
steps:
  a: {run: "echo a >\${{ outputs.o }}; echo a >>$HOME/done", outputs: {o: a}}
  b: {run: "cat \${{ inputs.i }} >\${{ outputs.o }}; echo b\${{ params.q }} >>\${{ outputs.o }}; echo b >>$HOME/done", inputs: {i: "\${{ steps.a.outputs.o }}"}, outputs: {o: b}}
  c: {run: "cat \${{ inputs.i }} >\${{ outputs.o }}; echo c\${{ params.p }} >>\${{ outputs.o }}; echo c >>$HOME/done", inputs: {i: "\${{ steps.b.outputs.o }}"}, outputs: {o: c}}
YAML
	lose() { rm .cairn/store/blobs/*/"$(blob "$1")"; }
	: >$HOME/done
	cairn run -q absent.yaml
	lose a/o
	cairn run absent.yaml --json >out
	test_is "$(counts out)" "0 3 0 0"
	cairn run absent.yaml -p p=2 --json >out
	test_is "$(counts out)" "1 2 0 0"
	lose b/o
	cairn plan absent.yaml -p p=3 --json >plan
	test_is "$(json plan "[t[\"state\"] for t in d[\"tasks\"]]")" "[\"run\", \"waiting\", \"waiting\"]"
	cairn run absent.yaml -p p=3 --json >out
	test_is "$(counts out)" "3 0 0 0"
	test_is "$(echo $(cat $HOME/done))" "a b c c a b c"
	cairn get c/o -o got
	test_is "$(echo $(cat got))" "a b1 c3"
	cairn store verify
'

test_expect --needs LOCAL_STORE 'damage that a task meets while it reads is mended by its producer' '
	id=$(blob b/o)
	chmod 644 .cairn/store/blobs/*/$id
	echo XXXXX >.cairn/store/blobs/${id:0:2}/$id
	: >$HOME/done
	write quick.yaml <<YAML
$(sed "s/outputs: {o: c}}/outputs: {o: c}, retry: {store: 1, backoff: 10ms}}/" absent.yaml)
YAML
	cairn run quick.yaml -p p=4 --json >out
	test_is "$(echo $(cat $HOME/done))" "b c"
	cairn store verify
'

test_expect 'bad usage and bad files have their exit codes' '
	test_code 2 cairn run --no-such-option
	test_code 3 cairn run none.yaml
	test_code 3 cairn run -p wrod=x 2>err
	test_grep "did you mean .word." err
	test_code 3 cairn run pipeline.yaml counnt 2>err
	test_grep "did you mean .count." err
'

write fail.yaml <<'YAML'
pipeline: failing
steps:
  good:
    run: echo good >${{ outputs.o }}
    outputs: {o: o.txt}
  bad:
    run: |
      echo the reason is this >&2
      exit 3
    needs: [good]
  after:
    run: echo never
    needs: [bad]
  other:
    run: sleep 0.2; echo other >${{ outputs.o }}
    outputs: {o: o.txt}
    needs: [good]
  alarm:
    if: "${{ failed() }}"
    run: echo alarm >${{ outputs.o }}
    outputs: {o: alarm.txt}
    needs: [bad]
  cleanup:
    if: "${{ always() }}"
    run: echo clean >${{ outputs.o }}
    outputs: {o: clean.txt}
    needs: [after]
YAML

test_expect 'a failure is exit 1, shows the end of the log, and blocks what needs it; always() and failed() steps run' '
	test_code 1 cairn run fail.yaml --json -j1 >out 2>err
	test_grep "the reason is this" err
	test_grep "exit status 3" err
	test_is "$(json out "d[\"counts\"][\"failed\"]")" 1
	cairn get alarm/o -o - >alarm
	test_is "$(cat alarm)" alarm
	cairn get cleanup/o -o - >clean
	test_is "$(cat clean)" clean
	cairn logs >log
	test_grep "the reason is this" log
'

test_expect '--keep-going does all that does not need the failure' '
	test_code 1 cairn run fail.yaml --keep-going --json >out
	test_is "$(json out "d[\"counts\"][\"blocked\"]")" 1
	cairn get other/o -o - >other
	test_is "$(cat other)" other
'

write shapes.yaml <<'YAML'
pipeline: shapes
steps:
  missing: {run: "true", outputs: {o: none.txt}}
  kind: {run: mkdir o.txt, outputs: {o: o.txt}}
  undeclared: {run: "n=text; cat data/$n.txt >o.txt", outputs: {o: o.txt}}
YAML

test_expect 'a missing output, one of the wrong kind and an undeclared read fail, each in its own words' '
	test_code 1 cairn run shapes.yaml -k 2>err
	test_grep "did not make its output .o. .none.txt.; (nothing is|there are)" err
	test_grep "is a directory; declare it with a trailing slash" err
	test_grep "data/text.txt: No such file" err
'

write names.yaml <<'YAML'
pipeline: names
steps:
  a: {run: "mkdir -p d; echo 1 >d/modle.bin; echo 2 >d/z", outputs: {o: d/model.bin}}
  b: {run: "echo '{\"accuracy\": 0.5, \"loss\": 2}' >m.json", metrics: m.json, gate: {acuracy: ">= 0.1"}}
  c: {run: "for i in 1 2 3 4 5 6 7; do echo >d/$i; done", outputs: {o: d/model.bin}}
YAML
test_expect 'a missing output tells what is there instead, a gate which metrics there are' '
	test_code 1 cairn run names.yaml -k 2>err
	test_grep "✗ a .*\(d/model.bin\); there are modle.bin, z \(did you mean .modle.bin.\?\)" err
	test_grep "✗ b .*no metric .acuracy.; it gave accuracy, loss \(did you mean .accuracy.\?\)" err
	test_grep "✗ c .*; there are 1, 2, 3, 4, 5, 6, …$" err
'

write odd.yaml <<'YAML'
pipeline: odd
steps:
  make:
    shell: bash
    run: |
      cd ${{ outputs.d }}
      echo '#!/bin/sh' >'a script'; chmod +x 'a script'
      : >empty; mkdir emptydir; ln -s 'a script' link; ln -s nowhere dangling
      echo x >$'new\nline'; echo y >$'\xff\xfe'; mkdir -p deep/er; echo z >deep/er/ümlaut
      truncate -s 5M sparse
    outputs: {d: d/}
  look:
    run: |
      cd ${{ inputs.d }}
      [ -x 'a script' ] && [ ! -x empty ] && [ -d emptydir ] && [ "$(readlink link)" = 'a script' ] && [ -L dangling ]
      find . | LC_ALL=C sort | od -c >../../${{ outputs.o }}
      [ "$(stat -c %s sparse)" = 5242880 ]
    inputs: {d: "${{ steps.make.outputs.d }}"}
    outputs: {o: o.txt}
YAML

test_expect 'executable bits, links, empty ones, odd names and sparse files survive from step to step' '
	cairn run odd.yaml
	cairn get look/o -o - >o
	test_grep "377 376" o
'

write gate.yaml <<'YAML'
pipeline: gate
steps:
  m:
    run: |
      echo ran >>"$HOME/gate-runs"
      echo '{"acc": 0.8, "deep": {"x": 1}}' >metrics.json
    metrics: metrics.json
    gate: {acc: ">= 0.9"}
  use:
    if: "${{ steps.m.metrics.acc > 0.5 }}"
    run: echo yes
    needs: [m]
YAML

test_expect 'a failed gate fails the step, keeps its metrics, and a new bound is judged without running again' '
	test_code 1 cairn run gate.yaml 2>err
	test_grep "acc is 0.8, must be >= 0.9" err
	cairn metrics --json >m
	test_is "$(json m "d[\"runs\"][0][\"metrics\"][\"m\"][\"deep.x\"]")" 1.0
	test_code 1 cairn run gate.yaml
	sed -i "s/>= 0.9/>= 0.7/" gate.yaml
	cairn run gate.yaml
	test_is "$(wc -l <"$HOME/gate-runs")" 1
'

write fan.yaml <<'YAML'
pipeline: fan
params: {n: 3, folds: [0, 1]}
steps:
  make:
    run: mkdir -p d; for i in $(seq ${{ params.n }}); do echo $i >"d/part $i.txt"; done
    outputs: {d: d/}
  each:
    each: "${{ steps.make.outputs.d }}/*.txt"
    run: sed 's/^/got /' "${{ inputs.part }}" >${{ outputs.o }}; echo ${{ item.stem }} >>${{ outputs.o }}
    inputs: {part: "${{ item }}"}
    outputs: {o: o.txt}
  join:
    run: for f in ${{ inputs.parts }}/*; do [ -e "$f" ] && cat "$f" || true; done >${{ outputs.all }}
    inputs: {parts: "${{ steps.each.outputs.o }}"}
    outputs: {all: all.txt}
  train:
    matrix: {fold: "${{ params.folds }}", lr: [1, 2], exclude: [{fold: 1, lr: 2}], include: [{fold: 7, lr: 9}]}
    run: echo ${{ matrix.fold }} ${{ matrix.lr }} >${{ outputs.m }}
    outputs: {m: m.txt}
  evaluate:
    matrix: {fold: [0, 1]}
    run: ls ${{ inputs.m }} >${{ outputs.l }}
    inputs: {m: "${{ steps.train.outputs.m }}"}
    outputs: {l: l.txt}
YAML

test_expect 'fan-out over what a step made, gathering, and matrices that share an axis' '
	cairn run fan.yaml --json >out
	test_is "$(json out "d[\"counts\"][\"executed\"]")" 11
	cairn get join/all -o - >all
	test_lines 6 all
	test_grep "got 2" all
	cairn get "evaluate[fold=0]/l" -o - >l0
	test_is "$(tr "\n" " " <l0)" "lr=1.txt lr=2.txt "
	cairn get "evaluate[fold=1]/l" -o - >l1
	test_is "$(cat l1)" "lr=1.txt"
'

test_expect 'one more member executes one more task; an empty fan-out is fine' '
	cairn run fan.yaml -p n=4 --json >out
	test_is "$(counts out)" "3 9 0 0"
	cairn run fan.yaml -p n=0 --json >out
	test_is "$(json out "d[\"state\"]")" succeeded
	cairn get join/all -o - >all
	test_lines 0 all
'

test_expect 'targets, --until, --from and --force' '
	cairn run fan.yaml make --json >out
	test_is "$(json out "d[\"counts\"][\"total\"]")" 1
	cairn run fan.yaml --until each --json >out
	test_is "$(json out "d[\"counts\"][\"total\"]")" 4
	cairn run fan.yaml --from join --force join --json >out
	test_is "$(json out "d[\"counts\"][\"executed\"]")" 1
	test_code 3 cairn run fan.yaml --from join -p n=9 2>err
	test_grep "comes before --from and is not on record" err
'

write random.yaml <<'YAML'
pipeline: random
steps:
  r: {run: head -c 16 /dev/urandom >r.bin, outputs: {o: r.bin}}
  n: {run: head -c 16 /dev/urandom >r.bin, outputs: {o: r.bin}, cache: false}
YAML

test_expect 'a nondeterministic step is found, told, and listed; cache: false always runs' '
	cairn run random.yaml
	cairn run random.yaml --json >out
	test_is "$(counts out)" "1 1 0 0"
	cairn run random.yaml --force r 2>err
	test_grep "r is not deterministic" err
	cairn store verify >v
	test_grep "nondeterministic: r" v
	cairn runs >runs
	test_grep "nondeterministic" runs
'

write secret.yaml <<'YAML'
pipeline: secret
steps:
  s:
    run: echo "token is $TOKEN"; printf %s "$TOKEN" | wc -c >n.txt
    secrets: [TOKEN]
    outputs: {n: n.txt}
YAML

test_expect 'a secret reaches the step and nothing else: not the log, the database, the store' '
	test_code 1 cairn run secret.yaml 2>err
	test_grep "cairn secret set TOKEN" err
	printf hunter2-hunter2 | cairn secret set TOKEN
	cairn run secret.yaml
	cairn get s/n -o - >n
	test_is "$(tr -d " " <n)" 15
	cairn logs s >log
	test_grep "token is [*][*][*]" log
	rm -r .cairn/secrets
	test_must_fail grep -rq hunter2 .cairn
'

write forms.yaml <<'YAML'
pipeline: forms
steps:
  s:
    run: |
      printf %s "$TOKEN" | base64
      printf 'user:%s' "$TOKEN" | base64
      python3 -c 'import os, urllib.parse as u; print(u.quote(os.environ["TOKEN"], safe=""))'
      python3 -c 'import os, json; print(json.dumps(os.environ["TOKEN"]))'
      seq 2000000
    secrets: [TOKEN]
YAML

test_expect 'its usual encodings are masked, too, and no other byte of the log is lost' '
	export CAIRN_SECRET_TOKEN="p\"ss/wörd-9f4b"
	cairn run forms.yaml
	cairn logs s >log
	head -4 log | tr -d "\"" | sed "s/[A-Za-z0-9]*\(\*\*\*\)[A-Za-z0-9=]*/\1/" >forms
	test_is "$(sort -u forms)" "***"
	tail -n +5 log | cmp - <(seq 2000000)
'
test_expect 'a secret that is too short to be masked is told' '
	CAIRN_SECRET_TOKEN=abc cairn run secret.yaml 2>err
	test_grep "warning: the value of secret TOKEN is too short to be masked" err
'

write retry.yaml <<'YAML'
pipeline: retry
steps:
  r:
    run: echo x >>"$HOME/tries"; [ "$(wc -l <"$HOME/tries")" -ge 3 ]
    retry: {max: 2, backoff: 1ms}
  slow: {run: "trap \"\" TERM; (sleep 60 & echo $! >\"$HOME/slow\"; wait); sleep 60", timeout: 100ms, needs: [r]}
YAML

test_expect 'retries within their budget; a timeout ends the whole tree' '
	test_code 1 cairn run retry.yaml 2>err
	test_is "$(wc -l <"$HOME/tries")" 3
	test_grep "timeout" err
	wait_until 10 test_gone "$(cat "$HOME/slow")"
'

test_expect 'what a step writes to its input does not reach the store' '
	write w.yaml <<-"YAML"
	pipeline: w
	inputs: {t: data/text.txt}
	steps:
	  w: {run: "chmod u+w ${{ inputs.t }}; echo scribble >${{ inputs.t }}", inputs: {t: "${{ inputs.t }}"}}
	YAML
	cairn run w.yaml
	cairn store verify
'

test_expect '--shell opens a shell in the task'"'"'s workspace, and what is done there is no result' '
	printf "pwd; ls inputs; echo made >n.txt; exit 3\n" | SHELL=/bin/sh cairn run --shell count >out
	test_grep "/work/.*/w$" out
	test_grep "^upper.txt" out
	cairn plan --json >plan
	test_is "$(json plan "[t[\"state\"] for t in d[\"tasks\"] if t[\"task\"] == \"count\"]")" "[\"hit\"]"
'

test_expect 'two runs at once execute each key once' '
	write two.yaml <<-"YAML"
	pipeline: two
	steps:
	  t: {matrix: {i: [1, 2, 3, 4, 5, 6]}, run: "echo x >>\"$HOME/two-${{ matrix.i }}\"; sleep 0.1; echo ${{ matrix.i }} >o", outputs: {o: o}}
	YAML
	start one cairn run two.yaml -q
	start other cairn run two.yaml -q
	wait_until 30 test -s one.rc
	wait_until 30 test -s other.rc
	test_is "$(cat one.rc) $(cat other.rc)" "0 0"
	test_is "$(cat "$HOME"/two-* | wc -l)" 6
'
test_done
