#!/bin/bash
# The examples as a user gets them: each runs as it is, a second time too, with a changed param, and its gate holds.
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../../examples/setup.sh
. "$SRC/examples/setup.sh"
setup_python sklearn matplotlib

have_sklearn() { python3 -c 'import sklearn, matplotlib' 2>/dev/null; }

for example in digits textstats; do
	cp -R "$SRC/examples/$example" "$example"
	rm -rf "$example/.cairn"
	test_expect "$example: is valid" "cd $example; cairn check pipeline.yaml"
done

test_expect 'textstats: runs, and again, and its script starts it' '
	cd textstats
	cairn run pipeline.yaml >../out 2>&1
	cairn run pipeline.yaml >../out 2>&1
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
if have_sklearn; then
	test_expect 'digits: runs, and again, and with a changed param' '
		cd digits
		cairn run pipeline.yaml >../out 2>&1
		cairn run pipeline.yaml >../out 2>&1
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
test_done
