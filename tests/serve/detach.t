#!/bin/bash
# cairn run --detach: a run that one project prepares and another one's server executes, with nothing between them but a store and HTTP.
# shellcheck source=serve.sh
. "$(dirname "$0")/serve.sh"
. "$(dirname "$0")/../lib.sh"
test_have curl || test_skip_all 'needs curl'

mkdir -p there laptop/lib laptop/data laptop/steps
echo 'salt: "of the server"' >there/cairn.yaml
printf 'salt: "of the laptop"\n' >laptop/cairn.yaml
export CAIRN_STORE=${CAIRN_STORE:-$PWD/store}
cat >laptop/pipeline.yaml <<'YAML'
pipeline: away
params: {n: 1, rate: {type: float, default: 0.5}, tags: {type: list, default: [a, b]}}
inputs: {data: data/in.txt, all: data/}
steps:
  first:
    run: "sh lib/first.sh ${{ inputs.data }} >o; echo ${{ params.n }} ${{ params.rate }} ${{ join(params.tags, \"-\") }} >>o; ls ${{ inputs.all }} >>o; echo x >>\"$HOME/firsts\""
    code: [lib]
    inputs: {data: "${{ inputs.data }}", all: "${{ inputs.all }}"}
    outputs: {o: o}
  second:
    uses: ./steps/second.yaml
    inputs: {i: "${{ steps.first.outputs.o }}"}
  wait:
    run: "echo waiting; echo begun >>\"$HOME/begun\"; while [ ! -e \"$HOME/go\" ]; do sleep 0.02; done; echo went on"
    needs: [second]
    cache: false
YAML
cat >laptop/steps/second.yaml <<'YAML'
step: second
run: "tr a-z A-Z <${{ inputs.i }} >o"
inputs: {i: {help: a text}}
outputs: {o: o}
YAML
echo 'cat "$1"; echo code' >laptop/lib/first.sh
echo hello >laptop/data/in.txt
(cd laptop && git init -q . && git config user.email a@b && git config user.name a && git add -A && git commit -qm one) || test_bail 'no git'

begun() { [ "$(cat "$HOME/begun" 2>/dev/null | wc -l)" -ge "$1" ]; }
there() { (cd there && cairn "$@"); }
laptop() { (cd laptop && CAIRN_SERVE_TOKEN=$SERVE_TOKEN CAIRN_SERVER=$(serve_url srv) cairn "$@"); }
state_is() { test "$(there status --json "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)["run"]["state"])')" = "$2"; }
# shellcheck disable=SC2034 # run is the tests'
detach() { laptop run --json --detach "$@" >handed.json && run=$(json handed.json 'd["run"]'); }

test_expect 'the server executes it without a checkout; what it makes is what a local run makes' '
	serve srv there
	touch "$HOME/go"
	detach -p n=3
	wait_until 60 state_is "$run" succeeded
	there get "$run/second/o" -o "$PWD/away.txt"
	printf "HELLO\nCODE\n3 0.5 A-B\nIN.TXT\n" >want
	test_cmp want away.txt
'

test_expect 'keys are those of the laptop: its run hits what the server made' '
	rm -f "$HOME/firsts"
	detach -p n=4
	wait_until 60 state_is "$run" succeeded
	test_is "$(wc -l <"$HOME/firsts")" 1
	(cd laptop && cairn run --json -p n=4 >../local.json)
	test_is "$(json local.json "d[\"counts\"][\"hits\"]")" 2
	test_is "$(wc -l <"$HOME/firsts")" 1
'

