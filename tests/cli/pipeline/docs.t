#!/bin/bash
# Every YAML block of the README and of docs/guide is a pipeline, or a cairn.yaml, that `cairn check` takes.
. "$(dirname "$0")/../../lib.sh"

# blocks PAGE...: each block as a file of a project, which is the page's. A block without `steps` gets a step. The scripts
# that a block names are there, and are empty.
blocks() {
	python3 - "$@" <<'PY'
import os, re, sys
for page in sys.argv[1:]:
    project = os.path.basename(page)[:-3].lower()
    os.makedirs(project)
    open(f"{project}/cairn.yaml", "w").write("{}\n")
    for n, block in enumerate(re.findall(r"^```yaml\n(.*?)^```", open(page).read(), re.S | re.M), start=1):
        named = re.match(r"# ([\w/]+\.yaml)", block)
        path = os.path.join(project, named.group(1) if named else f"block-{n}.yaml")
        if os.path.exists(path) and not path.endswith("cairn.yaml"): # a page that goes on with a file has it again
            path = f"{path[:-5]}-{n}.yaml"
        if not path.endswith("cairn.yaml"):
            block = ("" if re.search(r"^pipeline:", block, re.M) else f"pipeline: {project}\n") + block
            block += "" if re.search(r"^steps:", block, re.M) else "steps: {nothing: {run: 'true'}}\n"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").write(block)
        for script in re.findall(r"[\w./-]+\.(?:py|sh)\b", block):
            open(os.path.join(project, script), "a").close()
            os.chmod(os.path.join(project, script), 0o755)
PY
}
# check_all: each pipeline of the projects
check_all() {
	local project file bad=0
	for project in */; do
		for file in $(cd "$project" && find . -name '*.yaml' ! -name cairn.yaml | sort); do
			echo "$project$file" >>../checked
			(cd "$project" && cairn check "$file") || bad=1
		done
	done 2>&1
	return $bad
}

test_expect 'a block that is wrong is found' '
	mkdir wrong
	cd wrong
	printf "%s\n" "\`\`\`yaml" "steps: {a: {runs: ./a.sh}}" "\`\`\`" >p.md
	blocks p.md
	test_code 1 check_all >out
	test_grep "block-1.yaml:2:13: .*unknown key .runs" out
	rm ../checked
'
test_expect 'every block of the README and the guide is right' '
	mkdir right
	cd right
	blocks "$SRC/README.md" "$SRC"/docs/guide/*.md
	mkdir readme/templates
	touch environments/uv.lock environments/pyproject.toml
	write schedules/prepare.yaml <<<"{pipeline: prepare, steps: {a: {run: \"true\"}}}"
	test_code 0 check_all >out || { cat out; false; }
	# A cairn.yaml is read with the pipelines beside it.
	cat "$SRC/README.md" "$SRC"/docs/guide/*.md >pages
	test "$(grep -c . ../checked)" -ge "$(($(grep -c "^.\{3\}yaml$" pages) - $(grep -c "^# .*cairn.yaml$" pages)))"
'
test_done
