#!/bin/bash
# cairn export: OpenLineage, SLSA and RO-Crate, each held against the models that its project publishes (export_check.py). Those come from PyPI into a cache
# outside of the checkout; without them the checks are skipped in words, and what the files say is tested all the same.
. "$(dirname "$0")/../../lib.sh"

CACHE=${CAIRN_TEST_CACHE:-$(getent passwd "$(id -u)" | cut -d: -f6)/.cache/cairn-tests}/export-models-1
PYTHON=$CACHE/bin/python
if [ ! -e "$CACHE/done" ]; then
	mkdir -p "$(dirname "$CACHE")"
	rm -rf "$CACHE"
	"$SRC/tests/venv" "$CACHE" openlineage-python==1.54.0 in-toto-attestation==0.9.3 protobuf rocrate==0.16.0 roc-validator==0.13.0 >"$TRASH/venv.log" 2>&1 &&
		touch "$CACHE/done"
fi
[ -e "$CACHE/done" ] || PYTHON=

# checked NAME SCRIPT: a test that needs the published models.
checked() {
	if [ "$PYTHON" ]; then test_expect "$@"; else test_skip "$1" 'the published models cannot be installed from PyPI'; fi
}
check() { "$PYTHON" -B "$SRC/tests/cli/past/export_check.py" "$@"; }

echo '# project' >cairn.yaml
write pipeline.yaml <<'YAML'
pipeline: sales
params: {lr: 0.1, name: x}
inputs: {table: data/table.csv}
steps:
  clean:
    run: grep -v bad ${{ inputs.t }} >clean.csv; echo "${{ params.lr }}" >note
    inputs: {t: "${{ inputs.table }}"}
    outputs: {rows: clean.csv, note: note}
  train:
    run: mkdir -p m/sub; head -c 17000000 /dev/zero >m/large.bin; cp ${{ inputs.rows }} m/sub/w; echo "{\"acc\":1}" >metrics.json
    inputs: {rows: "${{ steps.clean.outputs.rows }}"}
    outputs: {model: m/}
    metrics: metrics.json
  check:
    run: "[ ! -e /nonexistent ] && [ $(cat ${{ inputs.note }}) != 0.9 ] && cp ${{ inputs.note }} o"
    inputs: {note: "${{ steps.clean.outputs.note }}", m: "${{ steps.train.outputs.model }}"}
    outputs: {o: o}
YAML
mkdir -p data
printf 'day,"amount",city\n1,2,a\n2,bad,b\n' >data/table.csv

test_expect 'events: of the run and of each attempt, first START, then how it ended; in the order of time' '
	cairn run -q
	cairn export last --format openlineage >ok.jsonl
	test_lines 8 ok.jsonl
	python3 - <<-"P"
	import json
	e = [json.loads(l) for l in open("ok.jsonl")]
	assert e[0]["job"]["name"] == e[-1]["job"]["name"] == "sales" and e[-1]["eventType"] == "COMPLETE"
	assert [x["eventTime"] for x in e] == sorted(x["eventTime"] for x in e)
	by = {(x["job"]["name"], x["eventType"]): x for x in e}
	clean = by["sales.clean", "COMPLETE"]
	assert clean["run"]["facets"]["parent"]["run"]["runId"] == e[0]["run"]["runId"]
	i = clean["inputs"][0]
	assert (i["namespace"], i["name"]) == ("file", "data/table.csv"), i
	assert [f["name"] for f in i["facets"]["schema"]["fields"]] == ["day", "amount", "city"]
	assert i["facets"]["dataSource"]["uri"] == "file:data/table.csv"
	rows = next(o for o in clean["outputs"] if o["name"] == "sales.clean.rows")
	assert rows["facets"]["version"]["datasetVersion"].startswith("sha256:") and rows["facets"]["lifecycleStateChange"]["lifecycleStateChange"] == "CREATE"
	# what one made and another read is one dataset, of one version
	read = by["sales.train", "START"]["inputs"][0]
	assert (read["namespace"], read["name"], read["facets"]["version"]) == (rows["namespace"], rows["name"], rows["facets"]["version"])
	assert e[0]["run"]["facets"]["executionParameters"]["parameters"][0] | {"_": 1} == {"key": "lr", "value": "0.1", "_": 1}
	P
	cairn export last --format openlineage --to again.jsonl
	cmp ok.jsonl again.jsonl
