#!/bin/bash
# Artifacts in a browser: their bytes never run as the site, and nothing outside of the artifact is reached.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'

echo '# project' >cairn.yaml
write make.py <<'PY'
import os, zipfile
os.makedirs("site/sub"); os.makedirs("site/noindex")
bad = "<script>alert(document.domain)</script>"
files = {"index.html": f"<link href=style.css><img src=sub/p.svg>{bad}", "style.css": "b{}", "sub/index.html": bad,
         "sub/p.svg": f"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'>{bad}</svg>", "r.pdf": "%PDF-1.4", "n.txt": bad,
         "data.bin": bad, "noext": bad, "page.HTML": bad, "page.xhtml": bad, "page.html.bin": bad, "nb.ipynb": "{}", "x.js": "1",
         "noindex/a.txt": "a", bad.replace("/", "_"): "named", "a\r\nSet-Cookie: x=1.txt": "named", '"quoted";.png': "named"}
for name, text in files.items():
    open("site/" + name, "w").write(text)
os.symlink("/etc/passwd", "site/passwd.txt"); os.symlink("../../../cairn.yaml", "site/up.txt"); os.symlink("sub", "site/link")
zipfile.ZipFile("site/z.zip", "w").writestr("../../evil.html", bad)
os.makedirs("attack", exist_ok=True)
open("attack/index.html", "w").write("""<!doctype html><link rel=stylesheet href=beside.css><pre id="said"></pre><script src=beside.js></script><script>
const said = {beside: window.beside, origin: String(self.origin)};
said.styled = getComputedStyle(document.getElementById("said")).color;
const attempt = async (name, f) => { try { said[name] = await f() ? "REACHED" : "refused"; } catch (e) { said[name] = "refused"; } };
const soon = (f) => new Promise((done) => { f(done); setTimeout(() => done(false), 2000); });
(async () => {
  await attempt("fetch", async () => (await fetch("/api/v1/runs")).text());
  await attempt("post", async () => fetch("/api/v1/schedules/none/pause", {method: "POST", mode: "no-cors"}));
  await attempt("xhr", () => soon((done) => { const x = new XMLHttpRequest(); x.onload = () => done(true); x.onerror = () => done(false); x.open("GET", "/api/v1/runs"); x.send(); }));
  await attempt("beacon", async () => { navigator.sendBeacon("/api/v1/schedules/none/pause", "{}"); return false; });
  await attempt("cookie", async () => { document.cookie = "a=b"; return document.cookie; });
  await attempt("storage", async () => localStorage);
  await attempt("frame", () => soon((done) => { const f = document.createElement("iframe"); f.src = "/"; f.onload = () => { try { done(f.contentDocument.title); } catch (e) { done(false); } }; document.body.append(f); }));
  await attempt("worker", () => soon((done) => { const w = new Worker("/assets/none.js"); w.onmessage = () => done(true); w.onerror = () => done(false); }));
  await attempt("script", () => soon((done) => { const s = document.createElement("script"); s.src = "/api/v1/runs"; s.onload = () => done(true); s.onerror = () => done(false); document.body.append(s); }));
  await attempt("event", () => soon((done) => { const s = new EventSource("/api/v1/events"); s.onopen = () => done(true); s.onerror = () => done(false); }));
  const form = document.createElement("form"); form.method = "post"; form.action = "/api/v1/schedules/none/pause"; document.body.append(form); form.submit();
  document.getElementById("said").textContent = JSON.stringify(said);
})();
</script>""")
open("attack/beside.js", "w").write("window.beside = 'works';"); open("attack/beside.css", "w").write("#said { color: rgb(1, 2, 3); }")
open("report.html", "w").write(bad)
open("large.bin", "wb").write(bytes(range(256)) * 100)
PY
write pipeline.yaml <<'YAML'
pipeline: one
steps:
  s: {run: python3 make.py, outputs: {site: site/, report: report.html, large: large.bin, attack: attack/}}
