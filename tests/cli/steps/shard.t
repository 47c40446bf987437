#!/bin/bash
# cairn step shard: any source to WebDataset shards.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/cairn-tests
. "$(dirname "$0")/../../lib.sh"

steps=$(dirname "$(realpath "$CAIRN")")/cairn-steps
[ -x "$steps" ] || test_skip_all 'no cairn-steps beside cairn'
python=python3
[ -x /usr/bin/python3 ] && python=/usr/bin/python3 # Debian's packages are this one's

# shard ARGUMENTS: the step; what it says on standard error goes to ./err
cat >"$TRASH/bin/shard" <<E2
#!/bin/sh
exec "$steps" shard "\$@" 2>err
E2
# listing DIR: every member of every shard, sorted by shard
cat >"$TRASH/bin/listing" <<'E2'
#!/usr/bin/env python3
import glob, sys, tarfile
for path in sorted(glob.glob(sys.argv[1] + "/*.tar")):
    for m in tarfile.open(path):
        print(path.rsplit("/", 1)[1], m.name)
E2
# check DIR...: everything that index.json says is true of the shards, and the shards are all that is there
cat >"$TRASH/bin/check" <<'E2'
#!/usr/bin/env python3
import hashlib, json, os, sys, tarfile
for d in sys.argv[1:]:
    index = json.load(open(d + "/index.json"))
    assert sorted(os.listdir(d)) == sorted([s["name"] for s in index["shards"]] + ["index.json", "stats.json"]), os.listdir(d)
    total = size = 0
    for s in index["shards"]:
        data = open(f"{d}/{s['name']}", "rb").read()
        assert hashlib.sha256(data).hexdigest() == s["sha256"] and len(data) == s["bytes"], s["name"]
        assert len(s["keys"]) == len(s["offsets"]) == s["samples"]
        total, size = total + s["samples"], size + s["bytes"]
        if s["name"].endswith(".zst"):
            continue
        seen, first = [], {}
        for m in tarfile.open(f"{d}/{s['name']}"):
            folder, slash, base = m.name.rpartition("/")
            key = folder + slash + base.split(".")[0]
            assert (m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode, m.isfile()) == (0, 0, 0, "", "", 0o644, True), m.name
            if not seen or seen[-1] != key:
                assert key not in seen, "members of one sample are apart: " + key
                seen.append(key)
                first[key] = m.offset
        assert seen == s["keys"], (seen, s["keys"])
        assert [first[k] for k in seen] == s["offsets"]
    assert (total, size) == (index["samples"], index["bytes"])
    stats = json.load(open(d + "/stats.json"))
    assert stats["samples"] == total and stats["shards"]["count"] == len(index["shards"])
print("checked")
E2
chmod +x "$TRASH"/bin/*
export steps python

python3 - <<'E2'
import os, random
rng = random.Random(1)
for c in ("cat", "dog", "two words", "ünïcode"):
    os.makedirs("photos/" + c)
    for i in range(40):
        open(f"photos/{c}/{i:03}.jpg", "wb").write(rng.randbytes(rng.randint(0, 9000)))
        open(f"photos/{c}/{i:03}.Meta.JSON", "w").write('{"i": %d}' % i)
E2

test_expect 'the help teaches: sources, the formula, an example' '
	"$steps" shard --help >out
	test_grep "SHA-256 of" out
	test_grep "uses: shard" out
	test_grep "^  samples_per_shard: INT" out
	test_grep "MNIST" out
'

# ---- files -----------------------------------------------------------------------------------------------------------

test_expect 'a tree becomes two splits; what index.json says is so' '
	shard -i data=photos/ -o train=train/ -o val=val/ -w split.train=0.8 -w split.val=0.2 -w samples_per_shard=20 --metrics m.json
	check train val
	test_is "$(json m.json "[d[\"samples\"], d[\"classes\"], d[\"skipped\"][\"total\"], d[\"splits\"][\"train\"][\"samples\"] + d[\"splits\"][\"val\"][\"samples\"]]")" "[160, 4, 0, 160]"
	listing train >out
	test_grep "two words/0[0-9]*.meta.json$" out
	test_grep "ünïcode/0[0-9]*.jpg$" out
	test_is "$(json train/index.json "d[\"classes\"]")" "$(json val/index.json "d[\"classes\"]")"
	tar xf train/shard-000000.tar --one-top-level=unpacked
	for f in unpacked/*/*.jpg; do
		cmp "$f" "photos/${f#unpacked/}"
	done
'
test_expect 'the same bytes for any number of threads, and again' '
	for t in 1 2 7; do
		shard -i data=photos/ -o train=train$t/ -o val=val$t/ -w split.train=0.8 -w split.val=0.2 -w samples_per_shard=20 --threads $t
		diff -r train train$t
		diff -r val val$t
	done
	shard -i data=photos/ -o train=train2/ -o val=val2/ -w split.train=0.8 -w split.val=0.2 -w samples_per_shard=20
	diff -r train train2
	rm -r train[127] val[127]
