#!/bin/bash
# The examples as a user gets them: each runs as it is, a second time too, with a changed param, and its gate holds.
. "$(dirname "$0")/../../web/web.sh"
# shellcheck source=../../../examples/setup.sh
. "$SRC/examples/setup.sh"
setup_python sklearn matplotlib

have_sklearn() { python3 -c 'import sklearn, matplotlib' 2>/dev/null; }

for example in digits dice textstats fashion; do
	cp -R "$SRC/examples/$example" "$example"
	rm -rf "$example/.cairn"
	test_expect "$example: is valid" "cd $example; cairn check pipeline.yaml"
done

test_expect 'textstats: runs, and again, and its script starts it' '
	cd textstats
	cairn run pipeline.yaml >../out 2>&1
	cairn run pipeline.yaml --json >../again 2>../out
	test_is "$(json ../again "d[\"counts\"][\"executed\"]")" 0
	mkdir -p ../copy/examples
	cp -R "$SRC"/examples/setup.sh "$SRC"/examples/textstats ../copy/examples
	CAIRN="$TRASH/bin/cairn" bash ../copy/examples/textstats/run.sh -p top=3 >../out 2>&1
'
test_expect 'textstats: an empty text and a new one' '
	cd textstats
	: >texts/empty.txt
	echo "one two two" >"texts/a new one.txt"
	cairn run pipeline.yaml >../out 2>&1
'
test_expect 'dice: runs, and --twice says which step cannot be repeated' '
	cd dice
	test_code 11 cairn run --twice pipeline.yaml >../out 2>&1
	test_grep "urandom diverged first" ../out
'
if have_sklearn; then
	test_expect 'digits: runs, and again, and with a changed param' '
		cd digits
		cairn run pipeline.yaml >../out 2>&1
		cairn run pipeline.yaml --json >../again 2>../out
		test_is "$(json ../again "d[\"counts\"][\"executed\"]")" 0
		cairn run pipeline.yaml -p show=20 >../out 2>&1
	'
	test_expect 'digits: a gate that is too high fails the run' '
		cd digits
		sed "s/>= 0.95/>= 0.9999/" pipeline.yaml >strict.yaml
		test_code 1 cairn run strict.yaml >../out 2>&1
		test_grep "accuracy" ../out
	'
else
	test_skip 'digits' 'python3-sklearn or python3-matplotlib is missing'
fi

model() { cairn lineage --json train/model -r last >l; json l 'd["artifact"]'; }
in_mid_epoch() { ls .cairn/checkpoints/*/data/state.pt >/dev/null 2>&1; }

if /usr/bin/python3 -c 'import torch, numpy' 2>/dev/null && [ -d /usr/share/datasets/fashion-mnist ]; then
	setup_python torch numpy
	# A tenth of the data, which is no model to be proud of; --full takes all of it.
	if [ "${CAIRN_TEST_FULL:-0}" != 1 ]; then
		mkdir small
		python3 - small <<-\PYTHON
			import gzip, struct, sys
			for part in ("train", "t10k"):
			    for kind, size in (("images-idx3", 784), ("labels-idx1", 1)):
			        name = f"{part}-{kind}-ubyte.gz"
			        data = gzip.open(f"/usr/share/datasets/fashion-mnist/{name}").read()
			        count = struct.unpack(">I", data[4:8])[0] // 10
			        head = 16 if size > 1 else 8
			        with gzip.open(f"{sys.argv[1]}/{name}", "w", 1) as out:
			            out.write(data[:4] + struct.pack(">I", count) + data[8:head + count * size])
		PYTHON
		sed -i "s#/usr/share/datasets/fashion-mnist#$PWD/small#; s/>= 0.88/>= 0.6/; s/samples_per_shard: 1000/samples_per_shard: 500/" fashion/pipeline.yaml
		sed -i 's/^SAVE_EVERY = 50 /SAVE_EVERY = 5 /' fashion/train.py
	fi
	sed -i 's/>= 0.88/>= 0.75/' fashion/pipeline.yaml
	cp -R fashion 'fashion again'
	test_expect 'fashion: an epoch on two ranks, its predictions, its report' '
		cd fashion
		cairn run -q -p epochs=1 pipeline.yaml
		cairn get evaluate/report -o report
		test_exists report/metrics.json
		cairn run -q --json -p epochs=1 pipeline.yaml >out
		test_is "$(json out "d[\"counts\"][\"executed\"]")" 0
		model >../model
	'
	test_expect 'fashion: kill -9 in mid-epoch; what goes on from the checkpoint has the same bytes' '
		cd "fashion again"
		export CAIRN_STORE=${CAIRN_STORE:+$CAIRN_STORE-again} # what was computed must be computed anew
		cairn run -q -p epochs=1 --until train pipeline.yaml &
		engine=$!
		wait_until 120 in_mid_epoch
		kill -9 $engine
		wait $engine || :
		cairn resume -q
		cairn logs train >log
		test_grep "going on at step" log
		test_is "$(model)" "$(cat ../model)"
		test ! -e .cairn/checkpoints/*/data/state.pt
	'
else
	test_skip 'fashion' 'python3-torch, python3-numpy or dataset-fashion-mnist is missing'
fi

# What they made, in the browser: one server of both projects.
if test_have node && test_have chromium && test_have curl && WEB_MODULES=$(web_modules); then
	export WEB_MODULES
	projects=()
	if have_sklearn; then projects+=(digits); fi
	if [ -d fashion/.cairn ]; then projects+=(fashion); fi
	if [ ${#projects[@]} -gt 0 ]; then
		web_serve "${projects[@]}"
		web_browser
	fi
	for project in "${projects[@]}"; do
		test_expect "$project: its pages" "web examples.mjs $project"
	done
else
	test_skip 'pages of the examples' 'nodejs, chromium or the packages of web/ are missing'
fi
test_done
