#!/bin/bash
# cairn init: a project that runs, and nothing that was there is touched.
. "$(dirname "$0")/../../lib.sh"

test_expect 'init makes a project whose pipeline is valid' '
	cairn init demo >out 2>err
	test_exists demo/cairn.yaml
	test_exists demo/pipeline.yaml
	test_exists demo/.cairn
	test_is "$(cat demo/.gitignore)" ".cairn/"
	test_grep "^made demo/pipeline.yaml" out
	test_grep "cd demo" err
	cd demo
	cairn check >out 2>err
	test_grep "valid" out
	test_lines 0 err
'
test_expect 'a second init changes nothing' '
	cd demo
	rm -f out err
	find . -type f | sort | xargs sha256sum >../before
	cairn init >../out 2>../err
	test_grep "nothing changed" ../err
	find . -type f | sort | xargs sha256sum >../after
	test_cmp ../before ../after
'
test_expect 'what is there is kept, also a dangling link; .gitignore only grows' '
	mkdir mine
	cd mine
	echo "pipeline: own" >pipeline.yaml
	ln -s nowhere cairn.yaml
	printf "build/\n*.o" >.gitignore
	cairn init >out
	test_is "$(cat pipeline.yaml)" "pipeline: own"
	test_is "$(readlink cairn.yaml)" nowhere
	test_is "$(cat .gitignore)" "$(printf "build/\n*.o\n.cairn/")"
	test_grep "kept pipeline.yaml" out
'
for line in .cairn /.cairn/ '**/.cairn/'; do
	test_expect "a .gitignore that says $line already is left alone" "
		rm -rf ig
		mkdir ig
		printf '%s\r\n' '$line' >ig/.gitignore
		cairn init ig >/dev/null
		test_lines 1 ig/.gitignore
	"
done
test_expect 'quiet' '
	cairn -q init silent >out 2>err
	test_lines 0 out
	test_lines 0 err
'
test_expect --needs NONROOT 'where nothing can be written: exit 4' '
	mkdir closed
	chmod 500 closed
	test_code 4 cairn init closed/x 2>err
	test_grep closed err
'
test_expect 'a file in the way: exit 4' '
	echo >file
	test_code 4 cairn init file/x 2>err
	test_code 4 cairn init file 2>err
	test_grep file err
'
test_done