YAML
# view OUTPUT: its address in the file `base`.
view() {
	json facts "[o for t in d[\"tasks\"] for n, o in t[\"outputs\"].items() if n == \"$1\"][0][\"id\"]" >content
	get srv /api/v1/views -X POST -H 'Content-Type: application/json' --data "{\"content\": \"$(cat content)\"}"
	status_is 201
	json body 'd["base"]' >base
}
# see PATH [CURL OPTION...]: below the base.
see() {
	local path=$1
	shift
	get srv "$(cat base)$path" --path-as-is "$@"
}
policy() { sed -n 's/^Content-Security-Policy: \([^\r]*\).*/\1/p' headers; }

test_expect 'an address for an artifact, as a part of the server' '
	cairn run -q
	serve srv
	get srv /api/v1/runs/last/tasks
	cp body facts
	view site
	see index.html
	status_is 200
	test_grep "^<link href=style.css>" body
	see ""
	status_is 200
	see sub
	status_is 308
	test_grep "^Location: ./sub/" headers
	see sub/
	status_is 200
	see noindex/
	status_is 404
	see nothing.html
	status_is 404
'
test_expect 'a page runs in a sandbox without an origin, and connects to nothing' '
	for page in index.html page.HTML sub/index.html; do
		see $page
		test_grep "^Content-Type: text/html" headers
		policy >said
		test_grep "connect-src .none.*sandbox allow-scripts;" said
		test_must_fail grep -q "allow-same-origin\|allow-top-navigation\|allow-popups\|allow-forms" headers
	done
'
test_expect 'everything else is in a sandbox without scripts, never guessed; unknown types are only saved' '
	for file in style.css sub/p.svg n.txt x.js nb.ipynb data.bin noext page.xhtml page.html.bin z.zip; do
		see $file
		status_is 200
		test_grep "^X-Content-Type-Options: nosniff" headers
		test_grep "^Referrer-Policy: no-referrer" headers
		policy >said
		test_grep "^default-src .none.*; sandbox;" said
		test_no_grep "^Content-Type: text/html" headers
	done
	for file in data.bin noext page.xhtml page.html.bin z.zip; do
		see $file
		test_grep "^Content-Type: application/octet-stream" headers
		test_grep "^Content-Disposition: attachment" headers
	done
	see r.pdf
	test_must_fail grep -q "^Content-Security-Policy:.*sandbox" headers
	policy >said
		test_grep "^default-src .none." said
	see n.txt?download=1
	test_grep "^Content-Disposition: attachment; filename.=UTF-8..n.txt" headers
	for file in index.html n.txt r.pdf; do
		see $file
		policy >said
		test_grep "frame-ancestors .self." said
	done
'
test_expect 'names are bytes: none makes a header, or leads out of the artifact' '
	see "a%0D%0ASet-Cookie:%20x=1.txt"
	status_is 200
	test_no_grep "^Set-Cookie" headers
	test_grep "filename.=UTF-8..a%0D%0ASet-Cookie%3A%20x%3D1.txt" headers
	see "%3Cscript%3Ealert(document.domain)%3C_script%3E"
	status_is 200
	test_no_grep "<script" headers
	see "%22quoted%22%3B.png"
	test_grep "filename.=UTF-8..%22quoted%22%3B.png" headers
	for path in ../x ..%2f..%2fetc/passwd sub/../../x %2e%2e/x //etc/passwd /etc/passwd ./n.txt sub/./p.svg passwd.txt up.txt link/p.svg "n.txt/x"; do
		see "$path"
		test_grep "^(400|403|404)" status
		test_no_grep "root:|project" body
	done
'
test_expect 'a file has any one name; its type is that of the name' '
	view report
	see report.html
	status_is 200
	policy >said
		test_grep "sandbox allow-scripts" said
	see a/b.html
	status_is 404
	see ""
	status_is 404
