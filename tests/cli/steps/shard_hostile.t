#!/bin/bash
# cairn step shard: input that means harm, or is broken, is refused by name, or left out and counted.
. "$(dirname "$0")/../../lib.sh"

steps=$(dirname "$(realpath "$CAIRN")")/cairn-steps
[ -x "$steps" ] || test_skip_all 'no cairn-steps beside cairn'
cat >"$TRASH/bin/shard" <<E2
#!/bin/sh
exec "$steps" shard "\$@" 2>err
E2
# refused PATTERN ARGUMENTS: exit 3, one line of error that has PATTERN, and nothing left behind
cat >"$TRASH/bin/refused" <<'E2'
#!/bin/bash
pattern=$1
shift
rm -rf out
shard "$@" -o all=out/
rc=$?
[ $rc -eq 3 ] || { echo "exit $rc:"; cat err; exit 1; }
grep -v '^note: \|^[0-9,]* ' err >errors
[ "$(wc -l <errors)" -eq 1 ] && grep -Eq -- "$pattern" errors || { echo "no /$pattern/:"; cat err; exit 1; }
[ -z "$(find out -type f -name '.*' -o -name '*tmp*' -o -name 'spool*' 2>/dev/null)" ] || { find out; exit 1; }
E2
chmod +x "$TRASH"/bin/*
tarball() { # PATH, then lines of python with t (the tarfile) and add(name, data=b"x", **members)
	python3 - "$1" "$2" <<'E2'
import io, sys, tarfile
t = tarfile.open(sys.argv[1], "w", format=tarfile.PAX_FORMAT)
def add(name, data=b"x", **more):
    i = tarfile.TarInfo(name)
    i.size = len(data) if not more.get("type") else 0
    for k, v in more.items():
        setattr(i, k, v)
    t.addfile(i, io.BytesIO(data))
exec(sys.argv[2])
t.close()
E2
}
export -f tarball

test_expect 'names in a tree' '
	mkdir d
	printf x >d/ok.txt
	printf x >d/README
	refused "d: .README. has no suffix" -i data=d
	mv d/README d/$'"'"'a\nb.txt'"'"'
	refused "unsafe path: it has a control character" -i data=d
	rm d/a*
	printf x >d/$'"'"'\xff.txt'"'"'
	refused "not UTF-8" -i data=d
	rm d/*
	printf x >d/a.txt
	printf y >d/a.TXT
	refused "sample .a. has the member .txt. twice" -i data=d
	mv d/a.TXT d/a.b.
	refused "d: .a.b.. has no suffix" -i data=d -w suffix=last_dot
'
test_expect 'the dot trap: many files that share what is before the first dot' '
	mkdir dots
	for i in $(seq 1100); do
		printf $i >dots/img.$i.jpg
	done
	refused "sample .img. has 1100 members; a shard holds at most 1024 of one sample: are keys cut at the wrong dot" -i data=dots
	shard -i data=dots -o all=out/ -w suffix=last_dot -w shards=1
	test_is "$(json out/index.json "d[\"samples\"]")" 1100
	tar tf out/shard-000000.tar >list
	test_grep "^img_7.jpg$" list
'
test_expect 'links: inside is fine, outside is not; pipes and devices never' '
	mkdir -p links/sub
	printf secret >secret.txt
	printf fine >links/sub/a.txt
	ln -s sub/a.txt links/b.txt
	shard -i data=links -o all=out/
	test_is "$(tar xOf out/shard-000000.tar b.txt)" fine
	ln -s ../secret.txt links/c.txt
	refused "links/c.txt leads out of links" -i data=links
	ln -sf "$PWD/secret.txt" links/c.txt
	refused "leads out of links" -i data=links
	ln -sf nowhere links/c.txt
	test_code 1 shard -i data=links -o all=out/
	test_grep "links/c.txt" err
	rm links/c.txt
	ln -s /etc links/etc
	shard -i data=links -o all=out/
	test_grep "1 links to directories passed over" err
	mkfifo links/p.txt
	refused "p.txt is not a plain file" -i data=links
	rm links/p.txt links/etc
	mkfifo pipe
	ln -s ../pipe links/p.txt
	refused "leads out" -i data=links
'
test_expect 'a class with a NUL in its name' '
	mkdir c
	printf x >c/a.txt
	printf "3\0" >c/a.cls
	refused "sample .a.: .* whose name is not UTF-8" -i data=c
'
test_expect 'members of archives: unsafe, links, devices, twice, without suffix' '
	tarball t.tar "add(\"a.txt\"); add(\"../b.txt\")"
	refused "t.tar: .[.][.]/b.txt. is an unsafe path" -i data=t.tar
	tarball t.tar "add(\"a.txt\"); add(\"/etc/b.txt\")"
	refused "t.tar: ./etc/b.txt. is an unsafe path: absolute" -i data=t.tar
	tarball t.tar "add(\"a.txt\"); add(\"b.txt\", type=tarfile.SYMTYPE, linkname=\"/etc/passwd\")"
	refused "t.tar: member .b.txt. is a link" -i data=t.tar
	tarball t.tar "add(\"a.txt\"); add(\"b.txt\", type=tarfile.LNKTYPE, linkname=\"a.txt\")"
	refused "t.tar: member .b.txt. is a link" -i data=t.tar
	tarball t.tar "add(\"a.txt\"); add(\"b.txt\", type=tarfile.CHRTYPE)"
	refused "t.tar: member .b.txt. is not a plain file" -i data=t.tar
	tarball t.tar "add(\"a.txt\"); add(\"b.txt\"); add(\"a.txt\")"
	refused "sample .a. has the member .txt. twice" -i data=t.tar
	tarball t.tar "add(\"a.txt\"); add(\"Makefile\")"
	refused "t.tar: .Makefile. has no suffix" -i data=t.tar
	tarball t.tar "add(\"a.txt\"); add(\"x\" * 2000 + \".txt\")"
	refused "t.tar: .* is longer than" -i data=t.tar
	python3 -c "
import zipfile
z = zipfile.ZipFile(\"z.zip\", \"w\")
z.writestr(\"a.txt\", \"x\"); z.writestr(\"../../b.txt\", \"x\")"
	refused "z.zip: .*b.txt. is an unsafe path" -i data=z.zip
'
test_expect 'archives that are cut, damaged, or none' '
	tarball t.tar "[add(\"%03d.txt\" % i, b\"x\" * 700) for i in range(20)]"
	for n in 1 100 600 1700 5000 20000; do
		head -c $n t.tar >cut.tar
		refused "cut.tar" -i data=cut.tar
	done
	gzip -k t.tar
	head -c 300 t.tar.gz >cut.tar.gz
	refused "cut.tar.gz: truncated gzip input" -i data=cut.tar.gz
	: >empty.tar
	refused "empty.tar is empty" -i data=empty.tar
	head -c 5000 /dev/urandom >noise.zip
	refused "noise.zip" -i data=noise.zip
	python3 -c "
import zipfile
z = zipfile.ZipFile(\"z.zip\", \"w\", zipfile.ZIP_DEFLATED)
for i in range(20): z.writestr(\"%d.txt\" % i, \"abc\" * 500)"
	python3 -c "
b = bytearray(open(\"z.zip\", \"rb\").read())
b[45] ^= 255
open(\"bent.zip\", \"wb\").write(b)"
	refused "bent.zip" -i data=bent.zip
	printf "who knows" >what.bin
	refused "what.bin: the kind of data isn.t recognised" -i data=what.bin
'
test_expect 'archive bombs, by ratio and in all' '
	python3 -c "
import zipfile
z = zipfile.ZipFile(\"bomb.zip\", \"w\", zipfile.ZIP_DEFLATED)
for i in range(10): z.writestr(\"%d.bin\" % i, bytes(20 << 20))"
	refused "bomb.zip: unpacks to more than 200 times its size .at .[0-9].bin" -i data=bomb.zip
	test_code 3 shard -i data=bomb.zip -o all=out/ -w on_bad=skip
	shard -i data=bomb.zip -o all=out/ -w max_ratio=2000
	refused "unpacks to more than the limit of 1048576 bytes" -i data=bomb.zip -w max_ratio=2000 -w max_unpacked=1Mi
	refused "bomb.zip: member .0.bin. is larger than the limit for one file" -i data=bomb.zip -w max_file=1Mi
	rm -r out bomb.zip
'
test_expect 'tables: rows that cannot be, files that lead out' '
	printf "id,v\n1,2\n3\n" >t.csv
	refused "t.csv:3" -i data=t.csv
	printf "id,v\n1,\"2\n" >t.csv
	refused "t.csv:2" -i data=t.csv
	printf "id,id\n1,2\n" >t.csv
	refused "the column .id. is there twice" -i data=t.csv
	: >t.csv
	refused "t.csv: is empty" -i data=t.csv
	printf "id,v\n1,\344\n" >t.csv
	refused "t.csv:2: .v. is not UTF-8" -i data=t.csv
	printf "id,v\n,2\n" >t.csv
	refused "t.csv:2: .*has no .id." -i data=t.csv -w key=id
	printf "id,v\n1,2\n" >t.csv
	refused "there is no column .name." -i data=t.csv -w key=name
	printf "id,v\na.b,2\n" >t.csv
	refused "t.csv:2: the key .a.b. has a dot" -i data=t.csv -w key=id
	printf "id,v\n../a,2\n" >t.csv
	refused "t.csv:2: .*unsafe path" -i data=t.csv -w key=id
	mkdir -p base
	for f in /etc/hostname.txt ../secret.txt sub/../../secret.txt; do
		printf "f\n$f\n" >t.csv
		refused "t.csv:2: .*unsafe path" -i data=t.csv -i files=base -w file=f
	done
	ln -s "$PWD/secret.txt" base/l.txt
	printf "f\nl.txt\n" >t.csv
	refused "base/l.txt leads out of base" -i data=t.csv -i files=base -w file=f
	rm base/l.txt
	mkfifo base/l.txt
	refused "base/l.txt is not a plain file" -i data=t.csv -i files=base -w file=f
	printf "{\"a\":1}\n{\"a\":}\n" >t.jsonl
	refused "t.jsonl:2: no JSON value where one should be" -i data=t.jsonl
	printf "{\"a\":1}\n[1]\n" >t.jsonl
	refused "t.jsonl:2: not a JSON object" -i data=t.jsonl
	printf "{\"a\":1}\0\n" >t.jsonl
	refused "t.jsonl:1: text behind the object" -i data=t.jsonl
	printf "{\"a\":1}\n\0\n" >t.jsonl
	refused "t.jsonl:2: not a JSON object" -i data=t.jsonl
	printf "{\"a\":1,\"a\":2}\n" >t.jsonl
	refused "t.jsonl:1: .*a.* twice" -i data=t.jsonl
	printf "{\"a\":{\"b\":1}}\n" >t.jsonl
	refused "t.jsonl:1: the row has no .a." -i data=t.jsonl -w key=a
'
test_expect 'on_bad: skip leaves them out, counts them by reason and names some' '
	mkdir mess
	printf x >mess/good.txt
	printf x >mess/README
	printf x >mess/dup.txt
	printf x >mess/dup.TXT
	printf "0123456789" >mess/large.bin
	ln -s ../secret.txt mess/link.txt
	printf x >mess/$'"'"'bad\001.txt'"'"'
	shard -i data=mess -o all=out/ -w on_bad=skip -w max_file=5 --metrics m.json
	test_is "$(json out/index.json "d[\"shards\"][0][\"keys\"]")" "[\"good\"]"
	test_is "$(json m.json "[d[\"skipped\"][k] for k in (\"total\", \"no_suffix\", \"too_large\", \"unreadable\", \"unsafe_path\", \"duplicate_key\")]")" "[5, 1, 1, 1, 2, 0]"
	test_grep "^note: skipped: .*README" err
	test_grep "5 bad samples skipped" err
	tarball t.tar "[add(\"%03d.txt\" % i, b\"x\" * 700) for i in range(20)]"
	head -c 10000 t.tar >cut.tar
	shard -i data=cut.tar -o all=out/ -w on_bad=skip --metrics m.json
	test_is "$(json m.json "[d[\"samples\"], d[\"skipped\"][\"damaged_archive\"]]")" "[6, 1]"
	tarball t.tar "add(\"a.txt\"); add(\"l.txt\", type=tarfile.SYMTYPE, linkname=\"/x\"); add(\"../u.txt\"); add(\"b.txt\")"
	shard -i data=t.tar -o all=out/ -w on_bad=skip --metrics m.json
	test_is "$(json m.json "[d[\"samples\"], d[\"skipped\"][\"unsafe_path\"]]")" "[2, 2]"
	printf "{\"a\":1}\nnonsense\n{\"a\":2}\n" >t.jsonl
	shard -i data=t.jsonl -o all=out/ -w on_bad=skip --metrics m.json
	test_is "$(json m.json "[d[\"samples\"], d[\"skipped\"][\"bad_row\"]]")" "[2, 1]"
'
test_expect 'what is skipped does not depend on threads' '
	mkdir holes
	for i in $(seq 300); do
		printf "$i" >holes/$i.txt
	done
	for i in 3 77 150 299; do
		ln -sf ../secret.txt holes/$i.txt
	done
	shard -i data=holes -o all=h1/ -w on_bad=skip -w samples_per_shard=10 --threads 1
	grep note err >notes1
	shard -i data=holes -o all=h5/ -w on_bad=skip -w samples_per_shard=10 --threads 5
	grep note err >notes5
	cmp notes1 notes5
	diff -r h1 h5
	test_code 3 shard -i data=holes -o all=h1/ -w samples_per_shard=10 --threads 1
	grep error err >e1
	test_code 3 shard -i data=holes -o all=h5/ -w samples_per_shard=10 --threads 5
	grep error err >e5
	cmp e1 e5
'
test_expect 'the input is never taken for an old output' '
	mkdir -p ok2
	printf x >ok2/a.txt
	shard -i data=ok2 -o all=set/
	cp -r set before
	test_code 3 shard -i data=set -o all=set/
	test_grep "output .all. .set/. and the input .set. must not be one inside the other" err
	ln -s set alias
	test_code 3 shard -i data=alias -o all=set/
	test_code 3 shard -i data=set/shard-000000.tar -o all=set
	test_code 3 shard -i data=set -o all=set/sub/
	rmdir set/sub
	diff -r before set
	test_code 3 shard -i data=ok2 -o a=both/ -o b=both/ -w split.a=0.5 -w split.b=0.5
	test_grep "the outputs .a. and .b. are one directory" err
	printf "{\"id\": \"%s\", \"c\": \"%s\"}\n" 1 x 2 y 3 x 4 z >c.jsonl
	shard -i data=c.jsonl -o all=out/ -w key=id -w class.column.name=c -w "classes=[\"x\",\"z\"]" -w on_bad=skip --metrics m.json
	test_is "$(json m.json "[d[\"samples\"], d[\"skipped\"][\"no_class\"]]")" "[3, 1]"
'
test_expect 'an output that cannot be written is an error' '
	mkdir -p ok
	printf x >ok/a.txt
	printf x >file
	test_must_fail shard -i data=ok -o all=file/
	test_grep "file exists and is not a directory" err
'
test_done