test_expect 'git facts, path and params of the laptop are on record' '
	there runs --json -n 1 >runs.json
	test_is "$(json runs.json "d[\"runs\"][0][\"git_commit\"]")" "$(git -C laptop rev-parse HEAD)"
	test_is "$(json runs.json "(d[\"runs\"][0][\"path\"], d[\"runs\"][0][\"params\"][\"n\"], d[\"runs\"][0][\"params\"][\"rate\"], d[\"runs\"][0][\"params\"][\"tags\"])")" \
		"[\"pipeline.yaml\", 4, 0.5, [\"a\", \"b\"]]"
'

test_expect 'status, logs and cancel from the laptop' '
	rm -f "$HOME/go" "$HOME/begun"
	detach
	wait_until 60 begun 1
	laptop status "$run" --server >out
	test_grep "^$run running" out
	test_grep "wait" out
	laptop status "$run" --json --server >status.json
	test_is "$(json status.json "d[\"run\"][\"id\"]")" "$run"
	laptop logs wait --run "$run" -f --server >log &
	wait_until 60 grep -q waiting log
	touch "$HOME/go"
	wait
	test_is "$(tr "\n" " " <log)" "waiting went on "
	wait_until 60 state_is "$run" succeeded
	rm -f "$HOME/go" "$HOME/begun"
	detach
	wait_until 60 begun 1
	laptop cancel "$run" --server >out
	test_grep "$run: asked to stop" out
	wait_until 60 state_is "$run" cancelled
'

test_expect 'the same request twice is one run' '
	touch "$HOME/go"
	mkdir lossy
	start lossy.server python3 "$SRC/tests/serve/lossy.py" "$PWD/lossy" "$(serve_url srv | sed "s/.*://")"
	wait_until 60 test -s lossy/port
	before=$(there runs --json -n 0 | json /dev/stdin "len(d[\"runs\"])")
	detach --server "http://127.0.0.1:$(cat lossy/port)" -p n=9
	test_is "$(wc -l <lossy/answers)" 2
	test_is "$(json <(sed -n 1p lossy/answers) "(d[\"run\"], d[\"new\"])")" "[\"$run\", true]"
	test_is "$(json <(sed -n 2p lossy/answers) "(d[\"run\"], d[\"new\"])")" "[\"$run\", false]"
	wait_until 60 state_is "$run" succeeded
	test_is "$(there runs --json -n 0 | json /dev/stdin "len(d[\"runs\"])")" $((before + 1))
'

test_expect 'the server is killed: the next one goes on with it by itself, and nothing is done twice' '
	rm -f "$HOME/go" "$HOME/begun" "$HOME/firsts"
	detach -p n=11
	wait_until 60 begun 1
	kill -9 "$(cat srv.pid)"
	pid=$(python3 -c "import sqlite3, sys; print(sqlite3.connect(\"there/.cairn/cairn.db\").execute(\"SELECT pid FROM run WHERE id = ?\", sys.argv[1:]).fetchone()[0])" "$run")
	kill -9 "$pid"
	wait_until 60 test -s srv.rc
	serve_forget srv
	serve srv there
	test_grep "run-taken-up .*run=$run" srv.out
	wait_until 60 begun 2
	touch "$HOME/go"
	wait_until 60 state_is "$run" succeeded
	test_is "$(wc -l <"$HOME/firsts")" 1
'

test_expect 'its engine is killed: this server goes on with it' '
	rm -f "$HOME/go" "$HOME/begun" "$HOME/firsts"
	detach -p n=12
	wait_until 60 begun 1
	pid=$(python3 -c "import sqlite3, sys; print(sqlite3.connect(\"there/.cairn/cairn.db\").execute(\"SELECT pid FROM run WHERE id = ?\", sys.argv[1:]).fetchone()[0])" "$run")
	kill -9 "$pid"
	wait_until 60 begun 2
	touch "$HOME/go"
	wait_until 60 state_is "$run" succeeded
	test_is "$(wc -l <"$HOME/firsts")" 1
'

test_expect 'a server of several projects is told which one' '
	mkdir -p pair/one pair/two
	cp there/cairn.yaml pair/one
	cp there/cairn.yaml pair/two
	serve both pair/one pair/two
	url=$(serve_url both)
	test_code 3 laptop run --detach --server "$url" 2>err
	test_grep "several projects are served here: one, two; name one .--project NAME" err
	test_is "$(wc -l <err)" 1
	test_code 4 laptop runs --server "$url" --project three 2>err
	test_grep "no project .three. is served here: there is one, two" err
	rm -f "$HOME/go" "$HOME/begun"
	laptop run --detach --server "$url" --project two -p n=21 >handed
	test_grep "cairn status .* --server $url --project two" handed
	run=$(sed "s/:.*//;q" handed)
	wait_until 60 begun 1
	laptop status "$run" --server "$url" --project two >out
	test_grep "^$run running" out
	laptop runs --server "$url" --project two --state running --json >there.json
	test_is "$(json there.json "[r[\"id\"] for r in d[\"runs\"]]")" "[\"$run\"]"
	laptop cancel "$run" --server "$url" --project two
	pair_state() { test "$(cd "pair/$1" && cairn status --json "$2" | json /dev/stdin "d[\"run\"][\"state\"]")" = "$3"; }
	wait_until 60 pair_state two "$run" cancelled
	laptop logs first --run "$run" --server "$url" --project two >out
	laptop runs --server "$url" --project one --json >there.json
	test_is "$(json there.json "d[\"runs\"]")" "[]"
	cp laptop/cairn.yaml laptop.was
	test_when_finished "mv laptop.was laptop/cairn.yaml"
	printf "serve: {url: \"%s\", project: two}\n" "$url" >>laptop/cairn.yaml
	touch "$HOME/go"
	(cd laptop && CAIRN_SERVE_TOKEN=$SERVE_TOKEN cairn run --detach -p n=22 --json >../handed.json)
	run=$(json handed.json "d[\"run\"]")
	wait_until 60 pair_state two "$run" succeeded
	(cd laptop && cairn runs --server >../out)
	test_grep "^$run .* succeeded" out
	test_is "$(wc -l <out)" 3
	(cd laptop && cairn runs --server --limit 0 --since 1h --json >../there.json)
	(cd pair/two && cairn runs --json >../../here.json)
	test_is "$(json there.json d)" "$(json here.json d)"
	test_code 2 laptop status --project two 2>err
	test_grep "project names a project of a server: --server is missing" err
	test_is "$(stop both TERM)" 0
'

test_expect 'refusals, each in one clear line' '
	test_code 3 env CAIRN_SERVE_TOKEN=wrong-wrong-wrong-wrong bash -c "cd laptop && cairn run --detach --server $(serve_url srv)" 2>err
	test_grep "the token is wrong: .*CAIRN_SERVE_TOKEN" err
	test_code 3 bash -c "cd laptop && cairn run --detach --server $(serve_url srv)" 2>err
	test_grep "the token is missing" err
	test_code 2 bash -c "cd laptop && cairn run --detach" 2>err
	test_grep "which server.*--server URL.*CAIRN_SERVER.*serve.url" err
	echo other >laptop/data/in.txt
	test_code 3 env -u CAIRN_STORE CAIRN_SERVE_TOKEN=$SERVE_TOKEN bash -c "cd laptop && cairn run --detach --server $(serve_url srv)" 2>err
	test_grep "isn.t in this server.s store, .*; it came from .*laptop/.cairn/store" err
	test_code 3 env -u CAIRN_STORE CAIRN_SERVE_TOKEN=$SERVE_TOKEN bash -c "cd laptop && cairn run --detach --server https://cairn.example.org" 2>err
	test_grep "needs a store that the server sees as well" err
	test_code 2 laptop run --detach --twice 2>err
	test_grep "\-\-twice has no meaning there" err
	test_code 4 env CAIRN_SERVE_TOKEN=$SERVE_TOKEN bash -c "cd laptop && cairn status --server http://127.0.0.1:1 x" 2>err
	test_grep "the server http://127.0.0.1:1: " err
	test_is "$(wc -l <err)" 1
	test_code 4 laptop status nothing-22222 --server 2>err
	test_grep "nothing-22222" err
'

test_done
