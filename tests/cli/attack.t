#!/bin/bash
# Who is trusted, and with what: each row of the table in SECURITY.md is attacked here.
. "$(dirname "$0")/../lib.sh"

gone() { [ ! -e "$1" ] || { echo "$1 is there" >&2; return 1; }; }
forge() { python3 "$SRC/tests/cli/attack_store.py" "$@"; }

mkdir -p victim/.cairn other/.config
cd victim
echo data >in.txt
write cairn.yaml </dev/null
write pipeline.yaml <<'Y'
pipeline: honest
inputs: {in: in.txt}
steps:
  a:
    inputs: {x: "${{ inputs.in }}"}
    run: cat ${{ inputs.x }} >${{ outputs.o }}
    outputs: {o: o.txt}
Y
cd ..

# --- the writer of the shared store --------------------------------------------------------------------------------

test_expect 'a run of which a stranger makes others' '
	cd victim
	cairn run -q
	cairn runs --json >../runs.json
	python3 -c "import json; print(json.load(open(\"../runs.json\"))[\"runs\"][0][\"hash\"].removeprefix(\"sha256:\"))" >../hash
	test_is "$(wc -c <../hash)" 65
'
test_expect 'get makes nothing outside of its destination, and removes nothing there' '
	mkdir -p outside there/pwned
	echo mine >there/pwned/file
	hash=$(forge victim/.cairn/store "$(cat hash)" link "$PWD/outside")
	(cd victim; test_must_fail cairn get "$hash" -o ../got 2>err; cat err)
	gone outside/pwned
	gone got
	hash=$(forge victim/.cairn/store "$(cat hash)" link "$PWD/there")
	(cd victim; test_must_fail cairn get "$hash" -o ../got 2>err)
	test_is "$(cat there/pwned/file)" mine
'
for kind in id pipeline step; do
	test_expect "a manifest whose $kind is a way out of the directory is refused by get and reindex" '
		hash=$(forge victim/.cairn/store "$(cat hash)" '$kind' ../../escaped)
		(cd victim; test_must_fail cairn get "$hash" 2>err)
		gone escaped
		(cd victim; cairn store reindex >out 2>&1 || true; cat out)
		test_grep "left out" victim/out
		rm -f "victim/.cairn/store/runs/$(cut -c 1-2 <<<"$hash")/$hash"
	'
done
test_expect 'an exported crate has the inputs beneath it, whatever they are called' '
	hash=$(forge victim/.cairn/store "$(cat hash)" input ../../x/evil.desktop)
	cd victim
	cairn store reindex >out 2>&1
	mkdir -p ../crates
	cairn export "$hash" --format ro-crate --to ../crates/crate
	test_is "$(find .. -name "*evil.desktop")" ../crates/crate/inputs/%2E.%2F..%2Fx%2Fevil.desktop
'

test_done
