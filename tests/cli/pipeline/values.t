#!/bin/bash
# What reaches a command: values arrive as they are, whatever the shell could read into them.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
mkdir pics
printf 1 >'pics/$(touch PWNED).png'
printf 2 >'pics/my cat.png'
printf 3 >"pics/it's \"q\" \`touch PWNED\`.png"
write names.yaml <<'YAML'
pipeline: names
inputs: {pics: pics/}
steps:
  name:
    each: "${{ inputs.pics }}/*.png"
    run: |
      x="$(basename "${{ item.name }}" .png)"
      printf '%s|%s|' "$x" "$(basename ${{ item.name }} .png)" >${{ outputs.o }}
      cat >>${{ outputs.o }} <<EOF
      it's "${{ item.stem }}"
      EOF
      ls >&2
    inputs: {p: "${{ item }}"}
    outputs: {o: o}
  all: {run: "find ${{ inputs.o }} -type f -exec cat {} + >${{ outputs.all }}", inputs: {o: "${{ steps.name.outputs.o }}"}, outputs: {all: all}}
YAML

test_expect 'names of files arrive in nested substitutions and here-documents, and nothing in them is executed' '
	cairn run names.yaml -q
	cairn get all/all -o all
	test_grep "^my cat|my cat|it.s \"my cat\"" all
	grep -F "\$(touch PWNED)|\$(touch PWNED)|it'"'"'s \"\$(touch PWNED)\"" all
	grep -F "it'"'"'s \"q\" \`touch PWNED\`|" all
	test_is "$(find . -name PWNED)" ""
'

write contexts.yaml <<'YAML'
pipeline: contexts
params: {a: x, b: x}
steps:
  hash: {run: "printf '%s' ${{ params.a }}#${{ params.b }} >o", outputs: {o: o}}
  nested: {run: "printf '%s#%s' \"$(printf %s \"${{ params.b }}\")\" '${{ params.a }}' >o", outputs: {o: o}}
  glued: {run: "y=1; printf '%s#%s' \"$y${{ params.b }}\" ${{ params.a }}>o", outputs: {o: o}}
  bash: {shell: bash, run: "printf '%s#%s' ${{ params.b }} \"$(cat <<<${{ params.a }})\" >o", outputs: {o: o}}
YAML

test_expect 'values of params arrive whatever stands around them' '
	bad="\$(touch $PWD/PWNED)\`touch $PWD/PWNED\`; touch $PWD/PWNED '"'"'\" \\"
	cairn run contexts.yaml -q -p a="$bad" -p b="$bad"
	for s in hash nested bash; do
		cairn get $s/o -o - >got
		test_is "$(cat got)" "$bad#$bad"
	done
	cairn get glued/o -o - >got
	test_is "$(cat got)" "1$bad#$bad"
	test_missing PWNED
'

write numbers.yaml <<'YAML'
pipeline: numbers
params: {epochs: 10, lr: 0.1}
steps:
  a:
    matrix: {k: [1, 2]}
    run: "echo ${{ params.epochs // 3 }} ${{ params.lr / 2 }} ${{ matrix.k * 100 - 1 }} ${{ -7 % 3 }} >o"
    outputs: {o: o}
  b: {run: "echo >o", outputs: {o: o}, if: "${{ params.epochs - 8 > 1 + 1 }}"}
YAML

test_expect 'numbers are calculated with; a value that cannot be is an error at its place' '
	cairn run numbers.yaml -q
	cairn get "a[k=2]/o" -o - >got
	test_is "$(cat got)" "3 0.05 199 2"
	cairn plan numbers.yaml >out
	test_grep "skip" out
	sed -i "s|params.epochs // 3|params.epochs // 0|" numbers.yaml
	test_must_fail cairn run numbers.yaml -q 2>err
	test_grep "numbers.yaml:6:.*division by zero" err
	sed -i "s|params.epochs // 0|matrix.k + \x27a\x27|" numbers.yaml
	test_code 3 cairn check numbers.yaml 2>err
	test_grep "numbers.yaml:6:.*text can.t be calculated with" err
'

test_expect 'a number before a redirection is a word, not a descriptor' '
	cairn run contexts.yaml -q -p a=2
	test_is "$(cairn get glued/o -o -)" "1x#2"
'

