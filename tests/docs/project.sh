# shellcheck shell=bash
# tests/docs/project.sh: what the lines of lines.txt find: projects, runs that go on, servers. Sourced by lines.t.
# shellcheck disable=SC2034 # what is set here, the scripts of lines.txt use

# execute SCRIPT: in an empty directory of its own; prints the line that failed and what it said.
execute() {
	local script
	script=$(realpath "$1")
	mkdir "${script%.sh}"
	(
		cd "${script%.sh}" || exit 1
		export LINES_DIR=$PWD
		set -e
		# shellcheck source=/dev/null
		. "$script"
	)
}

# No line waits for ever.
cairn() { timeout 120 cairn "$@"; }

# line PLACE CODE TEXT: in this shell, as a reader types it.
line() {
	local rc=0 said=$LINES_DIR.said
	set +e
	echo "$1"
	eval "$3" </dev/null >"$said" 2>&1
	rc=$?
	set -e
	[ $rc -eq "$2" ] || { printf '%s: exit %s, not %s: %s\n' "$1" $rc "$2" "$3"; tail -n 30 "$said"; exit 1; }
}

# digits: a project with what the examples of the commands name: steps train, evaluate and release, a sweep, a schedule, a second pipeline.
digits() {
	echo '# project' >cairn.yaml
	printf 'name,label\na,1\nb,2\n' >labels.csv
	cat >train.py <<-'PY'
		import json, sys
		fold, lr, epochs, model, labels, out = sys.argv[1:]
		with open("series.jsonl", "w") as f:
		    for step in range(int(epochs)):
		        f.write(json.dumps({"step": step, "loss": 1 / (step + 1)}) + "\n")
		open(out, "w").write(model + lr + open(labels).read())
		json.dump({"accuracy": 0.95, "latency": 1 - float(lr), "loss": 0.1}, open("metrics.json", "w"))
		print("fold", fold)
	PY
	cat >pipeline.yaml <<-'YAML'
		pipeline: digits
		params: {lr: 0.1, epochs: 2, model: small}
		inputs: {labels: labels.csv}
		steps:
		  train:
		    matrix: {fold: [0]}
		    run: python3 train.py ${{ matrix.fold }} ${{ params.lr }} ${{ params.epochs }} ${{ params.model }} ${{ inputs.labels }} ${{ outputs.model }}
		    inputs: {labels: "${{ inputs.labels }}"}
		    outputs: {model: model.bin}
		    metrics: metrics.json
		    series: series.jsonl
		  evaluate:
		    run: mkdir -p ${{ outputs.report }} && cp -r ${{ inputs.models }}/. ${{ outputs.report }} && echo '{"f1":0.95}' >m.json
		    inputs: {models: "${{ steps.train.outputs.model }}"}
		    outputs: {report: report/}
		    metrics: m.json
		sweeps:
		  tune: {params: {lr: {min: 0.01, max: 0.5}}, maximize: train.accuracy, search: sobol, trials: 2}
		schedules:
		  nightly: {cron: "0 3 * * *", timezone: Europe/Berlin}
	YAML
	sed 's/pipeline: digits/pipeline: train/; s/nightly/weekly/' pipeline.yaml >train.yaml
	cat >release.yaml <<-'YAML'
		pipeline: digits
		steps:
		  release: {approve: {message: "release?"}}
	YAML
	cat >long.yaml <<-'YAML'
		pipeline: digits
		steps:
		  train: {run: "echo begun; while [ ! -e \"$HOME/go\" ]; do sleep 0.05; done", cache: false}
	YAML
}
# ran [OPTION...]: a run; RUN and HASH are its names.
ran() {
	cairn run -q "$@"
	RUN=$(cairn runs -n 1 --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["runs"][0]["id"])')
	HASH=$(cairn runs -n 1 --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["runs"][0]["hash"][:12])')
}
# goes FILE WORDS: a run of FILE that goes on; its status says WORDS. RUN is its id.
goes_number=0
goes() {
	goes_number=$((goes_number + 1))
	rm -f ~/go
	start "$(basename "$LINES_DIR")-goes$goes_number" cairn run "$1"
	wait_until 30 says_status "$2"
	RUN=$(cairn status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["run"]["id"])')
}
says_status() { grep -q "$1" <<<"$(cairn status 2>/dev/null)"; }
over() { wait_until 30 test -s "$TRASH/work/$(basename "$LINES_DIR")-goes$goes_number.rc"; }