'
test_expect 'a run that failed: FAIL with its message; what was a hit has no event' '
	test_code 1 cairn run -q -p lr=0.9 2>err
	cairn export last --format openlineage >fail.jsonl
	python3 - <<-"P"
	import json
	e = [json.loads(l) for l in open("fail.jsonl")]
	assert {x["job"]["name"] for x in e} == {"sales", "sales.clean", "sales.check"}, e
	assert e[-1]["eventType"] == "FAIL" and "errorMessage" in e[-1]["run"]["facets"]
	bad = next(x for x in e if x["job"]["name"] == "sales.check" and x["eventType"] != "START")
	assert bad["eventType"] == "FAIL" and bad["run"]["facets"]["errorMessage"]["message"]
	P
'
test_expect 'source code: the remote, the path and the commit' '
	git init -q .
	git remote add origin https://git.example.org/team/sales.git
	git add pipeline.yaml cairn.yaml data
	git -c user.name=n -c user.email=e@example.org commit -qm one
	cairn run -q -p lr=0.3
	cairn export last --format openlineage --namespace team >git.jsonl
	python3 - <<-"P"
	import json, subprocess
	j = json.loads(open("git.jsonl").readline())["job"]
	f = j["facets"]["sourceCodeLocation"]
	commit = subprocess.run(["git", "rev-parse", "HEAD"], stdout=subprocess.PIPE, text=True).stdout.strip()
	assert (f["type"], f["repoUrl"], f["path"], f["version"]) == ("git", "https://git.example.org/team/sales.git", "pipeline.yaml", commit), f
	assert j["namespace"] == "team"
	P
'
checked 'OpenLineage: the published classes take every event and every facet, and refuse a wrong one' '
	check openlineage ok.jsonl >said
	test_grep "runs 4 " said
	for facet in schema dataSource lifecycleStateChange parent version outputStatistics executionParameters processing_engine jobType; do test_grep "$facet" said; done
	check openlineage fail.jsonl >said
	test_grep errorMessage said
	check openlineage git.jsonl >said
	test_grep sourceCodeLocation said
	sed "s/datasetVersion/dataset_version/" ok.jsonl >wrong
	test_must_fail check openlineage wrong
	sed "s/lifecycleStateChange\":\"CREATE/lifecycleStateChange\":\"MAKE/" ok.jsonl >wrong
	test_must_fail check openlineage wrong
	head -n 7 ok.jsonl >wrong
	test_must_fail check openlineage wrong
'
write server.py <<'PY'
"""Takes events: each body is a line of the file `got`; says its port in `port`. A path /refuse is answered 500."""
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open("got", "ab") as f:
            f.write(self.headers.get("Authorization", "none").encode() + b" " + self.headers["Content-Type"].encode() + b" " + body + b"\n")
        self.send_response(500 if self.path == "/refuse" else 201)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *args): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
with open("port", "w") as f: f.write(str(server.server_address[1]))
server.serve_forever()
PY
test_expect 'to a server: one POST an event, in order; what it refuses is an error' '
	rm -f port got
	start server python3 server.py
	wait_until 20 test -s port
	url=http://127.0.0.1:$(cat port)
	OPENLINEAGE_API_KEY=sesame cairn export last --format openlineage --namespace team --to "$url/api/v1/lineage" 2>err
	test_is "$(sed "s/^Bearer sesame application.json //" got | cmp - git.jsonl && echo same)" same
	test_code 4 cairn export last --format openlineage --to "$url/refuse" 2>err
	test_lines 1 err
	test_grep "answers 500" err
	stop server
	test_code 4 cairn export last --format openlineage --to "$url/" 2>err
	test_lines 1 err
	test_code 2 cairn export last --format slsa --to "$url/" 2>err