write refused.yaml <<'YAML'
pipeline: refused
params: {a: x, n: 1, opt: {enum: [sgd, adam], default: sgd}}
steps:
  quoted:
    run: |
      python3 - <<'EOF'
      open("o", "w").write("${{ params.a }}")
      EOF
    outputs: {o: o}
  language: {run: "python3 -c \"print('${{ params.a }}')\" >o", outputs: {o: o}}
  ansi: {shell: bash, run: "echo $'${{ params.a }}' >o", outputs: {o: o}}
  escaped: {run: "echo \"\\${{ params.a }}\" >o", outputs: {o: o}}
  sum: {run: "echo $((${{ params.a }} + 1)) >o", outputs: {o: o}}
  json: {run: "echo '{\"a\": \"${{ params.a }}\", \"n\": ${{ params.n }}, \"opt\": \"${{ params.opt }}\"}' >${{ outputs.o }}", outputs: {o: o}}
YAML

write numbers.yaml <<'YAML'
pipeline: numbers
params: {n: 1, opt: {enum: [sgd, adam], default: sgd}}
steps:
  language: {run: "python3 -c \"print(${{ params.n }}, open('${{ outputs.o }}', 'w').write('${{ params.opt }}'))\"", outputs: {o: o}}
  json: {run: "echo '{\"n\": ${{ params.n }}, \"opt\": \"${{ params.opt }}\"}' >${{ outputs.o }}", outputs: {o: o}}
YAML

test_expect 'where no variable can be named, check says so, with the place and what to write; numbers and plain words are welcome' '
	test_code 3 cairn check refused.yaml 2>err
	test_grep "^refused.yaml:7:33: .*quoted.*env: {NAME:" err
	test_grep "^refused.yaml:10:44: .*part of a program" err
	test_grep "^refused.yaml:11:" err
	test_grep "^refused.yaml:12:.*backslash.*NAME=" err
	test_grep "^refused.yaml:13:.*arithmetic" err
	test_grep "^refused.yaml:14:.*single quotes" err
	test_is "$(grep -c "can.t stand here" err)" 6
	test_code 3 cairn plan refused.yaml
	cairn run numbers.yaml
	test_is "$(cairn get language/o -o -)" sgd
	test_is "$(cairn get json/o -o -)" "{\"n\": 1, \"opt\": \"sgd\"}"
'

test_expect 'names of the variables are not for scripts' '
	printf "pipeline: own\nsteps:\n  s: {run: \"echo \$CAIRN_V1\"}\n" >own.yaml
	test_code 3 cairn check own.yaml 2>err
	test_grep "begin with CAIRN_V" err
'

# The keys are those that the release before this test gave: what means the same stays a hit.
write keys.yaml <<'YAML'
pipeline: keys
params: {lr: 0.1, name: "my run", list: [a, "b c"]}
steps:
  train:
    run: |
      # it's a comment about ${{ params.name }}
      for x in ${{ params.list }}; do echo "$x" --name="${{ params.name }}" --lr ${{ params.lr }} >>${{ outputs.o }}; done
      cat >>${{ outputs.o }} <<EOF
      lr: ${{ params.lr }}
      EOF
      printf '{"lr": ${{ params.lr }}}' >m.json
    matrix: {fold: [0, 1]}
    outputs: {o: out/log.txt}
    metrics: m.json
  one: {run: "echo ${{ params.name }} '${{ params.name }}'", shell: bash}
YAML

test_expect 'keys of commands that mean the same stay the same' '
	cairn plan keys.yaml --json >plan
	json plan "\"\\n\".join(t[\"task\"] + \" \" + t[\"key\"] for t in d[\"tasks\"])" >keys
	test_cmp keys - <<-KEYS
	train[fold=0] 4f8f6c1fb10dd412d5ba4d62cc4f54b30ff2d4a00d1c75b99805b939073f8c13
	train[fold=1] 4f8f6c1fb10dd412d5ba4d62cc4f54b30ff2d4a00d1c75b99805b939073f8c13
	one 538cda1b2e4bf21cc3daa5278a7f4266ee379a5682fb6fd583bcec958565c34d
	KEYS
'

if test_have SANITIZED; then
	test_skip 'shared axes with included combinations take memory by task, not by the product of the axes' 'a sanitizer needs the address space that is bounded here'
