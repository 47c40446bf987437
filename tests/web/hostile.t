#!/bin/bash
# What others wrote is never code of the page: stored XSS through every string, artifacts in their sandbox, frames refused.
# shellcheck source=web.sh
. "$(dirname "$0")/web.sh"
web_needs
cp -r "$SRC/tests/web/hostile/." .
git init -q .
git add -A
GIT_AUTHOR_NAME='<img src=x onerror=pwned=1>' git -c commit.gpgsign=false commit -qm '<img src=x onerror=pwned=1>'
web_serve
web_browser

test_expect 'runs full of markup' '
	test_code 1 cairn run --keep-going evil.yaml -p "note=<img src=x onerror=pwned=1>"
	test_code 1 cairn run --keep-going evil.yaml -p "note=\"><b class=evil>"
'
test_expect 'text of others stays text on every page' 'web hostile.mjs text'
test_expect 'an artifact in its sandbox reaches neither page, cookies, storage nor API' 'web hostile.mjs sandbox'
test_expect 'a report is one file that asks nobody, and its text stays text' '
	run=$(cairn runs --json -n 1 | json /dev/stdin "d[\"runs\"][0][\"id\"]")
	other=$(cairn runs --json -n 2 | json /dev/stdin "d[\"runs\"][1][\"id\"]")
	cairn report "$run" --html run.html
	cairn report "$run" "$other" --html both.html
	REPORTS="{\"$PWD/run.html\": [\"\", \"?view=timeline\", \"?view=tasks\", \"?view=metrics\", \"?view=about\", \"/tasks/make?tab=log\", \"/tasks/fail\"],
		\"$PWD/both.html\": [\"\", \"&view=curves\", \"&view=scatter\", \"&view=parallel\"]}" web hostile.mjs report
'
test_expect 'no other page shows this one in a frame' 'web hostile.mjs frames'
test_done
