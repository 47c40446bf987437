#!/bin/bash
# How inputs get into workspaces: as hard links that Landlock protects, or as copies, with the same results; and what a step can't do to a link.
. "$(dirname "$0")/../../lib.sh"

as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups env HOME="$TRASH/work/user" "$@"; }

head -c 3000000 /dev/urandom >big.bin
echo 'workspace: link' >cairn.yaml
cairn doctor >doctor
grep -q 'copies .*read-only hard links, which Landlock protects' doctor && test_links=1

# Each line of out/report: an attack, and whether it was refused.
write attack.py <<'PY'
import ctypes, glob, mmap, os, shutil, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
big, out = sys.argv[1], sys.argv[2]
store = "../../../store"
blob = os.path.realpath([p for p in glob.glob(store + "/blobs/*/*") if os.path.samefile(p, big)][0])
lines = []

def attack(name, fn):
    try:
        fn()
        lines.append("DONE " + name)
    except OSError as e:
        lines.append("refused " + name)

def c(name, *args):
    if getattr(libc, name)(*args) != 0:
        raise OSError(ctypes.get_errno(), name)

def program(*argv):
    if subprocess.run(argv, stderr=subprocess.DEVNULL).returncode:
        raise OSError(1, argv[0])

def shared():
    with open(big, "r+b") as f:
        mmap.mmap(f.fileno(), 0)[0:1] = b"x"

def by_fd():
    fd = os.open(big, os.O_RDONLY)
    os.open("/proc/self/fd/%d" % fd, os.O_WRONLY)

def replace():
    with open(out + "/mine", "w") as f:
        f.write("mine")
    os.rename(out + "/mine", big)

for path in big, blob:
    tag = " (the store's name)" if path == blob else ""
    for mode in "without chmod", "after chmod":
        if mode == "after chmod":
            os.chmod(path, 0o4777)
        attack("write " + mode + tag, lambda: open(path, "r+b").close())
        attack("append " + mode + tag, lambda: open(path, "ab").close())
        attack("empty by opening " + mode + tag, lambda: os.open(path, os.O_RDONLY | os.O_TRUNC))
        attack("truncate " + mode + tag, lambda: os.truncate(path, 0))
    attack("unlink" + tag, lambda: os.unlink(path))
    attack("rename away" + tag, lambda: os.rename(path, out + "/taken"))
    attack("link" + tag, lambda: os.link(path, out + "/linked"))
    attack("link to the temporary directory" + tag, lambda: os.link(path, os.environ["TMPDIR"] + "/linked"))
attack("rename over", replace)
attack("map for writing", shared)
attack("by /proc/self/fd", by_fd)
attack("by /proc/self/cwd", lambda: open("/proc/self/cwd/" + big, "r+b"))
attack("by /proc/self/root", lambda: open("/proc/self/root" + os.path.realpath(big), "r+b"))
attack("sed -i", lambda: program("sed", "-i", "s/a/b/", big))
attack("a child's write", lambda: program("sh", "-c", 'echo x >>"$0"', big))
attack("mount over", lambda: c("mount", b"none", os.path.realpath("inputs").encode(), b"tmpfs", 0, None))
attack("a new name in the store", lambda: open(store + "/tmp/mine", "w"))
attack("a new name in inputs", lambda: open("inputs/mine", "w"))
attack("inputs away", lambda: os.rename("inputs", out + "/inputs"))
attack("another attempt's workspace", lambda: open("../../mine", "w"))
os.symlink(os.path.realpath(big), out + "/l")
attack("by a link of its own", lambda: open(out + "/l", "r+b"))
os.unlink(out + "/l")
os.utime(big, (0, 0))
os.chmod(big, 0o777)
shutil.copy(big, out + "/copy") # reading works
os.chmod(out + "/copy", 0o644)
open(out + "/report", "w").write("\n".join(lines) + "\n")
PY
cat >attack.yaml <<'YAML'
pipeline: attack
inputs: {big: big.bin}
steps:
  a:
    run: python3 attack.py ${{ inputs.big }} ${{ outputs.o }}
    code: [attack.py]
    inputs: {big: "${{ inputs.big }}"}
    outputs: {o: out/}
YAML

