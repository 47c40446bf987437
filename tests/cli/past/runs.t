#!/bin/bash
# cairn runs and status: filters, and runs whose engine died.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
write one.yaml <<'YAML'
pipeline: one
params: {n: 1}
steps:
  s: {run: "[ ${{ params.n }} -lt 3 ]"}
YAML
write two.yaml <<'YAML'
pipeline: two
steps:
  quick: {run: "echo quick >o", outputs: {o: o}}
  hang:
    run: "echo $$ >\"$HOME/pid\"; while [ ! -e \"$HOME/go\" ]; do sleep 0.02; done; echo done >o"
    needs: [quick]
    outputs: {o: o}
YAML

ids() { cairn runs --json "$@" >ids.json && json ids.json '" ".join(r["id"].split("-")[0] + ":" + r["state"] for r in d["runs"])'; }

test_expect 'no runs yet' '
	test_code 4 cairn runs 2>err
	test_lines 1 err
	test_code 4 cairn status 2>err
	test_lines 1 err
'

test_expect 'newest first; by pipeline, by state, at most N' '
	cairn run -q one.yaml
	test_code 1 cairn run -q one.yaml -p n=3 2>err
	cairn run -q one.yaml -p n=2
	test_is "$(ids)" "one:succeeded one:failed one:succeeded"
	test_is "$(json ids.json "[r[\"params\"][\"n\"] for r in d[\"runs\"]]")" "[2, 3, 1]"
	test_is "$(ids --state failed)" "one:failed"
	test_is "$(ids --state cancelled)" ""
	test_is "$(ids --pipeline two)" ""
	test_is "$(ids --limit 1)" "one:succeeded"
	test_is "$(ids -n 0 | wc -w)" 3
	test_is "$(ids --state failed --pipeline one -n 5)" "one:failed"
	test_code 2 cairn runs --state nonsense 2>err
	test_lines 1 err
	test_code 2 cairn runs -n -1 2>err
	cairn runs --state failed >out
	test_lines 2 out
'

test_expect 'by time, param, metric, commit, name; sorted by a metric' '
	mkdir q
	cd q
	echo "# project" >cairn.yaml
	cat >pipeline.yaml <<-"Y"
	pipeline: q
	params: {lr: 0.5, opt: sgd, flag: true, code: "007"}
	steps:
	  train:
	    run: echo "{\"acc\":${{ params.lr }}, \"val\":{\"loss\":1}}" >m.json; echo ${{ params.opt }} ${{ params.flag }} ${{ params.code }} >o
	    outputs: {o: o}
	    metrics: m.json
	Y
	git init -q
	for lr in 0.5 0.25 0.75; do
		cairn run -q -p lr=$lr
		git add .gitignore cairn.yaml pipeline.yaml 2>/dev/null || git add cairn.yaml pipeline.yaml
		git commit -q --allow-empty -m $lr
	done
	cairn run -q -p lr=0.25 -p opt=adam -p flag=false -p code=7
	lrs() { cairn runs --json -n 0 "$@" >out; json out "\" \".join(str(r[\"params\"][\"lr\"]) + r[\"params\"][\"opt\"][0] for r in d[\"runs\"])"; }
	test_is "$(lrs)" "0.25a 0.75s 0.25s 0.5s"
	test_is "$(lrs --param lr=0.25)" "0.25a 0.25s"
	test_is "$(lrs -p "lr>0.3" -p opt=sgd)" "0.75s 0.5s"
	test_is "$(lrs -p "lr!=0.25")" "0.75s 0.5s"
	test_is "$(lrs -p opt!=sgd)" 0.25a
	test_is "$(lrs -p flag=false)" 0.25a
	test_is "$(lrs -p code=007)" "0.75s 0.25s 0.5s"
	test_is "$(lrs -p code=7)" 0.25a
	test_is "$(lrs --metric "acc>=0.5")" "0.75s 0.5s"
	test_is "$(lrs --metric "train.acc<0.5" -p opt=adam)" 0.25a
	test_is "$(lrs --metric "val.loss=1" | wc -w)" 4
	test_is "$(lrs --metric "train.val.loss=1" | wc -w)" 4
	test_is "$(lrs --metric "nosuch=1")" ""
	test_is "$(lrs --sort=-acc -n 2)" "0.75s 0.5s"
	test_is "$(lrs --sort acc -p opt=sgd)" "0.25s 0.5s 0.75s"
	test_is "$(lrs --since 1h | wc -w)" 4
	test_is "$(lrs --until 1h)" ""
	test_is "$(lrs --until 2020-01-01)" ""
	test_is "$(lrs --since 2020-01-01T00:00Z | wc -w)" 4
	test_is "$(lrs --commit "$(git rev-parse HEAD~1 | cut -c1-7)")" "0.75s"
	cairn tag "$(json out "d[\"runs\"][0][\"id\"]")" best/one
	test_is "$(lrs --tag best/one)" "0.75s"
	test_is "$(json out "d[\"runs\"][0][\"tags\"]")" "[\"best/one\"]"
	cairn runs >out
	test_grep "best/one" out
	for bad in "--since x" "--until 32" "--param lr" "--metric =1" "--commit xyz" "--commit 12"; do
		test_code 2 cairn runs $bad >out 2>err
		test_lines 1 err
		test_lines 0 out
	done
'

test_expect 'while it runs' '
	start run cairn run -q two.yaml
	wait_until 30 test -s "$HOME/pid"
	test_is "$(ids --state running)" "two:running"
	cairn status --json >st
	test_is "$(json st "[(t[\"task\"], t[\"state\"], t[\"exit\"]) for t in d[\"tasks\"]]")" "[[\"quick\", \"succeeded\", 0], [\"hang\", \"running\", null]]"
	cairn status >out
	test_grep "^two-.* running" out
	test_grep "running +hang" out
'

test_expect 'its engine is killed: status and runs say so at once, and what to do' '
	kill -9 "$(cat run.pid)"
	wait_until 30 test -s run.rc
	cairn status >out
	test_grep "^two-.* died" out
	test_grep "cairn resume two-" out
	test_grep "lost +hang" out
	test_no_grep "running" out
	cairn status --json >st
	test_is "$(json st "d[\"run\"][\"state\"]")" died
	test_is "$(json st "[(t[\"task\"], t[\"state\"]) for t in d[\"tasks\"]]")" "[[\"quick\", \"succeeded\"], [\"hang\", \"lost\"]]"
	cairn runs >out
	test_grep "^two-.* died" out
	test_is "$(ids --state died)" "two:died"
	test_is "$(ids --state running)" ""
	test_code 3 cairn cancel last 2>err
	test_grep "engine of run .* died" err
	test_code 4 cairn cancel 2>err
	test_grep "no run is running" err
'

test_expect 'a new run does what the dead one left, and clears its workspaces' '
	test -n "$(find .cairn/work -mindepth 1 -maxdepth 1 ! -name "trash-*")"
	touch "$HOME/go"
	cairn run -q two.yaml
	test_is "$(find .cairn/work -mindepth 1 -maxdepth 1 ! -name "trash-*" | wc -l)" 0
	cairn get two 2>/dev/null || cairn get hang/o -o got
	test_is "$(cat got)" done
'

test_expect 'resume takes a dead run up, and then it is no dead run any more' '
	cairn resume -q
	test_is "$(ids --state died)" ""
	test_is "$(ids --pipeline two --state succeeded)" "two:succeeded two:succeeded"
'
test_expect 'answers of a server that are none: an error, soon, and pages in whatever way it counts them' '
	write server.py <<-P
	import http.server, json
	RUN = {"id": "good-1", "state": "running"}
	ANSWERS = [("/attempts", {"attempts": [{}], "next": "7"}), ("/runs/good", RUN), ("/runs/", {}),
	           ("cursor=a%26b", {"runs": [{"id": "y"}], "next": None}), ("state=failed", {"runs": [], "next": "9"}),
	           ("/runs?", {"runs": [{"id": "x"}], "next": "a&b"})]
	class Handler(http.server.BaseHTTPRequestHandler):
	    def do_GET(self):
	        body = json.dumps(next(a for part, a in ANSWERS if part in self.path)).encode()
	        self.send_response(200)
	        self.send_header("Content-Length", str(len(body)))
	        self.end_headers()
	        self.wfile.write(body)
	    def log_message(self, *args):
	        pass
	server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
	print(server.server_port, flush=True)
	server.serve_forever()
	P
	python3 server.py >port &
	server=$!
	test_when_finished "kill $server"
	wait_until 20 test -s port
	url=http://127.0.0.1:$(cat port)
	test_code 3 timeout 60 cairn status other --server $url 2>err
	test_grep ".id. is missing" err
	test_code 4 timeout 60 cairn status good --server $url 2>err
	test_grep "its list repeats" err
	test_code 4 timeout 60 cairn runs --state failed --server $url 2>err
	test_grep "its list repeats" err
	cairn runs --json --server $url >out
	test_is "$(json out "[r[\"id\"] for r in d[\"runs\"]]")" "[\"x\", \"y\"]"
'

test_expect 'a condition that can hold for no run is refused' '
	test_code 2 cairn runs -m "accuracy>>1" 2>err
	test_grep "write NAME, an operator" err
	test_code 2 cairn runs -m "accuracy>=good" 2>err
	test_grep "compared with a number" err
'
test_expect 'a reproduction is marked in the list' '
	mkdir marked
	cd marked
	touch cairn.yaml
	printf "pipeline: m\nsteps: {a: {run: \"echo 1 >\${{ outputs.o }}\", outputs: {o: o}}}\n" >pipeline.yaml
	cairn run -q --json >out
	hash=$(json out "d[\"hash\"][:12]")
	cairn reproduce -q last >out
	cairn runs >out
	test_is "$(grep -c "reproduces $hash" out)" 1
'

test_done
