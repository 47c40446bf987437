#!/bin/bash
# `values`: what a step writes as JSON reaches `if`, `each`, commands, env and params of later steps, is in their keys by content, and is refused where it can't be kept exactly.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
write loop.yaml <<'YAML'
pipeline: loop
inputs: {plan: plan.json}
steps:
  plan:
    run: cp ${{ inputs.plan }} v.json
    inputs: {plan: "${{ inputs.plan }}"}
    values: v.json
  train:
    each: "${{ steps.plan.values.trials }}"
    run: |
      echo ${{ item.name }} ${{ item.lr }} ${{ item }} >${{ outputs.o }}
      echo "{\"loss\": ${{ item.lr }}, \"name\": \"x\"}" >"$CAIRN_OUTPUT_VALUES"
    outputs: {o: o.txt}
    values: out/loss.json
  heads:
    if: "${{ steps.plan.values.coin == 'heads' }}"
    run: printf '%s|' "$BEST" ${{ steps.plan.values.best.opt.1 }} "${{ max(steps.train.values.loss) }}" ${{ join(steps.train.values.name, '+') }} ${{ steps.plan.values.words }} >${{ outputs.o }}
    env: {BEST: "${{ steps.plan.values.best }}"}
    outputs: {o: o.txt}
  tails:
    if: "${{ steps.plan.values.coin == 'tails' }}"
    run: echo tails >${{ outputs.o }}
    outputs: {o: o.txt}
  after-tails: {run: "echo ${{ inputs.t }} >${{ outputs.o }}", inputs: {t: "${{ steps.tails.outputs.o }}"}, outputs: {o: o}}
  none:
    each: "${{ steps.plan.values.nothing }}"
    run: echo ${{ item }} >${{ outputs.o }}
    outputs: {o: o.txt}
  losses:
    each: "${{ steps.train.values.loss }}"
    run: echo ${{ item }} >${{ outputs.o }}
    outputs: {o: o.txt}
YAML
write plan.json <<'JSON'
{"trials": [{"name": "größe", "lr": 0.10000000000000001}, {"name": "b c", "lr": 5}],
 "best": {"opt": ["sgd", "adam's \"w\" $(touch PWNED)"], "big": 9007199254740993},
 "coin": "heads", "words": ["one", "two words"], "nothing": [], "unused": 1}
JSON

test_expect 'check knows the words; plan says what waits' '
	cairn check loop.yaml
	cairn plan loop.yaml >out
	test_grep "^run +plan" out
	test_grep "^waiting +train\[…\] +needs plan" out
	cairn graph loop.yaml >out
	test_grep "train ×\?" out
'
test_expect 'values reach if, each, commands and env, exactly as they were written' '
	cairn run loop.yaml -q
	cairn get heads/o -o - >got
	printf "%s|" "{\"big\":9007199254740993,\"opt\":[\"sgd\",\"adam'"'"'s \\\"w\\\" \$(touch PWNED)\"]}" "adam'"'"'s \"w\" \$(touch PWNED)" 5 x+x one "two words" >want
	test_cmp want got
	test_is "$(find . -name PWNED)" ""
	cairn get "train[lr=0.1,name=größe]/o" -o - >got
	test_is "$(cat got)" "größe 0.1 {\"lr\":0.1,\"name\":\"größe\"}"
	cairn status -v >out
	test_grep "^skipped +tails" out
	test_grep "^skipped +after-tails" out
	test_no_grep "none" out
	cairn get plan/values -o - >got
	test_cmp plan.json got
'
test_expect 'a second run finds everything on record' '
	cairn run loop.yaml >out 2>&1
	test_grep "8 tasks, 2 skipped, 6 on record" out
'
test_expect 'only steps that use a changed value run again' '
	sed -i "s/\"unused\": 1/\"unused\": 2/" plan.json
	cairn run loop.yaml >out 2>&1
	test_grep "1 executed" out
	sed -i "s/\"lr\": 5/\"lr\": 6/" plan.json
	cairn run loop.yaml >out 2>&1
	test_grep "✓ train\[lr=6,name=b c\]" out
	test_grep "✓ heads" out
	test_grep "✓ losses\[6\]" out
	test_no_grep "größe\]" out
	test_grep "4 executed" out
	sed -i "s/heads\"/tails\"/" plan.json
	cairn run loop.yaml >out 2>&1
	test_grep "✓ tails" out
	test_grep "✓ after-tails" out
	cairn status -v >out
	test_grep "^skipped +heads" out