check_attack() { # COMMAND...: what runs cairn
	"$@" run attack.yaml -q
	"$@" get a/o -o got -q
	test_no_grep DONE got/report
	test_is "$(grep -c refused got/report)" 37
	cmp big.bin got/copy
	"$@" store verify >verified
	test_grep ' 0 problems' verified
	find .cairn/store/blobs -type f ! -perm 0444 >modes
	find .cairn/store/blobs -type f ! -newermt 2020-01-01 >old
	test_lines 0 modes
	test_lines 0 old
	find .cairn/work -links +1 -type f >left
	test_lines 0 left
}

if [ -z "${test_links:-}" ]; then
	test_skip 'links are protected' "$(sed -n 's/.*copies *//p' doctor)"
	test_done
	exit
fi

test_expect --needs LOCAL_STORE 'a step can read its input, and neither write to it nor to the store' '
	check_attack cairn
'

test_expect --needs LOCAL_STORE 'nor where the blobs lie elsewhere, by a link' '
	mkdir moved elsewhere
	cp big.bin cairn.yaml moved/
	cd moved
	write quick.yaml <<-YAML
	pipeline: quick
	inputs: {big: big.bin}
	steps:
	  q:
	    run: |
	      test "\$(stat -c %h inputs/big.bin)" = 2
	      chmod u+w inputs/big.bin
	      for f in inputs/big.bin $TRASH/work/elsewhere/blobs/*/*; do
	        if truncate -s 0 "\$f"; then echo "\$f" >>out/done; fi
	      done
	      ls $TRASH/work/elsewhere/blobs >out/seen || true
	    inputs: {big: "\${{ inputs.big }}"}
	    outputs: {o: out/}
	YAML
	cairn run quick.yaml -q
	mv .cairn/store/blobs ../elsewhere/
	ln -s ../../../elsewhere/blobs .cairn/store/blobs
	cairn run quick.yaml -q --force
	cairn get q/o -o got -q
	test_missing got/done
	test_exists got/seen
	[ -s got/seen ]
	cairn store verify >verified
	test_grep " 0 problems" verified
'

# Rules are made of what can be listed from the root down.
lists_the_way() {
	local dir=$TRASH
	while [ "$dir" != / ]; do
		dir=$(dirname "$dir")
		as_nobody test -r "$dir" || return 1
	done
}
if [ "$(id -u)" -eq 0 ] && ! lists_the_way; then
	test_skip 'nor can it as an ordinary user' 'a directory above that of the tests can only be listed by root'
else
	test_expect --needs 'LOCAL_STORE ROOT' 'nor can it as an ordinary user' '
	chmod 755 "$TRASH" "$TRASH/work"
	mkdir user
	cp big.bin cairn.yaml attack.py attack.yaml user/
	cp "$CAIRN" "$(dirname "$CAIRN")/cairn-steps" "$TRASH/" || test_bail "no cairn to copy"
	chown -R 65534:65534 user
	cd user
	check_attack as_nobody "$TRASH/cairn"
'
fi

test_expect 'links and copies: the same keys, the same outputs; executables, links, odd names, empty files' '
	mkdir -p tree/sub
	printf "#!/bin/sh\necho ran\n" >tree/run.sh
	cp tree/run.sh tree/sub/plain
	chmod +x tree/run.sh
	ln -s sub/plain tree/link
	: >tree/empty
	echo odd >"tree/a b
c"
	head -c 200000 /dev/urandom >tree/sub/data
	write same.yaml <<-"YAML"
	pipeline: same
	inputs: {big: big.bin, tree: tree/}
	steps:
	  s:
	    run: |
	      find inputs -printf "%p %y %m %s %l\n" | sort | grep -v " d " >out/list
	      find inputs -type f -print0 | sort -z | xargs -0 sha256sum >out/sums
	      inputs/tree/run.sh >more/ran.txt
	      cp -r inputs/tree out/tree
	      chmod -R u+w out/tree
	      mv out/tree/sub out/moved
	      echo "{\"n\": 1}" >metrics.json
	    inputs: {big: "${{ inputs.big }}", tree: "${{ inputs.tree }}"}
	    outputs: {o: out/, ran: more/ran.txt}
	    metrics: metrics.json
	YAML
	cairn run same.yaml -q
	cairn get s/o -o linked -q
	echo "workspace: copy" >cairn.yaml
	cairn run same.yaml --json >hit.json
	test_is "$(json hit.json "d[\"counts\"][\"hits\"]")" 1
	cairn run same.yaml --force -q
	cairn get s/o -o copied -q
	echo "workspace: link" >cairn.yaml
	diff -r --no-dereference linked copied
	test_grep "inputs/tree/run.sh f 555" copied/list
	test_grep "inputs/tree/sub/data f 444" copied/list
	cairn store verify >verified
	test_grep " 0 problems" verified
'

test_expect 'a step that is stopped says which rule it was, and how to ask for more' '
	write scratch.yaml <<-"YAML"
	pipeline: scratch
	inputs: {big: big.bin}
	steps:
	  new: {run: "echo x >scratch", inputs: {big: "${{ inputs.big }}"}}
	YAML
	test_code 1 cairn run scratch.yaml 2>err
	test_grep "read-only links, beside which nothing new can be made ..workspace: copy. gives" err
	test_grep "Permission denied" err
	sed -i "s/inputs: {big: \"/workspace: copy, &/; s/echo x/chmod u+w inputs\/big.bin; echo x >>inputs\/big.bin; echo x/" scratch.yaml
	cairn run scratch.yaml
	cairn store verify >verified
	test_grep " 0 problems" verified
'

test_expect 'workspace: copy on a step is no part of its key' '
	write key.yaml <<-"YAML"
	pipeline: key
	inputs: {big: big.bin}
	steps:
	  k: {run: "wc -c <inputs/big.bin >out/n", inputs: {big: "${{ inputs.big }}"}, outputs: {n: out/n}}
	YAML
	cairn run key.yaml -q
	sed -i "s/inputs: {big: \"/workspace: copy, &/" key.yaml
	cairn run key.yaml --json >out
	test_is "$(json out "d[\"counts\"][\"hits\"]")" 1
'

test_expect 'an input can neither be linked nor moved into an output; a copy of it can' '
	write alias.yaml <<-"YAML"
	pipeline: alias
	inputs: {big: big.bin}
	steps:
	  ln: {run: "ln inputs/big.bin out/", inputs: {big: "${{ inputs.big }}"}, outputs: {o: out/}}
	  mv: {run: "mv inputs/big.bin out/", inputs: {big: "${{ inputs.big }}"}, outputs: {o: out/}}
	  cp: {run: "cp inputs/big.bin out/", inputs: {big: "${{ inputs.big }}"}, outputs: {o: out/}}
	  sym: {run: "ln -s ../inputs/big.bin out/l", inputs: {big: "${{ inputs.big }}"}, outputs: {o: out/l}}
	YAML
	test_code 1 cairn run alias.yaml -k 2>err
	test_grep "✗ ln failed .*read-only links" err
	test_grep "✗ mv failed .*read-only links" err
	test_grep "✓ cp " err
	test_grep "✓ sym " err
	cairn get sym/o -o sym.bin -q
	cmp sym.bin big.bin
	cairn store verify >verified
	test_grep " 0 problems" verified
	find .cairn/store/blobs -type f ! -perm 0444 >modes
	test_lines 0 modes
'

test_expect 'a built-in step and a launched one write what they declare beside links' '
	mkdir -p photos/cat photos/dog
	for i in 1 2 3 4; do head -c 2000 /dev/urandom >photos/cat/$i.bin; cp photos/cat/$i.bin photos/dog/; done
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
	test_grep "0.5" out
	test_grep "samples" out
	cairn get t/model -o model -q
	test_is "$(cat model/size)" 3000000
'

test_expect 'a workspace that stays, and a shell, have copies' '
	write kept.yaml <<-"YAML"
	pipeline: kept
	inputs: {big: big.bin}
	steps:
	  k: {run: "stat -c %h inputs/big.bin >out/n; : >scratch", inputs: {big: "${{ inputs.big }}"}, outputs: {n: out/n}}
	YAML
	cairn run kept.yaml --keep-workspace -q
	cairn get k/n -o kept -q
	test_is "$(cat kept)" 1
	test_is "$(find .cairn/work -name big.bin -links +1 | wc -l)" 0
	echo "stat -c %h inputs/big.bin >\"$PWD/in-shell\"" | cairn run kept.yaml --shell k -q
	test_is "$(cat in-shell)" 1
'

no_landlock() { python3 "$SRC/tests/cli/run/no_call.py" 444 38 "$@"; }
no_mounts() { python3 "$SRC/tests/cli/run/no_call.py" 165 1 "$@"; }
no_both() { no_landlock python3 "$SRC/tests/cli/run/no_call.py" 165 1 "$@"; }

test_expect 'auto without mounts: large inputs are links, small ones are copies' '
	write plain.yaml <<-"YAML"
	pipeline: plain
	inputs: {large: large.bin}
	steps:
	  p: {run: "stat -c %h inputs/large.bin >n", inputs: {large: "${{ inputs.large }}"}, outputs: {n: n}}
	YAML
	head -c $((64 << 20)) /dev/urandom >large.bin
	echo "workspace: copy" >cairn.yaml
	cairn doctor >doctor
	grep -q "reflinks): inputs cost" doctor || test_grep "workspace: copy. in cairn.yaml: inputs and code are copied into workspaces" doctor
	cairn run plain.yaml -q
	cairn get p/n -o n.p -q
	test_is "$(cat n.p)" 1
	echo "# project" >cairn.yaml
	no_mounts cairn doctor >doctor
	if grep -q "reflinks): inputs cost" doctor; then test_cannot "this file system has reflinks"; fi
	test_grep "copies +large inputs are read-only hard links, which Landlock protects .no reflinks here; mounts aren.t possible: " doctor
	mkdir halves
	head -c $((32 << 20)) large.bin >halves/a
	tail -c $((32 << 20)) large.bin >halves/b
	head -c $(((64 << 20) - 1)) large.bin >less.bin
	write auto.yaml <<-"YAML"
	pipeline: auto
	inputs: {large: large.bin, halves: halves/, less: less.bin}
	steps:
	  l: {run: "stat -c %h inputs/large.bin >out/n", inputs: {large: "${{ inputs.large }}"}, outputs: {n: out/n}}
	  h: {run: "stat -c %h inputs/halves/a >out/n", inputs: {halves: "${{ inputs.halves }}"}, outputs: {n: out/n}}
	  s: {run: "stat -c %h inputs/less.bin >out/n; : >scratch", inputs: {less: "${{ inputs.less }}"}, outputs: {n: out/n}}
	  t: {run: "stat -c %h inputs/large.bin >n", inputs: {large: "${{ inputs.large }}"}, outputs: {n: n}}
	  c: {run: "stat -c %h inputs/large.bin >out/n; : >scratch", inputs: {large: "${{ inputs.large }}"}, outputs: {n: out/n}, workspace: copy}
	YAML
	no_mounts cairn run auto.yaml -q -j 1
	for s in l h s t c; do cairn get $s/n -o n.$s -q; done
	test_is "$(cat n.l) $(cat n.h) $(cat n.s) $(cat n.t) $(cat n.c)" "2 2 1 1 1"
'

test_expect 'a directory on the way to the store that can not be listed, or is too long: copies, and doctor says why' '
	mkdir -p crowd/project
	(cd crowd && seq 20001 | xargs touch)
	echo "workspace: auto" >crowd/project/cairn.yaml
	no_mounts cairn -C crowd/project doctor >doctor
	grep -q "reflinks): inputs cost" doctor || test_grep "links aren.t possible: the directories from / to .* have more than 20000 entries" doctor
	rm -rf crowd
'

test_expect 'du finds one copy of an input of 64 MiB while a step reads it' '
	write du.yaml <<-"YAML"
	pipeline: du
	inputs: {large: large.bin}
	steps:
	  d: {run: "du -sm ../../.. | cut -f1 >out/n", inputs: {large: "${{ inputs.large }}"}, outputs: {n: out/n}}
	YAML
	echo "workspace: link" >cairn.yaml
	rm -rf .cairn
	cairn run du.yaml -q
	cairn get d/n -o n --replace -q
	[ "$(cat n)" -lt 80 ] || { echo "$(cat n) MiB" >&2; return 1; }
	rm -rf .cairn
	echo "workspace: copy" >cairn.yaml
	cairn run du.yaml -q
	cairn get d/n -o n --replace -q
	cairn doctor >doctor
	grep -q "reflinks): inputs cost" doctor || [ "$(cat n)" -gt 120 ] || { echo "$(cat n) MiB" >&2; return 1; }
'

test_expect 'without Landlock and mounts: auto copies, link is an error that says why' '
	echo "workspace: auto" >cairn.yaml
	rm -rf .cairn
	write none.yaml <<-"YAML"
	pipeline: none
	inputs: {large: large.bin}
	steps:
	  n: {run: "stat -c %h inputs/large.bin >out/n; : >scratch", inputs: {large: "${{ inputs.large }}"}, outputs: {n: out/n}}
	YAML
	no_both cairn run none.yaml -q
	cairn get n/n -o none -q
	test_is "$(cat none)" 1
	no_both cairn doctor >doctor
	grep -q "reflinks): inputs cost" doctor || test_grep "mounts aren.t possible: .*; links aren.t possible: the kernel has no Landlock" doctor
	echo "workspace: link" >cairn.yaml
	test_code 3 no_landlock cairn run none.yaml 2>err
	test_grep "workspace: link. in cairn.yaml isn.t possible here .leave it out, or say copy.: the kernel has no Landlock" err
	test_code 1 no_landlock cairn doctor >doctor
	test_grep "problem +copies +inputs can.t be links: the kernel has no Landlock" doctor
'

test_expect 'a store on another file system: link says so, and without a word it works' '
	other=$(mktemp -d /dev/shm/cairn-test.XXXXXX) || test_cannot "/dev/shm can not be written to"
	test_when_finished "rm -rf \"$other\""
	if [ "$(stat -c %d "$other")" = "$(stat -c %d .)" ]; then test_cannot "/dev/shm is the same file system"; fi
	rm -rf .cairn
	unset CAIRN_STORE
	printf "store: %s\nworkspace: link\n" "$other/store" >cairn.yaml
	test_code 3 cairn run none.yaml 2>err
	test_grep "the store and the workspaces are on different file systems" err
	head -c $((65 << 20)) /dev/urandom >large.bin
	write across.yaml <<-"YAML"
	pipeline: across
	inputs: {large: large.bin}
	steps:
	  a: {run: "cat inputs/large.bin >o; echo a >>o", inputs: {large: "${{ inputs.large }}"}, outputs: {o: o}}
	  b: {run: "cat inputs/o >o; echo b >>o", inputs: {o: "${{ steps.a.outputs.o }}"}, outputs: {o: o}}
	YAML
	printf "store: %s\n" "$other/store" >cairn.yaml
	cairn doctor >doctor
	test_grep "copies +" doctor
	cairn run across.yaml -q
	cairn get b/o -o across -q
	{ cat large.bin; echo a; echo b; } | cmp - across
	cairn store verify >verified
	test_grep " 0 problems" verified
'

test_expect --needs ROOT 'a second mount of the store: no links, for it would be a way around the rule' '
	unshare -m true 2>/dev/null || test_cannot "no mount namespaces here"
	echo "workspace: link" >cairn.yaml
	mkdir -p .cairn/store alias
	test_code 3 unshare -m sh -c "mount --bind .cairn/store alias && exec cairn run none.yaml" 2>err
	test_grep "can also be reached by the mount .*alias" err
'

test_expect --needs LOCAL_STORE 'outputs are moved into the store, not copied, however the inputs came' '
	blob() { sha256sum | cut -c 1-64 | sed "s|^..|&/&|; s|^|.cairn/store/blobs/|"; }
	for way in copy link mount; do
		printf "workspace: %s\n" $way >cairn.yaml
		cairn doctor >doctor || continue
		write moved.yaml <<-YAML
			pipeline: moved
			params: {way: $way}
			inputs: {big: big.bin}
			steps:
			  m:
			    run: "{ cat inputs/big.bin; echo file \${{ params.way }}; } >o; { cat o; echo in a directory; } >d/x; stat -c %i o d/x >n"
			    inputs: {big: "\${{ inputs.big }}"}
			    outputs: {o: o, d: d/, n: n}
		YAML
		cairn run moved.yaml -q
		rm -rf inodes
		cairn get m/n -o inodes -q
		{ cat big.bin; echo file $way; } >o
		{ cat o; echo in a directory; } >x
		test_is "$(stat -c %i "$(blob <o)" "$(blob <x)")" "$(cat inodes)"
		echo $way >>ways
	done
	grep -qx copy ways
'

# The process that removes them holds no pipe of the command, or `cat` would wait for it.
test_expect 'many used workspaces are removed after the command has ended' '
	mkdir -p many/.cairn/work/trash-$$-1/of-a-dead-one "many/.cairn/work/trash-$$-$(cut -d" " -f22 /proc/$$/stat)"
	touch many/cairn.yaml
	echo "{pipeline: many, steps: {t: {matrix: {i: [$(seq -s, 300)]}, run: \"echo \${{ matrix.i }} >\${{ outputs.o }}\", outputs: {o: o}}}}" >many/pipeline.yaml
	cairn -C many run -q -j 8 | cat
	trash() { find many/.cairn/work -mindepth 1 -maxdepth 1; }
	only_the_living_ones() { [ "$(trash)" = "many/.cairn/work/trash-$$-$(cut -d" " -f22 /proc/$$/stat)" ]; }
	wait_until 60 only_the_living_ones
'
test_done