'
test_expect 'SLSA: every file of an output with the SHA-256 that sha256sum gives, also of a large one' '
	cairn export last/train/model --format slsa --to model.json
	cairn get last/train/model -o model
	python3 - <<-"P"
	import hashlib, json, os
	s = {x["name"]: x["digest"] for x in json.load(open("model.json"))["subject"]}
	assert set(s) == {"train/model", "train/model/large.bin", "train/model/sub/w"}, s
	for name in ("large.bin", "sub/w"):
	    assert s["train/model/" + name] == {"sha256": hashlib.sha256(open("model/" + name, "rb").read()).hexdigest()}
	assert list(s["train/model"]) == ["cairnTree"]
	d = json.load(open("model.json"))["predicate"]["buildDefinition"]
	assert d["externalParameters"]["params"]["lr"] == 0.3 and d["externalParameters"]["task"] == "train"
	r = {x["name"]: x for x in d["resolvedDependencies"]}
	table = hashlib.sha256(open("data/table.csv", "rb").read()).hexdigest()
	assert r["input:table"]["digest"] == {"sha256": table} and r["git"]["uri"].startswith("git+https://git.example.org/team/sales.git@"), r
	P
	cairn export last --format slsa --to all.json
	test_is "$(json all.json "sorted({s[\"name\"].split(\"/\")[0] for s in d[\"subject\"]})")" "[\"check\", \"clean\", \"train\"]"
	test_code 4 cairn export last/nothing --format slsa 2>err
	test_lines 1 err
'
checked 'SLSA: the published messages of in-toto take statement and predicate, and refuse a wrong one' '
	check slsa model.json
	check slsa all.json
	sed "s/resolvedDependencies/resolvedDependency/" model.json >wrong
	test_must_fail check slsa wrong
	sed "s/\"digest\"/\"digests\"/" model.json >wrong
	test_must_fail check slsa wrong
'
test_expect 'RO-Crate: an attempt that read a referenced input says so, and where the input comes from' '
	mkdir -p files referenced
	start web python3 "$SRC/tests/net/files.py" files web.port web.log
	wait_until 30 test -s web.port
	head -c 5000 /dev/zero | tr "\\0" x >files/large.csv
	uri=http://127.0.0.1:$(cat web.port)/etag/large.csv
	echo "reference_above: 1Ki" >referenced/cairn.yaml
	cat >referenced/pipeline.yaml <<-E
		pipeline: referenced
		inputs: {big: {uri: "$uri", mode: reference}}
		steps:
		  use: {run: "wc -c <\${{ inputs.b }} >n", inputs: {b: "\${{ inputs.big }}"}, outputs: {n: n}}
	E
	cairn -C referenced run -q
	cairn -C referenced export last --format ro-crate --to "$PWD/referenced-crate"
	python3 - "$uri" <<-"P"
	import json, sys
	graph = json.load(open("referenced-crate/ro-crate-metadata.json"))["@graph"]
	by = {e["@id"]: e for e in graph}
	ids = lambda e, k: [o["@id"] for o in (e.get(k, []) if isinstance(e.get(k, []), list) else [e[k]])]
	big = [e["@id"] for e in graph if sys.argv[1] in e.get("description", "")]
	made = [e for e in graph if e["@type"] == "CreateAction" and set(big) & set(ids(e, "object"))]
	assert len(big) == 1 and len(made) == 1, (big, made)
	assert ids(made[0], "result") == ["outputs/use/n"], made
	P
'
test_expect 'RO-Crate: pipeline, inputs and outputs as files, each of them described; nothing is replaced' '
	cairn export last --format ro-crate --to crate/ --license https://spdx.org/licenses/CC-BY-4.0
	cmp crate/inputs/table data/table.csv
	cmp crate/outputs/train/model/sub/w model/sub/w
	test_is "$(json crate/ro-crate-metadata.json "sorted(p[\"@id\"] for p in next(e for e in d[\"@graph\"] if e[\"@id\"] == \"./\")[\"hasPart\"])")" \
		"[\"inputs/table\", \"outputs/check/o\", \"outputs/clean/note\", \"outputs/clean/rows\", \"outputs/train/model/\", \"pipeline/\"]"
	test_grep "CC-BY-4.0" crate/ro-crate-metadata.json
	test_code 4 cairn export last --format ro-crate --to crate 2>err
	test_grep "is there already" err
	test_is "$(ls -d crate.tmp* 2>/dev/null)" ""
'
checked 'RO-Crate: the shapes of RO-Crate 1.1 and of Process Run Crate hold, and find what is wrong' '
	check ro-crate crate >said
	test_grep "actions [23]" said
	cp -r crate wrong-crate
	sed -i "s/\"license\"/\"licence\"/" wrong-crate/ro-crate-metadata.json
	test_must_fail check ro-crate wrong-crate
	rm -rf wrong-crate
	cp -r crate wrong-crate
	rm wrong-crate/inputs/table
	test_must_fail check ro-crate wrong-crate
'
test_expect 'wrong uses' '
	test_code 2 cairn export last 2>err
	test_code 2 cairn export last --format none 2>err
	test_code 4 cairn export no-such-run --format slsa 2>err
	test_lines 1 err
'
test_done
