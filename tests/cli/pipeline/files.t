#!/bin/bash
# Files on their way: the executable bit of a single one (a step makes a program, the next one starts it, from wherever it comes);
# and what editors leave in directories.
. "$(dirname "$0")/../../lib.sh"

echo '# project' >cairn.yaml
echo 'echo "hello, $1"' >body
write pipeline.yaml <<'YAML'
pipeline: program
params: {name: you, mode: "755"}
inputs: {body: body}
steps:
  build:
    run: |
      { echo '#!/bin/sh'; cat ${{ inputs.body }}; } >${{ outputs.program }}
      chmod 755 ${{ outputs.program }}
      mkdir -p tools; cp ${{ outputs.program }} tools/greet; echo data >tools/data
    inputs: {body: "${{ inputs.body }}"}
    outputs: {program: bin/greet, tools: tools/}
  use: {run: "${{ inputs.program }} ${{ params.name }} >o", inputs: {program: "${{ steps.build.outputs.program }}"}, outputs: {o: o}}
  member: {run: "${{ inputs.t }} member >o; ls -l ${{ inputs.d }}", inputs: {t: "${{ steps.build.outputs.tools }}/greet", d: "${{ steps.build.outputs.tools }}/data"}, outputs: {o: o}}
  every: {each: "${{ steps.build.outputs.tools }}/gre*", run: "${{ inputs.t }} each >o", inputs: {t: "${{ item }}"}, outputs: {o: o}}
  many: {matrix: {i: [1, 2]}, run: "cp ${{ inputs.p }} o; echo '# ${{ matrix.i }}' >>o; chmod +x o", inputs: {p: "${{ steps.build.outputs.program }}"}, outputs: {o: o}}
  gather: {run: "for p in ${{ inputs.all }}/*; do $p gathered; done >o", inputs: {all: "${{ steps.many.outputs.o }}"}, outputs: {o: o}}
YAML
counts() { json "$1" '"%(executed)d %(hits)d" % d["counts"]'; }
reason() { cairn why "$1" --json >why; json why 'd["tasks"][0]["reason"]'; }

test_expect 'a program that a step made is started by the next ones: as an output, as a member of one, by each, gathered' '
	cairn run -q
	test_is "$(cairn get use/o -o -)" "hello, you"
	test_is "$(cairn get member/o -o -)" "hello, member"
	cairn get "every[greet]/o" -o every
	test_is "$(cat every)" "hello, each"
	test_is "$(cairn get gather/o -o - | sort -u)" "hello, gathered"
'
test_expect 'from the cache, too; and cairn get gives it back as it was' '
	cairn run -q --json >run
	test_is "$(json run "d[\"counts\"][\"executed\"]")" 0
	cairn run -q -p name=me
	test_is "$(cairn get use/o -o -)" "hello, me"
	cairn get -q build/program -o greet
	test_is "$(stat -c %a greet)" 755
	test_is "$(./greet there)" "hello, there"
	cairn get -q build/tools -o got
	test_is "$(stat -c %a got/greet got/data | tr "\n" " ")" "755 644 "
	cairn get -q use/o -o plain
	test_is "$(stat -c %a plain)" 644
	cairn get -q last -o whole
	test_is "$(find whole -type f -perm -100 -path "*build*program*" | wc -l)" 1
	test_is "$(find whole -type f -perm -100 -path "*use*" | wc -l)" 0
