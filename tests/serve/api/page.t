#!/bin/bash
# The web interface as the program has it: its page, assets, headers; and how a program says that it has none.
# shellcheck source=../serve.sh
. "$(dirname "$0")/../serve.sh"
. "$(dirname "$0")/../../lib.sh"
test_have curl || test_skip_all 'needs curl'

echo '# project' >cairn.yaml
policy() { sed -n 's/^Content-Security-Policy: \([^\r]*\).*/\1/p' headers; }

test_expect 'the page at /, and at the addresses of its own routes' '
	serve srv
	get srv /
	status_is 200
	test_grep "^Content-Type: text/html; charset=utf-8" headers
	test_grep "^Cache-Control: no-cache" headers
	test_no_grep "has no web interface" body
	cp body page
	for path in /runs /runs/one-7kq2m/tasks/train%5Bfold=0%5D /compare /sign-in; do
		get srv $path
		status_is 200
		cmp page body
	done
	get srv /nothing -H "Accept: text/html"
	status_is 404
	cmp page body
	get srv /nothing
	status_is 404
	test_grep "nothing at this path" body
	get srv /api/v1/nothing -H "Accept: text/html"
	test_grep "nothing at this path" body
'
test_expect 'its assets: kept for ever, compressed where that is understood, asked again by ETag' '
	grep -o "/assets/[^\"]*\.js" page >assets
	sed -n 1p assets >asset
	get srv "$(cat asset)"
	status_is 200
	test_grep "^Content-Type: text/javascript" headers
	test_grep "^Cache-Control: public, max-age=31536000, immutable" headers
	cp body plain
	get srv "$(cat asset)" -H "Accept-Encoding: gzip"
	test_grep "^Content-Encoding: gzip" headers
	test_grep "^Vary: Accept-Encoding" headers
	gzip -dc <body | cmp - plain
	etag=$(sed -n "s/^ETag: \([^\r]*\).*/\1/p" headers)
	get srv "$(cat asset)" -H "Accept-Encoding: gzip" -H "If-None-Match: $etag"
	status_is 304
	get srv "$(cat asset)" -I
	status_is 200
	get srv /assets/../index.html --path-as-is
	status_is 404
	get srv /assets/none.js -H "Accept: text/html"
	status_is 404
	test_grep "nothing at this path" body
	get srv / -X POST -H "Authorization: Bearer $SERVE_TOKEN"
	status_is 404
'
test_expect 'nothing of another host, nothing inline, no frame around it' '
	get srv /
	policy >said
	test_grep "default-src .self." said
	test_grep "frame-ancestors .none." said
	test_grep "object-src .none." said
	test_grep "base-uri .none." said
	test_no_grep "unsafe|\*|http" said
	test_grep "^X-Content-Type-Options: nosniff" headers
	test_grep "^Referrer-Policy: no-referrer" headers
	test_no_grep "<script>|<style|onload=|https?://" page
	get srv /api/v1/runs
	policy >said
	test_is "$(cat said)" "default-src '"'none'; frame-ancestors 'none'"'"
	test_is "$(stop srv TERM)" 0
'
# bundle: the build's own step, with the npm of bin/, as CMakeLists.txt calls it.
bundle() {
	PATH=$PWD/bin:$PATH XDG_CACHE_HOME=$PWD/cache cmake -DWEB="$PWD/web" -DFILES=package.json:package-lock.json -DDIR="$PWD/made" \
		-DOUT="$PWD/bundle.c" "-DWHY=${1-}" -P "$SRC/engine/bundle.cmake" >said 2>&1
}
npm_is() { # SCRIPT for `npm ci`, SCRIPT for `npm run build`
	mkdir -p bin web
	echo "{}" | tee web/package.json >web/package-lock.json
	printf '#!/bin/sh\ncase $1 in ci) %s ;; *) %s ;; esac\n' "$1" "$2" >bin/npm
	chmod +x bin/npm
}
if ! test_have cmake; then
	test_skip 'the build without a network' 'no cmake'
else
	test_expect 'the build without a network: a program that says so, and the next build tries again' '
		npm_is "echo no network; exit 1" "exit 1"
		bundle
		test_grep "no network" said
		test_grep "web interface is not built" said
		test_grep "bundle_why.*npm ci" bundle.c
		test "$(date -r bundle.c +%Y)" -lt 2010
		npm_is "touch node_modules/there" "test -e node_modules/there; mkdir -p dist; echo page >dist/index.html"
		bundle
		test_grep "\"/index.html\"" bundle.c
		test "$(date -r bundle.c +%Y)" -gt 2010
		npm_is "echo no network; exit 1" "mkdir -p dist; echo other >dist/index.html"
		bundle
		test_grep "\"/index.html\"" bundle.c
		test_is "$(ls web)" "$(printf "package-lock.json\npackage.json")"
	'
	test_expect 'the build: an error in web/ is one; without the interface it says why' '
		npm_is "true" "echo wrong type in x.ts; exit 1"
		test_must_fail bundle
		test_grep "wrong type in x.ts" said
		bundle "It was built so."
		test_grep "bundle_why.*It was built so" bundle.c
	'
fi
test_done
