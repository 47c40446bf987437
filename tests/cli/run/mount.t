#!/bin/bash
# Inputs that are mounted: the same results as with copies, nothing reaches the store or the host, and what a step can't do is said.
. "$(dirname "$0")/../../lib.sh"

# Others on this machine mount and unmount all the time, so only what names this test's directory counts.
ours=${TRASH##*/}

as_nobody="setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=$TRASH/work/user"

head -c 3000000 /dev/urandom >big.bin
echo 'workspace: mount' >cairn.yaml
if ! cairn doctor >doctor || ! grep -q 'copies .*inputs are mounted' doctor; then
	test_skip 'inputs are mounted' "$(sed -n 's/.*copies *//p' doctor)"
	test_done
	exit
fi

# Odd names, links, equal files, executables that are plain elsewhere, empty files and directories.
mkdir -p tree/sub tree/empty
printf '#!/bin/sh\necho ran\n' >tree/run.sh
cp tree/run.sh tree/sub/plain
chmod +x tree/run.sh
ln -s sub/plain tree/link
: >tree/none
echo odd >"tree/a b
c"
echo utf >tree/é,:=%
head -c 200000 /dev/urandom >tree/sub/data
cp tree/sub/data tree/sub/data2
write same.yaml <<'YAML'
pipeline: same
inputs: {big: big.bin, tree: tree/}
steps:
  s:
    run: |
      find inputs -printf '%p %y %m %l\n' | sort >out/list
      find inputs -type f -print0 | sort -z | xargs -0 sha256sum >out/sums
      tar --sort=name --mtime=@0 -cf out/tree.tar inputs/tree
      inputs/tree/run.sh >ran.txt
      cp -r inputs/tree out/tree
      chmod -R u+w out/tree inputs
      echo more >inputs/tree/new
      echo more >>inputs/big.bin
      echo more >beside
      rm -r inputs/tree/sub
      mv inputs/tree/run.sh moved.sh
      mkdir inputs/tree/sub
      ls -R inputs >out/after
      test "$(head -c 4 "$TMPDIR/../w/beside")" = more
      echo '{"n": 1}' >metrics.json
    inputs: {big: "${{ inputs.big }}", tree: "${{ inputs.tree }}"}
    outputs: {o: out/, ran: ran.txt, moved: moved.sh}
    metrics: metrics.json
YAML

write long.yaml <<'YAML'
pipeline: long
inputs: {big: big.bin}
steps:
  l: {run: "(setsid sleep 1000 &) ; echo up; sleep 1000", env: {MOUNT_TEST: TAG}, inputs: {big: "${{ inputs.big }}"}}
YAML

of_tag() { # TAG: prints the processes of the step
	for p in /proc/[0-9]*; do
		if grep -zqx "MOUNT_TEST=$1" "$p/environ" 2>/dev/null; then echo "${p#/proc/}"; fi
	done
}
is_up() { "$@" logs l >"$TRASH/up" 2>/dev/null; grep -q up "$TRASH/up"; }
none_left() { [ -z "$(of_tag "$1")" ]; }

check_end() { # COMMAND...: what runs cairn
	local tag=$$-$RANDOM
	sed "s/TAG/$tag/" "$TRASH/work/long.yaml" >long.yaml.new
	mv long.yaml.new long-$tag.yaml
	start end-$tag "$@" run long-$tag.yaml
	wait_until 20 is_up "$@"
	[ "$(of_tag "$tag" | wc -l)" -ge 2 ]
	"$@" cancel >/dev/null
	wait_until 20 test -s "$TRASH/work/end-$tag.rc"
	test_is "$(of_tag "$tag")" ""
	start dead-$tag "$@" run long-$tag.yaml
	wait_until 20 is_up "$@"
	kill -9 "$(cat "$TRASH/work/dead-$tag.pid")"
	wait_until 20 none_left "$tag"
}

check_same() { # COMMAND...: what runs cairn
	"$@" run same.yaml -q
	"$@" get s/o -o mounted -q
	"$@" get s/moved -o mounted.sh -q
	echo 'workspace: copy' >cairn.yaml
	"$@" run same.yaml --json >hit.json
	test_is "$(json hit.json "d['counts']['hits']")" 1
	"$@" run same.yaml --force -q
	"$@" get s/o -o copied -q
	echo 'workspace: mount' >cairn.yaml
	diff -r --no-dereference mounted copied
	cmp mounted.sh tree/run.sh
	test_grep 'inputs/tree/run.sh f 555' mounted/list
	test_grep 'inputs/tree/sub d 555' mounted/list
	"$@" run same.yaml --force -q
	"$@" store verify >verified
	test_grep ' 0 problems' verified
	find .cairn/store/blobs -type f ! -perm 0444 >modes
	test_lines 0 modes
	find .cairn/work -mindepth 2 -print >left
	test_lines 0 left
	test_no_grep "$ours" /proc/self/mountinfo
}

test_expect --needs LOCAL_STORE 'mounts and copies: the same keys and outputs; a step does what it likes to its inputs' '
	check_same cairn
'

# check_apart CAIRN...: mounts with a network of the step's own; a strict step's inputs aren't mounted, and what it reads is the same.
check_apart() {
	write apart.yaml <<-"YAML"
	pipeline: apart
	inputs: {big: big.bin}
	steps:
	  net:
	    network: none
	    run: "{ grep -c . /proc/net/dev; grep -c '/OURS/.* - overlay ' /proc/self/mountinfo || true; cksum <${{ inputs.big }}; } >${{ outputs.o }}"
	    inputs: {big: "${{ inputs.big }}"}
	    outputs: {o: out/o}
	  strict:
	    network: loopback
	    sandbox: strict
	    run: "{ grep -c . /proc/net/dev; grep -c '/OURS/.* - overlay ' /proc/self/mountinfo || true; cksum <${{ inputs.big }}; } >${{ outputs.o }}"
	    inputs: {big: "${{ inputs.big }}"}
	    outputs: {o: out/o}
	YAML
	sed -i "s/OURS/$ours/" apart.yaml
	"$@" run apart.yaml -q
	"$@" get net/o -o net.out -q
	"$@" get strict/o -o strict.out -q
	printf "3\n1\n%s\n" "$(cksum <big.bin)" >want
	test_cmp want net.out
	printf "3\n0\n%s\n" "$(cksum <big.bin)" >want
	test_cmp want strict.out
}
test_expect --needs LOCAL_STORE 'mounts go with a network of its own; a strict step has other inputs' '
	check_apart cairn
'

if [ "$(id -u)" -eq 0 ]; then
	chmod 755 "$TRASH" "$TRASH/work"
	cp "$CAIRN" "$(dirname "$CAIRN")/cairn-steps" "$TRASH/" || test_bail 'no cairn to copy'
	mkdir user
	cp -r big.bin tree same.yaml cairn.yaml user/
	chown -R 65534:65534 user
fi
if [ "$(id -u)" -eq 0 ] && (cd user && $as_nobody "$TRASH/cairn" doctor) >doctor && grep -q 'inputs are mounted' doctor; then
	test_expect --needs LOCAL_STORE 'an ordinary user, too; a step has no capability and its own ids' '
	cd user
	test_grep "in a user namespace: steps with them can.t use sudo" ../doctor
	check_same $as_nobody "$TRASH/cairn"
	write who.yaml <<-"YAML"
	pipeline: who
	inputs: {big: big.bin}
	steps:
	  w: {run: "grep CapEff /proc/self/status >who; id >>who", inputs: {big: "${{ inputs.big }}"}, outputs: {w: who}}
	YAML
	$as_nobody "$TRASH/cairn" run who.yaml -q
	$as_nobody "$TRASH/cairn" get w/w -o who -q
	test_grep "CapEff:.0000000000000000" who
	test_grep "uid=65534.* gid=65534" who
'
	test_expect --needs LOCAL_STORE 'an ordinary user: mounts go with a network of its own' '
	cd user
	check_apart $as_nobody "$TRASH/cairn"
'
	test_expect --needs LOCAL_STORE 'an ordinary user: cancel and a killed engine end all processes of a step' '
	cd user
	check_end $as_nobody "$TRASH/cairn"
'
else
	test_skip 'an ordinary user, too' 'mounts are not possible for one here'
fi

test_expect --needs LOCAL_STORE 'cancel and a killed engine end all processes of a step, and leave nothing' '
	check_end cairn
'

test_expect --needs LOCAL_STORE 'the store is read-only for such a step; a failure that comes from mounts says so' '
	write rule.yaml <<-"YAML"
	pipeline: rule
	inputs: {big: big.bin, tree: tree/}
	steps:
	  s: {run: "echo x >../../../store/mine", inputs: {big: "${{ inputs.big }}"}}
	  r: {run: "chmod u+w inputs/tree inputs/tree/sub && python3 -c \"import os; os.rename(\\\"inputs/tree/sub\\\", \\\"out/sub\\\")\"", inputs: {tree: "${{ inputs.tree }}"}, outputs: {o: out/}}
	  n: {run: "exit 3", inputs: {big: "${{ inputs.big }}"}}
	YAML
	test_code 1 cairn run rule.yaml -k 2>err
	test_grep "✗ s failed .*inputs are mounted: only its own processes see the workspace .*workspace: copy. gives" err
	test_grep "✗ r failed .*inputs are mounted" err
	test_grep "✗ n failed " err
	test_no_grep "✗ n failed .*mounted" err
	test_missing .cairn/store/mine
'

# The kernel writes back the whole file system at the end of an overlay that isn't volatile, also what others wrote.
test_expect --needs LOCAL_STORE 'no step waits for the disk when its mounts end' '
	write volatile.yaml <<-"YAML"
	pipeline: volatile
	inputs: {big: big.bin}
	steps:
	  s:
	    run: |
	      grep -c "/OURS/.* - overlay .*[,=]volatile" /proc/self/mountinfo >${{ outputs.o }}
	      cksum <${{ inputs.big }}
	    inputs: {big: "${{ inputs.big }}"}
	    outputs: {o: out/o}
	YAML
	sed -i "s/OURS/$ours/" volatile.yaml
	cairn run volatile.yaml -q
	cairn get s/o -o volatile.out -q
	echo 1 >want
	test_cmp want volatile.out
'

test_expect --needs LOCAL_STORE 'what runs outside of the mounts finds no workspace, not an empty one' '
	write outside.yaml <<-YAML
	pipeline: outside
	inputs: {big: big.bin}
	steps:
	  o:
	    run: |
	      pwd >$PWD/where
	      until [ -e $PWD/seen ]; do sleep 0.05; done
	    inputs: {big: "\${{ inputs.big }}"}
	YAML
	start outside cairn run outside.yaml
	wait_until 20 test -s where
	cat "$(cat where)" >note
	test_code 1 mkdir "$(cat where)/inputs" 2>err
	test_grep "Not a directory" err
	test_grep "workspace: copy" note
	: >seen
	wait_until 20 test -s outside.rc
	test_is "$(cat outside.rc)" 0
'

test_expect --needs LOCAL_STORE 'an output may be a link to an input, or a hard link' '
	write link.yaml <<-"YAML"
	pipeline: link
	inputs: {big: big.bin, tree: tree/}
	steps:
	  l:
	    run: |
	      ln -s ../inputs/big.bin out/l
	      rmdir t
	      ln -s inputs/tree t
	    inputs: {big: "${{ inputs.big }}", tree: "${{ inputs.tree }}"}
	    outputs: {l: out/l, t: t/}
	  h: {run: "ln inputs/big.bin out/h", inputs: {big: "${{ inputs.big }}"}, outputs: {h: out/h}}
	  m: {run: "ln -s ../inputs/big.bin out/l; rm inputs/big.bin", inputs: {big: "${{ inputs.big }}"}, outputs: {l: out/l}}
	YAML
	test_code 1 cairn run link.yaml -k 2>err
	test_grep "✓ l " err
	test_grep "✓ h " err
	test_grep "✗ m failed .*did not make its output .l. .out/l." err
	cairn get l/l -o got.bin -q
	cairn get l/t -o got -q
	cairn get h/h -o hard.bin -q
	cmp got.bin big.bin
	cmp hard.bin big.bin
	diff -r --no-dereference got tree
	cairn store verify >verified
	test_grep " 0 problems" verified
'

test_expect --needs LOCAL_STORE 'a view is made once for many steps; a damaged or half made one is never used; gc removes it' '
	rm -rf .cairn
	write many.yaml <<-"YAML"
	pipeline: many
	inputs: {tree: tree/}
	steps:
	  m:
	    matrix: {i: [1, 2, 3, 4]}
	    run: "sha256sum inputs/tree/run.sh inputs/tree/sub/* >out/sums; stat -c %i inputs/tree/sub/data >out/inode"
	    inputs: {tree: "${{ inputs.tree }}"}
	    outputs: {o: out/}
	YAML
	cairn run many.yaml -q
	set -- .cairn/store/views/*/*
	test_is $# 1
	cairn get "m[i=1]/o" -o one -q
	cairn get "m[i=4]/o" -o four -q
	cmp one/inode four/inode
	view=$1/w/inputs/tree
	for damage in "chmod u+w $view/run.sh; echo x >>$view/run.sh" "chmod 644 $view/sub/data2" "chmod u+w $view; echo x >$view/more; chmod 555 $view" \
		"chmod u+w $view; rm $view/link; ln -s else $view/link; chmod 555 $view" "chmod u+w $view/sub; rm $view/sub/plain; chmod 555 $view/sub" "chmod 755 $view/sub"; do
		eval "$damage"
		cairn run many.yaml -q --force
		rm -rf again
		cairn get "m[i=2]/o" -o again -q
		cmp one/sums again/sums
		(cd tree && find . -printf "%P %y %l\n" | sort) >want
		(cd "$view" && find . -printf "%P %y %l\n" | sort) >have
		cmp want have
	done
	blob=$(find .cairn/store/blobs -samefile "$view/sub/data")
	chmod u+w "$blob"
	test_damage "$blob"
	chmod 444 "$blob"
	cairn run many.yaml -q --force || cairn run many.yaml -q --force
	rm -rf again
	cairn get "m[i=2]/o" -o again -q
	cmp one/sums again/sums
	mkdir -p .cairn/store/views/00000000/old/w "$(dirname "$1")/.make-0123456789abcdef/w"
	cairn store gc --grace 0s >out
	test_grep "removed 3 views" out
	find .cairn/store/views -mindepth 2 >left
	test_lines 0 left
	cairn run many.yaml -q --force
	cairn store verify >verified
	test_grep " 0 problems" verified
'

test_expect --needs LOCAL_STORE 'auto: 64 MiB or 4,096 files are mounted, all inputs together; less is copied, and so is a workspace that stays' '
	echo "# project" >cairn.yaml
	head -c $((64 << 20)) /dev/urandom >large.bin
	head -c $(((64 << 20) - 1)) large.bin >less.bin
	cairn doctor >doctor
	if grep -q "reflinks): inputs cost" doctor; then test_cannot "this file system has reflinks"; fi
	test_grep "copies +large inputs are mounted .no reflinks here" doctor
	write auto.yaml <<-"YAML"
	pipeline: auto
	inputs: {large: large.bin, less: less.bin, one: one.bin}
	steps:
	  l: {run: "stat -c %h inputs/large.bin >n; du -sm ../../.. | cut -f1 >du", inputs: {large: "${{ inputs.large }}"}, outputs: {n: n, du: du}}
	  s: {run: "stat -c %h inputs/less.bin >n", inputs: {less: "${{ inputs.less }}"}, outputs: {n: n}}
	  c: {run: "stat -c %h inputs/large.bin >n", inputs: {large: "${{ inputs.large }}"}, outputs: {n: n}, workspace: copy}
	  b: {run: "stat -c %h inputs/less.bin >n", inputs: {less: "${{ inputs.less }}", one: "${{ inputs.one }}"}, outputs: {n: n}}
	YAML
	echo -n x >one.bin
	cairn run auto.yaml -q -j 1
	for s in l s c b; do cairn get $s/n -o n.$s -q; done
	test_is "$(cat n.l) $(cat n.s) $(cat n.c) $(cat n.b)" "2 1 1 2"
	mkdir many some
	seq 4096 | split -l 1 -a 3 - many/
	seq 10001 14095 | split -l 1 -a 3 - some/
	write files.yaml <<-"YAML"
	pipeline: files
	inputs: {many: many/, some: some/}
	steps:
	  m: {run: "stat -c %h inputs/many/aaa >n", inputs: {many: "${{ inputs.many }}"}, outputs: {n: n}}
	  s: {run: "stat -c %h inputs/some/aaa >n", inputs: {some: "${{ inputs.some }}"}, outputs: {n: n}}
	YAML
	cairn run files.yaml -q
	for s in m s; do cairn get $s/n -o n.$s -q --replace; done
	test_is "$(cat n.m) $(cat n.s)" "2 1"
	cairn run auto.yaml -q --force l --keep-workspace
	cairn get l/n -o n.l -q --replace
	test_is "$(cat n.l)" 1
	echo "stat -c %h inputs/large.bin >\"$PWD/in-shell\"" | cairn run auto.yaml --shell l -q
	test_is "$(cat in-shell)" 2
	cairn run auto.yaml -q --force l --audit l
'

test_expect --needs LOCAL_STORE 'a built-in step and a launched one read mounted inputs' '
	echo "workspace: mount" >cairn.yaml
	mkdir -p photos/cat photos/dog
	for i in 1 2 3 4; do
		head -c 2000 /dev/urandom >photos/cat/$i.bin
		cp photos/cat/$i.bin photos/dog/
	done
	write built.yaml <<-"YAML"
	pipeline: built
	inputs: {big: big.bin, photos: photos/}
	steps:
	  s: {uses: shard, inputs: {data: "${{ inputs.photos }}"}, outputs: {all: all/}}
	  t:
	    uses: train
	    run: |
	      echo "{\"step\": 1, \"loss\": 0.5}"
	      wc -c <${{ inputs.big }} >model/size
	    inputs: {big: "${{ inputs.big }}"}
	    outputs: {model: model/}
	    checkpoint: ck/
	YAML
	cairn run built.yaml -q
	cairn get t/series -o series -q
	test_grep "\"loss\": ?0.5" series
	cairn metrics >out
	test_grep "samples" out
	cairn get t/model -o model -q
	test_is "$(cat model/size)" 3000000
'

# On a kernel that refuses mount(2), whose number is that of x86-64.
no_mount() { python3 "$SRC/tests/cli/run/no_call.py" 165 1 "$@"; }
if [ "$(uname -m)" = x86_64 ]; then
	test_expect --needs LOCAL_STORE 'where mounts are refused: an error that says why' '
	echo "workspace: mount" >cairn.yaml
	test_code 3 no_mount cairn run many.yaml --force 2>err
	test_grep "workspace: mount. in cairn.yaml isn.t possible here .leave it out, or say copy.: cannot .* a program: Operation not permitted" err
	test_code 1 no_mount cairn doctor >doctor
	test_grep "problem +copies +inputs can.t be mounted: " doctor
'
fi

test_done
