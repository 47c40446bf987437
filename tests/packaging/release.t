#!/bin/bash
# What goes with a release: SBOM, provenance, checksums and signature, made here for a small program; and with CAIRN_RELEASE, the folder that packaging/release made.
release=${CAIRN_RELEASE:-} # lib.sh takes away what begins with CAIRN_
. "$(dirname "$0")/../lib.sh"

test_expect 'the SBOM names the program and every pinned package, the same twice' '
	"$SRC/packaging/sbom" "$CAIRN" >bom.json
	"$SRC/packaging/sbom" "$CAIRN" >again.json
	cmp bom.json again.json
	python3 - "$SRC/packaging/musl/sources.txt" <<-"PY"
	import hashlib, json, os, sys
	bom = json.load(open("bom.json"))
	assert bom["bomFormat"] == "CycloneDX" and bom["specVersion"] == "1.5"
	have = {(c["name"], c["version"], c["externalReferences"][0]["hashes"][0]["content"]) for c in bom["components"]}
	want = {(w[0], w[1], w[3]) for w in (l.split("#")[0].split() for l in open(sys.argv[1])) if w}
	assert want and want <= have, want - have
	refs = {c["bom-ref"] for c in bom["components"]}
	assert len(refs) == len(bom["components"]) and set(bom["dependencies"][0]["dependsOn"]) == refs
	PY
	sha256sum <"$CAIRN" | cut -d " " -f 1 >digest
	grep -q "$(cat digest)" bom.json
'
test_expect 'the provenance names each file by its digest, the commit, and what was pinned' '
	git -c safe.directory="*" -C "$SRC" rev-parse HEAD >commit 2>/dev/null || test_cannot "the sources are no git checkout"
	mkdir files
	cp "$CAIRN" files/cairn
	"$SRC/packaging/provenance" files/cairn >provenance.json
	python3 - "$(cat digest)" "$(cat commit)" <<-"PY"
	import json, sys
	s = json.load(open("provenance.json"))
	assert s["_type"] == "https://in-toto.io/Statement/v1" and s["predicateType"] == "https://slsa.dev/provenance/v1"
	assert s["subject"] == [{"name": "cairn", "digest": {"sha256": sys.argv[1]}}]
	materials = s["predicate"]["buildDefinition"]["resolvedDependencies"]
	assert materials[0]["digest"]["gitCommit"] == sys.argv[2]
	assert any("openssl" in m["uri"] for m in materials) and any("ziglang" in m["uri"] for m in materials)
	PY
'
test_expect 'checksums of all files' '
	mkdir -p signed
	echo one >signed/one
	echo two >signed/two
	"$SRC/packaging/sign" signed
	(cd signed; sha256sum -c SHA256SUMS) >out
	test_lines 2 out
	test_missing signed/SHA256SUMS.minisig
'
test_expect --needs minisign 'a signature by the key that the releaser gives; a changed file or list is found' '
	minisign -G -W -p key.pub -s key.sec >/dev/null
	"$SRC/packaging/sign" signed key.sec
	minisign -Vm signed/SHA256SUMS -p key.pub >out
	echo more >>signed/one
	test_must_fail bash -c "cd signed && sha256sum -c --quiet SHA256SUMS" 2>err
	echo "0000 *three" >>signed/SHA256SUMS
	test_must_fail minisign -Vm signed/SHA256SUMS -p key.pub 2>err
'
test_expect 'the names of the publisher stand in one file; with the example ones nothing is signed' '
	(cd "$SRC"; grep -rlIE "@cairn[.]example|github.com/OWNER" packaging action.yml .pre-commit-hooks.yaml) >places
	test_grep "^packaging/publisher$" places
	grep -vE "^packaging/(publisher|release)$" places >others || true
	test_lines 0 others
	test_must_fail "$SRC/packaging/release" --dirty new key.sec 2>err
	test_grep "packaging/publisher has its example names.*before it is signed" err
	cp -r "$SRC/packaging" elsewhere
	printf "%s\n" "maintainer=\"Ada <ada@example.org>\"" "repository='"'"'https://git.example.org/ada/cairn'"'"'" >elsewhere/publisher
	mkdir fork
	git init -q fork
	git -C fork -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m one
	mv elsewhere fork/packaging
	fork/packaging/provenance signed/one >provenance.json
	test_grep "git[+]https://git.example.org/ada/cairn" provenance.json
	test_no_grep OWNER provenance.json
'
test_expect 'the GitHub Action and the pre-commit hook are YAML with what such files must have' '
	python3 - "$SRC" <<-"PY"
	import sys, yaml
	action = yaml.safe_load(open(sys.argv[1] + "/action.yml"))
	assert action["name"] and action["description"] and action["runs"]["using"] == "composite"
	for step in action["runs"]["steps"]:
	    assert "uses" in step or step["shell"] == "bash", step
	    assert "${{" not in step.get("run", ""), "an input is text of a shell: " + step["run"]
	hooks = yaml.safe_load(open(sys.argv[1] + "/.pre-commit-hooks.yaml"))
	assert [h["id"] for h in hooks] == ["cairn-check"]
	for h in hooks:
	    assert h["entry"] and h["language"] and h["files"]
	PY
'

if [ -z "$release" ]; then
	test_skip 'the release' 'CAIRN_RELEASE names none: packaging/release'
	test_done
fi
test_expect 'the sums of the release are right' '
	(cd "'"$release"'"; sha256sum -c --quiet SHA256SUMS)
'
test_expect 'the image has a part for each processor of the release' '
	mkdir image
	tar -xf "'"$release"'"/cairn-*-image.tar -C image
	ls "'"$release"'"/cairn-*-linux-* | grep -v json | sed "s/.*-linux-//; s/x86_64/amd64/; s/aarch64/arm64/" | sort >want
	python3 - <<-"PY" | sort >have
	import json
	def blob(d):
	    return json.load(open("image/blobs/sha256/" + d["digest"][7:]))
	top = json.load(open("image/index.json"))["manifests"][0]
	for part in blob(top)["manifests"] if "index" in top["mediaType"] else [top]:
	    print(blob(blob(part)["config"])["architecture"])
	PY
	test_cmp want have
'
for program in "$release"/cairn-*-linux-*; do
	case $program in *.json) continue ;; esac
	arch=${program##*-linux-}
	run=
	[ "$arch" = "$(uname -m)" ] || run=qemu-$arch-static
	test_expect --needs "${run:-sh}" "$arch: the program, the wheel and the package are one program that runs" "
		$run '$program' version >out
		test_grep '^cairn ' out
		for wheel in '$release'/*_$arch.whl; do
			python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-index --no-deps --platform manylinux2014_$arch --target whl-$arch \"\$wheel\"
			cmp whl-$arch/bin/cairn '$program'
		done
		for deb in '$release'/*_$([ "$arch" = x86_64 ] && echo amd64 || echo arm64).deb; do
			dpkg-deb -x \"\$deb\" deb-$arch
			cmp deb-$arch/usr/bin/cairn '$program'
		done
		$run '$program' init --template tabular project-$arch >out
		(cd project-$arch; $run '$program' plan) >plan
		test_grep train plan
	"
	# User emulation has no child reapers, which a run needs.
	[ -n "$run" ] || test_expect 'a run of digits by the program of the release' "
		cp -r '$SRC/examples/digits' digits
		(cd digits; PATH=/usr/bin:\$PATH '$program' run) >out
		test_grep 'run hash' out
	"
done
test_done
