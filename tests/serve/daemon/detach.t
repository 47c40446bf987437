#!/bin/bash
# cairn run --detach: a run that one project prepares and another one's server executes, with nothing between them but a store and HTTP.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
. "$(dirname "$0")/../../lib.sh"
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

serve srv there || test_bail 'no server'

test_expect 'the server executes it without a checkout; what it makes is what a local run makes' '
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

test_expect 'the sandbox that the laptop says goes along, its packages do not' '
	cp laptop/cairn.yaml kept.yaml
	echo "sandbox: strict" >>laptop/cairn.yaml
	touch "$HOME/of-the-server"
	mkdir -p venv/bin venv/lib/python3.11/site-packages/x-1.dist-info
	echo "version = 3.11.2" >venv/pyvenv.cfg
	echo "{pipeline: strict, steps: {s: {
		run: \"if cat $HOME/of-the-server; then echo seen; else echo hidden; fi >o\", outputs: {o: o}}}}" >laptop/strict.yaml
	PATH="$PWD/venv/bin:$PATH" detach strict.yaml
	mv kept.yaml laptop/cairn.yaml
	wait_until 60 state_is "$run" succeeded
	there get "$run/s/o" -o "$PWD/strict.out"
	test_is "$(cat strict.out)" hidden
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

test_expect 'a server tells of a run what the project that it serves tells: status, runs, exports' '
	echo "{pipeline: exporting, steps: {
		a: {run: \"echo 1 >o\", outputs: {o: {path: o, export: $PWD/exported}}},
		b: {run: \"echo 2 >o\", outputs: {o: {path: o, export: $PWD/there}}},
		c: {run: exit 3}}}" >there/exporting.yaml
	test_code 1 there run exporting.yaml --keep-going --json >ran.json
	run=$(json ran.json "d[\"id\"]")
	for how in "" -v; do
		there status $how "$run" | sed "s/started [^,]*//" >here
		laptop status $how "$run" --server | sed "s/started [^,]*//" >served
		test_cmp here served
	done
	test_grep "exported  *a o" served
	test_grep "failed  *b o" served
	there status "$run" --json >here.json
	laptop status "$run" --server --json >served.json
	test_is "$(json served.json "(d[\"tasks\"], d[\"exports\"])")" \
		"$(json here.json "(d[\"tasks\"], d[\"exports\"])")"
	# An age may grow between the two, and with it its column.
	ages="s/  ([0-9]+ [a-z]+ ago|just now)//; s/  +/  /g"
	there runs | sed -E "$ages" >here
	laptop runs --server | sed -E "$ages" >served
	test_cmp here served
	there runs --json >here
	laptop runs --server --json >served
	test_cmp here served
'

# A server whose last run is another one at each question; it has two pages of attempts.
write moving.py <<'PY'
import http.server, json, sys
asked = 0
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass
    def do_GET(self):
        global asked
        run, _, rest = self.path.removeprefix("/api/v1/runs/").partition("/")
        if run == "last":
            asked += 1
            run = "away-%d" % asked
        attempt = {"task": "of-" + run, "attempt": 1, "state": "failed", "duration_ns": 1}
        answer = {"id": run, "state": "failed", "duration_ns": 1, "counts": {}}
        if rest.startswith("attempts"):
            answer = {"attempts": [attempt], "next": NEXT if "cursor" not in rest else None}
        body = b"log of " + run.encode() + b"\n" if rest.startswith("log") else json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
NEXT = sys.argv[2]
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
open(sys.argv[1], "w").write(str(server.server_address[1]) + "\n")
server.serve_forever()
PY

test_expect 'one question is about one run, though another one is the last by now' '
	start moving python3 moving.py moving.port 7
	start strange python3 moving.py strange.port no-number
	wait_until 60 test -s moving.port
	wait_until 60 test -s strange.port
	url=http://127.0.0.1:$(cat moving.port)
	(cd laptop && CAIRN_SERVER=$url cairn status --server --json) >moved.json
	test_is "$(json moved.json "[d[\"run\"][\"id\"], [t[\"task\"] for t in d[\"tasks\"]]]")" "[\"away-1\", [\"of-away-1\", \"of-away-1\"]]"
	(cd laptop && CAIRN_SERVER=$url cairn logs --server) >moved
	test_is "$(cat moved)" "log of away-2"
	url=http://127.0.0.1:$(cat strange.port)
	(cd laptop && CAIRN_SERVER=$url cairn status --server --json) >strange.json
	test_is "$(json strange.json "[t[\"task\"] for t in d[\"tasks\"]]")" "[\"of-away-1\", \"of-away-1\"]"
'

test_expect 'the same request twice is one run' '
	touch "$HOME/go"
	mkdir lossy
	start lossy.server python3 "$SRC/tests/serve/daemon/lossy.py" "$PWD/lossy" "$(serve_url srv | sed "s/.*://")"
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

# What is asked is kept, for the run goes on soon.
waits() { there status "$run" >out && grep -q "it waits" out; }

test_expect 'its engine is killed: it waits, as everybody is told, and this server goes on with it' '
	rm -f "$HOME/go" "$HOME/begun" "$HOME/firsts"
	detach -p n=12
	wait_until 60 begun 1
	pid=$(python3 -c "import sqlite3, sys; print(sqlite3.connect(\"there/.cairn/cairn.db\").execute(\"SELECT pid FROM run WHERE id = ?\", sys.argv[1:]).fetchone()[0])" "$run")
	kill -9 "$pid"
	wait_until 60 waits
	test_grep "^$run interrupted" out
	test_grep "killed by SIGKILL.*; the next try in [0-9]+ s" out
	test_grep "it waits: .cairn serve. goes on with it by itself" out
	test_grep "lost +wait" out
	wait_until 60 begun 2
	touch "$HOME/go"
	wait_until 60 state_is "$run" succeeded
	there status --json "$run" >status.json
	test_is "$(json status.json "d[\"run\"][\"message\"]")" null
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
	test_grep "name the server.*--server URL.*CAIRN_SERVER.*serve.url" err
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
