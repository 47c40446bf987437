#!/bin/bash
# A store that a team shares, on a real S3 server: hits in another project, failures, verify and repair, gc, cache modes.
. "$(dirname "$0")/../../net/servers.sh"
. "$(dirname "$0")/../../lib.sh"

server_can versitygw || test_skip_all "versitygw is neither there nor can it be built ($(server_build versitygw))"
server s3 versitygw || test_bail 'versitygw does not start'
server_env s3 versitygw
port=$(server_port s3)
unset AWS_ENDPOINT_URL
ln -s s3.data/tbucket team

# project NAME: one that shares the store
project() {
	mkdir "$1"
	cat >"$1/cairn.yaml" <<YAML
store: s3://tbucket/cache
store_options: {endpoint: "http://127.0.0.1:$port", region: us-east-1, style: path}
YAML
	cat >"$1/pipeline.yaml" <<'YAML'
pipeline: shared
params: {n: 200}
steps:
  make:
    run: |
      for i in $(seq 1 ${{ params.n }}); do echo "line $i" >${{ outputs.d }}/$i; done
      seq 1 100000 >${{ outputs.b }}
    outputs: {d: d/, b: b.txt}
  use:
    run: cat ${{ inputs.d }}/* ${{ inputs.b }} | wc -l >${{ outputs.o }}
    inputs: {d: "${{ steps.make.outputs.d }}", b: "${{ steps.make.outputs.b }}"}
    outputs: {o: o.txt}
YAML
}
counts() { json "$1" '"%(executed)d %(hits)d" % d["counts"]'; }
objects() { find "team/cache/$1" -type f | wc -l; }

project ann
project bob

test_expect 'what one ran another one has: content comes when it is needed' '
	cairn -C ann run -q --json >out
	test_is "$(counts out)" "2 0"
	cairn -C bob run -q --json >out
	test_is "$(counts out)" "0 2"
	cairn -C bob get -q make/d -o d
	test_is "$(ls bob/d | wc -l)" 200
	test_is "$(cat bob/d/77)" "line 77"
	cairn -C bob get -q make/b -o b
	test_is "$(tail -n 1 bob/b)" 100000
	cairn -C bob get -q use -o o
	test_is "$(cat bob/o)" 100200
'
test_expect 'answers about a shared store are as they are described' '
	cairn help json --json >schema.json
	for what in push pull probe stat verify; do cairn -C ann store $what --json >answer-$what.json; done
	python3 "$SRC/tests/cli/program/answers.py" schema.json answer-*.json
'
test_expect 'small files travel in packs, compressed; no lease is left behind' '
	test "$(objects packs)" -le 24 # of 201 files
	test "$(objects blobs)" -le 1
	test_is "$(cat team/cache/version)" "cairn bucket store 1
if-absent yes
delete-if yes"
	test_is "$(find team/cache/leases -type f 2>/dev/null | wc -l)" 0
	test "$(du -sb team/cache | cut -f1)" -lt 500000 # b.txt alone has 588895 bytes
'
test_expect 'cache: read-only takes but sends nothing; off asks nobody' '
	project cid
	before=$(objects .)
	cairn -C cid run -q --json --cache=read-only >out
	test_is "$(counts out)" "0 2"
	cairn -C cid run -q --json --cache=read-only -p n=5 >out
	test_is "$(counts out)" "2 0"
	test_is "$(objects .)" "$before"
	project dan
	cairn -C dan run -q --json --cache=off >out
	test_is "$(counts out)" "2 0"
	CAIRN_CACHE=sometimes test_code 3 cairn -C dan run 2>err
	test_grep "CAIRN_CACHE" err
'
test_expect 'push sends what was made alone; pull brings a run of somebody else by its hash' '
	hash=$(cairn -C cid run -q --json --cache=off -p n=6 | python3 -c "import json, sys; print(json.load(sys.stdin)[\"hash\"])")
	test_code 4 cairn -C bob store pull "$hash" 2>err
	test_grep "neither here nor" err
	cairn -C cid store push last --json >out
	test "$(json out "d[\"objects\"]")" -gt 6
	test_is "$(json out "d[\"missing\"]")" 0
	cairn -C cid store push --json >out
	cairn -C cid store push --json >out
	test_is "$(json out "d[\"objects\"]")" 0
	cairn -C bob store pull "${hash:0:12}" --json >out
	test_is "$(json out "d[\"missing\"]")" 0
	test "$(json out "d[\"fetched\"]")" -ge 3
	test_code 2 cairn -C bob store push --store "$PWD/plain" 2>err || test_code 4 cairn -C bob store push --store "$PWD/plain" 2>err
'
test_expect 'verify repairs each side from the other' '
	cairn -C bob store verify --json >out
	test_is "$(json out "len(d[\"problems\"])")" 0
	id=$(cairn -C bob lineage --json make/b | python3 -c "import json, sys; print(json.load(sys.stdin)[\"artifact\"][7:])")
	blob=ann/.cairn/store/blobs/${id:0:2}/$id
	chmod 644 "$blob"
	test_damage "$blob"
	pack=$(ls -S team/cache/packs/* | grep -v idx | sed -n 1p)
	test_damage "$pack" 60
	cairn -C ann store verify --json >out || test $? = 1 # what only bob has ann can not repair
	test "$(json out "len(d[\"problems\"])")" -ge 2
	test "$(json out "d[\"repaired\"]")" -ge 1
	cairn -C bob store verify >out || cairn -C cid store verify >out
	cairn -C ann store verify --json >out
	test_is "$(json out "d[\"problems\"]")" "[]"
	cairn -C bob store verify --sample 50% >out
	project eve
	cairn -C eve run -q --json >out
	test_is "$(counts out)" "0 2"
	cairn -C eve get -q make/d -o d
	test_is "$(ls eve/d | wc -l)" 200
	test_code 2 cairn -C eve store verify --sample=7 2>err
	test_grep "5%" err
'
test_expect 'the server is away: a run stops before it begins; without the cache it goes on, and push makes it good' '
	stop s3
	AWS_MAX_ATTEMPTS=100 test_code 4 cairn -C ann run -p n=9 2>err
	test_grep "the store s3://tbucket/cache can.t be reached: .*; --cache off goes on without it" err
	test_code 4 cairn -C ann reproduce last 2>err
	test_grep "--cache off goes on without it" err
	cairn -C ann run --json -p n=9 --cache off >out
	test_is "$(counts out)" "2 0"
	server_again s3 versitygw
	cairn -C ann runs --json -n 0 >runs
	cairn -C ann store push --json "$(json runs "d[\"runs\"][0][\"id\"]")" >out
	test "$(json out "d[\"objects\"]")" -ge 3 # of the run that could not send: it is told, too
	cairn -C ann store push --json last >out
	test_is "$(json out "d[\"objects\"]")" 0
	cairn -C bob run -q --json -p n=9 >out
	test_is "$(counts out)" "0 2"
'
test_expect 'the beginning of two run hashes, each here and in the bucket: two runs' '
	for end in 1 2; do
		hash=$(printf "abcdef%057d%d" 0 $end)
		for dir in ann/.cairn/store team/cache; do
			mkdir -p $dir/runs/ab
			echo "{}" >"$dir/runs/ab/$hash"
		done
	done
	test_code 3 cairn -C ann reproduce abcdef 2>err
	rm {ann/.cairn/store,team/cache}/runs/ab/abcdef0*
	test_grep "could be any of 2 runs in" err
'
test_expect 'keys that are refused are one clear error, without the secret' '
	project fay
	AWS_SECRET_ACCESS_KEY=not-the-secret test_code 3 cairn -C fay run 2>err
	test_grep "s3://tbucket" err
	test_must_fail grep -q not-the-secret err
'
test_expect 'gc: the first look marks; dry run removes nothing; stat and probe' '
	cairn -C ann store gc --keep 1s --grace 0s --json >out
	test_is "$(json out "d[\"deleted\"]")" 0
	cairn -C ann store gc --dry-run
	cairn -C bob run -q --json >out # nothing went
	test_is "$(counts out)" "0 2"
	cairn -C ann store stat --json >out
	test "$(json out "d[\"shared\"][\"packs\"]")" -ge 2
	test_is "$(json out "d[\"shared\"][\"leases\"]")" 1 # its own
	cairn -C ann store stat
	cairn -C ann store probe --json >out
	test_is "$(json out "d[\"if_absent\"]")" true
'
write program.yaml <<'YAML'
pipeline: program
params: {name: x}
steps:
  build:
    run: |
      printf '#!/bin/sh\necho hello $1\nexit\n' >p
      { cat p; seq 60000; } >large
      chmod +x p large
    outputs: {p: p, large: large}
  use:
    run: ${{ inputs.p }} ${{ params.name }} >o; ${{ inputs.large }} large >>o
    inputs: {p: "${{ steps.build.outputs.p }}", large: "${{ steps.build.outputs.large }}"}
    outputs: {o: o}
YAML
test_expect 'a program that one made is started by another one, who has it from the bucket; one that is sent by push, and fetched by pull' '
	project gil
	project hal
	cp program.yaml gil
	cp program.yaml hal
	cairn -C gil run program.yaml -q
	rm -rf hal/.cairn
	cairn -C hal run program.yaml -q -p name=hal --json >out
	test_is "$(counts out)" "1 1"
	cairn -C hal get -q use/o -o - >o
	test_is "$(cat o)" "hello hal
hello large"
	cairn -C hal store verify
	cairn -C hal get -q build/large -o ../got
	test_is "$(stat -c %a got)" 755
	mkdir ian
	echo "# alone" >ian/cairn.yaml
	cp program.yaml ian
	cairn -C ian run program.yaml -q -p name=ian
	cp gil/cairn.yaml ian
	cairn -C ian store push
	rm -rf ian/.cairn/store hal/.cairn
	cairn -C hal store pull
	cairn -C hal run program.yaml -q -p name=ian --json >out
	test_is "$(counts out)" "0 2"
	cairn -C hal get -q build/p -o ../got --replace
	test_is "$(stat -c %a got)" 755
'
test_done