else
test_expect 'shared axes with included combinations take memory by task, not by the product of the axes' '
	python3 - >wide.yaml <<-PY
	axes = ", ".join("x%d: [0]" % a for a in range(6))
	rows = ", ".join("{" + ", ".join("x%d: %d" % (a, i * 6 + a + 1) for a in range(6)) + "}" for i in range(40))
	print("pipeline: wide\nsteps:")
	for s, extra in ("a", ""), ("b", "inputs: {i: \"\${{ steps.a.outputs.o }}\"}, "):
	    print("  %s: {run: \"echo \${{ matrix.x5 }} >o\", %soutputs: {o: o}, matrix: {%s, include: [%s]}}" % (s, extra, axes, rows))
	PY
	(ulimit -v 1000000; cairn plan wide.yaml --json) >plan
	test_is "$(json plan "len(d[\"tasks\"])")" 82
'
fi

# venv NAME TORCH: an environment as python3 -m venv lays it out
venv() {
	mkdir -p "$1/bin" "$1/lib/python3.11/site-packages/torch-$2.dist-info" "$1/lib/python3.11/site-packages/numpy-1.0.dist-info"
	printf 'home = /usr/bin\nversion = 3.11.2\ncommand = /usr/bin/python3 -m venv %s\n' "$PWD/$1" >"$1/pyvenv.cfg"
}

test_expect 'another environment on PATH is another key, the same packages elsewhere are not, and why tells' '
	printf "pipeline: e\nsteps:\n  s: {run: \"echo 1 >o\", outputs: {o: o}}\n  t: {run: \"echo 2 >o\", outputs: {o: o}, tools: [echo 1]}\n" >env.yaml
	venv one 2.3; venv same 2.3; venv two 2.4
	key() { PATH=$PWD/$1/bin:$PATH cairn plan env.yaml --json >plan && json plan "[t[\"key\"] for t in d[\"tasks\"] if t[\"task\"] == \"$2\"][0]"; }
	test_is "$(key one s)" "$(key same s)"
	[ "$(key one s)" != "$(key two s)" ]
	[ "$(key one s)" != "$(key none s)" ]
	venv damaged 2.3
	head -c 70000 /dev/zero | tr "\\0" x >>damaged/pyvenv.cfg
	PATH=$PWD/damaged/bin:$PATH test_code 3 cairn plan env.yaml 2>err
	test_grep "pyvenv.cfg is larger than 65536 bytes, which says what Python commands run" err
	test_is "$(key one t)" "$(key two t)"
	PATH=$PWD/one/bin:$PATH cairn run env.yaml -q
	PATH=$PWD/same/bin:$PATH cairn plan env.yaml --json >plan
	test_is "$(json plan "[t[\"state\"] for t in d[\"tasks\"]]")" "[\"hit\", \"hit\"]"
	PATH=$PWD/two/bin:$PATH cairn why env.yaml s >why
	test_grep "active Python environment changed" why
'

test_expect 'zone and language are the same everywhere, libraries have to be declared' '
	printf "pipeline: z\nsteps:\n  s: {run: \"date +%%Z >o; echo \$LANG \$LC_ALL \${LD_LIBRARY_PATH-unset} \$D >>o\", outputs: {o: o}, env: {D: d}}\n" >zone.yaml
	TZ=Asia/Tokyo LANG=de_DE.UTF-8 LD_LIBRARY_PATH=/x cairn run zone.yaml -q
	test_is "$(cairn get s/o -o - | tr "\n" " ")" "UTC C.UTF-8 C.UTF-8 unset d "
'

test_expect 'resources in the key: the kind of device, too' '
	text="pipeline: r\nsteps:\n  s: {run: \"echo >o\", outputs: {o: o}, key: {resources: true}, resources: {cpu: 1, example.com/TYPE: 1}}\n"
	for type in slow fast; do
		printf "$text" | sed "s/TYPE/$type/" >devices.yaml
		cairn plan devices.yaml --json >out
		json out "[t[\"key\"] for t in d[\"tasks\"]]" >>device-keys
	done
	test_is "$(sort -u device-keys | wc -l)" 2
'
test_expect 'what a project is warned of is no other one'"'"'s, though their files are the same' '
	mkdir here
	cd here
	echo "# project" >cairn.yaml
	printf "pipeline: p\nsteps:\n  s: {run: \"ls $PWD/x >o\", outputs: {o: o}}\n" >path.yaml
	cairn plan path.yaml >out 2>err
	test_grep "names the project.s directory" err
	cp -r . ../there
	cd ../there
	cairn plan path.yaml >out 2>err
	test_no_grep "names the project.s directory" err
'
test_expect 'a command that names the project by its whole path is warned of' '
	printf "pipeline: p\nsteps:\n  s: {run: \"cat %s/pics/x >o\", outputs: {o: o}}\n  t: {run: \"cat %s-other/x >o\", outputs: {o: o}}\n" "$PWD" "$PWD" >path.yaml
	cairn check path.yaml 2>err
	test_grep "path.yaml:3:.*warning: step .s. names the project.s directory" err
	test_is "$(grep -c warning err)" 1
'

# ---- what reaches a task without being in its key --------------------------------------------------------------------------

test_expect 'of the environment a task gets what is documented, and nothing else' '
	printf "pipeline: env\nsteps:\n  s: {run: \"/usr/bin/env | sed s/=.*// | grep -v ^CAIRN_ | LC_ALL=C sort >o\", outputs: {o: o}}\n" >env.yaml
	env -i PATH="$PATH" HOME="$HOME" USER=u LOGNAME=u SHELL=/bin/sh VIRTUAL_ENV=/v CONDA_PREFIX=/c XDG_CACHE_HOME=/x PYTHONPATH=/p PYTHONHOME=/h LD_PRELOAD= \
		OMP_NUM_THREADS=1 EDITOR=vi HOSTNAME=h LC_TIME=de_DE TMP=/t cairn run env.yaml -q
	test_is "$(cairn get s/o -o - | grep -v -x -e _ -e PWD -e OLDPWD -e SHLVL -e ASAN_OPTIONS -e UBSAN_OPTIONS -e LSAN_OPTIONS -e TSAN_OPTIONS | tr "\n" " ")" \
		"CONDA_PREFIX CUDA_VISIBLE_DEVICES HOME LANG LC_ALL LOGNAME PATH SHELL TMPDIR TZ USER VIRTUAL_ENV "
'
test_expect 'HOME and USER pass and are no part of the key; what a step declares wins, and is' '
	printf "pipeline: home\nparams: {home: /nonexistent}\nsteps:\n  mine: {run: \"echo \$HOME \$USER >o\", outputs: {o: o}}\n  own: {run: \"echo \$HOME \$USER >o\", outputs: {o: o}, env: {HOME: \"\${{ params.home }}\", USER: nobody}}\n" >home.yaml
	mkdir -p hers
	HOME=$PWD/hers USER=she cairn run home.yaml -q
	test_is "$(cairn get mine/o -o -) $(cairn get own/o -o -)" "$PWD/hers she /nonexistent nobody"
	USER=he cairn run home.yaml -q --json >out
	test_is "$(json out "d[\"counts\"][\"hits\"]")" 2
	cairn why home.yaml -p home=/other own >why
	test_grep "env HOME changed: /nonexistent → /other" why
'
test_expect 'the umask of a task is 022 whatever ours is: the modes in an archive are the same for everybody' '
	printf "pipeline: mask\nparams: {n: 1}\nsteps:\n  s: {run: \"umask >o; mkdir d; touch d/f x; chmod +x x; tar --mtime=@0 --owner=0 --group=0 -cf t d; echo \${{ params.n }} >n\", outputs: {o: o, t: t, x: x, n: n}}\n" >mask.yaml
	for mask in 022 002 077 0177; do
		(umask $mask && cairn run mask.yaml -q -p n=$mask)
		test_is "$(cairn get s/o -o -)" 0022
		rm -f x
		cairn get s/x -o x
		test -x x
		cairn get s/t -o - | sha256sum >>sums
	done
	test_is "$(sort -u sums | wc -l)" 1
'
test_expect 'what is laid out for a task has the same modes whatever our umask is: inputs, code, places of outputs' '
	mkdir -p laid/code/sub laid/in/sub
	cd laid
	echo "# project" >cairn.yaml
	touch code/a code/sub/b in/a in/sub/b
	chmod +x code/a in/a
	cat >pipeline.yaml <<-"YAML"
	pipeline: laid
	params: {n: 1}
	inputs: {d: in/, f: in/a}
	steps:
	  s:
	    run: "echo ${{ params.n }} >n; stat -c \"%a %n\" . $(find code inputs out) >modes"
	    code: [code]
	    inputs: {d: "${{ inputs.d }}", f: "${{ inputs.f }}"}
	    outputs: {n: n, modes: modes, o: out/deep/o/}
	YAML
	for mask in 022 077 000; do
		(umask $mask && cairn run -q -p n=$mask)
		cairn get s/modes -o "../modes.$mask"
	done
	cat ../modes.022
	test_cmp ../modes.022 ../modes.077
	test_cmp ../modes.022 ../modes.000
'
test_done
