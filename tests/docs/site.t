#!/bin/bash
# The documents as a site by MkDocs, and as `cairn serve` shows them at /docs: every link right, no other host asked.
docs_home=$HOME docs_xdg=${XDG_CACHE_HOME:-$HOME/.cache}
# shellcheck source=../serve/serve.sh
. "$(dirname "$0")/../serve/serve.sh"
. "$(dirname "$0")/../lib.sh"

# follow DIR PREFIX: each href and src of the pages in DIR, whose address is PREFIX: leads to a file and a heading there, or out by a plain link.
follow() {
	python3 - "$@" <<'PY'
import html.parser, os, posixpath, sys
top, prefix = sys.argv[1:]
class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.ids, self.links, self.loads = set(), [], []
    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        self.ids |= {a[k] for k in ("id", "name") if a.get(k)}
        if tag == "a" and a.get("href"):
            self.links.append(a["href"])
        for k in ("src", "href"):
            if tag != "a" and a.get(k) and a.get("rel") not in ("canonical",):
                self.loads.append(a[k])
pages = {}
for where, _, names in os.walk(top):
    for name in names:
        if name.endswith(".html"):
            p = Page()
            p.feed(open(os.path.join(where, name), encoding="utf-8").read())
            pages[os.path.relpath(os.path.join(where, name), top)] = p
bad = []
for path, p in pages.items():
    if path == "404.html":
        continue
    for to in p.links + p.loads:
        if to.startswith(("https://", "http://", "mailto:")):
            if to in p.loads:
                bad.append(f"{path}: loads {to}")
            continue
        file, _, anchor = to.partition("#")
        if file.startswith("/"):
            there = posixpath.relpath(file, prefix) if file.startswith(prefix) else file
        else:
            there = posixpath.normpath(posixpath.join(posixpath.dirname(path), file)) if file else path
        if there in (".", "") or to.endswith("/"):
            there = posixpath.join(there, "index.html") if there != "." else "index.html"
        if not os.path.exists(os.path.join(top, there)):
            bad.append(f"{path}: {to} leads to nothing")
        elif anchor and there in pages and anchor not in pages[there].ids:
            bad.append(f"{path}: {to}: no such heading")
print("\n".join(bad), end="")
sys.exit(bool(bad) or len(pages) < 30)
PY
}

# MkDocs is installed once, outside of the checkout, by exact versions.
mkdocs_python() {
	local want
	want=$docs_xdg/cairn-tests/mkdocs-$(sha256sum <"$SRC/docs/site/requirements.txt" | cut -c 1-16)
	if [ ! -e "$want/made" ]; then
		rm -rf "$want"
		mkdir -p "$docs_xdg/cairn-tests"
		HOME=$docs_home timeout 240 "$SRC/tests/venv" "$want" -r "$SRC/docs/site/requirements.txt" >mkdocs.log 2>&1 || return 1
		touch "$want/made"
	fi
	echo "$want/bin"
}

if ! command -v mkdocs >/dev/null && ! MKDOCS=$(mkdocs_python); then
	test_skip 'the site by MkDocs' 'pip cannot get mkdocs-material'
else
	PATH=${MKDOCS:+$MKDOCS:}$PATH
	test_expect 'the site is built; its links are right; it asks no other host' '
		"$SRC/docs/site/build" site
		follow site /
		test_no_grep "fonts.googleapis|fonts.gstatic" site/index.html
	'
	test_expect 'a link to nothing ends the build' '
		mkdir -p tree/storage
		cp -r "$SRC/docs" "$SRC"/*.md tree/
		cp "$SRC/storage/FORMAT.md" tree/storage/
		echo "[x](nothing.md#y) and [y](cache.md#nothing)" >>tree/docs/guide/tutorial.md
		test_must_fail tree/docs/site/build broken 2>err
		test_grep "cache.md#nothing|no such anchor|does not contain an anchor" err
	'
fi

echo '# project' >cairn.yaml
serve srv
get srv /docs
if grep -q 'has no web interface' body || [ "$(cat status)" = 404 ]; then
	test_skip 'cairn serve has the documents at /docs' 'the program was built without Node.js'
	test_done
fi
test_expect 'cairn serve has the documents at /docs' '
	get srv /docs/
	status_is 200
	cp body index
	get srv /docs
	cmp index body
	get srv /docs/guide/tutorial.html
	status_is 200
	test_grep "<h1 id=\"tutorial\">" body
	test_grep "^Content-Type: text/html" headers
	test_grep "^Content-Security-Policy: default-src .self.; .*frame-ancestors .none." headers
	test_no_grep "<script|<style|style=|onload=" body
	get srv /docs/style.css
	test_grep "^Content-Type: text/css" headers
	get srv /docs/none.html
	status_is 404
'
# fetch <PATHS: what the server has there, to got/; what is there already isn't asked for again.
fetch() {
	local path
	while read -r path; do
		[ ! -e "got/$path" ] || continue
		get srv "/docs/$path"
		status_is 200 || return 1
		mkdir -p "got/$(dirname "$path")"
		cp body "got/$path"
	done
}
test_expect 'every page there, each link right, nothing of another host' '
	mkdir -p got
	get srv /docs/
	cp body got/index.html
	grep -oE "(href|src)=\"/docs/[^\"]*\"" body | sed -E "s/(href|src)=\"\/docs\/([^\"#]*).*/\2/" | sort -u | grep . >paths
	test "$(wc -l <paths)" -ge 30
	fetch <paths
	grep -ohrE "src=\"/docs/[^\"]*\"" got --include="*.html" | sed -E "s/src=\"\/docs\/([^\"]*)\"/\1/" | sort -u >pictures
	fetch <pictures
	follow got /docs/
'
test_done
