#!/bin/bash
# Outputs that are copied out: to this machine, to S3 and GCS; whole or not at all; once; again after a failure.
. "$(dirname "$0")/../../net/servers.sh"
. "$(dirname "$0")/../../lib.sh"

counts() { json "$1" '"%(executed)d %(hits)d %(failed)d" % d["counts"]'; }
# pipeline NAME STEPS [PARAMS]
pipeline() {
	mkdir -p "$1"
	printf '%s\n' "${CONFIG:-}" >"$1/cairn.yaml"
	printf 'pipeline: p\nparams: %s\nsteps:\n%s\n' "${3:-{n: 1\}}" "$2" >"$1/pipeline.yaml"
}
exports() { sqlite3 "$1/.cairn/cairn.db" "select task, output, uri, message is null from export order by rowid_, task" 2>/dev/null || sqlite3 "$1/.cairn/cairn.db" "select task, output, uri, message is null from export order by at_ns, task"; }
export OUT=$PWD/out

test_expect 'a directory and a file of this machine, each with its mark' '
	pipeline a "  make: {run: \"mkdir -p \${{ outputs.d }}/sub && echo \${{ params.n }} >\${{ outputs.d }}/sub/x && echo a >\${{ outputs.d }}/a && chmod +x \${{ outputs.d }}/a && ln -s a \${{ outputs.d }}/link && echo f >\${{ outputs.f }}\",
    outputs: {d: {path: d/, export: $OUT/dir}, f: {path: f.txt, export: file://$OUT/files/}}}"
	cairn -C a run -q
	test_is "$(cat "$OUT/dir/sub/x") $(cat "$OUT/files/f.txt") $(readlink "$OUT/dir/link")" "1 f a"
	test -x "$OUT/dir/a" -a -w "$OUT/dir/a"
	json "$OUT/dir/.cairn-export.json" "[f[\"name\"] for f in d[\"files\"]]" >names
	test_is "$(cat names)" "[\"a\", \"sub/x\"]"
	test_is "$(json "$OUT/dir/.cairn-export.json" "d[\"files\"][1][\"sha256\"]")" "$(sha256sum "$OUT/dir/sub/x" | cut -d" " -f1)"
	test_is "$(json "$OUT/files/f.txt.cairn.json" "d[\"files\"][0][\"name\"] + \" \" + d[\"task\"] + \" \" + d[\"output\"]")" "f.txt make f"
	test_is "$(ls -A "$OUT" | tr "\n" " ")" "dir files "
'
test_expect 'once: a hit is not exported again; a hit that was never exported is' '
	touch -d 2001-01-01 "$OUT/dir/sub/x"
	cairn -C a run -q --json >out.json
	test_is "$(counts out.json)" "0 1 0"
	test_is "$(date -r "$OUT/dir/sub/x" +%Y)" 2001
	sed -i "s,$OUT/dir,$OUT/dir2," a/pipeline.yaml
	cairn -C a run -q --json >out.json
	test_is "$(counts out.json)" "0 1 0"
	test_exists "$OUT/dir2/sub/x"
	sed -i "s,$OUT/dir2,$OUT/dir," a/pipeline.yaml
'
test_expect 'what was removed from its place, or replaced there, is put there again' '
	rm -r "$OUT/dir" "$OUT/files/f.txt"
	cairn -C a run -q --json >out.json
	test_is "$(counts out.json)" "0 1 0"
	test_is "$(cat "$OUT/dir/sub/x" "$OUT/files/f.txt" | tr "\n" " ")" "1 f "
	pipeline a2 "  make: {run: \"echo other >\${{ outputs.d }}/x\", outputs: {d: {path: d/, export: $OUT/dir}}}"
	cairn -C a2 run -q
	cairn -C a run -q
	test_is "$(cat "$OUT/dir/sub/x")" 1
'
test_expect 'other content takes the place of the old, as a whole' '
	cairn -C a run -q -p n=2
	test_is "$(cat "$OUT/dir/sub/x")" 2
	cairn -C a run -q --json >out.json
	test_is "$(counts out.json)" "0 1 0"
	test_is "$(cat "$OUT/dir/sub/x")" 1
	test_is "$(ls -A "$OUT" | tr "\n" " ")" "dir dir2 files "
'
test_expect 'what cairn did not put there stays; the task stays a success, and the next run tries the export alone' '
	mkdir -p "$OUT/mine"
	echo precious >"$OUT/mine/x"
	pipeline b "  make: {run: \"echo 1 >\${{ outputs.d }}/y\", outputs: {d: {path: d/, export: $OUT/mine}}}"
	test_code 1 cairn -C b run -q --json >out.json 2>err || { cat err out.json >&2; false; }
	test_is "$(cat "$OUT/mine/x")" precious
	test_is "$(json out.json "d[\"state\"]") $(counts out.json)" "failed 1 0 0"
	test_grep "output .d. of make could not be exported to $OUT/mine: .* is there already, and cairn didn.t export it" <(cairn -C b status; cat err)
	cairn -C b status --json >s.json
	test_is "$(json s.json "d[\"exports\"][0][\"uri\"] + \" \" + d[\"exports\"][0][\"state\"]")" "$OUT/mine failed"
	rm -r "$OUT/mine"
	cairn -C b run -q --json >out.json
	test_is "$(counts out.json)" "0 1 0"
	test_exists "$OUT/mine/y"
	cairn -C b status --json >s.json
	test_is "$(json s.json "d[\"exports\"][0][\"state\"]")" exported
	cairn -C b status >s
	test_grep "make d .*$OUT/mine" s
'
test_expect 'what a killed export left is cleaned up by the next one; a file whose mark is gone is still known as ours' '
	pipeline k "  make: {run: \"echo \${{ params.n }} >\${{ outputs.f }}; echo x >\${{ outputs.d }}/x\", outputs: {f: {path: f.txt, export: $OUT/k/f.txt}, d: {path: d/, export: $OUT/k/d}}}"
	cairn -C k run -q
	sh -c "echo \$\$" >dead # a process that has ended
	mkdir "$OUT/k/.cairn-export-d-$(cat dead)-$(uname -n)" "$OUT/k/.cairn-export-d-$(cat dead)-elsewhere"
	mv "$OUT/k/f.txt.cairn.json" away
	echo "{\"cairn_export_pending\":1,\"names\":[\"f.txt\"]}" >"$OUT/k/f.txt.cairn.pending.json"
	sed -i "s/echo x/echo y/" k/pipeline.yaml
	cairn -C k run -q -p n=2
	test_is "$(cat "$OUT/k/f.txt" "$OUT/k/d/x" | tr "\n" " ")" "2 y "
	test_is "$(ls -A "$OUT/k" | tr "\n" " ")" ".cairn-export-d-$(cat dead)-elsewhere d f.txt f.txt.cairn.json "
'
test_expect 'an output with a file of the name of the mark is refused in words' '
	pipeline o "  make: {run: \"echo 1 >\${{ outputs.d }}/.cairn-export.json\", outputs: {d: {path: d/, export: $OUT/o}}}"
	test_code 1 cairn -C o run -q 2>err
	test_grep "cairn-export.json., which is where the export keeps its own list of files; give it another name" <(cat err; cairn -C o status)
	test_missing "$OUT/o"
'
test_expect 'run.id gives each run a place of its own, a hit too, and is refused where it would be in a key' '
	pipeline i "  make: {run: \"echo 1 >\${{ outputs.o }}\", outputs: {o: {path: o.txt, export: \"$OUT/i/\${{ run.id }}/o.txt\"}}}"
	cairn -C i run -q
	cairn -C i run --json >out.json
	test_is "$(counts out.json)" "0 1 0"
	for id in $(cairn -C i runs --json | sed -n "s/.*\"id\": \"\(.*\)\".*/\1/p"); do
		test_exists "$OUT/i/$id/o.txt"
	done
	test_is "$(ls "$OUT/i" | wc -l)" 2
	pipeline i "  make: {run: \"echo \${{ run.id }} \${{ task.attempt }}\"}"
	test_code 3 cairn -C i check 2>err
	test_grep "run.id. can be used in .export. only: elsewhere each run would" err
	test_grep "a task knows nothing of itself" err
'
test_expect 'each task of a matrix has its place; two with one place are an error of check' '
	pipeline m "  make: {matrix: {k: [x, y]}, run: \"echo \${{ matrix.k }} >\${{ outputs.o }}\", outputs: {o: {path: o.txt, export: \"$OUT/m/\${{ params.n }}-\${{ matrix.k }}.txt\"}}}"
	cairn -C m run -q
	test_is "$(cat "$OUT/m/1-x.txt" "$OUT/m/1-y.txt" | tr "\n" " ")" "x y "
	pipeline m "  make: {matrix: {k: [x, y]}, run: \"echo \${{ matrix.k }} >\${{ outputs.o }}\", outputs: {o: {path: o.txt, export: \"$OUT/m/o.txt\"}}}"
	test_code 3 cairn -C m check 2>err
	test_grep "pipeline.yaml:4:.*several tasks of step .make. would export .o. to one place: put \\$\\{\\{ matrix.k \\}\\} into it" err
	pipeline m "  a: {run: x, outputs: {o: {path: o.txt, export: s3://bucket/x}}}
  b: {run: x, outputs: {o: {path: o.txt, export: s3://bucket/x/}}}"
	test_code 3 cairn -C m check 2>err
	test_grep "exported to where line 4 exports" err
'
test_expect 'into the project: found by its name after a hit, too; the end of the run says where' '
	pipeline p "  make: {run: \"mkdir -p \${{ outputs.d }}/s; echo \${{ params.n }} >\${{ outputs.d }}/s/x; echo f >\${{ outputs.f }}\", outputs: {d: {path: d/, export: \"my models/é \${{ params.n }}/\"}, f: {path: f.txt, export: \"models/\${{ run.id }}/\"}}}"
	cairn -C p run >out.txt
	test_grep "^  exported make/d to .my models/é 1.$" out.txt
	test_is "$(cat "p/my models/é 1/s/x")" 1
	rm -r "p/my models" p/models
	cairn -C p run --json >out.json 2>out.txt
	test_is "$(counts out.json)" "0 1 0"
	test_is "$(cat "p/my models/é 1/s/x" "p/models/$(json out.json "d[\"id\"]")/f.txt" | tr "\n" " ")" "1 f "
'
test_expect 'what a person changed at the place of an export stays; the run fails and says what' '
	echo mine >"p/my models/é 1/s/x"
	test_code 1 cairn -C p run -q 2>err
	test_grep "s/x. has changed since cairn exported it; move it away" <(cat err; cairn -C p status)
	test_is "$(cat "p/my models/é 1/s/x")" mine
	echo 1 >"p/my models/é 1/s/x"
	cairn -C p run -q
	touch "p/my models/é 1/new"
	cairn -C p run -q
	sed -i "s,echo f,echo f >\${{ outputs.d }}/new; echo f," p/pipeline.yaml
	test_code 1 cairn -C p run -q 2>err
	test_grep "new. was put there since cairn exported it" <(cat err; cairn -C p status)
	rm "p/my models/é 1/new"
	cairn -C p run -q
	test_is "$(cat "p/my models/é 1/new")" f
'
test_expect 'no link leads an export out of the project, nor does a value' '
	rm -r "p/my models"
	mkdir "$OUT/elsewhere"
	ln -s "$OUT/elsewhere" "p/my models"
	test_code 1 cairn -C p run -q 2>err
	test_grep "my models is there and isn.t a directory" <(cat err; cairn -C p status)
	rm "p/my models"
	mkdir "p/my models"
	ln -s "$OUT/elsewhere" "p/my models/é 1"
	test_code 1 cairn -C p run -q 2>err
	test_grep "is there already, and cairn didn.t export it" <(cat err; cairn -C p status)
	test_is "$(ls -A "$OUT/elsewhere")" ""
	pipeline v "  make: {run: \"echo f >\${{ outputs.f }}\", outputs: {f: {path: f.txt, export: \"x/\${{ params.n }}/f\"}}}" "{n: ..}"
	test_code 1 cairn -C v run -q 2>err
	test_grep "could not be exported to .*it leads upward" <(cat err; cairn -C v status)
	pipeline v "  make: {run: \"echo f >\${{ outputs.f }}\", outputs: {f: {path: f.txt, export: \"./\${{ params.n }}/f\"}}}" "{n: .cairn}"
	test_code 1 cairn -C v run -q 2>err
	test_grep "it belongs to the state of cairn or git" <(cat err; cairn -C v status)
'
test_expect 'an export into what the next run would read' '
	pipeline w "  make: {run: \"cat x/a/b >\${{ outputs.f }}\", inputs: {x: x/a/b}, outputs: {f: {path: f.txt, export: x/a/}}}" "{n: x/a}"
	cairn -C w check
	sed -i "s,inputs: {x: x/a/b},inputs: {x: x/}," w/pipeline.yaml
	test_code 3 cairn -C w check 2>err
	test_grep "pipeline.yaml:4:.*output .f. of step .make. is exported to where an input .x. is: the next run would read it" err
	mkdir -p w/x/a
	echo b >w/x/a/b
	sed -i "s,inputs: {x: x/},inputs: {x: x/a/b}, ; s,x/a/}},\"./\${{ params.n }}/b\"}}," w/pipeline.yaml
	test_code 1 cairn -C w run -q 2>err
	test_grep "the input .x/a/b. is there, and the next run would read it" <(cat err; cairn -C w status)
'
test_expect 'a place in that of another export: that one is whole, the run fails' '
	pipeline in "  make: {run: \"echo a >\${{ outputs.a }}/x; echo b >\${{ outputs.b }}\", outputs: {a: {path: a/, export: x/a}, b: {path: b, export: x/a/b/c}}}"
	test_code 1 cairn -C in run -q 2>err
	test_grep "could not be exported to x/a/b/c: it lies in the place to which task make is exported" <(cat err; cairn -C in status)
	test_is "$(ls in/x/a)" x
'
test_expect 'two runs that export to one place at once: each time one of both, whole' '
	pipeline c "  make: {run: \"for i in 1 2 3 4 5 6 7 8; do echo \${{ params.n }} >\${{ outputs.d }}/\$i; done\", outputs: {d: {path: d/, export: models/latest}}}"
	for n in 1 2 3 4; do
		cairn -C c run -q -p n=$n &
	done
	wait
	test_is "$(cat c/models/latest/[1-8] | sort -u | wc -l)" 1
	test_is "$(ls -A c/models)" latest
'
test_expect 'two tasks that turn out to have one place: one is exported, the run fails and says which' '
	pipeline t "  make: {matrix: {k: [x, y]}, run: \"echo \${{ matrix.k }} >\${{ outputs.o }}\", outputs: {o: {path: o.txt, export: \"$OUT/t/\${{ matrix.k == '"'x'"' || true }}.txt\"}}}"
	test_code 1 cairn -C t run -q 2>err
	test_grep "make.k=y. could not be exported to $OUT/t/true.txt: task make.k=x. is exported to the same place" <(cat err; cairn -C t status)
'
test_expect 'places that can not be' '
	pipeline bad "  a: {run: x, outputs: {o: {path: o.txt, export: https://host/x}, p: {path: p, export: \"s3://\${{ params.n }}/x\"}, q: {path: q, export: a/../b}, r: {path: r, export: s3://bucket}, s: {path: s, export: \"/x/\${{ steps.a }}\"}}}"
	test_code 3 cairn -C bad check 2>err
	test_grep "an output is exported to s3://" err
	test_grep "it leads upward" err
	test_grep "the bucket can.t depend on expressions" err
	test_grep "a name in the bucket is missing" err
	test_grep "can.t be used here: .export. can use .params., .matrix., .item.name. and .run.id. only" err
'

# suite NAME SCHEME CONFIG; bucket_tool reaches it with BT_ENV
suite() {
	export S=$1 B=$2://exports CONFIG=$3
	test_expect "$S: a directory with a mark; only what changed is sent again, and what is gone goes" '
		pipeline "$S" "  make: {run: \"mkdir -p \${{ outputs.d }}/sub; seq 1 \${{ params.n }} >\${{ outputs.d }}/sub/x; echo a >\${{ outputs.d }}/a; seq 1 3000000 >\${{ outputs.d }}/big; echo \${{ params.n }} >\${{ outputs.d }}/n\${{ params.n }}\", outputs: {d: {path: d/, export: $B/dir}}}"
		cairn -C "$S" run -q
		test_is "$(b ls dir/ | cut -d" " -f1 | tr "\n" " ")" "dir/.cairn-export.json dir/a dir/big dir/n1 dir/sub/x "
		b get dir/.cairn-export.json mark >/dev/null
		test_is "$(json mark "[f[\"name\"] for f in d[\"files\"]]")" "[\"a\", \"big\", \"n1\", \"sub/x\"]"
		b get dir/big big >/dev/null
		test_is "$(json mark "[f[\"sha256\"] for f in d[\"files\"] if f[\"name\"] == \"big\"][0]")" "$(sha256sum big | cut -d" " -f1)"
		test_is "$(sha256sum <big)" "$(seq 1 3000000 | sha256sum)"
		head -c 100 /dev/zero >other
		b ls dir/a >before
		cairn -C "$S" run -q -p n=2
		b ls dir/a | cmp - before
		test_is "$(b ls dir/ | cut -d" " -f1 | tr "\n" " ")" "dir/.cairn-export.json dir/a dir/big dir/n2 dir/sub/x "
	'
	test_expect "$S: one file, under its own name or another" '
		pipeline "$S-f" "  make: {run: \"echo f >\${{ outputs.f }}; echo g >\${{ outputs.g }}\", outputs: {f: {path: f.txt, export: $B/files/}, g: {path: g.txt, export: $B/files/model.txt}}}"
		cairn -C "$S-f" run -q
		test_is "$(b ls files/ | cut -d" " -f1 | tr "\n" " ")" "files/f.txt files/f.txt.cairn.json files/model.txt files/model.txt.cairn.json "
	'
	test_expect "$S: a bucket that is not there: the run fails, the task does not" '
		pipeline "$S-none" "  make: {run: \"echo f >\${{ outputs.f }}\", outputs: {f: {path: f.txt, export: ${B%exports}nosuchbucket/f.txt}}}"
		test_code 1 cairn -C "$S-none" run -q --json >out.json 2>err || { cat err out.json >&2; false; }
		cat err >&2; test_is "$(counts out.json)" "1 0 0"
		test_no_grep "$SERVER_SECRET" err
		test_grep "could not be exported to ${B%exports}nosuchbucket/f.txt" <(cat err; cairn -C "$S-none" status)
	'
}
BUCKET_TOOL=$(test_tool bucket_tool)
if server_can versitygw && [ -x "$BUCKET_TOOL" ]; then
	mkdir -p gw.data/exports
	server gw versitygw || test_bail 'versitygw does not start'
	export AWS_ACCESS_KEY_ID=$SERVER_KEY AWS_SECRET_ACCESS_KEY=$SERVER_SECRET AWS_REGION=us-east-1
	E=http://127.0.0.1:$(server_port gw)
	export E
	b() { AWS_ENDPOINT_URL=$E "$BUCKET_TOOL" s3://exports "$@"; }
	suite s3 s3 "store_options: {endpoint: \"$E\", style: path}"
else
	test_skip 's3 exports' 'no versitygw, or no bucket_tool'
fi
if server_can fake-gcs-server && [ -x "$BUCKET_TOOL" ]; then
	server gcs fake-gcs-server || test_bail 'fake-gcs-server does not start'
	GCS=http://127.0.0.1:$(server_port gcs)
	STORAGE_EMULATOR_HOST=${GCS#http://}
	export GCS STORAGE_EMULATOR_HOST
	curl -sf -H 'Content-Type: application/json' -d '{"name":"exports"}' "$GCS/storage/v1/b" >/dev/null
	b() { "$BUCKET_TOOL" gs://exports "$@"; }
	suite gcs gs ""
else
	test_skip 'gs exports' 'no fake-gcs-server, or no bucket_tool'
fi
test_done
