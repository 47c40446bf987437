#!/bin/bash
# Pipelines of peers in Cairn's words, run for real. README.md names the originals.
. "$(dirname "$0")/../lib.sh"

echo '# project' >cairn.yaml
cp "$SRC"/tests/peers/*.yaml .
mkdir reads envs
seq 1 5 >reads/a.txt
seq 6 9 >reads/b.txt
printf '@EXPLICIT\nhttps://example.org/linux-64/map-reads-1.conda#%032d\n' 7 >envs/mapping.txt

# states RUN: how each task ended.
states() { cairn status --json "$1" | json /dev/stdin '{t["task"]: t["state"] for t in d["tasks"] + d["not_executed"]}'; }
state() { cairn status --json last | json /dev/stdin "{t['task']: t['state'] for t in d['tasks'] + d['not_executed']}['$1']"; }
asks() { cairn status --json last >status.json 2>/dev/null && test_grep 'waiting for approval: approve' status.json 2>/dev/null; }

test_expect 'all of them are valid' '
	for f in *.yaml; do
		[ "$f" = cairn.yaml ] || cairn check -q "$f"
	done
'

test_expect 'exit-handlers: after a success, celebrate and no crying' '
	cairn run -q exit-handlers.yaml
	test_is "$(state celebrate)" succeeded
	test_is "$(state cry)" skipped
	cairn get -q send-email/mail -o mail
	test_grep "workflow succeeded: failed .., publish succeeded" mail
	test_grep data mail
'

test_expect 'exit-handlers: after a failure, the mail names it, and the failure stays' '
	test_code 1 cairn run -q exit-handlers.yaml -p outcome=badly
	test_is "$(state celebrate)" skipped
	test_is "$(state cry)" succeeded
	test_is "$(state publish)" blocked
	cairn get -q send-email/mail -o mail2
	test_grep "workflow failed: failed .work., publish blocked" mail2
'

test_expect 'enhanced-depends: alternatives, and a failure that another step asks about' '
	cairn run -q enhanced-depends.yaml
	for t in should-execute-1 should-execute-2 should-execute-3 after-b-failed; do
		test_is "$t $(state $t)" "$t succeeded"
	done
	test_is "$(state should-not-execute)" skipped
	test_is "$(state b)" failed
	cairn status >out
	test_grep "failed, but .continue_on_error.: b" out
'

test_expect 'coinflip: one branch runs, what reads the other is skipped' '
	cairn run -q coinflip.yaml
	test_is "$(state heads) $(state tails) $(state read-tails) $(state either) $(state neither)" "succeeded skipped skipped succeeded skipped"
	cairn logs read-heads >out
	test_grep "it was heads" out
	cairn run -q coinflip.yaml -p coin=tails
	test_is "$(state heads) $(state tails) $(state read-heads) $(state either) $(state neither)" "skipped succeeded skipped hit skipped"
	cairn logs read-tails >out
	test_grep "it was tails" out
'

test_expect 'coinflip-recursive: flips until it is heads, each flip on record; and gives up where Argo would not' '
	cairn run -q coinflip-recursive.yaml
	test_is "$(state "flip[round=1]") $(state "flip[round=2]") $(state "flip[round=3]") $(state heads)" "succeeded succeeded succeeded succeeded"
	cairn logs "flip[round=2]" >out
	test_is "$(cat out)" tails
	cairn get -q heads/side -o side
	test_grep "it was heads at last" side
	sed "s/max: 20/max: 2/" coinflip-recursive.yaml >twice.yaml
	test_code 1 cairn run -q twice.yaml
	test_is "$(state "flip[round=2]") $(state heads)" "failed blocked"
'

test_expect 'retry-backoff: the third attempt succeeds' '
	cairn run -q retry-backoff.yaml -p "tries=$PWD/tries"
	test_is "$(wc -l <tries)" 3
	test_is "$(cairn status --json last | json /dev/stdin "[t[\"state\"] for t in d[\"tasks\"]]")" "[\"failed\", \"failed\", \"succeeded\"]"
'

test_expect 'matrix-failures: siblings go on, tolerated failures leave a gap, and the others fail the run' '
	test_code 1 cairn run -q matrix-failures.yaml
	test_is "$(state "test[os=linux]") $(state "test[os=macos]") $(state "test[os=windows]")" "failed succeeded succeeded"
	test_is "$(state "lint[tool=strict]") $(state reports) $(state release)" "failed succeeded blocked"
	cairn logs reports >out
	test_is "$(cat out)" "tool=lax.txt"
	cairn logs alarm >out
	test_grep "^failed test.os=linux.$" out
'

test_expect 'parallel-for: a task for each object and each name of a list that a step made; one of three branches' '
	cairn run -q parallel-for.yaml
	test_is "$(state "over-objects[a=1,b=ten]") $(state "over-objects[a=2,b=twenty one]")" "succeeded succeeded"
	test_is "$(state "over-names[s1]") $(state "over-names[s2]") $(state "over-names[s3]")" "succeeded skipped succeeded"
	test_is "$(state if-heads) $(state elif-tails) $(state else)" "succeeded skipped skipped"
	cairn get -q collected/all -o all
	printf "%s\n" "a=1 b=ten" "a=2 b=twenty one" 1 2 >want
	test_cmp want all
	cairn run -q parallel-for.yaml -p flip=edge
	test_is "$(state if-heads) $(state elif-tails) $(state else)" "skipped skipped succeeded"
	test_is "$(state "over-objects[a=1,b=ten]") $(state collected)" "hit hit"
'

test_expect 'foreach-join: each branch has its title, the join has the values and files of all' '
	cairn run -q foreach-join.yaml
	cairn get -q join/result -o result
	printf "%s\n" "scores 15 14 6 best 15" "stranger things, house of cards, narcos" "model of house of cards" "model of narcos" "model of stranger things" >want
	test_cmp want result
	cairn run -q foreach-join.yaml -p "titles=[narcos, dark]"
	test_is "$(state "rate[narcos]") $(state "rate[dark]")" "hit succeeded"
	cairn get -q join/result -o result2
	test_grep "^scores 6 4 best 6$" result2
'

test_expect 'experiments: a grid of runs, two at once; the common step runs once, and the best model can be taken' '
	cairn sweep -q experiments.yaml grid --json >sweep
	test_is "$(json sweep "d[\"counts\"]")" "{\"ended\": 4, \"failed\": 0, \"trials\": 4, \"with_value\": 4}"
	test_is "$(json sweep "[d[\"best\"][\"params\"], d[\"best\"][\"value\"]]")" "[{\"train.lr\": 0.01, \"train.optimizer\": \"adam\"}, 0.01]"
	cairn runs --sweep grid --json >trials
	test_is "$(json trials "sum(r[\"counts\"][\"executed\"] for r in d[\"runs\"])")" 5
	cairn get -q "$(json sweep "d[\"best\"][\"run\"]")/train/model" -o model
	test_grep "^0.01 adam$" model
	cairn sweep experiments.yaml grid >out 2>err
	test_grep "4 on record" err
'

test_expect 'loops-maps: here both run; on a cluster each has its image and memory' '
	cairn run -q loops-maps.yaml
	cairn logs all >out
	printf "%s\n" "alpine 3.6" "debian 9.1" >want
	test_cmp want out
	mkdir cluster
	cp loops-maps.yaml cluster
	write cluster/cairn.yaml <<-E
		store: $PWD/store
		kubernetes:
		  image: "registry.example.org/cairn@sha256:$(printf %064d 1)"
		  store_claim: shared
	E
	write cluster/kubeconfig <<-"E"
		apiVersion: v1
		kind: Config
		clusters: [{name: lab, cluster: {server: "https://127.0.0.1:1"}}]
		users: [{name: me, user: {token: x}}]
		contexts: [{name: lab, context: {cluster: lab, user: me, namespace: ml}}]
		current-context: lab
	E
	KUBECONFIG=$PWD/cluster/kubeconfig CAIRN_STORE= cairn run -C cluster loops-maps.yaml --on kubernetes --dry-run=client -o json >objects.json
	python3 - >got <<-"P"
		import json
		pods = [o["spec"]["template"]["spec"] for o in json.load(open("objects.json"))["items"] if o["kind"] == "Job"]
		mains = [c for p in pods for c in p["containers"] if c["name"] == "main" and "all" not in c["image"]]
		for line in sorted(c["image"].split("/")[-1][:22] + " " + c["resources"].get("limits", {}).get("memory", "") for c in mains if "@" in c["image"]):
		    print(line)
	P
	test_grep "^alpine@sha256:22222222 52428800$" got
	test_grep "^debian@sha256:11111111 104857600$" got
'

test_expect 'suspend: one waits for a person, one for a time' '
	start suspend cairn run suspend.yaml
	wait_until 30 asks
	cairn approve -q last approve
	wait_until 30 test -s suspend.rc
	test_is "$(cat suspend.rc)" 0
	test_is "$(state approve) $(state delay) $(state release)" "succeeded succeeded succeeded"
	cairn logs release >out
	test_grep built out
'

test_expect 'handlers: a condition before a step, a failure that is tolerated, a pipeline as a step, and what runs at the end' '
	cairn run -q handlers.yaml -p day=sunday
	test_is "$(state weekdays-only) $(state best-effort) $(state etl/load) $(state success) $(state failure)" "skipped failed succeeded succeeded skipped"
	cairn logs exit >out
	printf "%s\n" "main 1" "main 2" succeeded >want
	test_cmp want out
	test_code 1 cairn run -q --keep-going handlers.yaml -p broken=true # else `check` may fail before the day is known
	test_is "$(state weekdays-only) $(state etl/load) $(state success)" "succeeded hit skipped"
	cairn logs failure >out
	test_grep "^failed check$" out
'

# A tool that makes what micromamba would: here an environment with the program `map-reads`.
write tools/micromamba <<'SH'
#!/bin/sh
while [ $# -gt 0 ]; do
	[ "$1" != --prefix ] || dir=$2
	shift
done
mkdir -p "$dir/bin" "$dir/conda-meta"
printf '#!/bin/sh\nsed "s/^/mapped /" "$1"\n' >"$dir/bin/map-reads"
chmod +x "$dir/bin/map-reads"
echo '{}' >"$dir/conda-meta/map-reads-1.json"
SH
chmod +x tools/micromamba

test_expect 'sorted-reads: the environment of a step; what is temporary is freed, and made again when it is needed' '
	export PATH=$PWD/tools:$PATH CAIRN_TEST_MARK_GAP=0s
	cairn run -q sorted-reads.yaml
	cairn get -q last/sort/sorted -o sorted
	printf "mapped %s\n" 5 4 9 8 >want
	test_cmp want sorted
	find .cairn/store -type f -exec touch -d "3 days ago" {} +
	cairn store gc --grace 1ms -q
	cairn store gc --grace 1ms -q
	test_code 4 cairn get "last/map[a]/bam" -o bam 2>err
	cairn run -q sorted-reads.yaml
	test_is "$(state "map[a]") $(state "map[b]") $(state sort)" "hit hit hit"
	cairn run -q sorted-reads.yaml -p head=1
	test_is "$(state "map[a]") $(state "map[b]") $(state sort)" "succeeded succeeded succeeded"
	cairn get -q last/sort/sorted -o sorted2
	printf "mapped %s\n" 5 9 >want
	test_cmp want sorted2
'

test_done
