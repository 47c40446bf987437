#!/bin/bash
# shellcheck source=../../lib.sh
. "$(dirname "$0")/../../lib.sh"

# croniter and zoneinfo, in an environment of their own beside the other tests' downloads.
cache=${test_xdg:-$test_home/.cache}/cairn-tests
venv=$cache/croniter-6.pinned
environment() {
	local fresh
	[ -x "$venv/bin/python" ] && return
	mkdir -p "$cache" && fresh=$(mktemp -d "$cache/fresh.XXXXXX") || return
	if "$SRC/tests/venv" "$fresh" --require-hashes -r "$SRC/tests/serve/schedule/croniter.requirements.txt"; then
		mv -T "$fresh" "$venv" 2>/dev/null || rm -rf "$fresh"
	else
		rm -rf "$fresh"
	fi >/dev/null 2>&1
	[ -x "$venv/bin/python" ] || return 1
}
export tool
tool=$(test_tool calendar_tool) || test_skip_all 'there is no calendar_tool: build it'
[ -e /usr/share/zoneinfo/Europe/Berlin ] || test_skip_all 'this machine has no tzdata'
environment || test_skip_all 'croniter cannot be installed from the package registry here'

# The answers to the 600 rules are on record; `cron_vectors.py TOOL --count 600 --points 60 --answers FILE --write` makes them anew.
if [ "${CAIRN_TEST_FULL:-0}" = 1 ]; then set -- --count 20000 --points 1000; else set -- --count 600 --points 60 --answers "$SRC/tests/serve/schedule/cron_answers.tsv"; fi
test_expect '200 years of random rules in 20 zones, against croniter and zoneinfo' '
	"$venv/bin/python" "$SRC/tests/serve/schedule/cron_vectors.py" "$tool" '"${*@Q}"' >out || { cat out; false; }
	cat out; grep -q " 0 rules differ" out
'
test_expect 'a tool that answers wrongly is found out' '
	printf "#!/bin/sh\nexec \"%s\" | sed -u s/00\\ /60\\ /\n" "$tool" >liar
	chmod +x liar
	test_must_fail "$venv/bin/python" "$SRC/tests/serve/schedule/cron_vectors.py" ./liar --count 20 --points 60 >out 2>&1
	test_grep "instead of" out
'
test_expect 'answers on record need no croniter, and one that differs asks it' '
	"$venv/bin/python" "$SRC/tests/serve/schedule/cron_vectors.py" "$tool" --count 20 --points 60 --answers answers --write >out
	test_grep "times compared, 0 rules differ" out
	cp out first
	mkdir none
	echo "raise ImportError" >none/croniter.py
	PYTHONPATH=$PWD/none "$venv/bin/python" "$SRC/tests/serve/schedule/cron_vectors.py" "$tool" --count 20 --points 60 --answers answers >out
	test_cmp first out
	test_must_fail "$venv/bin/python" "$SRC/tests/serve/schedule/cron_vectors.py" ./liar --count 20 --points 60 --answers answers >out 2>&1
	test_grep "not as on record" out
	test_grep "instead of" out
	sed -i 1s/./x/ answers
	"$venv/bin/python" "$SRC/tests/serve/schedule/cron_vectors.py" "$tool" --count 20 --points 60 --answers answers >out
	test_grep "of another script" out
	test_grep "times compared, 0 rules differ" out
'
test_done
