#!/bin/bash
# CMake's install: programs, man pages, completions, schema, systemd unit and documents are where a distribution wants them, and the program works from there.
. "$(dirname "$0")/../lib.sh"

command -v cmake >/dev/null || test_skip_all 'no cmake'
[ -e "$test_build/cmake_install.cmake" ] || test_skip_all "$test_build is no build folder of CMake"
[ -e "$test_build/shared/share/man/man1/cairn.1" ] || test_skip_all 'the man pages are not built (ninja program)'

test_expect 'everything is installed below one prefix' '
	cmake --install "$test_build" --prefix "$TRASH/root" >log 2>&1
	cd "$TRASH/root"
	test_exists bin/cairn bin/cairn-steps lib/cairn/cairn-init
	test_exists share/man/man1/cairn.1 share/man/man1/cairn-run.1 share/bash-completion/completions/cairn share/zsh/vendor-completions/_cairn
	test_exists share/fish/vendor_completions.d/cairn.fish share/cairn/pipeline.schema.json lib/systemd/system/cairn@.service share/doc/cairn/LICENSE
	test_missing include share/tests
	cmp "$SRC/pipelines/schema.json" share/cairn/pipeline.schema.json
	find . -name "*.a" >../libraries
	test_lines 0 ../libraries
'
test_expect 'a distribution stages the same files below DESTDIR' '
	DESTDIR=$TRASH/stage cmake --install "$test_build" --prefix /usr >log 2>&1
	diff <(cd "$TRASH/root"; find . | sort) <(cd "$TRASH/stage/usr"; find . | sort)
	test_grep "^ExecStart=/usr/bin/cairn serve" "$TRASH/stage/usr/lib/systemd/system/cairn@.service"
	find "$TRASH/stage" -mindepth 1 -maxdepth 1 >tops
	test_is "$(cat tops)" "$TRASH/stage/usr"
	grep -rlI "$TRASH/stage" "$TRASH/stage" >told || true
	test_lines 0 told
'
test_expect 'the installed program finds the others beside it' '
	"$TRASH/root/bin/cairn" version >out
	test_grep "^cairn [0-9]" out
	"$TRASH/root/bin/cairn" step shard --help >out
	test_grep samples_per_shard out
	"$TRASH/root/bin/cairn" init here
	"$TRASH/root/bin/cairn" -C here run
'
test_expect 'the unit runs the installed program for one project, which its name tells' '
	unit=$TRASH/root/lib/systemd/system/cairn@.service
	test_grep "^ExecStart=$TRASH/root/bin/cairn serve " "$unit"
	test_grep "^WorkingDirectory=/%I$" "$unit"
	test_grep "^User=" "$unit"
	test_no_grep "/srv/project$" "$unit"
	test_no_grep Socket "$unit"
'
test_expect --needs systemd-analyze 'systemd takes the unit' '
	sed "s|^ExecStart=[^ ]*|ExecStart=/bin/true|" "$TRASH/root/lib/systemd/system/cairn@.service" >cairn@srv-project.service
	systemd-analyze verify "$PWD/cairn@srv-project.service" >err 2>&1 || test_no_grep "cairn@.*(Unknown|Failed to parse|Invalid)" err
'
test_done