'
test_expect 'another seed is another assignment; shuffle is another order of the same' '
	shard -i data=photos -o all=plain/ -w samples_per_shard=50
	shard -i data=photos -o all=seeded/ -w samples_per_shard=50 -w seed=1
	shard -i data=photos -o all=mixed/ -w samples_per_shard=50 -w shuffle=true
	shard -i data=photos -o all=mixed1/ -w samples_per_shard=50 -w shuffle=true -w seed=1
	check plain seeded mixed mixed1
	test_must_fail cmp plain/shard-000000.tar seeded/shard-000000.tar
	test_must_fail cmp plain/shard-000000.tar mixed/shard-000000.tar
	test_is "$(json plain/index.json "[sorted(s[\"keys\"]) == s[\"keys\"] for s in d[\"shards\"]]")" "[true, true, true, true]"
	test_is "$(json mixed/index.json "[sorted(s[\"keys\"]) == s[\"keys\"] for s in d[\"shards\"]]")" "[false, false, false, false]"
	listing plain | sort >a
	listing mixed | sort >b
	cmp a b
'
test_expect 'old shards in the output are replaced, what else is there stays' '
	mkdir -p again
	echo mine >again/notes.txt
	shard -i data=photos -o all=again/ -w samples_per_shard=20
	shard -i data=photos -o all=again/ -w shards=1 -w zstd=1
	test_is "$(ls again | xargs)" "index.json notes.txt shard-000000.tar.zst stats.json"
'

# When this fails because the bytes were meant to change, put the new digest here and raise .version in steps/spec/shard.c: caches must not
# take the old bytes for the new ones.
test_expect 'golden bytes: a change of them needs a new version of the step' '
	mkdir -p tiny/a tiny/b
	printf one >tiny/a/1.txt
	printf two >tiny/a/2.txt
	printf "{}" >tiny/a/2.json
	printf three >tiny/b/3.txt
	printf "" >"tiny/b/4 ä.txt"
	shard -i data=tiny -o x=golden-x/ -o y=golden-y/ -w split.x=0.5 -w split.y=0.5 -w samples_per_shard=2 -w shuffle=true -w seed=3
	cat golden-x/* golden-y/* >all
	test_is "$(sha256sum <all | cut -c 1-64)" 915cfd9d00843b5d3d8eabbe29a7317226f1ceb76a5a0486124998ae3647cc26 || {
		echo "the bytes changed: bump the version in steps/spec/shard.c and put the new digest here"
		false
	}
	"$steps" shard --help >help
	test_grep "^cairn step shard: .*version 2\)" help
'

# ---- stability -------------------------------------------------------------------------------------------------------

cat >"$TRASH/bin/changed" <<'E2'
#!/usr/bin/env python3
import json, sys
a, b = ({s["name"]: s["sha256"] for s in json.load(open(d + "/index.json"))["shards"]} for d in sys.argv[1:3])
print(len(a), len(b), sum(a.get(n) != b.get(n) for n in a.keys() | b.keys()))
E2
chmod +x "$TRASH/bin/changed"
test_expect 'a sample more, less or other changes its own shard only' '
	cp -r photos other
	printf x >other/cat/new.jpg
	shard -i data=photos -o all=before/ -w shards=16
	shard -i data=other -o all=after/ -w shards=16
	test_is "$(changed before after)" "16 16 1"
	rm other/cat/new.jpg other/dog/007.*
	shard -i data=other -o all=after/ -w shards=16
	test_is "$(changed before after)" "16 16 1"
	cp -r photos/dog/007.* other/dog/
	printf x >>other/dog/007.jpg
	shard -i data=other -o all=after/ -w shards=16
	test_is "$(changed before after)" "16 16 1"
	shard -i data=other -o all=after/ -w samples_per_shard=12
	printf x >other/cat/new.jpg
	shard -i data=other -o all=after2/ -w samples_per_shard=12
	test_is "$(changed after after2)" "16 16 1"
'
test_expect 'limits cut a shard in parts, in order, each within them' '
	shard -i data=photos -o all=parts/ -w shards=2 -w max_samples=7
	check parts
	test_is "$(json parts/index.json "max(s[\"samples\"] for s in d[\"shards\"])")" 7
	test_grep "shard-000000-a.tar" parts/index.json
	test_grep "shard-000001-b.tar" parts/index.json
	shard -i data=photos -o all=sized/ -w shards=2 -w max_bytes=50Ki
	check sized
	test_is "$(json sized/index.json "max(s[\"bytes\"] for s in d[\"shards\"]) <= 51200")" true
	shard -i data=photos -o all=whole/ -w shards=2
	test_is "$(json sized/index.json "sum((s[\"keys\"] for s in d[\"shards\"]), [])")" "$(json whole/index.json "sum((s[\"keys\"] for s in d[\"shards\"]), [])")"
	shard -i data=tiny -o all=alone/ -w shards=1 -w max_bytes=1Ki
	check alone
'
test_expect 'over 25 parts are still in order by name' '
	mkdir many
	for i in $(seq 100 170); do
		printf $i >many/$i.txt
	done
	shard -i data=many -o all=manyparts/ -w shards=1 -w max_samples=1
	check manyparts
	test_is "$(ls manyparts | grep tar | xargs)" "$(json manyparts/index.json "\" \".join(s[\"name\"] for s in d[\"shards\"])")"
	test_is "$(ls manyparts | grep -c tar)" 71
'

test_expect 'a sample of 1,024 members is read back by the next step; one member more is a bad sample, its class counts' '
	mkdir -p broad/x narrow
	touch $(seq -f "broad/x/a.f%g" 1024) $(seq -f "narrow/a.f%g" 1024) narrow/b.txt
	shard -i data=narrow -o all=broad1/ -w shards=1
	shard -i data=broad1 -o all=broad2/ -w shards=1
	cmp broad1/shard-000000.tar broad2/shard-000000.tar
	test_must_fail shard -i data=broad -o all=broad3/ 2>err
	test_grep "x/a. has 1024 members and its class is one more .*at most 1024" err
	shard -i data=broad -o all=broad3/ -w shards=1 -w class_as=none
	shard -i data=broad3 -o all=broad4/ -w shards=1 -w class=none
	touch narrow/a.f1025
	test_must_fail shard -i data=narrow -o all=broad5/ 2>err
	test_grep ".a. has 1025 members; a shard holds at most 1024" err
	test_lines 1 err
	shard -i data=narrow -o all=broad5/ -w on_bad=skip --metrics m.json
	test_is "$(json m.json "d[\"samples\"]") $(json m.json "d[\"skipped\"][\"too_large\"]")" "1 1"
'

# ---- splits ----------------------------------------------------------------------------------------------------------

test_expect 'stratified: each class by these fractions, exactly' '
	shard -i data=photos -o a=sa/ -o b=sb/ -o c=sc/ -w split.a=0.5 -w split.b=0.25 -w split.c=0.25 -w stratify=true
	check sa sb sc
	for d in sa:20 sb:10 sc:10; do
		test_is "$(json ${d%:*}/stats.json "sorted(set(d[\"classes\"].values()))")" "[${d#*:}]"
	done
	cp -r photos plus
	printf x >plus/cat/new.jpg
	shard -i data=plus -o a=pa/ -o b=pb/ -o c=pc/ -w split.a=0.5 -w split.b=0.25 -w split.c=0.25 -w stratify=true
	python3 -c "
import json
def place(p): return {k: s for s in \"abc\" for x in json.load(open(p + s + \"/index.json\"))[\"shards\"] for k in x[\"keys\"]}
old, new = place(\"s\"), place(\"p\")
moved = [k for k in old if old[k] != new[k]]
assert len(moved) <= 2 and all(k.startswith(\"cat/\") for k in moved), moved"
'
test_expect 'groups are never split, wherever their word comes from' '
	mkdir people
	for p in $(seq 1 60); do
		for i in 1 2 3; do
			printf "$p $i" >people/p$p-$i.txt
		done
	done
	shard -i data=people -o train=gt/ -o val=gv/ -w split.train=0.7 -w split.val=0.3 -w "group_by={\"pattern\": \"^p([0-9]+)-\"}"
	check gt gv
	python3 -c "
import json
t, v = ({k.split(\"-\")[0] for x in json.load(open(d + \"/index.json\"))[\"shards\"] for k in x[\"keys\"]} for d in (\"gt\", \"gv\"))
assert not t & v and len(t | v) == 60 and 8 <= len(v) <= 28, (t & v, len(v))"
	python3 -c "
import csv
w = csv.writer(open(\"people.csv\", \"w\"))
w.writerow([\"id\", \"who\", \"label\"])
for i in range(300): w.writerow([i, \"p%d\" % (i * 7 % 50), i % 3])"
	shard -i data=people.csv -o train=gt/ -o val=gv/ -w split.train=0.7 -w split.val=0.3 -w group_by.column.name=who -w key=id -w class.column.name=label
	check gt gv
	python3 -c "
import json
t, v = ({int(k) * 7 % 50 for x in json.load(open(d + \"/index.json\"))[\"shards\"] for k in x[\"keys\"]} for d in (\"gt\", \"gv\"))
assert not t & v and len(t | v) == 50"
'
test_expect 'a column, a folder or a member can name the split' '
	printf "id,set\n1,train\n2,val\n3,train\n" >sets.csv
	shard -i data=sets.csv -o train=ct/ -o val=cv/ -w split_by.column.name=set -w key=id
	test_is "$(json ct/index.json "d[\"shards\"][0][\"keys\"]")$(json cv/index.json "d[\"shards\"][0][\"keys\"]")" "[\"1\", \"3\"][\"2\"]"
	mkdir -p split/train/cat split/val/cat
	printf 1 >split/train/cat/1.txt
	printf 2 >split/val/cat/2.txt
	shard -i data=split -o train=ft/ -o val=fv/ -w split_by.folder=1 -w class.folder=-1
	test_is "$(json ft/stats.json "[d[\"classes\"], d[\"samples\"]]")" "[{\"cat\": 1}, 1]"
	test_code 3 shard -i data=sets.csv -o train=ct/ -w split_by.column.name=set -w key=id
	test_grep "belongs to .val., which is no output" err
'
test_expect 'the member json is a row too: shards made of a table can be split again by its columns' '
	shard -i data=people.csv -o all=rows/ -w key=id -w samples_per_shard=50
	shard -i data=rows -o train=rt/ -o val=rv/ -w split.train=0.7 -w split.val=0.3 -w group_by.column.name=who -w class.column.name=label
	check rt rv
	shard -i data=people.csv -o train=gt/ -o val=gv/ -w split.train=0.7 -w split.val=0.3 -w group_by.column.name=who -w key=id -w class.column.name=label
	diff -r gt rt
	diff -r gv rv
	mkdir -p sidecars
	printf x >sidecars/1.jpg
	printf "{\"set\": \"a\"}" >sidecars/1.json
	printf x >sidecars/2.jpg
	printf "{\"set\": \"b\"}" >sidecars/2.json
	shard -i data=sidecars -o a=sa/ -o b=sb/ -w split_by.column.name=set
	test_is "$(json sa/index.json "d[\"shards\"][0][\"keys\"]")" "[\"1\"]"
	printf "{" >sidecars/2.json
	test_code 3 shard -i data=sidecars -o a=sa/ -o b=sb/ -w split_by.column.name=set
	test_grep "sample .2.: json:1:" err
'
test_expect 'what makes no sense is refused' '
	test_code 3 shard -i data=photos -o train=t/ -o val=v/
	test_grep "say in .split. or .split_by. what goes where" err
	test_code 3 shard -i data=photos -o train=t/ -o val=v/ -w split.train=0.9
	test_grep "output .val. has no fraction" err
	test_code 3 shard -i data=photos -o train=t/ -w split.train=0.9
	test_grep "sum to 0.9" err
	test_code 3 shard -i data=photos -o train=t/ -w split.train=1 -w split.vall=0
	test_grep "no output .vall." err
	test_code 3 shard -i data=photos -o train=t/ -o val=v/ -w split.train=0.5 -w split.val=0.5 -w stratify=true -w group_by.folder=1
	test_grep "break groups up" err
	test_code 3 shard -i data=photos -o t=t/ -w "class={\"pattern\": \"(\"}"
	test_grep "with.class.pattern" err
	test_code 1 shard -i data=nowhere -o t=t/
	test_grep "nowhere" err
'

# ---- classes ---------------------------------------------------------------------------------------------------------

test_expect 'classes: numbers by name, given, or as names; a member cls is kept' '
	shard -i data=tiny -o t=t/ -w shards=1
	test_is "$(json t/index.json "d[\"classes\"]")" "{\"a\": 0, \"b\": 1}"
	test_is "$(tar xOf t/shard-000000.tar b/3.cls)" 1
	shard -i data=tiny -o t=t/ -w shards=1 -w "classes=[\"b\", \"a\"]"
	test_is "$(tar xOf t/shard-000000.tar b/3.cls)" 0
	shard -i data=tiny -o t=t/ -w shards=1 -w class_as=name
	test_is "$(tar xOf t/shard-000000.tar b/3.class.txt)" b
	shard -i data=tiny -o t=t/ -w shards=1 -w class=none
	test_is "$(tar tf t/shard-000000.tar | grep -c cls || true)" 0
	test_code 3 shard -i data=tiny -o t=t/ -w classes=a
	test_grep "sample .b/3. has the class .b., which .classes. does" err
	cp -r tiny labelled
	printf 7 >labelled/a/1.cls
	printf 9 >labelled/a/2.cls
	printf 10 >labelled/b/3.cls
	printf 11 >"labelled/b/4 ä.cls"
	shard -i data=labelled -o t=t/ -w shards=1
	test_is "$(json t/index.json "d[\"classes\"]")" "{\"10\": 10, \"11\": 11, \"7\": 7, \"9\": 9}"
	test_is "$(tar xOf t/shard-000000.tar a/2.cls)" 9
'
test_expect 'duplicates by content are found, also between splits' '
	cp -r photos twins
	cp twins/cat/001.jpg twins/cat/copy.jpg
	cp twins/cat/001.Meta.JSON twins/cat/copy.Meta.JSON
	shard -i data=twins -o a=ta/ -o b=tb/ -w split_by.pattern.regex="^cat/copy|^" --metrics m.json || true
	test_grep "no output|no split" err
	shard -i data=twins -o all=ta/ --metrics m.json
	test_is "$(json m.json "d[\"duplicates\"]")" 1
	test_is "$(json ta/stats.json "[d[\"duplicates\"][\"within\"], [x[\"key\"] for x in d[\"duplicates\"][\"examples\"][0]]]")" "[1, [\"cat/001\", \"cat/copy\"]]"
	printf "f,set\ncat/001.jpg,a\ncat/copy.jpg,b\ndog/001.jpg,b\n" >twins.csv
	mkdir -p one
	printf same >one/x.txt
	printf same >one/y.txt
	printf "id,f,set\n1,x.txt,a\n1,y.txt,b\n" >one.csv
	shard -i data=one.csv -i files=one -o a=ta/ -o b=tb/ -w file=f -w split_by.column.name=set
	test_is "$(json tb/stats.json "d[\"duplicates\"][\"across_splits\"]")" 0
	printf "set f\na x.txt\nb y.txt\n" >one.csv
	mkdir -p pair/a pair/b
	printf same >pair/a/1.txt
	printf same >pair/b/2.txt
	shard -i data=pair -o a=ta/ -o b=tb/ -w split_by.folder=1
	test_is "$(json tb/stats.json "[d[\"duplicates\"][\"across_splits\"], d[\"duplicates\"][\"within\"]]")" "[1, 0]"
'

# ---- archives, shards ---------------------------------------------------------------------------------------------------

test_expect 'tar and zip, compressed or not, give the bytes of the tree' '
	shard -i data=photos -o all=ref/ -w samples_per_shard=20
	python3 -c "
import shutil
for kind in (\"tar\", \"gztar\", \"bztar\", \"xztar\", \"zip\"): shutil.make_archive(\"arc\", kind, \"photos\")"
	for a in arc.tar arc.tar.gz arc.tar.bz2 arc.tar.xz arc.zip; do
		shard -i data=$a -o all=got/ -w samples_per_shard=20
		diff -r ref got
	done
	shard -i data=arc.tar -o all=got/ -w samples_per_shard=20 -w "include=cat/*" -w "exclude=*9.jpg"
	check got
	test_is "$(json got/stats.json "[d[\"fields\"][\"jpg\"][\"count\"], d[\"samples\"]]")" "[36, 40]"
'
test_expect 'archives joined by cat are read to their end' '
	tar -C photos -cf half1.tar cat
	tar -C photos -cf half2.tar --exclude=./cat --exclude=cat .
	gzip -k half1.tar half2.tar
	cat half1.tar half2.tar >joined.tar
	gzip -k joined.tar
	cat half1.tar.gz half2.tar.gz >joined2.tar.gz
	for a in joined.tar joined.tar.gz joined2.tar.gz; do
		shard -i data=$a -o all=got/ -w samples_per_shard=20
		diff -r ref got
	done
	{ cat half1.tar; printf "%01024d" 7; } >rest.tar
	test_code 3 shard -i data=rest.tar -o all=got/
	test_grep "rest.tar: damaged" err
'
test_expect 'on_bad: skip takes no half of a sample from an archive that breaks off' '
	mkdir broken
	python3 - <<-E
		import io, tarfile
		with tarfile.open("whole.tar", "w", format=tarfile.USTAR_FORMAT) as t:
		    for i in range(3):
		        for field in ("cls", "txt"):
		            m = tarfile.TarInfo(f"s{i}.{field}")
		            m.size = 600
		            t.addfile(m, io.BytesIO(b"%d" % i * 600))
		whole = open("whole.tar", "rb").read()
		member = 512 + 1024
		for name, at in ("data", 5 * member + 700), ("header", 5 * member + 100), ("between", 5 * member):
		    open(f"broken/{name}.tar", "wb").write(whole[:at])
	E
	for kind in data header between; do
		for source in shards archive; do
			shard -i data=broken/$kind.tar -o t=t/ -w source=$source -w class=none -w on_bad=skip -w shards=1 --metrics m.json
			test_is "$(tar tf t/shard-000000.tar | xargs)" "s0.cls s0.txt s1.cls s1.txt"
			test_is "$(json m.json "[d[\"samples\"], d[\"skipped\"][\"damaged_archive\"]]")" "[2, 1]"
		done
		test_code 3 shard -i data=broken/$kind.tar -o t=t/ -w class=none
	done
'
test_expect 'a zip with LZMA, an empty member among the others; the log says how far it came' '
	python3 - <<-E
		import zipfile
		with zipfile.ZipFile("lzma.zip", "w", zipfile.ZIP_LZMA) as z:
		    for i in range(3):
		        z.writestr(f"{i}.txt", b"hello %d" % i * 100)
		    z.writestr("3.txt", b"")
		    z.writestr("4.txt", b"last")
	E
	shard -i data=lzma.zip -o all=fromlzma/ 2>err
	test_is "$(cat fromlzma/*.tar | tar xOf - 4.txt)" last
	test_is "$(cat fromlzma/*.tar | tar xOf - 3.txt | wc -c)" 0
	test_is "$(tail -1 err)" "5 of 5 samples"
'
test_expect 'shards are sharded again: also zstd, also in parts; the same assignment gives the same bytes' '
	shard -i data=photos -o all=z/ -w samples_per_shard=10 -w zstd=3 -w max_samples=4
	shard -i data=z -o all=back/ -w samples_per_shard=20
	check z back
	for s in ref/*.tar; do
		cmp $s back/${s##*/}
	done
	shard -i data=z -o a=za/ -o b=zb/ -w split.a=0.5 -w split.b=0.5 -w stratify=true
	check za zb
'
test_expect 'the same key in two shards is an error, or counted' '
	mkdir -p twice
	cp back/shard-000000.tar twice/1.tar
	cp back/shard-000000.tar twice/2.tar
	test_code 3 shard -i data=twice -o t=t/
	test_grep "two samples have the key" err
	shard -i data=twice -o t=t/ -w on_bad=skip --metrics m.json
	test_is "$(json m.json "[d[\"samples\"], d[\"skipped\"][\"duplicate_key\"]]")" "$(json back/index.json "[d[\"shards\"][0][\"samples\"]] * 2")"
'

# ---- tables --------------------------------------------------------------------------------------------------------------

test_expect 'CSV: rows, rows that name files, members made of columns' '
	printf "id,text,label\r\na,\"He said \"\"hi\"\", so\",pos\r\nb,plain,neg\r\n" >t.csv
	shard -i data=t.csv -o t=t/ -w key=id -w class.column.name=label -w members.txt=text
	check t
	test_is "$(tar tf t/shard-000000.tar | xargs)" "a.cls a.json a.txt b.cls b.json b.txt"
	test_is "$(tar xOf t/shard-000000.tar a.txt)" "He said \"hi\", so"
	tar xOf t/shard-000000.tar a.json >a.json
	test_is "$(json a.json "d[\"label\"]")" pos
	test_is "$(tar xOf t/shard-000000.tar a.cls)" 1
	mkdir -p base/sub
	printf IMG >base/sub/1.jpg
	printf "path,label\nsub/1.jpg,x\n" >base/list.csv
	shard -i data=base/list.csv -o t=t/ -w file=path
	test_is "$(tar tf t/shard-000000.tar | xargs)" "sub/1.cls sub/1.jpg sub/1.json"
	test_is "$(tar xOf t/shard-000000.tar sub/1.jpg)" IMG
	mv base/list.csv elsewhere.csv
	shard -i data=elsewhere.csv -i files=base -o t=t/ -w file=path
	test_is "$(tar xOf t/shard-000000.tar sub/1.jpg)" IMG
	printf "id;v\n1;2\n" >semi.csv
	shard -i data=semi.csv -o t=t/ -w separator=";" -w key=id
	test_is "$(tar xOf t/shard-000000.tar 1.json)" "{\"id\":\"1\",\"v\":\"2\"}"
'
test_expect 'JSON lines: integers of any size and a byte order mark' '
	{ printf "\357\273\277"; printf "{\"id\": 18446744073709551616, \"n\": 1e400}\n{\"id\": -9223372036854775809, \"v\": 0.50}\n"; } >wide.jsonl
	shard -i data=wide.jsonl -o t=t/ -w key=id -w shards=1
	test_is "$(tar tf t/shard-000000.tar | xargs)" "-9223372036854775809.json 18446744073709551616.json"
	test_is "$(tar xOf t/shard-000000.tar 18446744073709551616.json)" "{\"id\": 18446744073709551616, \"n\": 1e400}"
	mkdir wide
	printf "{\n \"id\": 18446744073709551616,\n \"part\": \"a\"\n}\n" >wide/1.json
	shard -i data=wide -o a=wa/ -o b=wb/ -w split_by.column.name=part
	test_is "$(json wa/index.json "d[\"samples\"]") $(json wb/index.json "d[\"samples\"]")" "1 0"
'
test_expect 'an empty text is a member; a missing one is not' '
	printf "id,review\n1,\n2,good\n" >empty.csv
	shard -i data=empty.csv -o t=t/ -w key=id -w members.txt=review -w shards=1
	test_is "$(tar tvf t/shard-000000.tar | awk "{print \$3, \$6}" | grep txt | xargs)" "0 1.txt 4 2.txt"
	printf "{\"id\": \"1\", \"review\": \"\"}\n{\"id\": \"2\"}\n" >empty.jsonl
	test_code 3 shard -i data=empty.jsonl -o t=t/ -w key=id -w members.txt=review
	test_grep "empty.jsonl:2: the row has no .review." err
'
test_expect 'a sparse member of a tar keeps its size: holes are zeros' '
	mkdir holes
	truncate -s 300000 holes/all.bin
	{ head -c 4096 /dev/urandom; } >holes/end.bin
	truncate -s 1000000 holes/end.bin
	tar -C holes -S -cf holes.tar all.bin end.bin
	test_is "$(($(stat -c %s holes.tar) < 100000))" 1
	shard -i data=holes.tar -o t=t/ -w shards=1 -w max_ratio=100000
	mkdir out-holes
	tar -C out-holes -xf t/shard-000000.tar
	diff -r holes out-holes
'
test_expect 'several images under one key are told, with the way to keep them apart' '
	mkdir scenes
	for i in 0 1 2; do cp base/sub/1.jpg scenes/scene.$i.jpg; done
	shard -i data=scenes -o t=t/ -w shards=1
	test_is "$(json t/index.json "d[\"samples\"]")" 1
	test_grep "1 sample, .scene. first, has several members of one kind.*suffix: last_dot" err
	shard -i data=scenes -o t=t/ -w shards=1 -w suffix=last_dot
	test_is "$(json t/index.json "d[\"samples\"]")" 3
	test_must_fail grep "several members" err
'
if test_have SANITIZED; then
	test_skip 'memory does not grow with the size of files, nor with the threads' 'sanitizers keep freed memory'
else
	test_expect 'memory does not grow with the size of files, nor with the threads' '
		mkdir large
		for i in 1 2 3 4; do truncate -s 200M large/$i.bin; done
		tar -C large -cf large.tar 1.bin 2.bin
		for data in large large.tar; do
			python3 -c "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stderr=subprocess.DEVNULL)
most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
sys.exit(most > 80 * 1024 and str(most) + \" KiB\")" cairn step shard --threads 4 -i data=$data -o t=lt/ -w shards=4
		done
		test_is "$(json lt/index.json "d[\"samples\"]")" 2
		rm -rf large large.tar lt
	'
fi
test_expect 'JSON lines: the line is kept as it is; rows without a key get one of their content' '
	printf "{\"a\": 1.50, \"id\": \"x\"}\n\n{\"a\":2,\"id\":\"y\"}\n{\"a\":2,\"id\":\"y\"}" >r.jsonl
	shard -i data=r.jsonl -o t=t/ -w shards=1
	check t
	test_is "$(json t/index.json "d[\"samples\"]")" 3
	first=$(printf "%s" "{\"a\": 1.50, \"id\": \"x\"}" | sha256sum | cut -c 1-16)
	test_is "$(tar xOf t/shard-000000.tar $first.json)" "{\"a\": 1.50, \"id\": \"x\"}"
	second=$(printf "%s" "{\"a\":2,\"id\":\"y\"}" | sha256sum | cut -c 1-16)
	test_is "$(tar xOf t/shard-000000.tar $second-2.json)" "{\"a\":2,\"id\":\"y\"}"
	test_code 3 shard -i data=r.jsonl -o t=t/ -w key=id
	test_grep "two samples have the key .y." err
'

# ---- IDX -------------------------------------------------------------------------------------------------------------------

test_expect 'IDX, plain and gzipped: PNG or NPY, labels as classes' '
	mkdir -p idx
	python3 - <<-E3
	import gzip, random, struct
	rng = random.Random(3)
	for name, n, opener in (("train", 30, gzip.open), ("t10k", 10, open)):
	    gz = ".gz" if opener is gzip.open else ""
	    opener(f"idx/{name}-images-idx3-ubyte{gz}", "wb").write(struct.pack(">4B3I", 0, 0, 8, 3, n, 5, 4) + rng.randbytes(n * 20))
	    opener(f"idx/{name}-labels-idx1-ubyte{gz}", "wb").write(struct.pack(">4BI", 0, 0, 8, 1, n) + bytes(i % 10 for i in range(n)))
	E3
	shard -i data=idx -o t=png/ -w shards=1
	shard -i data=idx -o t=npy/ -w shards=1 -w idx_as=npy -w "include=train-*"
	check png npy
	test_is "$(json png/stats.json "[d[\"samples\"], d[\"classes\"][\"9\"], d[\"fields\"][\"png\"][\"count\"]]")" "[40, 4, 40]"
	test_is "$(json npy/stats.json "d[\"samples\"]")" 30
	python3 - <<-E3
	import ast, gzip, struct, tarfile, zlib
	raw = gzip.open("idx/train-images-idx3-ubyte.gz").read()[16:]
	png = {m.name: tarfile.open("png/shard-000000.tar").extractfile(m).read() for m in tarfile.open("png/shard-000000.tar")}
	npy = {m.name: tarfile.open("npy/shard-000000.tar").extractfile(m).read() for m in tarfile.open("npy/shard-000000.tar")}
	for i in range(30):
	    want = raw[i * 20 : i * 20 + 20]
	    p, q = png[f"train/{i:08}.png"], npy[f"train/{i:08}.npy"]
	    assert p[:8] == b"\x89PNG\r\n\x1a\n" and p[16:26] == struct.pack(">2I2B", 4, 5, 8, 0), p[:32]
	    at, pixels = 8, b""
	    while at < len(p):
	        n, kind = struct.unpack(">I4s", p[at : at + 8])
	        assert zlib.crc32(p[at + 4 : at + 8 + n]) == struct.unpack(">I", p[at + 8 + n : at + 12 + n])[0]
	        pixels += p[at + 8 : at + 8 + n] if kind == b"IDAT" else b""
	        at += 12 + n
	    rows = zlib.decompress(pixels)
	    assert b"".join(rows[r * 5 + 1 : r * 5 + 5] for r in range(5)) == want
	    assert q[:8] == b"\x93NUMPY\1\0" and (10 + struct.unpack("<H", q[8:10])[0]) % 64 == 0
	    head = ast.literal_eval(q[10:-20].decode())
	    assert head == {"descr": "|u1", "fortran_order": False, "shape": (5, 4)} and q[-20:] == want
	    assert png[f"train/{i:08}.cls"] == str(i % 10).encode()
	E3
'
# Two arrays of 12 MB: more than a thread holds.
test_expect 'IDX: large arrays are the same, whole, as PNG and as NPY' '
	mkdir large
	python3 - <<-E3
	import random, struct
	rng = random.Random(5)
	row = rng.randbytes(4000)
	with open("large/a-images-idx3-ubyte", "wb") as f:
	    f.write(struct.pack(">4B3I", 0, 0, 8, 3, 2, 3000, 4000))
	    for y in range(6000):
	        f.write(row[y % 4000:] + row[:y % 4000])
	E3
	for as in png npy; do shard -i data=large -o t=large-$as/ -w shards=1 -w idx_as=$as; done
	check large-png large-npy
	python3 - <<-E3
	import struct, tarfile, zlib
	raw = open("large/a-images-idx3-ubyte", "rb").read()[16:]
	png, npy = (tarfile.open(f"large-{kind}/shard-000000.tar") for kind in ("png", "npy"))
	for i in range(2):
	    want = raw[i * 12000000 : (i + 1) * 12000000]
	    p = png.extractfile(f"a/{i:08}.png").read()
	    at, pixels = 8, b""
	    while at < len(p):
	        n, kind = struct.unpack(">I4s", p[at : at + 8])
	        assert zlib.crc32(p[at + 4 : at + 8 + n]) == struct.unpack(">I", p[at + 8 + n : at + 12 + n])[0]
	        pixels += p[at + 8 : at + 8 + n] if kind == b"IDAT" else b""
	        at += 12 + n
	    rows = zlib.decompress(pixels)
	    assert b"".join(rows[y * 4001 + 1 : (y + 1) * 4001] for y in range(3000)) == want
	    q = npy.extractfile(f"a/{i:08}.npy").read()
	    assert len(q) == 12000128 and q[:8] == b"\x93NUMPY\1\0" and q[128:] == want
	E3
	ls -A large-png large-npy >files
	test_no_grep spool files
	rm -rf large large-png large-npy
'
if test_have SANITIZED; then
	test_skip 'IDX: memory does not grow with the size of arrays' 'sanitizers keep freed memory'
else
	test_expect 'IDX: memory does not grow with the size of arrays' '
		mkdir large
		# One of 200 MB, of zeros: as PNG it is small, and for NPY it is read where it lies.
		printf "\0\0\10\3\0\0\0\1\0\0\x4e\x20\0\0\x27\x10" >large/a-images-idx3-ubyte
		truncate -s 200000016 large/a-images-idx3-ubyte
		for as in png npy; do
			python3 -c "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stderr=subprocess.DEVNULL)
most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
sys.exit(most > 60 * 1024 and str(most) + \" KiB\")" cairn step shard -i data=large -o t=lt/ -w shards=1 -w idx_as=$as
		done
		test_is "$(json lt/index.json "d[\"samples\"]")" 1
		rm -rf large lt
	'
fi
test_expect 'IDX that is cut, too long, or claims too much' '
	mkdir -p bad
	head -c 100 idx/t10k-images-idx3-ubyte >bad/a-images-idx3-ubyte
	test_code 3 shard -i data=bad -o t=t/
	test_grep "a-images-idx3-ubyte: truncated" err
	(cat idx/t10k-images-idx3-ubyte; printf x) >bad/a-images-idx3-ubyte
	test_code 3 shard -i data=bad -o t=t/
	test_grep "goes on after its last array" err
	printf "\0\0\10\3\377\377\377\377\377\377\377\377\377\377\377\377" >bad/a-images-idx3-ubyte
	test_code 3 shard -i data=bad -o t=t/
	test_grep "a-images-idx3-ubyte" err
	printf "\0\0\10\3\0\1\0\0\0\0\3\350\0\0\3\350" >bad/a-images-idx3-ubyte
	test_code 3 shard -i data=bad -o t=t/
	test_grep "times its size" err
	head -c 60 idx/train-images-idx3-ubyte.gz >bad/a-images-idx3-ubyte
	test_code 3 shard -i data=bad -o t=t/
	test_grep "a-images-idx3-ubyte" err
	cp idx/t10k-images-idx3-ubyte bad/a-images-idx3-ubyte
	printf "\0\0\10\1\0\0\0\3abc" >bad/a-labels-idx1-ubyte
	test_code 3 shard -i data=bad -o t=t/
	test_grep "has 3 labels, but there are 10 arrays" err
'

# ---- sizes -----------------------------------------------------------------------------------------------------------------

test_expect 'no samples are an error, unless that is right' '
	mkdir -p void
	test_code 3 shard -i data=void -o t=e/
	test_grep "void holds no samples" err
	shard -i data=void -o t=e/ -w allow_empty=true
	check e
	test_is "$(tar tf e/shard-000000.tar | wc -l)" 0
	: >zero.jsonl
	test_code 3 shard -i data=zero.jsonl -o t=e/
	shard -i data=tiny -o all=e/ -o none=f/ -w split.all=1 -w split.none=0
	test_grep "output .none. gets no samples" err
	check e f
'
test_expect 'a hundred thousand samples' '
	python3 -c "
for i in range(100000): print(\"{\\\"id\\\":\\\"%d\\\",\\\"label\\\":%d}\" % (i, i % 10))" >big.jsonl
	shard -i data=big.jsonl -o train=bt/ -o val=bv/ -w key=id -w class.column.name=label -w split.train=0.9 -w split.val=0.1 --metrics m.json
	check bt bv
	test_is "$(json m.json "[d[\"samples\"], d[\"classes\"], d[\"splits\"][\"train\"][\"shards\"], d[\"splits\"][\"val\"][\"shards\"]]")" "[100000, 10, 128, 8]"
	test_is "$(json m.json "abs(d[\"splits\"][\"train\"][\"samples\"] - 90000) < 500")" true
	test_is "$(json bt/index.json "max(s[\"samples\"] for s in d[\"shards\"]) < 900")" true
	rm -r bt bv
'

# ---- in a pipeline -----------------------------------------------------------------------------------------------------------

test_expect 'in a pipeline one sample more makes one task of the next step run again' '
	mkdir -p project
	cp -r photos project/photos
	cd project
	touch cairn.yaml
	write pipeline.yaml <<-"E3"
	pipeline: shards
	inputs: {photos: photos/}
	steps:
	  shard:
	    uses: shard
	    with: {shards: 8, seed: 5}
	    inputs: {data: "${{ inputs.photos }}"}
	    outputs: {all: all/}
	  count:
	    each: "${{ steps.shard.outputs.all }}/*.tar"
	    run: tar tf ${{ inputs.shard }} | grep -c jpg > ${{ outputs.n }}; echo ran >> "$RAN"
	    env: {RAN: "'"$TRASH"'/ran"}
	    inputs: {shard: "${{ item }}"}
	    outputs: {n: n.txt}
	E3
	cairn run -q pipeline.yaml
	test_lines 8 "$TRASH/ran"
	cairn metrics --json >metrics
	test_grep "160" metrics
	printf new >photos/cat/new.jpg
	cairn run -q pipeline.yaml
	test_lines 9 "$TRASH/ran"
	cairn run -q pipeline.yaml
	test_lines 9 "$TRASH/ran"
'
test_expect 'cairn check holds the settings of shard against its table' '
	cd project
	sed "s/shards: 8/shards: 8, sedd: 5/" pipeline.yaml >bad.yaml
	test_code 3 cairn check bad.yaml 2>err
	test_grep "unknown key .sedd. .did you mean .seed.?" err
'

# ---- those who read it -------------------------------------------------------------------------------------------------------

# webdataset from PyPI, on Debian's numpy and yaml, once for all checkouts.
webdataset=$cache/webdataset-1.0.2
if [ ! -d "$webdataset" ]; then
	mkdir -p "$cache"
	fresh=$(mktemp -d "$cache/new.XXXXXX")
	if $python -m pip install -q --no-deps --require-hashes --target "$fresh" -r "$SRC/tests/cli/steps/webdataset.requirements.txt" >/dev/null 2>&1; then
		chmod 755 "$fresh"
		mv -T "$fresh" "$webdataset" 2>/dev/null || rm -rf "$fresh"
	else
		rm -rf "$fresh"
	fi
fi
export PYTHONPATH=$webdataset PYTHONDONTWRITEBYTECODE=1
if ! $python -c 'import webdataset' 2>/dev/null; then
	test_skip 'the Python package webdataset reads it as it is' 'webdataset can be neither found nor installed'
else
	test_expect 'the Python package webdataset reads it as it is' '
		shard -i data=photos -o all=w/ -w samples_per_shard=20 -w zstd=0
		$python - <<-E3
		import glob, os, webdataset as wds
		urls = sorted(glob.glob("w/*.tar"))
		seen = {}
		for s in wds.WebDataset(urls, shardshuffle=False).decode(only=["json", "meta.json", "cls"]):
		    assert s["__key__"] not in seen
		    seen[s["__key__"]] = s
		    number = int(s["__key__"].split("/")[1])
		    assert s["meta.json"] == {"i": number}, s["meta.json"]
		    assert s["jpg"] is not None
		classes = sorted(os.listdir("photos"), key=lambda c: c.encode())
		assert len(seen) == 160 and all(s["cls"] == classes.index(k.split("/")[0]) for k, s in seen.items())
		E3
	'
fi
if ! $python -c 'import webdataset, torch' 2>/dev/null; then
	test_skip 'and so does a DataLoader of PyTorch, with two workers' 'no torch (Debian: python3-torch), or no webdataset'
else
	test_expect 'and so does a DataLoader of PyTorch, with two workers' '
		$python - <<-E3
		import glob, torch, webdataset as wds
		data = wds.WebDataset(sorted(glob.glob("png/*.tar")) + sorted(glob.glob("npy/*.tar")), shardshuffle=False).to_tuple("png;npy", "cls")
		n = 0
		for images, labels in torch.utils.data.DataLoader(data, batch_size=8, num_workers=2, collate_fn=lambda v: tuple(zip(*v))):
		    assert len(images) == len(labels)
		    n += len(images)
		assert n == 70, n
		E3
	'
fi
test_done