# served [OPTION...]: a server of the project here; ADDRESS is where it listens.
served() {
	SERVER=$(basename "$LINES_DIR")-server
	serve "$SERVER" "$@" </dev/null
	ADDRESS=$(serve_url "$SERVER")
}
unserved() {
	stop "$SERVER" >/dev/null
	serve_forget "$SERVER"
}
# brief COMMAND...: a server that is the example itself: it comes up, and goes at SIGTERM.
brief_number=0
brief() {
	local name
	brief_number=$((brief_number + 1))
	name=$(basename "$LINES_DIR")-brief$brief_number
	start "$name" "$@"
	wait_until 60 comes_up "$name" || { cat "$TRASH/work/$name.out"; return 1; }
	test "$(stop "$name")" = 0 || { cat "$TRASH/work/$name.out"; return 1; }
}
comes_up() {
	[ ! -s "$TRASH/work/$1.rc" ] || { cat "$TRASH/work/$1.out" >&2; return 1; }
	grep -Eq ' serving |http://127' "$TRASH/work/$1.out"
}
# in_bucket: the project here has its store in a bucket.
in_bucket() {
	BUCKET=$(cat "$TRASH/work/bucket.uri")/$(basename "$LINES_DIR")
	export CAIRN_STORE=$BUCKET
}
# in_cluster: a cluster that isn't one (kubeapi.py); pods are the machine's processes.
in_cluster() {
	local api
	api=api-$(basename "$LINES_DIR")
	kube_api "$api" --cluster "$LINES_DIR.store"
	kube_config "$api" >kubeconfig
	export KUBECONFIG=$PWD/kubeconfig
	cat >cairn.yaml <<-YAML
		store: $LINES_DIR.store
		kubernetes: {namespace: lab, image: "registry.test/cairn@sha256:$(printf '%064d' 7)", store_claim: store, lost_within: 1s}
	YAML
	cat >pipeline.yaml <<-YAML
		pipeline: digits
		defaults: {image: "registry.test/x@sha256:$(printf '%064d' 7)"}
		steps:
		  train: {run: "echo model >model.bin", outputs: {model: model.bin}}
	YAML
}
# a_registry: one that takes images; REGISTRY is its address.
a_registry() {
	mkdir "$LINES_DIR.registry"
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$LINES_DIR.registry/key.pem" -out "$LINES_DIR.registry/cert.pem" -days 2 -subj /CN=localhost 2>/dev/null
	start "$(basename "$LINES_DIR")-registry" python3 "$SRC/tests/net/registry/registryd.py" "$LINES_DIR.registry"
	wait_until 20 test -s "$LINES_DIR.registry/port"
	: >"$LINES_DIR.registry/mode"
	REGISTRY=127.0.0.1:$(cut -d ' ' -f 1 "$LINES_DIR.registry/port")
}
# interrupted: a run that its user stopped, and that can go on; RUN is its id.
interrupted() {
	goes long.yaml running
	kill -INT "$(cat "$TRASH/work/$(basename "$LINES_DIR")-goes$goes_number.pid")"
	over
	touch ~/go
}
# ranks: the newest run has a step of two ranks.
ranks() {
	cat >ranks.yaml <<-'YAML'
		pipeline: digits
		steps:
		  train: {uses: train, run: "echo rank $RANK of $WORLD_SIZE", distributed: {framework: torch, procs_per_node: 2}}
	YAML
	ran ranks.yaml
}
# a_receiver: something that takes what is posted to it; RECEIVER is its address.
a_receiver() {
	local name
	name=$(basename "$LINES_DIR")-receiver
	start "$name" python3 -u -c '
import http.server
class Taker(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()
server = http.server.HTTPServer(("127.0.0.1", 0), Taker)
print("listening", server.server_port, ".")
server.serve_forever()'
	wait_until 20 grep -q '^listening .* \.$' "$TRASH/work/$name.out"
	RECEIVER=http://127.0.0.1:$(sed -n 's/^listening \([0-9]*\) \.$/\1/p' "$TRASH/work/$name.out")
}
