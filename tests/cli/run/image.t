#!/bin/bash
# cairn image: the same bytes for the same files, wherever and however it is made; complete (what is in it runs where there is nothing else); what docker and containerd read.
. "$(dirname "$0")/../../lib.sh"

built=$(dirname "$CAIRN")
place() { # DIR: programs as they lie beside each other; helpers that aren't built stand-ins
	local name
	mkdir -p "$1"
	for name in cairn cairn-steps cairn-init cairn-launch; do
		if [ -e "$built/$name" ]; then
			cp "$built/$name" "$1/$name"
		else
			cp "$(type -P true)" "$1/$name"
		fi
	done
}
[ -x "$built/cairn-steps" ] || test_skip_all 'there is no cairn-steps beside cairn'
[ -e /etc/ssl/certs/ca-certificates.crt ] && [ -d /usr/share/zoneinfo/Europe ] || test_skip_all 'no CA certificates or time zones here (packages ca-certificates, tzdata)'
place here
real=$TRASH/work/here/cairn
export real built

test_expect 'a layout' '
	"$real" image --output layout >digest 2>err
	test_grep "^sha256:[0-9a-f]{64}$" digest
	test_lines 1 digest
	test_cmp <(printf "{\"imageLayoutVersion\":\"1.0.0\"}") layout/oci-layout
	test_is "$(json layout/index.json "d[\"manifests\"][0][\"digest\"]")" "$(cat digest)"
	for f in layout/blobs/sha256/*; do
		test_is "$(sha256sum <"$f" | cut -c 1-64)" "$(basename "$f")"
	done
	manifest=layout/blobs/sha256/$(cut -c 8- digest)
	config=layout/blobs/sha256/$(json "$manifest" "d[\"config\"][\"digest\"][7:]")
	layer=layout/blobs/sha256/$(json "$manifest" "d[\"layers\"][0][\"digest\"][7:]")
	test_is "$(json "$config" "d[\"rootfs\"][\"diff_ids\"][0]")" "sha256:$(gzip -dc "$layer" | sha256sum | cut -c 1-64)"
	test_is "$(json "$config" "d[\"config\"][\"User\"]")" 10001:10001
	test_is "$(json "$config" "d[\"config\"][\"Entrypoint\"]")" "[\"/usr/bin/cairn\"]"
	test_is "$(json "$config" "d[\"config\"][\"Labels\"][\"org.opencontainers.image.version\"]")" "$(cairn version | cut -d " " -f 2)"
	tar -tzf "$layer" >files
	for f in usr/bin/cairn usr/bin/cairn-steps usr/lib/cairn/cairn-init usr/lib/cairn/cairn-launch etc/ssl/certs/ca-certificates.crt etc/passwd etc/group etc/nsswitch.conf tmp/ \
		usr/share/zoneinfo/Europe/Berlin; do
		test_grep "^$f$" files
	done
	LC_ALL=C sort -c <(sed "s:/$::" files)
	echo "$layer" >layer
'
test_expect 'libarchive, of which two readers are used, brings no library of 31 MB along' '
	test_no_grep "libxml2|libicu" files
'
test_expect 'another directory, umask, time zone, time, and files of other times and rights: the same bytes' '
	cp -r here there
	find there -type f -exec touch -d 2001-02-03 {} + -exec chmod 700 {} +
	mkdir -p sub
	(
		cd sub
		umask 077
		TZ=Asia/Tokyo LC_ALL=C ../there/cairn image --output ../second >../digest2 2>/dev/null
	)
	test_cmp digest digest2
	diff -r layout second
'
test_expect 'one tar: the same image, and what docker load and containerd read' '
	"$real" image --output one.tar --json >one.json
	"$real" image --output two.tar --name registry.example/tools/cairn:7 >/dev/null 2>&1
	test_is "$(json one.json "d[\"digest\"]")" "$(cat digest)"
	mkdir one two
	tar -xf one.tar -C one
	tar -xf two.tar -C two
	diff -r -x manifest.json layout one
	diff -r layout/blobs two/blobs
	version=$(cairn version | cut -d " " -f 2)
	test_is "$(json one/manifest.json "d[0][\"RepoTags\"]")" "[\"docker.io/library/cairn:$version\"]"
	test_is "$(json two/manifest.json "d[0][\"RepoTags\"]")" "[\"registry.example/tools/cairn:7\"]"
	test_exists "one/$(json one/manifest.json "d[0][\"Config\"]")" "one/$(json one/manifest.json "d[0][\"Layers\"][0]")"
	test_is "$(json two/index.json "d[\"manifests\"][0][\"annotations\"][\"io.containerd.image.name\"]")" registry.example/tools/cairn:7
	test_missing .tmp-image-*
'
test_expect --needs 'ROOT unshare' 'what is in it runs where there is nothing else, and makes the same image there' '
	mkdir root
	tar -xzf "$(cat layer)" -C root
	mkdir -m 1777 root/tmp/out
	inside() { # COMMAND… as the image'\''s user, without a network
		unshare -m -n sh -c "mount --bind /proc root/proc && exec chroot --userspec=10001:10001 root \"\$@\"" sh "$@"
	}
	inside /usr/bin/cairn version >out
	test_cmp <(cairn version) out
	inside /usr/bin/cairn-steps --help >out
	test_grep shard out
	inside /usr/bin/cairn image --output /tmp/out/again >digest3
	test_cmp digest digest3
	loader=/$(grep -oE "usr/lib.*/ld-linux[^/]*" files)
	for lib in root/usr/lib/*/lib*.so*; do
		inside "$loader" --list "${lib#root}" >needs
		test_no_grep "not found" needs
	done
'
test_expect 'every library that is opened by name somewhere is in the list' '
	cd "$SRC"
	# The names stand beside the call, or in a header that two callers share.
	grep -rlE --include="*.[ch]" "library_open\(" engine storage runners steps | grep -v "cmd_image.c\|os/library\." >"$TRASH/opening"
	grep -rlE --include="*.h" "for library_open\(\)" engine storage runners steps >>"$TRASH/opening"
	xargs grep -ohE "\"lib[^\" ]*\.so[^\" ]*\"" <"$TRASH/opening" | tr -d "\"" | sort -u >"$TRASH/opened"
	test -s "$TRASH/opened"
	while read -r lib; do
		grep -Eq "[\"|]$lib[\"|]" engine/cli/upkeep/cmd_image.c
	done <"$TRASH/opened"
'
test_expect 'what is missing is named' '
	mkdir lone
	cp here/cairn lone/cairn
	test_code 4 lone/cairn image --output x 2>err
	test_grep "cairn-steps is neither in .*lone nor" err
	cp here/cairn-steps here/cairn-launch lone
	test_code 4 lone/cairn image --output x 2>err
	test_grep "cairn-init is neither in" err
	mkdir -p lib/cairn
	cp here/cairn-init lib/cairn
	test_missing x
	lone/cairn image --output x >digest4 2>/dev/null
	test_cmp digest digest4
'
# elsewhere DIR ARCHITECTURE VERSION: the layout, as it would come from another processor.
elsewhere() {
	cp -r layout "$1"
	python3 - "$@" <<-"PY"
	import hashlib, json, os, sys
	top, architecture, version = sys.argv[1:]
	def blob(doc):
	    data = json.dumps(doc, sort_keys=True, separators=(",", ":")).encode()
	    digest = hashlib.sha256(data).hexdigest()
	    open(f"{top}/blobs/sha256/{digest}", "wb").write(data)
	    return {"digest": "sha256:" + digest, "size": len(data)}
	def read(d):
	    return json.load(open(f"{top}/blobs/sha256/{d[7:]}"))
	index = json.load(open(f"{top}/index.json"))
	manifest = read(index["manifests"][0]["digest"])
	config = read(manifest["config"]["digest"])
	config["architecture"] = architecture
	config["config"]["Labels"]["org.opencontainers.image.version"] = version
	manifest["config"].update(blob(config))
	index["manifests"][0].update(blob(manifest))
	json.dump(index, open(f"{top}/index.json", "w"))
	PY
}
export -f elsewhere
test_expect 'one image for two processors: an index, each part whole, the same bytes twice' '
	version=$(cairn version | cut -d " " -f 2)
	elsewhere arm arm64 "$version"
	"$real" image --output both --add arm --json >both.json
	test_is "$(json both.json "d[\"architectures\"]")" "[\"amd64\", \"arm64\"]"
	test_is "$(json both/index.json "[m[\"mediaType\"] for m in d[\"manifests\"]]")" "[\"application/vnd.oci.image.index.v1+json\"]"
	top=$(json both/index.json "d[\"manifests\"][0][\"digest\"]")
	test_is "$(json both.json "d[\"digest\"]")" "$top"
	test_is "$(json "both/blobs/sha256/${top#*:}" "[m[\"platform\"][\"architecture\"] for m in d[\"manifests\"]]")" "[\"amd64\", \"arm64\"]"
	test_is "$(json "both/blobs/sha256/${top#*:}" "d[\"manifests\"][0][\"digest\"]")" "$(cat digest)"
	test_is "$(json "both/blobs/sha256/${top#*:}" "d[\"manifests\"][1][\"digest\"]")" "$(json arm/index.json "d[\"manifests\"][0][\"digest\"]")"
	for f in both/blobs/sha256/*; do
		test_is "$(sha256sum <"$f" | cut -c 1-64)" "$(basename "$f")"
	done
	"$real" image --output both.tar --add arm >digest5 2>err
	test_is "$(cat digest5)" "$top"
	test_grep "for linux/amd64, linux/arm64: both.tar" err
	mkdir untarred
	tar -xf both.tar -C untarred
	diff -r -x manifest.json both untarred
	test_exists "untarred/$(json untarred/manifest.json "d[0][\"Config\"]")"
'
test_expect 'and pushed: the parts by their digests, the index by the tag' '
	mkdir registry
	openssl req -x509 -newkey rsa:2048 -nodes -keyout registry/key.pem -out registry/cert.pem -days 2 -subj /CN=localhost 2>/dev/null
	start registry python3 "$SRC/tests/net/registry/registryd.py" "$PWD/registry"
	wait_until 20 test -s registry/port
	read -r port _ <registry/port
	test_is "$("$real" image --push "127.0.0.1:$port/tools/cairn:1" --add arm 2>err)" "$(cat digest5)"
	curl -fsS "http://127.0.0.1:$port/v2/tools/cairn/manifests/1" >index
	test_is "sha256:$(sha256sum <index | cut -c 1-64)" "$(cat digest5)"
	for part in $(python3 -c "import json; print(*[m[\"digest\"] for m in json.load(open(\"index\"))[\"manifests\"]])"); do
		curl -fsS "http://127.0.0.1:$port/v2/tools/cairn/manifests/$part" >manifest
		curl -fsS "http://127.0.0.1:$port/v2/tools/cairn/blobs/$(json manifest "d[\"config\"][\"digest\"]")" >config
		test_grep "\"architecture\":" config
	done
'
test_expect 'what does not go together is refused: one processor twice, another version, content that is not what it says' '
	version=$(cairn version | cut -d " " -f 2)
	test_code 3 "$real" image --output bad1 --add layout 2>err
	test_grep "layout is for linux/amd64, and so is another" err
	elsewhere old arm64 0.0.1
	test_code 3 "$real" image --output bad2 --add old 2>err
	test_grep "old is version .0.0.1. of Cairn, not $version" err
	cp -r arm torn
	find torn/blobs -size +1M -exec sh -c "printf x >>\"\$1\"" sh {} \;
	test_code 4 "$real" image --output bad3.tar --add torn 2>err
	test_grep "is not the content that its name says" err
	test_missing bad3.tar
	test_must_fail "$real" image --output bad4 --add nowhere 2>err
	test_grep "nowhere/index.json" err
'
test_expect 'wrong use' '
	test_code 2 "$real" image 2>err
	test_grep "say where the image goes" err
	test_code 4 "$real" image --output layout 2>err
	test_grep "layout is not empty" err
	test_code 3 "$real" image --output y.tar --name "A B" 2>err
	test_code 2 "$real" image --output y.tar --name "a@sha256:$(cut -c 8- digest)" 2>err
	test_code 3 "$real" image --push "registry.example/Cairn:1" 2>err
	test_missing y.tar
'
test_done
