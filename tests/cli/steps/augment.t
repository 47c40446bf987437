#!/bin/bash
# cairn step augment: images of shards, changed; the same bytes for a seed.
. "$(dirname "$0")/../../lib.sh"

[ -x "$(dirname "$(realpath "$CAIRN")")/cairn-steps" ] || test_skip_all 'no cairn-steps beside cairn'
export shards="python3 $SRC/tests/cli/steps/augment_shards.py"
$shards make in || test_bail 'no shards to test with'

# augment IN OUT JSON [OPTION...]; notes and errors go to ./err
cat >"$TRASH/bin/augment" <<'SH'
#!/bin/sh
in=$1 out=$2 json=$3
shift 3
exec cairn step augment -i "shard=$in" -o "shard=$out" --with-json "$json" "$@" 2>err
SH
chmod +x "$TRASH/bin/augment"

test_expect 'an example: pixels change, fields travel along' '
	augment in/jpegs.tar out.tar "{\"seed\": 7, \"ops\": [{\"random_resized_crop\": 28}, {\"flip\": \"horizontal\"}]}" --metrics m.json
	$shards keys out.tar >keys
	test_is "$(head -n 2 keys | xargs)" "j0.cls j0.jpg"
	test_lines 12 keys
	test_is "$($shards shape out.tar j3.jpg)" "jpeg 28 28 3"
	$shards same in/jpegs.tar j3.cls out.tar j3.cls
	test_is "$(json m.json "[d[k] for k in (\"samples_in\", \"samples_out\", \"images\")]")" "[6, 6, 6]"
'

# Everything at once: what the other tests of sameness run.
cat >all.json <<'JSON'
{"seed": 11, "copies": 3, "record": true, "ops": [{"resize": {"size": 40, "filter": "lanczos"}}, {"random_crop": {"size": 32, "padding": 4, "mode": "reflect", "pad_if_needed": true}},
 {"random_resized_crop": {"size": [30, 34], "filter": "bicubic"}}, "flip", {"flip": "vertical"}, {"rotate": {"degrees": 20, "filter": "bilinear", "p": 0.5}},
 {"affine": {"degrees": 10, "translate": [0.1, 0.1], "scale": [0.8, 1.2], "shear": 10}}, {"color_jitter": {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}},
 {"grayscale": 0.2}, {"blur": {"sigma": [0.1, 2], "p": 0.5}}, {"noise": 0.03}, {"cutout": {"size": 8, "holes": 2, "fill": [1, 2, 3]}}, "rand_augment", {"center_crop": 26}]}
JSON

test_expect 'the same bytes whatever the number of threads' '
	for n in 1 2 7; do augment in out-$n/ @all.json --threads $n -w on_bad=skip; done
	cd out-1
	for f in *.tar; do
		cmp $f ../out-2/$f
		cmp $f ../out-7/$f
	done
	test_exists a.tar pngs.tar jpegs.tar empty.tar none.tar
'

# When this fails, the step gives other bytes than before for the same input: raise `version` in steps/spec/augment.c, then write the new digests here. The first
# two are arithmetic alone; the third has libjpeg-turbo's decoder in it, the last ones its encoder and zlib, as Debian 12 has them.
test_expect 'golden: the digests of version 2' '
	cairn step augment --help >help
	test_grep "\(version 2\)" help
	cat >want <<END
128431264a31b42efb1318d83dcb58a0
6ebc8d5b0515525249a8fb9c49a8daeb
508541b1e04e268b6ca6afd611391a26
c36e9711c84052502c9d7b24b7b26d75
7dbf33045e9da05d5eebfb3c590cade3
END
	augment in/a.tar a.tar @all.json
	augment in/pngs.tar p.tar @all.json -w to=npy
	augment in/jpegs.tar j.tar @all.json -w to=npy
	augment in/jpegs.tar jj.tar @all.json -w to=jpeg
	augment in/jpegs.tar jp.tar @all.json -w to=png
	sha256sum a.tar p.tar j.tar jj.tar jp.tar | cut -c 1-32 >got
	test_cmp want got
'

test_expect 'an image does not depend on its neighbours, another seed gives another' '
	augment in/a.tar all.tar @all.json
	augment in/few.tar few.tar @all.json
	for f in $($shards keys few.tar); do $shards same all.tar $f few.tar $f; done
	augment in/few.tar other.tar @all.json -w seed=12
	test_must_fail $shards same few.tar s005-0.npy other.tar s005-0.npy
	test_must_fail $shards same few.tar s005-0.npy few.tar s005-1.npy
'

test_expect 'copies: named, and the first one is the one that a single copy would be' '
	ops="\"ops\": [{\"random_resized_crop\": {\"size\": 12, \"scale\": [0.1, 1]}}], \"to\": \"npy\""
	augment in/jpegs.tar one.tar "{$ops}"
	augment in/jpegs.tar ten.tar "{$ops, \"copies\": 10}"
	$shards keys ten.tar | grep npy | xargs >keys
	test_grep "^j0-0.npy j0-1.npy .* j0-9.npy j1-0.npy " keys
	$shards same one.tar j4.npy ten.tar j4-0.npy
	$shards same one.tar j4.cls ten.tar j4-9.cls
	test_must_fail $shards same one.tar j4.npy ten.tar j4-1.npy
'

test_expect 'directories: the same names; empty shards too; zstd stays, gzip goes' '
	mkdir -p many/sub
	cp in/a.tar in/empty.tar many
	zstd -q in/few.tar -o many/sub/z.tar.zst || python3 -c "raise SystemExit(0)"
	gzip -c in/few.tar >many/g.tar.gz
	augment many out-many/ "{\"ops\": [\"flip\"]}"
	test_exists out-many/a.tar out-many/empty.tar out-many/g.tar
	$shards keys out-many/empty.tar >keys
	test_grep "^$" keys
	if [ -e many/sub/z.tar.zst ]; then
		zstd -q -d out-many/sub/z.tar.zst -o z.tar
		cmp z.tar out-many/g.tar
	fi
	xz -c in/few.tar >many/x.tar.xz
	bzip2 -c in/few.tar >many/b.tar.bz2
	augment many out-all/ "{\"ops\": [\"flip\"]}"
	cmp out-all/g.tar out-all/x.tar
	cmp out-all/g.tar out-all/b.tar
	rm many/x.tar.xz many/b.tar.bz2
	test_code 2 augment many ./many/ "{\"ops\": [\"flip\"]}"
	test_grep "is both input and output" err
	cmp in/a.tar many/a.tar
	test_code 2 augment many one.tar "{\"ops\": []}"
	test_grep "must be a directory" err
	cp in/few.tar many/g.tar
	test_code 3 augment many out-clash/ "{\"ops\": []}"
	test_grep "would both become" err
'

test_expect 'formats: kept or changed, by name and by bytes' '
	augment in/pngs.tar o.tar "{\"ops\": []}"
	test_is "$($shards shape o.tar dir/p1.png)" "png 30 40 3"
	test_is "$($shards shape o.tar dir/p0.png)" "png 30 40 1"
	augment in/pngs.tar o.tar "{\"ops\": [], \"to\": \"jpeg\", \"image\": \"png\"}"
	test_is "$($shards shape o.tar dir/p1.jpg)" "jpeg 30 40 3"
	$shards same in/pngs.tar dir/p1.seg.png o.tar dir/p1.seg.png
	augment in/jpegs.tar o.tar "{\"ops\": [{\"resize\": [9, 7]}], \"to\": \"png\"}"
	test_is "$($shards shape o.tar j1.png)" "png 9 7 3"
	augment in/jpegs.tar o.tar "{\"ops\": [{\"resize\": [9, 7]}, \"normalize\"]}"
	test_is "$($shards shape o.tar j1.npy)" "npy {'\''descr'\'': '\''<f4'\'', '\''fortran_order'\'': False, '\''shape'\'': (3, 9, 7), }"
	augment in/jpegs.tar o.tar "{\"ops\": [{\"grayscale\": {\"channels\": \"1\"}}]}"
	test_is "$($shards shape o.tar j1.jpg)" "jpeg 48 64 1"
	test_must_fail augment in/clash.tar clash.tar "{\"ops\": [], \"to\": \"png\"}"
	test_grep "in/clash.tar: sample .two.: png: two of its fields would have the same name" err
	test_missing clash.tar
'

test_expect 'masks are moved as the images are, and keep their labels' '
	geometry="{\"random_crop\": {\"size\": 28, \"padding\": 3}}, \"flip\", {\"rotate\": {\"degrees\": 40}}"
	augment in/pngs.tar plain.tar "{\"ops\": [$geometry], \"image\": \"png\", \"masks\": \"seg.png\"}"
	$shards same plain.tar dir/p0.png plain.tar dir/p0.seg.png
	augment in/pngs.tar both.tar "{\"ops\": [$geometry, {\"color_jitter\": {\"brightness\": 0.9}}], \"image\": \"png\", \"masks\": \"seg.png\"}"
	$shards same plain.tar dir/p0.seg.png both.tar dir/p0.seg.png
	test_must_fail $shards same plain.tar dir/p0.png both.tar dir/p0.png
'

test_expect 'broken images: fatal, dropped or passed on; named and counted' '
	for kind in cut-jpg cut-png zero-png text-jpg bomb-png; do
		ext=${kind#*-}
		test_must_fail augment in/bad-$kind.tar fail.tar "{\"ops\": [{\"resize\": 4}]}"
		test_grep "in/bad-$kind.tar: sample .broken.: $ext: " err
		test_missing fail.tar
		augment in/bad-$kind.tar skip.tar "{\"ops\": [{\"resize\": 4}], \"on_bad\": \"skip\"}" --metrics m.json
		test_grep "skipped: in/bad-$kind.tar: sample .broken.: $ext: " err
		test_is "$($shards keys skip.tar | xargs)" "ok1.$ext ok2.$ext"
		test_is "$(json m.json "[d[\"errors\"][\"skipped\"], d[\"samples_in\"], d[\"samples_out\"]]")" "[1, 3, 2]"
		augment in/bad-$kind.tar keep.tar "{\"ops\": [{\"resize\": 4}], \"on_bad\": \"keep\"}" --metrics m.json
		$shards same in/bad-$kind.tar broken.$ext keep.tar broken.$ext
		test_is "$(json m.json "[d[\"errors\"][\"kept\"], d[\"samples_out\"]]")" "[1, 3]"
	done
	test_must_fail augment in/bad-bomb-png.tar o.tar "{\"ops\": []}"
	test_grep "60000 x 60000 pixels, more than max_pixels \(100000000\)" err
	test_must_fail augment in/jpegs.tar o.tar "{\"ops\": [], \"max_pixels\": 100}"
	test_grep "more than max_pixels \(100\)" err
	test_must_fail augment in/a.tar o.tar "{\"ops\": [{\"random_crop\": 300}]}"
	test_grep "sample .s000.: npy: random_crop: the image has 20 x 30 pixels, too small for 300 x 300" err
'

test_expect 'a sample that is bad for its later copies only is counted, once' '
	# Turned by 45 degrees an image of 20 x 30 is large enough for the crop, as it is not.
	ops="\"ops\": [{\"rotate\": {\"degrees\": [45, 45], \"expand\": true, \"p\": 0.95}}, {\"random_crop\": 28}], \"on_bad\": \"skip\", \"copies\": 40"
	augment in/a.tar turned.tar "{$ops}" --metrics m.json
	$shards keys turned.tar | sed -n "s/-[0-9]*[.]npy$//p" | sort | uniq -c >counts
	all=$(awk "\$1 == 40 { n++ } END { print n + 0 }" counts)
	test_is "$(json m.json "d[\"errors\"][\"skipped\"] == d[\"samples_in\"] - $all")" true
	test_is "$(awk "\$1 < 40 { n++ } END { print (n > 0) }" counts)" 1
'

test_expect 'a result that no shard can hold is a bad sample: fatal, dropped or passed on' '
	python3 - <<-"P"
	import io, sys, tarfile
	image = tarfile.open("in/a.tar").extractfile("s000.npy").read()
	def shard(path, members):
	    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as t:
	        for name, data in members:
	            info = tarfile.TarInfo(name)
	            info.size = len(data)
	            t.addfile(info, io.BytesIO(data))
	shard("long.tar", [("a.npy", image), ("k" * 1019 + ".npy", image), ("z.npy", image)])
	shard("full.tar", [("a.npy", image), ("b.npy", image)] + [("b.f%d" % i, b"x") for i in range(1023)] + [("z.npy", image)])
	P
	# A copy'"'"'s number makes the name too long; as it is, a copy has no shorter one.
	test_must_fail augment long.tar refused.tar "{\"ops\": [], \"copies\": 2}"
	test_grep "long.tar: sample .k*.*: what it becomes can.t be in a shard: .* is longer than a sample" err
	test_missing refused.tar
	augment long.tar o.tar "{\"ops\": [], \"copies\": 2, \"on_bad\": \"skip\"}" --metrics m.json
	test_is "$($shards keys o.tar | xargs)" "a-0.npy a-1.npy z-0.npy z-1.npy"
	test_is "$(json m.json "[d[\"errors\"][\"skipped\"], d[\"samples_out\"]]")" "[1, 4]"
	test_must_fail augment long.tar k.tar "{\"ops\": [], \"copies\": 2, \"on_bad\": \"keep\"}"
	test_grep "longer than a sample" err
	# What was drawn would be field 1,025.
	augment full.tar o.tar "{\"ops\": [], \"record\": true, \"on_bad\": \"keep\"}" --metrics m.json
	test_grep "kept as it is: full.tar: sample .b.: .* has 1025 fields" err
	test_is "$($shards keys o.tar | wc -l)" 1028
	test_is "$(json m.json "[d[\"errors\"][\"kept\"], d[\"samples_out\"], d[\"images\"]]")" "[1, 3, 2]"
'

test_expect 'samples without an image are bad ones: fatal, dropped or passed on' '
	test_must_fail augment in/none.tar o.tar "{\"ops\": [\"flip\"]}"
	test_grep "in/none.tar: sample .t.: it has no image: no field ends in jpg" err
	test_must_fail augment in/pngs.tar o.tar "{\"ops\": [\"flip\"], \"image\": \"other.png\"}"
	test_grep "it has none of the fields that .image. names" err
	augment in/none.tar o.tar "{\"ops\": [\"flip\"], \"on_bad\": \"keep\"}" --metrics m.json
	$shards same in/none.tar t.txt o.tar t.txt
	test_is "$(json m.json "[d[\"errors\"][\"kept\"], d[\"images\"]]")" "[1, 0]"
'

test_expect 'masks of 16 bits keep their labels; as images they are refused, or scaled where that is said' '
	augment in/deep.tar o.tar "{\"ops\": [{\"rotate\": {\"degrees\": [90, 90], \"expand\": true}}, {\"random_crop\": {\"size\": 40, \"pad_if_needed\": true, \"fill\": 9}}], \"masks\": \"ids.png\"}"
	test_is "$($shards levels16 o.tar d.ids.png)" "9 300 301 1000 65535"
	augment in/deep.tar o.tar "{\"ops\": [], \"masks\": \"ids.png\", \"to\": \"npy\"}"
	test_is "$($shards shape o.tar d.ids.npy)" "npy {'\''descr'\'': '\''<u2'\'', '\''fortran_order'\'': False, '\''shape'\'': (20, 30), }"
	test_must_fail augment in/deep.tar o.tar "{\"ops\": []}"
	test_grep "sample .d.: ids.png: its gray levels have 16 bits" err
	augment in/deep.tar o.tar "{\"ops\": [], \"image\": [\"png\", \"ids.png\"]}"
	test_is "$($shards shape o.tar d.ids.png)" "png 20 30 1"
'

test_expect 'a mask that does not fit its image is refused' '
	test_must_fail augment in/misfit-size.tar o.tar "{\"ops\": [], \"masks\": \"seg.png\"}"
	test_grep "sample .m.: seg.png: the mask has 29 x 20 pixels, its image 30 x 20" err
	for o in misfit-square misfit-half; do
		test_must_fail augment in/$o.tar o.tar "{\"ops\": [], \"masks\": \"seg.png\"}"
		test_grep "sample .m.: seg.png: EXIF turns its image .orientation [36]. differently from the mask .1." err
		augment in/$o.tar o.tar "{\"ops\": [], \"masks\": \"seg.png\", \"orientation\": \"ignore\"}"
	done
	test_must_fail augment in/misfit-stored.tar o.tar "{\"ops\": [], \"masks\": \"seg.png\"}"
	test_grep "the mask has 30 x 20 pixels, its image 20 x 30" err
	augment in/fit-upright.tar o.tar "{\"ops\": [], \"masks\": \"seg.png\"}"
	test_is "$($shards shape o.tar m.png) $($shards shape o.tar m.seg.png)" "png 20 30 1 png 20 30 1"
'

test_expect 'wrong settings are told before anything is read' '
	bad() {
		test_code "$1" augment in/a.tar never.tar "$2"
		test_grep "$3" err
		test_missing never.tar
	}
	bad 3 "{\"ops\": [\"normalize\", \"flip\"]}" "ops\[0\].*normalize must be the last"
	bad 3 "{\"ops\": [\"normalize\"], \"to\": \"png\"}" "only npy can hold"
	bad 3 "{\"ops\": [{\"flipp\": \"horizontal\"}]}" "did you mean .flip."
	bad 3 "{\"ops\": [{\"rand_augment\": {\"magnitude\": 31}}]}" "ops\[0\]: rand_augment: .magnitude. 31"
	bad 3 "{\"ops\": [{\"color_jitter\": {\"hue\": 0.7}}]}" "within -0.5 and 0.5"
	bad 3 "{\"ops\": [{\"blur\": {\"kernel\": 4}}]}" "must be an odd number"
	bad 3 "{\"ops\": [{\"resize\": 0}]}" "ops\[0\].resize.size"
	bad 3 "{\"ops\": [{\"random_resized_crop\": {\"size\": 3, \"scale\": [0.5, 0.1]}}]}" "must be \\[least, most\\]"
	bad 3 "{}" "ops"
	test_code 2 augment in/a.tar in/a.tar "{\"ops\": []}"
	test_grep "both input and output" err
'

if test_have SANITIZED; then
	test_skip 'a shard larger than the memory it takes' 'sanitizers keep freed memory'
else
	test_expect 'a shard larger than the memory it takes' '
		$shards make-large large.tar 120
		python3 - <<END
import os, resource, subprocess
subprocess.run(["cairn", "step", "augment", "-i", "shard=large.tar", "-o", "shard=small.tar", "--threads", "2", "-w", "ops=[{\"resize\": 28}]"], check=True,
               stderr=subprocess.DEVNULL)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
assert os.path.getsize("large.tar") > 350e6
assert peak < 150e6, peak
END
		test_is "$($shards shape small.tar l119.npy | grep -o "(28, 28, 3)")" "(28, 28, 3)"
		rm large.tar
	'
fi

test_expect 'in a pipeline: one task a shard; a shard that has not changed is a hit' '
	mkdir pipe pipe/data
	cp in/a.tar in/jpegs.tar pipe/data
	cd pipe
	cat >pipeline.yaml <<END
pipeline: pictures
inputs: {shards: data/}
steps:
  augment:
    uses: augment
    each: "\${{ inputs.shards }}/*.tar"
    with: {seed: 5, to: npy, ops: [{random_resized_crop: 8}, flip]}
    inputs: {shard: "\${{ item }}"}
    outputs: {shard: out.tar}
END
	cairn init
	cairn run pipeline.yaml >out 2>&1
	cp ../in/few.tar data
	cairn run pipeline.yaml >again 2>&1
	test_grep "3 tasks, 1 executed, 2 on record" again
	cairn metrics --all >metrics
	test_grep "augment\[few.tar\] +[0-9]+ +0 +0 +4 +4 +4$" metrics
'

# Debian's packages belong to Debian's Python.
python=python3
[ -x /usr/bin/python3 ] && python=/usr/bin/python3
$python "$SRC/tests/cli/steps/augment_ops.py" "$TRASH/work" >ops.out 2>ops.err
rc=$?
if [ $rc -eq 77 ]; then
	test_skip 'each op against torchvision and Pillow' 'no torchvision here (Debian: python3-torchvision)'
else
	test_expect 'each op against torchvision and Pillow' "cat ops.out ops.err; test_is $rc 0; test_grep '^ok rand_augment magnitudes' ops.out"
fi
test_done
