#!/bin/bash
# Content and logs in the HTTP API: directories by pages, bytes, tables, shards; ranges, lines and search of logs; and hostile ones of each.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'

echo '# project' >cairn.yaml
write make.py <<'PY'
import io, os, struct, sys, tarfile
os.makedirs("out/many")
for i in range(3000):
    open(f"out/many/{i:05}", "w").write(str(i))
os.symlink("many/00001", "out/link")
open("out/run.sh", "w").write("#!/bin/sh\n"); os.chmod("out/run.sh", 0o755)
open("out/t.csv", "w").write("name,n\n\"a, \"\"b\"\"\",1\nc,2.5\n" + "x,3\n" * 100)
open("out/n.tsv", "w").write("1\t2\n3\t4\n")
open("out/bad.csv", "w").write('a,b\n"1,2\n')
open("out/l.jsonl", "w").write('{"a": 1, "b": "x"}\n\n{"b": null, "c": [1, 2]}\n')
open("out/bad.jsonl", "w").write('{"a": 1}\n{"a": \n')
def npy(shape, data, descr="<f4"):
    h = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    h += " " * (63 - (10 + len(h)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(h)) + h.encode() + data
open("out/a.npy", "wb").write(npy((3, 2), struct.pack("<6f", 0, 1, 2, 3, 4, float("nan"))))
open("out/bad.npy", "wb").write(npy((1 << 40, 2), b"1234"))
open("out/object.npy", "wb").write(npy((1,), b"x" * 8, "|O"))
with tarfile.open("out/s.tar", "w", format=tarfile.PAX_FORMAT) as t:
    def add(name, data):
        i = tarfile.TarInfo(name); i.size = len(data); t.addfile(i, io.BytesIO(data))
    for i in range(120):
        add(f"d/{i:03}.jpg", b"\xff\xd8\xff" + bytes([i])); add(f"d/{i:03}.cls", str(i % 10).encode())
    add("l" * 200 + ".txt", b"long name")
whole = open("out/s.tar", "rb").read()
open("out/cut.tar", "wb").write(whole[:512 * 6 + 100])
h = bytearray(whole[:1024]); h[124:136] = b"\x80" + b"\xff" * 11
open("out/huge.tar", "wb").write(bytes(h))
open("out/img.png", "wb").write(b"\x89PNG\r\n\x1a\nrest")
open("out/evil<b>.html", "w").write("<script>")
open("out/data.bin", "wb").write(bytes(range(256)) * 4096 * 2)
for i in range(3000):
    print("line", i, "of words")
print("ValueError: first"); print("\x1b[31mred\x1b[0m \udcff".encode("utf-8", "surrogateescape").decode("latin-1"))
sys.stdout.flush(); os.write(1, b"raw \xff\x00 bytes\n")
for i in range(3000):
    print("later", i)
PY
write pipeline.yaml <<'YAML'
pipeline: c
inputs: {raw: make.py}
steps:
  m: {run: "python3 ${{ inputs.raw }}", inputs: {raw: "${{ inputs.raw }}"}, outputs: {d: out/}}
YAML
write grow.yaml <<'YAML'
pipeline: grow
steps:
  g: {run: "echo first; : >\"$HOME/one\"; while [ ! -e \"$HOME/go\" ]; do sleep 0.02; done; echo second; : >\"$HOME/two\"; while [ ! -e \"$HOME/end\" ]; do sleep 0.02; done; echo third", outputs: {}, cache: false}
YAML
content() { get srv "/api/v1/content/$(cat id)$1"; }

test_expect 'a content: what it is, and who made it' '
	cairn run -q
	serve srv
	get srv "/api/v1/runs/last/tasks"
	json body "d[\"tasks\"][0][\"outputs\"][\"d\"][\"id\"]" >id
	run=$(get srv /api/v1/runs/last && json body "d[\"id\"]")
	content ""
	status_is 200
	test_is "$(json body "[d[\"content\"], d[\"kind\"], d[\"view\"], d[\"names\"], d[\"origin\"]]")" "[\"$(cat id)\", \"tree\", \"directory\", [{\"output\": \"d\", \"run\": \"$run\", \"task\": \"m\"}], null]"
	for pair in t.csv:table img.png:image s.tar:shard a.npy:table evil%3Cb%3E.html:html many/00001:text data.bin:binary; do
		content "?path=${pair%:*}"
		status_is 200
		test_is "$(json body "d[\"view\"]")" "${pair#*:}"
	done
	get srv "/api/v1/runs/last/graph"
	get srv "/api/v1/content/$(json body "d[\"inputs\"][0][\"content\"][\"id\"]")"
	test_is "$(json body "[d[\"origin\"][\"uri\"], d[\"names\"]]")" "[\"path:make.py\", []]"
'

test_expect 'directories come in pages' '
	content /entries
	test_is "$(json body "[(e[\"name\"], e[\"kind\"]) for e in d[\"entries\"] if e[\"kind\"] != \"file\"]")" "[[\"link\", \"symlink\"], [\"many\", \"directory\"], [\"run.sh\", \"executable\"]]"
	test_is "$(json body "[e[\"target\"] for e in d[\"entries\"] if e[\"name\"] == \"link\"]")" "[\"many/00001\"]"
	content "/entries?path=many&limit=2"
	test_is "$(json body "[[(e[\"name\"], e[\"size\"]) for e in d[\"entries\"]], d[\"next\"], d[\"total\"]]")" "[[[\"00000\", 1], [\"00001\", 1]], \"2\", 3000]"
	content "/entries?path=many&limit=2&cursor=2999"
	test_is "$(json body "[[e[\"name\"] for e in d[\"entries\"]], d[\"next\"]]")" "[[\"02999\"], null]"
	content "/entries?path=many&cursor=99999"
	test_is "$(json body "d[\"entries\"]")" "[]"
'

test_expect 'bytes are as they are, in ranges' '
	content "/bytes?path=data.bin&offset=250&bytes=10"
	status_is 200
	test_grep "^[Cc]ontent-[Tt]ype: application/octet-stream" headers
	test_is "$(od -An -tu1 body | tr -s " ")" " 250 251 252 253 254 255 0 1 2 3"
	content "/bytes?path=data.bin&offset=-3"
	test_is "$(od -An -tu1 body | tr -s " ")" " 253 254 255"
	content "/bytes?path=data.bin"
	test_is "$(wc -c <body)" 1048576
	content "/bytes?path=data.bin&offset=99999999"
	status_is 200
	test_is "$(wc -c <body)" 0
'

test_expect 'tables' '
	content "/table?path=t.csv&limit=2"
	test_is "$(json body "[d[\"columns\"], d[\"rows\"], d[\"total\"]]")" "[[{\"name\": \"name\", \"type\": \"text\"}, {\"name\": \"n\", \"type\": \"number\"}], [[\"a, \\\"b\\\"\", \"1\"], [\"c\", \"2.5\"]], 102]"
	content "/table?path=t.csv&offset=101"
	test_is "$(json body "d[\"rows\"]")" "[[\"x\", \"3\"]]"
	content "/table?path=n.tsv"
	test_is "$(json body "[[c[\"name\"] for c in d[\"columns\"]], d[\"rows\"]]")" "[[\"1\", \"2\"], [[\"1\", \"2\"], [\"3\", \"4\"]]]"
	content "/table?path=l.jsonl"
	test_is "$(json body "[[c[\"name\"] for c in d[\"columns\"]], d[\"rows\"], d[\"total\"]]")" "[[\"a\", \"b\", \"c\"], [[1, \"x\", null], [null, null, \"[1,2]\"]], 2]"
	content "/table?path=a.npy&offset=1"
	test_is "$(json body "[d[\"rows\"], d[\"total\"]]")" "[[[2.0, 3.0], [4.0, null]], 3]"
	for path in bad.csv bad.jsonl bad.npy object.npy; do
		content "/table?path=$path"
		status_is 422
	done
	content "/table?path=many"
	status_is 409
'

test_expect 'shards: samples with their members and labels' '
	content "/shard?path=s.tar&offset=1&limit=1"
	test_is "$(json body "[d[\"total\"], [(s[\"key\"], s[\"label\"], [m[\"name\"] for m in s[\"members\"]]) for s in d[\"samples\"]]]")" "[121, [[\"d/001\", \"1\", [\"jpg\", \"cls\"]]]]"
	at=$(json body "d[\"samples\"][0][\"members\"][0][\"offset\"]")
	content "/bytes?path=s.tar&offset=$at&bytes=4"
	test_is "$(od -An -tx1 body)" " ff d8 ff 01"
	content "/shard?path=s.tar&offset=120"
	test_is "$(json body "[len(d[\"samples\"][0][\"key\"]), d[\"samples\"][0][\"label\"]]")" "[200, \"long name\"]"
	content "/shard?path=cut.tar"
	status_is 200
	test_is "$(json body "len(d[\"samples\"])")" 2
	for path in huge.tar t.csv; do
		content "/shard?path=$path"
		status_is 422
	done
'

test_expect 'what no content can be is refused, and nothing outside is reached' '
	for path in ../x /etc/passwd many/../t.csv none link/x .; do
		content "/bytes?path=$path"
		test "$(cat status)" -ge 400 && test "$(cat status)" -lt 500 || { echo "$path: $(cat status)"; return 1; }
	done
	content "/bytes?path=link"
	status_is 409
	content "/bytes"
	status_is 409
	get srv /api/v1/content/sha256:abcd
	status_is 400
	get srv /api/v1/content/sha256:0000000000000000000000000000000000000000000000000000000000000000
	status_is 404
	content "/bytes?path=t.csv&bytes=0"
	status_is 400
	content "/bytes?path=t.csv&offset=x"
	status_is 400
'

test_expect 'logs: ranges, lines, the first error, search' '
	get srv "/api/v1/runs/last/log?task=m"
	cp body whole
	get srv "/api/v1/runs/last/log?task=m&offset=10&bytes=30"
	status_is 200
	tail -c +11 whole >rest
	test_is "$(cat body)" "$(dd if=rest bs=30 count=1 2>/dev/null)"
	get srv "/api/v1/runs/last/log/range?task=m&offset=-11"
	test_is "$(json body "[d[\"text\"], d[\"offset\"] + d[\"bytes\"] == d[\"total\"], d[\"live\"]]")" "[\"later 2999\\n\", true, false]"
	get srv "/api/v1/runs/last/log/index?task=m"
	test_is "$(json body "[d[\"bytes\"], d[\"lines\"], d[\"every\"], len(d[\"offsets\"]), d[\"first_error\"][\"line\"]]")" "[$(wc -c <whole), $(wc -l <whole), 1000, 7, 3000]"
	at=$(json body "d[\"offsets\"][2]")
	get srv "/api/v1/runs/last/log/range?task=m&offset=$at&bytes=9"
	test_is "$(json body "d[\"text\"]")" "line 2000"
	get srv "/api/v1/runs/last/log/search?task=m&q=LATER%2029&limit=3"
	test_is "$(json body "[(m[\"line\"], m[\"text\"]) for m in d[\"matches\"]]")" "[[3032, \"later 29\"], [3293, \"later 290\"], [3294, \"later 291\"]]"
	next=$(json body "d[\"next_offset\"]")
	get srv "/api/v1/runs/last/log/search?task=m&q=later%2029&limit=1&offset=$next"
	test_is "$(json body "[(m[\"line\"], m[\"text\"]) for m in d[\"matches\"]]")" "[[3295, \"later 292\"]]"
	get srv "/api/v1/runs/last/log/search?task=m&q=LATER&case=true"
	test_is "$(json body "[d[\"matches\"], d[\"next_offset\"]]")" "[[], null]"
	get srv "/api/v1/runs/last/log/search?task=m&q=raw"
	test_is "$(json body "d[\"matches\"][0][\"text\"]")" "$(printf "raw \357\277\275\357\277\275 bytes")"
	get srv "/api/v1/runs/last/log/search?task=m&regex=true&q=%5Elater%2029%5Cd%7B2%7D%24&limit=2"
	test_is "$(json body "[(m[\"line\"], m[\"text\"]) for m in d[\"matches\"]]")" "[[5903, \"later 2900\"], [5904, \"later 2901\"]]"
	next=$(json body "d[\"next_offset\"]")
	get srv "/api/v1/runs/last/log/search?task=m&regex=true&q=LATER%20290%5B0-2%5D&offset=$next"
	test_is "$(json body "[(m[\"line\"], m[\"text\"]) for m in d[\"matches\"]]")" "[[5905, \"later 2902\"]]"
	get srv "/api/v1/runs/last/log/search?task=m&regex=true&q=a%28b"
	status_is 400
	test_grep "missing closing parenthesis, at byte 4" body
	for bad in "search?task=m" "search?task=m&q=a%0Ab" "index" "index?task=none" "range?task=m&bytes=2000000"; do
		get srv "/api/v1/runs/last/log/$bad"
		test "$(cat status)" -ge 400 && test "$(cat status)" -lt 500
	done
	get srv "/api/v1/runs/last/log?task=m&offset=0&lines=3"
	status_is 400
'

test_expect 'the lines of one rank: where they are, ranges, search' '
	write ranks.yaml <<-"YAML"
	pipeline: ranks
	steps:
	  r: {run: "i=0; while [ $i -lt 2500 ]; do i=$((i + 1)); printf \"[rank 0] zero $i\\nlauncher $i\\n[rank 1] one $i\\n[rank 11] eleven $i\\n\"; done; printf \"[rank 1] Error: last\""}
	YAML
	cairn run -q ranks.yaml
	get srv "/api/v1/runs/last/log?task=r"
	cp body whole
	get srv "/api/v1/runs/last/log/index?task=r&rank=1"
	test_is "$(json body "[d[\"lines\"], len(d[\"offsets\"]), d[\"first_error\"][\"line\"], d[\"bytes\"]]")" "[2501, 3, 2500, $(wc -c <whole)]"
	at=$(json body "d[\"offsets\"][2]")
	test_is "$(tail -c "+$((at + 1))" whole | sed -n 1p)" "[rank 1] one 2001"
	get srv "/api/v1/runs/last/log/range?task=r&rank=1&offset=$at&lines=2"
	test_is "$(json body "[d[\"text\"], d[\"offset\"]]")" "[\"one 2001\\none 2002\\n\", $at]"
	get srv "/api/v1/runs/last/log/range?task=r&rank=1&offset=$((at + $(json body "d[\"bytes\"]")))&bytes=1"
	test_is "$(json body "d[\"text\"].split()")" "[\"one\", \"2003\"]"
	get srv "/api/v1/runs/last/log/index?task=r"
	test_is "$(json body "d[\"lines\"]")" 10000
	get srv "/api/v1/runs/last/log/search?task=r&rank=1&q=2000"
	test_is "$(json body "[(m[\"line\"], m[\"text\"]) for m in d[\"matches\"]]")" "[[1999, \"one 2000\"]]"
	get srv "/api/v1/runs/last/log/search?task=r&rank=11&q=%5Eeleven%202.99%24&regex=true"
	test_is "$(json body "[m[\"line\"] for m in d[\"matches\"]]")" "[2098, 2198, 2298, 2398, 2498]"
	get srv "/api/v1/runs/last/log/search?task=r&rank=7&q=e"
	test_is "$(json body "[d[\"matches\"], d[\"next_offset\"]]")" "[[], null]"
	get srv "/api/v1/runs/last/log/range?task=r&lines=2"
	status_is 400
'

test_expect 'what collecting garbage would free' '
	post srv /api/v1/estimates "{}"
	status_is 202
	launch=$(json body "d[\"launch\"]")
	known() { get srv "/api/v1/estimates/$launch" && test "$(json body "d[\"state\"]")" = ended; }
	wait_until 60 known
	test_is "$(json body "[d[\"exit\"], d[\"problem\"], d[\"estimate\"][\"dry_run\"], d[\"estimate\"][\"live\"] > 0, d[\"estimate\"][\"condemned_bytes\"]]")" "[0, null, true, true, 0]"
	get srv /api/v1/estimates/none
	status_is 404
'

test_expect 'a log that grows: its index goes on where it was' '
	start grow cairn run -q grow.yaml
	wait_until 60 test -e "$HOME/one"
	has() { get srv "/api/v1/runs/last/log/index?task=g" && test "$(json body "[d[\"lines\"], d[\"live\"]]")" = "[$1, true]"; }
	wait_until 30 has 1
	touch "$HOME/go"
	wait_until 60 test -e "$HOME/two"
	wait_until 30 has 2
	get srv "/api/v1/runs/last/log/search?task=g&q=second"
	test_is "$(json body "[(m[\"line\"], m[\"offset\"]) for m in d[\"matches\"]]")" "[[1, 6]]"
	touch "$HOME/end"
	wait_until 60 test -s grow.rc
	get srv "/api/v1/runs/last/log/index?task=g"
	test_is "$(json body "[d[\"lines\"], d[\"live\"], d[\"bytes\"]]")" "[3, false, 19]"
'

test_done
