#!/bin/bash
# What others wrote is never code of the page: stored XSS through every string, artifacts in their sandbox, frames refused.
# shellcheck source=web.sh
. "$(dirname "$0")/web.sh"
web_needs
cp -r "$SRC/tests/web/hostile/." .
git init -q .
git add -A
git -c commit.gpgsign=false commit -qm '<img src=x onerror=pwned=1>'
web_serve
web_browser

test_expect 'runs full of markup' '
	test_code 1 cairn run --keep-going evil.yaml -p "note=<img src=x onerror=pwned=1>"
	test_code 1 cairn run --keep-going evil.yaml -p "note=\"><b class=evil>"
'
test_expect 'text of others stays text on every page' 'web hostile.mjs text'
test_expect 'an artifact in its sandbox reaches neither page, cookies, storage nor API' 'web hostile.mjs sandbox'
test_expect 'no other page shows this one in a frame' 'web hostile.mjs frames'
test_done
