#!/bin/bash
# `cairn run --audit`: what a step reads and doesn't declare is told with the line that declares it, and nothing else.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
mkdir -p src data 'in put' many outside
printf 'a\n' >data/extra.csv
printf 'b\n' >'in put/ü.csv'
for i in 1 2 3 4 5 6 7 8 9; do echo "$i" >"many/$i.txt"; done
echo "cat '$PWD/data/extra.csv'" >src/read.sh
here=$PWD
write pipeline.yaml <<YAML
pipeline: p
steps:
  declared:
    run: "cat \${{ inputs.a }} \${{ inputs.b }} >o; sh src/own.sh; echo x >made; cat made; cat \$TMPDIR/none 2>/dev/null || true"
    inputs: {a: data/extra.csv, b: "in put/ü.csv"}
    code: [src/own.sh]
    outputs: {o: o}
  reads:
    run: "sh src/read.sh >o; cat '$here/in put/ü.csv'; cat '$here'/many/*; (exec sh '$here/src/hidden.sh')"
    outputs: {o: o}
YAML
echo 'true' >src/own.sh
echo 'true' >src/hidden.sh
# undeclared RUN-OUTPUT TASK: what was told of it
undeclared() { sed -n "s/^· $2: //p" "$1"; }

cairn run --audit >out 2>err || cat err >&2
grep -q 'cannot watch\|can.t tell' err && test_skip_all "$(grep -m1 'cannot watch\|can.t tell' err)"

test_expect 'what is read and not declared is told with the line that declares it' '
	test_is "$(undeclared err reads)" "data/extra.csv isn'"'"'t declared: add \`inputs: {extra: data/extra.csv}\`
in put/ü.csv isn'"'"'t declared: add \`inputs: {data: in put/ü.csv}\`
many/ (9 files) isn'"'"'t declared: add \`inputs: {many: many/}\`
src/hidden.sh isn'"'"'t declared: add \`code: [src/hidden.sh]\`"
'

test_expect 'who reads what it declares and what it made itself is said to' '
	test_is "$(undeclared err declared)" "reads nothing that isn'"'"'t declared"
'

test_expect 'the log ends with it' '
	cairn logs reads >log
	grep -F "cairn: data/extra.csv isn" log
	test_is "$(grep -c "^cairn: " log)" 4
	cairn logs declared >log
	test_no_grep "^cairn: " log
'

test_expect 'the key is the same with it and without' '
	cairn run -q
	cairn plan --json >plan
	test_is "$(json plan "\" \".join(t[\"state\"] for t in d[\"tasks\"])")" "hit hit"
'

test_expect 'a step by name; a hit opens nothing' '
	cairn run --force --audit reads 2>err
	test -n "$(undeclared err reads)"
	test -z "$(undeclared err declared)"
	cairn run --audit 2>err
	test -z "$(undeclared err reads)"
'

test_expect 'what fails tells it, too' '
	write fails.yaml <<-YAML
	pipeline: f
	steps: {s: {run: "cat $here/data/extra.csv; exit 3"}}
	YAML
	test_code 1 cairn run --audit fails.yaml 2>err
	test_is "$(undeclared err s | cut -d" " -f1)" data/extra.csv
'

test_expect 'a file of another place, and one beneath a name with odd bytes' '
	away=$(mktemp -d)
	test_when_finished "rm -rf $away"
	echo x >"$away/one"
	printf y >"$away/two
lines"
	write away.yaml <<-YAML
	pipeline: away
	steps: {s: {run: "cat $away/*"}}
	YAML
	cairn run --audit away.yaml 2>err
	undeclared err s >told
	grep -F "lies outside of the project" told
	test_is "$(wc -l <told)" 1
'

test_expect 'audit: true tells it of the first execution only' '
	cp cairn.yaml before
	test_when_finished "mv before cairn.yaml"
	echo "audit: true" >cairn.yaml
	sed "s/pipeline: p/pipeline: q/" pipeline.yaml >q.yaml
	cairn run --force q.yaml 2>err
	test_is "$(undeclared err reads | wc -l)" 4
	cairn run --force q.yaml 2>err
	test -z "$(undeclared err reads)"
'

test_expect 'unknown steps, servers: one clear error' '
	test_code 3 cairn run --audit nope 2>err
	grep -F "has no step \`nope\`" err
	test_code 2 cairn run --audit --detach 2>err
	grep -F -- "--audit" err
'

test_expect 'a secret is not told' '
	mkdir -m 700 .cairn/secrets
	( umask 077; echo hush-hush-hush >.cairn/secrets/TOK )
	write s.yaml <<-YAML
	pipeline: s
	steps: {s: {secrets: [TOK], run: "cat $here/data/extra.csv; echo \$TOK"}}
	YAML
	cairn run --audit s.yaml 2>err
	cairn logs s >log
	test_no_grep hush log
	grep "^cairn: data/extra.csv" log
'

test_done