'
test_expect 'lineage follows the bytes' '
	cairn lineage build/program >out
	test_grep "build" out
	cairn lineage ./greet --down >out
	test_grep "use" out
	id=$(sha256sum greet | cut -c 1-64)
	cairn lineage "sha256:$id" --down --json >out
	test_is "$(json out "[n[\"content\"] for n in d[\"nodes\"] if n[\"id\"] == \"sha256:$id\"]")" "[\"executable\"]"
	cairn get -q "sha256:$id" -o bytes # the record says what the digest was
	test_is "$(stat -c %a bytes)" 755
	chmod -x greet # nor does it matter to where the bytes come from
	cairn lineage ./greet --down >out
	test_grep "use" out
'
test_expect 'after verify and gc it is there, and is a program' '
	cairn store verify
	cairn store gc --keep-runs 1 --grace 0s
	CAIRN_TEST_MARK_GAP=0 cairn store gc --keep-runs 1 --grace 0s >removed
	test_no_grep "removed 0 objects" removed
	cairn run -q -p name=later --json >run
	test_is "$(counts run)" "1 6"
	test_is "$(cairn get use/o -o -)" "hello, later"
'

# ---- keys ----------------------------------------------------------------------------------------------------------------

mkdir keys
echo '# project' >keys/cairn.yaml
printf '#!/bin/sh\necho made\n' >keys/tool
write keys/pipeline.yaml <<'YAML'
pipeline: keys
inputs: {tool: tool, dir: dir/}
steps:
  use: {run: "if [ -x ${{ inputs.tool }} ]; then ${{ inputs.tool }}; else echo plain; fi >o", inputs: {tool: "${{ inputs.tool }}"}, outputs: {o: o}}
  tree: {run: "ls -l ${{ inputs.dir }} >o", inputs: {dir: "${{ inputs.dir }}"}, outputs: {o: o}}
YAML
mkdir keys/dir
cp keys/tool keys/dir

test_expect 'an input that is a plain file arrives as one' '
	cd keys
	cairn run -q
	test_is "$(cairn get use/o -o -)" plain
'
test_expect 'chmod +x of an input changes what needs it, and why says so; back is a hit' '
	cd keys
	chmod +x tool
	cairn why use >../out
	test_grep "input tool changed: it is executable now \(tool\)" ../out
	cairn run -q --json >../run
	test_is "$(counts ../run)" "1 1"
	test_is "$(cairn get use/o -o -)" made
	chmod +x dir/tool
	cairn run -q
	cairn status --json >../out
	test_grep "input dir changed: tool is executable now" ../out
	chmod -x dir/tool
	chmod g+x,o+x tool # whether its owner may is what counts
	cairn run -q --json >../run
	test_is "$(counts ../run)" "0 2"
	chmod a-x tool
	cairn why use >../out
	cairn run -q --json >../run
	test_is "$(counts ../run)" "0 2"
	test_is "$(cairn get use/o -o -)" plain
'

# ---- elsewhere -----------------------------------------------------------------------------------------------------------

test_expect 'exported, it is a program, and the mark says so' '
	sed -i "s|outputs: {program: bin/greet|outputs: {program: {path: bin/greet, export: \"$PWD/exported/greet\"}|" pipeline.yaml
	cairn run -q -p name=exported
	test_is "$(stat -c %a exported/greet)" 755
	test_is "$(json exported/greet.cairn.json "d[\"files\"][0][\"executable\"]")" true
'
test_expect 'a reproduction is given the program; one that is made without its bit is different' '
	mkdir again
	printf 755 >again/mode
	echo "# project" >again/cairn.yaml
	cat >again/pipeline.yaml <<-YAML
	pipeline: again
	steps:
	  build: {run: "printf \"#!/bin/sh\\necho yes\\n\" >p; chmod \$(cat $PWD/again/mode) p; cp p d", outputs: {p: p, d: d/}}
	  use: {run: "\${{ inputs.p }} >o", inputs: {p: "\${{ steps.build.outputs.p }}"}, outputs: {o: o}}
	YAML
	cd again
	cairn run -q
	cairn reproduce -q last --json >../report
	test_is "$(json ../report "d[\"verdict\"]")" identical
	printf 644 >mode
	q="'"'"'"
	test_code 11 cairn reproduce -q last --json >../report
	test_is "$(json ../report "[(o[\"name\"], o[\"verdict\"], o[\"detail\"]) for t in d[\"tasks\"] for o in t[\"outputs\"] if o[\"verdict\"] != \"identical\"]")" \
		"[[\"p\", \"different\", \"was executable, isn$q""t any more\"], [\"d\", \"different\", \"was executable, isn$q""t any more\"]]"
'
# ---- what is left out ------------------------------------------------------------------------------------------------------

mkdir litter
write litter/pipeline.yaml <<'YAML'
pipeline: litter
inputs: {data: data/}
steps:
  list: {run: "cd ${{ inputs.data }} && find . -type f | LC_ALL=C sort >$OLDPWD/o", inputs: {data: "${{ inputs.data }}"}, outputs: {o: o}}
  each: {each: "${{ inputs.data }}/**", run: "basename ${{ item.name }} >o", outputs: {o: o}}
  code: {run: "find lib -type f | LC_ALL=C sort >o", code: [lib/], outputs: {o: o}}
YAML
test_expect 'what cairn.yaml ignores is no content: in inputs, in members of each, in code; neither key nor step sees it' '
	cd litter
	mkdir -p data/sub lib
	echo x >data/a
	echo x >data/sub/b
	echo x >lib/m.py
	cairn init -q # its cairn.yaml ignores the usual
	cairn run -q
	for d in data data/sub lib; do
		echo junk >$d/.DS_Store
		echo junk >$d/.a.swp
		echo junk >$d/a~
		mkdir -p $d/__pycache__
		echo junk >$d/__pycache__/m.pyc
	done
	cairn plan --json >../plan
	test_is "$(json ../plan "sorted({t[\"state\"] for t in d[\"tasks\"]})")" "[\"hit\"]"
	cairn run -q --json >../run
	test_is "$(counts ../run)" "0 5"
	cairn lineage ./data --down >../out
	test_grep list ../out
	touch data/.hidden # not everything with a dot
	cairn run -q --json >../run
	test_is "$(cairn get list/o -o -)" "./.hidden
./a
./sub/b"
	test_is "$(cairn get code/o -o -)" lib/m.py
	sed -i "s/^ignore:.*/ignore: [\".*.swp\", \"a?\", __pycache__, .hidden]/" cairn.yaml
	cairn run -q
	test_is "$(cairn get list/o -o -)" "./.DS_Store
./a
./sub/.DS_Store
./sub/b"
	sed -i "s/^ignore:.*/ignore: [data\/x]/" cairn.yaml
	test_code 3 cairn run 2>../err
	test_grep "cairn.yaml:[0-9]*:[0-9]*: .ignore.: .data/x.: give a name" ../err
'
test_expect 'a file that is named itself is content whatever it is called' '
	cd litter
	sed -i "s/^ignore:.*/ignore: [.DS_Store]/" cairn.yaml
	cat >one.yaml <<-"YAML"
	pipeline: one
	inputs: {one: data/.DS_Store}
	steps:
	  use: {run: "cat ${{ inputs.one }} >o", inputs: {one: "${{ inputs.one }}"}, outputs: {o: o}}
	YAML
	cairn run -q one.yaml
	test_is "$(cairn get use/o -o -)" junk
'
test_done
