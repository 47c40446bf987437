#!/bin/bash
# Every command line in a block of the documents is executed, as it stands there but for addresses and names: lines.txt says what each page needs, and which
# lines aren't executed, with the reason. Those of pages that other tests paste are named there, too.
# shellcheck source=../net/servers.sh
. "$(dirname "$0")/../net/servers.sh"
# shellcheck source=../serve/serve.sh
. "$(dirname "$0")/../serve/serve.sh"
. "$(dirname "$0")/../lib.sh"
. "$SRC/tests/net/kubernetes/kube.sh"
# shellcheck source=project.sh
. "$SRC/tests/docs/project.sh"

test_expect 'the table is about the pages as they are, and has a reason for each line that is not executed' '
	python3 "$SRC/tests/docs/lines.py" "$SRC/tests/docs/lines.txt" "$SRC" scripts
	cut -f 1 scripts/report | sort | uniq -c
	test "$(grep -c "^run" scripts/report)" -ge 180
	test "$(grep -c "^not" scripts/report)" -le 20
'
test_expect 'a line that fails is found, and so are a page without a section and a line of the table that fits nothing' '
	mkdir -p wrong/docs
	touch wrong/{CONTRIBUTING,SECURITY}.md
	printf "%s\n" "\`\`\`sh" "cairn init here && cd here" "cairn run nothing.yaml" "cairn plan" "\`\`\`" >wrong/README.md
	cp wrong/README.md wrong/docs/other.md
	printf "%s\n" "== README.md" "not cairn undone" "	because" >table
	test_must_fail python3 "$SRC/tests/docs/lines.py" table wrong made 2>err
	test_grep "README.md has no line .cairn undone" err
	test_grep "docs/other.md has command lines" err
	test_code 1 execute made/0.sh >out
	test_grep "^README.md:3: exit 3, not 0: cairn run nothing.yaml" out
'
[ -e scripts/report ] || test_done

server_can versitygw >/dev/null && server bucket versitygw && server_env bucket versitygw && echo "$SERVER_URI" >bucket.uri
for test_v in scripts/*.sh; do
	export test_v
	name=$(cat "${test_v%.sh}.name")
	if grep -q '^in_bucket' "$test_v" && [ ! -s bucket.uri ]; then
		test_skip "$name: each line works" 'no versitygw: tests/net/servers.sh versitygw'
		continue
	fi
	test_expect "$name: each line works" 'execute "$test_v"'
done
while IFS=$'\t' read -r kind place why; do
	[ "$kind" != not ] || test_skip "$place" "$why"
done <scripts/report
test_done
