# shellcheck shell=bash
# tests/serve/serve.sh: `cairn serve` under test. Source it before lib.sh (which takes HOME away).
set -u

serve_home=$HOME
serve_xdg=${XDG_CACHE_HOME:-$HOME/.cache}
serve_cache=$serve_xdg/cairn-tests
serve_source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
SERVE_TOKEN=0123456789abcdef0123456789abcdef
export SERVE_TOKEN

# serve_python: a python with what the tests of the API need, made once outside of the checkout; fails when it can't be made.
serve_python() {
	mkdir -p "$serve_cache"
	(
		flock 9
		[ -e "$serve_cache/serve-2/made" ] && exit 0
		HOME=$serve_home XDG_CACHE_HOME=$serve_xdg
		rm -rf "$serve_cache/serve-2"
		"$serve_source/../venv" "$serve_cache/serve-2" --require-hashes -r "$serve_source/serve.requirements.txt" &&
			touch "$serve_cache/serve-2/made"
	) 9>"$serve_cache/serve.lock" >"$serve_cache/serve.log" 2>&1
}
SERVE_PYTHON=$serve_cache/serve-2/bin/python
export SERVE_PYTHON

# serve NAME [OPTION...]: starts `cairn serve` for the project here, on a free port; serve_url NAME says where.
serve() {
	local name=$1
	shift
	start "$name" env CAIRN_SERVE_TOKEN="$SERVE_TOKEN" cairn serve --listen 127.0.0.1:0 --drain-timeout 20s "$@"
	wait_until 60 serve_is_up "$name"
	[ ! -s "$TRASH/work/$name.rc" ] || { cat "$TRASH/work/$name.out" >&2; return 1; }
}
serve_is_up() { [ -s "$TRASH/work/$1.rc" ] || grep -q ' serving ' "$TRASH/work/$1.out"; }
serve_url() { sed -n 's/.* listening address=\(127[^ ]*\).*/http:\/\/\1/p' "$TRASH/work/$1.out" | sed -n 1p; }
# serve_again NAME: what `start` left of the last one is cleared away.
serve_forget() { rm -f "$TRASH/work/$1".{pid,rc,sid,out}; }

# get NAME PATH [CURL OPTION...]: the body in `body`, the status in `status`, the headers in `headers`.
get() {
	local name=$1 path=$2
	shift 2
	: >body
	curl -s -g --max-time 60 -o body -D headers -w '%{http_code}' "$@" "$(serve_url "$name")$path" >status
}
# post NAME PATH [JSON]: with the token.
post() { get "$1" "$2" -X POST -H "Authorization: Bearer $SERVE_TOKEN" -H 'Content-Type: application/json' --data "${3-}"; }
status_is() { test_is "$(cat status)" "$1" || { cat body >&2; return 1; }; }
# metric NAME SAMPLE: its value, 0 without one.
metric() {
	curl -s --max-time 20 "$(serve_url "$1")/metrics" | awk -v want="$2" 'index($0, want) == 1 { v = $NF } END { print v + 0 }'
}