'
test_expect 'reproduce compares the values, and repeats the same tasks' '
	cairn reproduce last --json >report
	test_is "$(json report "d[\"verdict\"]")" identical
	test_is "$(json report "sorted(o[\"verdict\"] for t in d[\"tasks\"] for o in t[\"outputs\"] if o[\"name\"] == \"values\")")" "[\"identical\", \"identical\", \"identical\"]"
'
test_expect 'a gone values file is made again before it is read' '
	rm -rf .cairn/store/blobs .cairn/store/packs
	cairn run loop.yaml -q
	cairn get plan/values -o - >got
	test_cmp plan.json got
'

write step.yaml <<'YAML'
step: scale
params: {factor: {type: float, default: 1}, opts: {type: list, default: []}}
run: echo ${{ params.factor }} ${{ params.opts }} >${{ outputs.o }}
outputs: {o: o.txt}
YAML
write file.yaml <<'YAML'
pipeline: file
steps:
  plan: {run: "echo \"{\\\"f\\\": 0.5, \\\"l\\\": [1, 2], \\\"t\\\": \\\"no\\\"}\" >v.json", values: v.json}
  good: {uses: ./step.yaml, with: {factor: "${{ steps.plan.values.f }}", opts: "${{ steps.plan.values.l }}"}}
YAML
test_expect 'params of a step file take values, of their type only' '
	cairn run file.yaml -q
	cairn get good/o -o - >got
	test_is "$(cat got)" "0.5 1 2"
	sed -i "s/values.f }}/values.t }}/" file.yaml
	test_must_fail cairn run file.yaml -q 2>err
	test_grep "with.factor.*number" err
'

write bad.yaml <<'YAML'
pipeline: bad
inputs: {v: v.in}
steps:
  a:
    run: cp ${{ inputs.v }} v.json
    inputs: {v: "${{ inputs.v }}"}
    values: v.json
  b: {run: "echo EXPR >o", outputs: {o: o}}
YAML
bad() { # JSON, what the run says
	printf '%b' "$1" >v.in
	test_must_fail cairn run bad.yaml >err 2>&1
	test_grep "$2" err
}
test_expect 'what is no JSON object, or would be changed, fails the step that wrote it' '
	bad "[1]" "must be a JSON object, .*not an array"
	bad "no" "v.json:1:"
	bad "{\"a\": NaN}" "v.json:1:"
	bad "{\"a\": 1, \"a\": 2}" "duplicate"
	bad "{\"a\": 12345678901234567890}" "12345678901234567890 doesn.t fit 64 bits"
	bad "{\"a\": 0.1234567890123456789}" "doesn.t fit 64 bits"
	bad "{\"a\": 1e999}" "doesn.t fit"
	bad "{\"a\": \"\\\\xff\"}" "v.json:1:"
	python3 -c "print(\"{\\\"a\\\":\" + \"[\" * 40 + \"]\" * 40 + \"}\")" >v.in
	test_must_fail cairn run bad.yaml >err 2>&1
	test_grep "deeper" err
	python3 -c "print({\"a\": [1] * 10001})" | tr "'"'"'" "\"" >v.in
	test_must_fail cairn run bad.yaml >err 2>&1
	test_grep "a list of 10001 members" err
	head -c 1200000 /dev/zero | tr "\\\\0" " " >v.in
	test_must_fail cairn run bad.yaml >err 2>&1
	test_grep "more than 1048576 bytes" err
	cairn status --json >status.json
	test_grep "\"output\"" status.json
'
test_expect 'a step that writes no file, or a directory, fails' '
	write no.yaml <<-"YAML"
	pipeline: none
	steps:
	  a: {run: "true", values: v.json}
	  b: {run: "mkdir v.json", values: v.json}
	YAML
	test_must_fail cairn run no.yaml --keep-going >err 2>&1
	test_grep "a failed.*output .values. \(v.json\)" err
	test_grep "b failed" err
'
test_expect 'a value that is missing, or of the wrong type, is told with what is there' '
	echo "{\"näme\": \"x\", \"l\": [1, 2], \"s\": \"4\", \"o\": {\"k\": 1}}" >v.in
	for row in "steps.a.values.nope|there is no .nope., but .l., .näme., .o., .s." "steps.a.values.l.2|items are 0 to 1" "steps.a.values.o.x|.o. has .k." "steps.a.values.s > 3|a string and an int can.t be put in order" "steps.a.values.l + 1|a number is needed here, not a list"; do
		sed "s/EXPR/\${{ ${row%%|*} }}/" bad.yaml >now.yaml
		test_must_fail cairn run now.yaml -q 2>err
		test_grep "${row#*|}" err
		test_grep "now.yaml:8:" err
	done
	sed "s/b: {/b: {each: \"\${{ steps.a.values.s }}\", /" bad.yaml >now.yaml
	test_must_fail cairn run now.yaml -q 2>err
	test_grep "range over a list .* not string" err
	sed "s/b: {/b: {each: \"\${{ steps.a.values.l }}\", /; s/EXPR/\${{ item.name }} \${{ item.x }}/" bad.yaml >now.yaml
	test_must_fail cairn run now.yaml -q 2>err
	test_grep "item .1. is an int and has no members" err
	sed "s/b: {/b: {each: \"\${{ steps.a.values.nope }}\", /" bad.yaml >now.yaml
	test_must_fail cairn run now.yaml -q 2>err
	test_grep "now.yaml:8:.*there is no .nope." err
'
test_expect 'two items that would give two tasks one name are an error' '
	echo "{\"l\": [{\"a\": 1}, {\"a\": 1}]}" >v.in
	sed "s/b: {/b: {each: \"\${{ steps.a.values.l }}\", /" bad.yaml >now.yaml
	test_must_fail cairn run now.yaml -q 2>err
	test_grep "would both be named .a=1." err
'
test_expect '10,000 items are 10,000 tasks' '
	python3 -c "import json; print(json.dumps({\"l\": [{\"n\": \"ü%d\" % i} for i in range(10000)]}))" >v.in
	sed "s/b: {/b: {each: \"\${{ steps.a.values.l }}\", if: \"\${{ item.n == '"'ü9999'"' }}\", /; s/EXPR/\${{ item.n }}/" bad.yaml >now.yaml
	cairn run now.yaml >out 2>&1
	test_grep "10,?001 tasks, 2 executed, 9,?999 skipped" out
'
test_expect 'a secret in values is refused' '
	write secret.yaml <<-"YAML"
	pipeline: secret
	steps:
	  a: {run: "printf \"{\\\"x\\\": [\\\"y%s\\\"]}\" \"$TOKEN\" >v.json", values: v.json, secrets: [TOKEN]}
	YAML
	CAIRN_SECRET_TOKEN=hunter2hunter2 test_must_fail cairn run secret.yaml >err 2>&1
	test_grep "holds the secret TOKEN" err
	test_no_grep "hunter2" err
'
write sized.yaml <<'YAML'
pipeline: sized
steps:
  plan: {run: "echo \"{\\\"l\\\": [{\\\"n\\\": 1, \\\"cpu\\\": 1}, {\\\"n\\\": 2, \\\"cpu\\\": 0.5}]}\" >v.json", values: v.json}
  work: {each: "${{ steps.plan.values.l }}", run: "echo ${{ item.n }}", resources: {cpu: "${{ item.cpu }}"}, timeout: "${{ item.n }}m"}
YAML
test_expect 'resources and timeout take an item that a step wrote' '
	cairn run sized.yaml -q
	cairn status >out
	test_grep "3 executed" out
	sed -i "s/item.n }}m/item.n }}parsecs/" sized.yaml
	test_must_fail cairn run sized.yaml -q 2>err
	test_grep "timeout" err
'
write lost.yaml <<'YAML'
pipeline: lost
params: {how: fails}
steps:
  plan: {run: "echo \"{\\\"l\\\": [1]}\" >v.json; test ${{ params.how }} != fails", values: v.json, if: "${{ params.how != 'skips' }}"}
  items: {each: "${{ steps.plan.values.l }}", run: "echo lost ${{ item }}"}
  one: {run: "echo lost ${{ steps.plan.values.l }}"}
  always: {run: "echo lost ${{ steps.plan.values.l }}", if: "${{ always() }}"}
  alarm: {run: "echo failed", if: "${{ failed() }}", needs: [plan]}
YAML
test_expect 'of a step that failed or was skipped there are no values: what uses them is blocked, or skipped' '
	test_must_fail cairn run lost.yaml -q --keep-going
	cairn status -v >out
	test_lines 3 <(grep "^blocked" out)
	test_grep "^blocked +always" out
	test_grep "1 executed" out
	cairn run lost.yaml -q -p how=skips
	cairn status -v >out
	test_lines 5 <(grep "^skipped" out)
	cairn run lost.yaml -q -p how=works
	cairn status -v >out
	test_grep "2 executed, 2 hits, 0 failed, 1 skipped" out
'
write kill.yaml <<'YAML'
pipeline: kill
steps:
  plan: {run: "echo \"{\\\"l\\\": [1, 2, 3]}\" >v.json", values: v.json}
  work:
    each: "${{ steps.plan.values.l }}"
    run: |
      echo ${{ item }} >>"$SEEN"
      [ ${{ item }} != 2 ] || [ -e "$GO" ] || sleep 60
      echo ${{ item }} >${{ outputs.o }}
    env: {SEEN: "PWD/seen", GO: "PWD/go"}
    outputs: {o: o}
YAML
test_expect 'kill -9 in the middle: resume goes on with the same items' '
	sed -i "s|PWD|$PWD|g" kill.yaml
	start run cairn run kill.yaml -j 1 -q
	wait_until 30 test -e seen
	wait_until 30 grep -qx 2 seen
	kill -9 "$(cat run.pid)"
	wait_until 30 test_gone "$(cat run.pid)"
	touch go
	cairn resume last -q
	test_is "$(sort -u seen | wc -l)" 3
	test_is "$(grep -c "^1\$" seen)" 1
	cairn status >out
	test_grep "succeeded" out
	test_grep "4 tasks" out
'
test_done
