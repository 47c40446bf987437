#!/bin/bash
# The Debian package: lintian, what is in it, and an installation into an empty root.
real_home=$HOME
. "$(dirname "$0")/../lib.sh"

static() { HOME=$real_home XDG_CACHE_HOME=${test_xdg:-$real_home/.cache} "$SRC/packaging/static" "$@"; }
command -v dpkg-deb >/dev/null || test_skip_all 'no dpkg-deb'
[ "$(uname -m)" = x86_64 ] || test_skip_all 'a program for x86_64 does not run here'
if [ "${CAIRN_TEST_FULL:-0}" = 0 ] && ! static --check x86_64 >lacks; then
	test_skip_all "$(cat lacks)"
fi
static x86_64 >path || test_skip_all 'the static program cannot be built here'
PROGRAM=$(cat path)
export PROGRAM

test_expect 'it is built, the same twice' '
	"$SRC/packaging/deb" "$PROGRAM" x86_64 out >deb
	"$SRC/packaging/deb" "$PROGRAM" x86_64 again >deb2
	cmp "$(cat deb)" "$(cat deb2)"
'
test_expect 'it has program, man pages, completions, schema, unit and licences' '
	dpkg-deb -x "$(cat deb)" tree
	cmp tree/usr/bin/cairn "$PROGRAM"
	test_exists tree/usr/share/man/man1/cairn-run.1.gz tree/usr/share/bash-completion/completions/cairn tree/usr/share/zsh/vendor-completions/_cairn
	test_exists tree/usr/share/fish/vendor_completions.d/cairn.fish tree/usr/share/cairn/pipeline.schema.json
	test_grep "^ExecStart=/usr/bin/cairn serve" tree/usr/lib/systemd/system/cairn@.service
	test_grep "^ openssl " tree/usr/share/doc/cairn/copyright
	dpkg-deb -f "$(cat deb)" Depends >depends
	test_no_grep "[^ ]" depends
'
test_expect --needs lintian 'lintian has no error and no warning' '
	lintian --allow-root --fail-on error,warning "$(cat deb)" >report
	test_lines 0 report
'
test_expect --needs 'ROOT dpkg' 'dpkg installs it into an empty root, and removes it' '
	mkdir -p root/var/lib/dpkg/{info,updates,triggers} root/tmp
	: >root/var/lib/dpkg/status
	dpkg --root="$PWD/root" --force-not-root --force-script-chrootless --no-triggers -i "$(cat deb)" >log 2>&1
	chroot root /usr/bin/cairn version >said
	test_grep "^cairn " said
	dpkg --root="$PWD/root" --no-triggers -r cairn >log 2>&1
	test_missing root/usr/bin/cairn
'
test_done