'
test_expect 'parts of a file' '
	view large
	see x.bin -H "Range: bytes=256-511"
	status_is 206
	test_grep "^Content-Range: bytes 256-511/25600" headers
	python3 -c "assert open(\"body\", \"rb\").read() == bytes(range(256))"
	see x.bin -H "Range: bytes=-2"
	python3 -c "assert open(\"body\", \"rb\").read() == b\"\xfe\xff\""
	see x.bin -H "Range: bytes=25599-99999"
	python3 -c "assert open(\"body\", \"rb\").read() == b\"\xff\""
	see x.bin -H "Range: bytes=25600-"
	status_is 416
	test_grep "^Content-Range: bytes ./25600" headers
	for range in "bytes=5-2" "bytes=a-b" "lines=1-2" "bytes=0-1,4-5" "bytes=-" "bytes=99999999999999999999999999-"; do
		see x.bin -H "Range: $range"
		test_grep "^(200|416)" status
	done
	see x.bin
	etag=$(sed -n "s/^ETag: \([^\r]*\).*/\1/p" headers)
	see x.bin -H "If-None-Match: $etag"
	status_is 304
	see x.bin -H "Range: bytes=0-1" -H "If-Range: $etag"
	status_is 206
	see x.bin -H "Range: bytes=0-1" -H "If-Range: \"other\""
	status_is 200
	see x.bin -I
	test_grep "^Content-Length: 25600" headers
'
# A real browser of the user who may read the API without a token: what could a page of an artifact do?
if ! test_have chromium; then
	test_skip 'in Chromium a page of an artifact gets nowhere' 'no chromium'
else
	test_expect 'in Chromium a page of an artifact gets nowhere, and works by itself' '
		view attack
		HOME=$TRASH/home timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$TRASH/tmp/chromium" \
			--virtual-time-budget=10000 --dump-dom "$(serve_url srv)$(cat base)index.html" >dom 2>chromium.err || { tail -n 20 chromium.err; exit 1; }
		sed -n "s/.*<pre id=\"said\">\(.*\)<\/pre>.*/\1/p" dom >said
		test_is "$(json said "d[\"beside\"]")" "works"
		test_is "$(json said "d[\"styled\"]")" "rgb(1, 2, 3)"
		test_is "$(json said "d[\"origin\"]")" "null"
		for way in fetch post xhr beacon cookie storage frame worker script event; do
			test_is "$way $(json said "d[\"$way\"]")" "$way refused"
		done
		test_no_grep "schedules/none" .cairn/access/audit.jsonl
	'
fi
test_expect 'a ticket: nobody makes one, or gets to another content with it; it ends with its token' '
	view large
	good=$(cat base)
	for i in 6 30 60 100 130; do
		python3 -c "import sys; s, i = sys.argv[1], int(sys.argv[2]); print(s[:i] + (\"A\" if s[i] != \"A\" else \"B\") + s[i + 1:])" "$good" $i >base
		see x.bin
		status_is 403
	done
	for wrong in /view/ /view/x/ /view//; do
		echo "$wrong" >base
		see x.bin
		test_grep "^40[34]" status
	done
	get srv /api/v1/views -X POST -H "Content-Type: application/json" --data "{\"content\": \"sha256:$(printf %064d 1)\"}"
	status_is 404
	get srv /api/v1/views -X POST -H "Content-Type: application/json" --data "{\"content\": \"../x\"}"
	status_is 400
	cairn serve token add eve >token 2>/dev/null
	get srv /api/v1/views -X POST -H "Authorization: Bearer $(cat token)" -H "Content-Type: application/json" --data "{\"content\": \"$(cat content)\"}"
	json body "d[\"base\"]" >base
	see x.bin
	status_is 200
	cairn serve token revoke eve
	see x.bin
	status_is 403
	test_is "$(stop srv TERM)" 0
'
test_done
