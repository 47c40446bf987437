#!/bin/bash
# One team, one bucket: runs and names of one are the other's: by hash, by name, by a reindex on an empty machine; without a network they wait for it.
. "$(dirname "$0")/../servers.sh"
. "$(dirname "$0")/../../lib.sh"
. "$SRC/tests/net/net.sh"

server_can versitygw || test_skip_all "versitygw is neither there nor can it be built ($(server_build versitygw))"
server gw versitygw || test_bail 'versitygw does not start'
server_env gw versitygw
export GOOD=$AWS_ENDPOINT_URL

mkdir ann bob cleo
for who in ann bob cleo; do echo 'store: s3://tbucket/team' >$who/cairn.yaml; done
write ann/pipeline.yaml <<'Y'
pipeline: fashion
params: {n: 1}
steps:
  train:
    run: 'echo model ${{ params.n }} >${{ outputs.model }}; printf "{\"acc\":0.%d}" ${{ params.n }} >m.json; echo trained'
    outputs: {model: m}
    metrics: m.json
  eval: {run: "wc -c <${{ inputs.m }} >o", inputs: {m: "${{ steps.train.outputs.model }}"}, outputs: {o: o}}
Y

test_expect 'ann runs, and names two of her runs' '
	for n in 1 2 3; do cairn -C ann run -q -p n=$n; done
	cairn -C ann runs --json >ann.runs
	cairn -C ann tag "$(json ann.runs "d[\"runs\"][2][\"id\"]")" fashion/best
	cairn -C ann tag last fashion/best -m better
	cairn -C ann tag last v3
	cairn -C ann tag --json >ann.tags
	test_is "$(find gw.data/tbucket/team/tags -type f | wc -l)" 3
'
test_expect 'bob, whose project never knew the run: by its hash, by the beginning of it, and by name' '
	hash=$(json ann.runs "d[\"runs\"][1][\"hash\"]")
	cairn -C bob get "$hash" -o run
	test_is "$(cat bob/run/outputs/train/model)" "model 2"
	test_grep trained bob/run/logs/train.log
	test_cmp ann/pipeline.yaml bob/run/pipeline/pipeline.yaml
	hash=$(json ann.runs "d[\"runs\"][2][\"hash\"]")
	test_is "$(cairn -C bob get "${hash:0:12}:model" -o -)" "model 1"
	cairn -C bob tag --json >bob.tags
	test_cmp ann.tags bob.tags
	test_is "$(cairn -C bob get fashion/best:model -o -)" "model 3"
	test_is "$(cairn -C bob get fashion/best@metric.acc)" 0.3
	cairn -C bob runs --json >bob.runs
	test_is "$(json bob.runs "len(d[\"runs\"])")" 3
	test_code 4 cairn -C bob get deadbeef01 -o no 2>err
	test_lines 1 err
'
test_expect 'cleo, on an empty machine: reindex, and all of it can be asked' '
	cairn -C cleo store reindex --json >out
	test_is "$(json out "[d[\"runs\"], d[\"attempts\"], d[\"tags\"], d[\"renumbered\"]]")" "[3, 6, 3, false]"
	cairn -C cleo runs --json >cleo.runs
	test_cmp <(cairn -C ann runs --json) cleo.runs
	cairn -C cleo tag --json >cleo.tags
	test_cmp ann.tags cleo.tags
	cairn -C cleo lineage --json eval/o >cleo.lin
	cairn -C ann lineage --json eval/o >ann.lin
	test_cmp ann.lin cleo.lin
	cairn -C cleo metrics --json >cleo.metrics
	test_cmp <(cairn -C ann metrics --json) cleo.metrics
	test_is "$(cairn -C cleo runs --metric "acc>=0.25" --json | json /dev/stdin "len(d[\"runs\"])")" 1
'
test_expect 'both move one name: everybody comes to the same, the later one' '
	cairn -C bob tag "$(json ann.runs "d[\"runs\"][1][\"id\"]")" fashion/best -m "bob says"
	cairn -C ann tag --json >ann.tags
	cairn -C bob tag --json >bob.tags
	test_cmp ann.tags bob.tags
	test_is "$(json ann.tags "[t[\"note\"] for t in d[\"tags\"] if t[\"name\"] == \"fashion/best\"]")" "[\"bob says\"]"
	cairn -C ann tag --history fashion/best --json >out
	test_is "$(json out "len(d[\"tags\"])")" 3
'
test_expect 'without a network a name is given all the same, and goes up later' '
	export AWS_ENDPOINT_URL=http://127.0.0.1:1 AWS_MAX_ATTEMPTS=1
	cairn -C ann tag last offline 2>err
	test_grep "store push" err
	test_is "$(cairn -C ann get offline:model -o -)" "model 3"
	export AWS_ENDPOINT_URL=$GOOD
	cairn -C ann store push >out
	cairn -C bob tag --json >bob.tags
	test_is "$(json bob.tags "\"offline\" in [t[\"name\"] for t in d[\"tags\"]]")" true
'
test_expect 'a change that lies here and in the bucket is counted once' '
	rm -f ann/.cairn/cairn.db*
	cairn -C ann store reindex --json >out
	test_is "$(json out "d[\"tags\"]")" "$(find gw.data/tbucket/team/tags -type f | wc -l)"
	cairn -C ann tag --json >ann.tags
	cairn -C bob tag --json >bob.tags
	test_cmp ann.tags bob.tags
'
test_expect --needs openssl 'who names a writer of the bucket takes only what that one signed' '
	mkdir signing reading dora eve
	mkdir signing/cairn reading/cairn
	(umask 077; openssl genpkey -algorithm ed25519 -out signing/cairn/key 2>/dev/null)
	for who in dora eve; do
		echo "store: s3://tbucket/signed" >$who/cairn.yaml
		cp ann/pipeline.yaml $who
	done
	XDG_CONFIG_HOME=$PWD/signing cairn -C dora run -q
	XDG_CONFIG_HOME=$PWD/signing cairn -C dora doctor --json >doctor
	key=$(json doctor "[c[\"detail\"].split()[-1] for c in d[\"checks\"] if c[\"name\"] == \"signing\"][0]")
	cairn -C ann run -q --store s3://tbucket/signed -p n=2
	echo "writer s3://tbucket/signed/ $key" >reading/cairn/trust
	export XDG_CONFIG_HOME=$PWD/reading
	cairn -C eve store pull -q
	test_code 1 cairn -C eve store reindex >out 2>&1
	test_grep "as absent: no writer signed" out
	cairn -C eve runs --json >eve.runs
	test_is "$(json eve.runs "[r[\"params\"][\"n\"] for r in d[\"runs\"]]")" "[1]"
	cairn -C eve run -q
	cairn -C eve status --json >said
	test_is "$(json said "d[\"run\"][\"counts\"][\"hits\"]")" 2
	cairn -C eve run -q -p n=2
	cairn -C eve status --json >said
	test_is "$(json said "d[\"run\"][\"counts\"][\"executed\"]")" 2
'
test_done
