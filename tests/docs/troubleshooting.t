#!/bin/bash
# Each error of docs/guide/troubleshooting.md: errors.txt provokes it, and the program says what the page says.
. "$(dirname "$0")/../lib.sh"

page=$SRC/docs/guide/troubleshooting.md
errors=$SRC/tests/docs/errors.txt
grep '^### ' "$page" | sed -E 's/^### `+ ?(.*[^` ]|.*[^ ]`) ?`+$/\1/; s/^### `([^`]*)`$/\1/' >headings
sed -n 's/^==== //p' "$errors" >provoked

test_expect 'the page and errors.txt have the same errors, forty at least' '
	test_cmp headings provoked
	test "$(wc -l <headings)" -ge 40
'
pipeline() { cat >pipeline.yaml; }
# says TEXT FILE: the parts of TEXT between its … stand in FILE in this order.
says() {
	python3 - "$@" <<'PY'
import re, sys
said = re.sub(r"\s+", " ", open(sys.argv[2]).read())
if not re.search(".*?".join(re.escape(part) for part in sys.argv[1].split("…")), said):
    sys.exit(f"not said: {sys.argv[1]}\nsaid: {said}")
PY
}
landlock=$(cairn doctor 2>&1 | grep -c 'the kernel has no Landlock' || true)

number=0
while IFS= read -r head; do
	number=$((number + 1))
	mkdir "e$number"
	awk -v n=$number '/^==== /{ i++; next } i == n' "$errors" >"e$number.sh"
	need=$(sed -n '1s/^\(ROOT\|LANDLOCK\)$/\1/p' "e$number.sh")
	sed -i '1{/^\(ROOT\|LANDLOCK\)$/d}' "e$number.sh"
	if [ "$need" = LANDLOCK ] && [ "$landlock" != 0 ]; then
		test_skip "$head" 'this kernel has no Landlock'
		continue
	fi
	head=$head number=$number
	export head number
	test_expect --needs "${need/LANDLOCK/sh}" "says: $head" '
		cd "e$number"
		echo "{}" >cairn.yaml
		(set +e; . "../e$number.sh") >../said 2>&1 || true
		says "$head" ../said
	'
done <provoked
test_done
