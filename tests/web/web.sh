# shellcheck shell=bash
# tests/web/web.sh: a server with runs, and a browser. Source it instead of serve.sh and lib.sh.
# shellcheck source=../serve/serve.sh
. "$(dirname "${BASH_SOURCE[0]}")/../serve/serve.sh"
web_cache=${XDG_CACHE_HOME:-$HOME/.cache}/cairn-web
# shellcheck source=../lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# web_modules: where the packages of web/ are: beside it, or where the build put them.
web_modules() {
	local d
	for d in "$SRC/web/node_modules" "$web_cache"/*/node_modules; do
		[ -f "$d/playwright-core/package.json" ] && [ -f "$d/axe-core/axe.min.js" ] && { echo "$d"; return; }
	done
	return 1
}

web_needs() {
	test_have node || test_skip_all 'needs nodejs'
	test_have chromium || test_skip_all 'needs chromium'
	test_have curl || test_skip_all 'needs curl'
	WEB_MODULES=$(web_modules) || test_skip_all 'needs the packages of web/: npm ci'
	export WEB_MODULES
}

# web_project: the pipelines of project/, as a git repository here.
web_project() {
	cp -r "$SRC/tests/web/project/." .
	git init -q .
	git add -A
	git -c commit.gpgsign=false commit -qm 'first'
}

# web_serve [OPTION...]: the server; its address in $WEB_URL.
web_serve() {
	serve server "$@" || test_bail 'the server does not start'
	WEB_URL=$(serve_url server)
	export WEB_URL
}

# web_browser: one Chromium for all checks of this file, with a profile of its own.
web_browser() {
	mkdir -p "$TRASH/profile"
	start browser chromium --headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
		--disable-component-update --disable-sync --remote-debugging-port=0 --user-data-dir="$TRASH/profile" about:blank
	wait_until 60 test -s "$TRASH/profile/DevToolsActivePort" || test_bail "chromium does not start: $(tail -n 3 "$TRASH/work/browser.out")"
	BROWSER=http://127.0.0.1:$(sed -n 1p "$TRASH/profile/DevToolsActivePort")
	export BROWSER
}

# web FILE CHECK: runs one check of a .mjs file in a browser context of its own.
web() { node "$SRC/tests/web/$1" "$2"; }
