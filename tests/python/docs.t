#!/bin/bash
# Every command line of docs/guide/python.md and coming-from.md, in the order of the page: a block whose first line is a
# comment with a file's name becomes that file, `sh` and `python` are executed, `text` isn't.
. "$(dirname "$0")/../lib.sh"

python=/usr/bin/python3
"$python" -c 'import yaml' 2>/dev/null || test_skip_all 'Debian: python3-yaml'
CAIRN_BINARY=$(command -v cairn)
export CAIRN_BINARY
# As if the package were installed, for the programs of steps too.
mkdir bin
printf '#!/bin/sh\nPYTHONPATH=%s PYTHONDONTWRITEBYTECODE=1 exec %s "$@"\n' "$SRC/python/src" "$python" >bin/python3
chmod +x bin/python3
export PATH=$PWD/bin:$PATH

# What a page says, as one script: files are written, commands are executed.
cat >blocks.py <<'E2'
import re
import sys

for n, (kind, text) in enumerate(re.findall(r"^```(\w*)\n(.*?)^```$", open(sys.argv[1]).read(), re.M | re.S)):
    name = re.match(r"# ([\w./-]+)\n", text)
    if kind == "text":
        continue
    if name:
        print(f"cat >{name.group(1)} <<'END-OF-BLOCK'\n{text}END-OF-BLOCK")
    elif kind == "python":
        print(f"python3 - <<'END-OF-BLOCK'\n{text}END-OF-BLOCK")
    elif kind == "sh":
        print(text)
    else:
        sys.exit(f"block {n + 1} of {sys.argv[1]} is neither text, sh, python nor a file")
E2

for page in python coming-from; do
	export page
	test_expect "$page.md: each block works" '
		mkdir "$page"
		python3 blocks.py "$SRC/docs/guide/$page.md" >"$page.sh"
		cd "$page"
		bash -eu "../$page.sh" >../"$page.out" 2>&1 || { cat "../$page.out"; false; }
		test_grep "succeeded" "../$page.out"
	'
done

test_expect 'coming-from.md says what cairn import and the runs say' '
	test_grep "dvc.yaml:12: plots" coming-from.out
	test_grep "2 tasks, 1 executed, 1 on record" coming-from.out
	test_grep "UsageError|EnvironmentFailed|InvalidPipeline" python.out
'
test_done
