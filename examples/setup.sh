# shellcheck shell=bash
# examples/setup.sh: what a fresh Debian 12 lacks, shared by the examples' run.sh and by tests/run. Source it, don't run it.

SETUP_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

setup_say() { echo "$*" >&2; }

# setup_missing LIST...: the packages named in these files that aren't installed, one a line. A line PROGRAM:PACKAGE is
# satisfied by a program from elsewhere, too.
setup_missing() {
	local p
	sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$@" | while read -r p; do
		case $p in *:*)
			! command -v "${p%%:*}" >/dev/null || continue
			p=${p#*:}
			;;
		esac
		[ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || echo "$p"
	done
}

# setup_packages LIST...: installs what is missing; asks for no rights when nothing is. A missing package is an error.
setup_packages() {
	local missing sudo=
	command -v dpkg-query >/dev/null || { setup_say "not a Debian system: install what $* name by hand"; return 0; }
	mapfile -t missing < <(setup_missing "$@")
	[ ${#missing[@]} -gt 0 ] || return 0
	setup_say "installing from Debian: ${missing[*]}"
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null || { setup_say "not root and no sudo. As root: apt-get install ${missing[*]}"; return 1; }
		sudo=sudo
	fi
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2 || setup_say 'apt-get update failed; trying with the lists at hand'
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# setup_cairn: sets CAIRN to a built binary; builds one in build/ when the caller names none.
setup_cairn() {
	local log=$SETUP_ROOT/build/setup.log
	if [ -n "${CAIRN:-}" ]; then
		CAIRN=$(realpath "$CAIRN")
		return
	fi
	mkdir -p "$SETUP_ROOT/build"
	if ! { cmake -S "$SETUP_ROOT" -B "$SETUP_ROOT/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo &&
		ninja -C "$SETUP_ROOT/build" program; } >"$log" 2>&1; then
		tail -n 30 "$log" >&2
		setup_say "building cairn failed; the whole log is in $log"
		return 1
	fi
	CAIRN=$SETUP_ROOT/build/cairn
}

# setup_python MODULE...: Debian's python3 has the packages, even where another one comes first on PATH.
setup_python() {
	python3 -c 'import importlib.util, sys; sys.exit(any(importlib.util.find_spec(m) is None for m in sys.argv[1:]))' "$@" 2>/dev/null ||
		PATH=/usr/bin:$PATH
}
