#!/bin/bash
# What `cairn reproduce` says when something was changed, lost or replaced: the right verdict and exit code for each, and the other steps go on.
. "$(dirname "$0")/../../lib.sh"

mkdir -p project/texts bin
echo "one two three" >project/texts/a.txt
echo "four five" >project/texts/b.txt
write project/cairn.yaml <<'YAML'
salt: v1
YAML
write project/count.sh <<'SH'
wc -w <"$1" | tr -d ' '
SH
write project/pipeline.yaml <<'YAML'
pipeline: lab
params: {k: 2}
inputs: {texts: texts/}
steps:
  count:
    each: "${{ inputs.texts }}/*.txt"
    run: sh count.sh ${{ inputs.text }} >${{ outputs.n }}
    inputs: {text: "${{ item }}"}
    outputs: {n: n.txt}
  sum:
    run: cat ${{ inputs.n }}/* | adder >${{ outputs.s }}
    tools: [adder --version]
    inputs: {n: "${{ steps.count.outputs.n }}"}
    outputs: {s: s.txt}
  scale:
    run: |
      n=$(($(cat ${{ inputs.s }}) * ${{ params.k }}))
      echo $n >${{ outputs.scaled }}
      echo "{\"n\": $n}" >m.json
    inputs: {s: "${{ steps.sum.outputs.s }}"}
    outputs: {scaled: scaled.txt}
    metrics: m.json
YAML
tool() { # VERSION, what it adds
	write bin/adder <<SH
#!/bin/sh
[ "\$1" = --version ] && { echo "adder $1"; exit; }
awk '{ n += \$1 } END { print n + $2 }'
SH
	chmod 755 bin/adder
}
tool 1.0 0
export PATH=$PWD/bin:$PATH

# A machine that has nothing but a copy of the store, to be spoilt.
fresh() { cd "$TRASH/work"; rm -rf machine; mkdir machine; cp -R project/.cairn/store machine/store; chmod -R u+w machine/store; cd machine; }
again() { local code=$1; shift; test_code "$code" cairn reproduce --trust -q --json "$(cat ../hash)" --store store "$@" >report 2>err; }
verdict() { json report "next(t['verdict'] for t in d['tasks'] if t['task'] == '$1')"; }
why() { json report "next(t['why'] or '' for t in d['tasks'] if t['task'] == '$1')" >why; }
content() { cairn -C ../project lineage --json "$1" -r "$(cat ../hash)" >l; json l 'd["artifact"][7:]'; }
manifest() { echo "store/runs/$(cut -c 1-2 ../hash)/$(cat ../hash)"; }
blob() { echo "store/blobs/${1:0:2}/$1"; }

test_expect 'the run to be reproduced' '
	cd project
	cairn run -q
	cairn runs --json >../runs
	json ../runs "d[\"runs\"][0][\"hash\"]" >../hash
'
test_expect 'nothing was changed: the same bytes' '
	fresh
	again 0
	test_is "$(json report "sorted({t[\"verdict\"] for t in d[\"tasks\"]})")" "[\"reproduced\"]"
	test_is "$(json report "len(d[\"tasks\"])")" 4
	test_is "$(json report "d[\"environment\"]")" "[]"
'
test_expect 'other code, other inputs and another salt in the checkout: what is on record counts' '
	cp -R project edited
	cd edited
	echo "echo 7" >count.sh
	echo "more and more words" >texts/a.txt
	sed -i "s/ 2}/ 5}/" pipeline.yaml
	echo "salt: v2" >cairn.yaml
	cairn reproduce -q "$(cat ../hash)"
'
test_expect 'an input edited in the store: what reads it is not comparable, the rest is' '
	fresh
	id=$(printf "four five\n" | sha256sum | cut -c 1-64)
	echo "four six!" >"$(blob $id)"
	again 12
	test_is "$(verdict "count[b.txt]")" "not comparable"
	why "count[b.txt]"
	test_grep "${id:0:12}" why
	test_is "$(verdict "count[a.txt]")" reproduced
	test_is "$(verdict sum)" reproduced
	test_is "$(verdict scale)" reproduced
'
test_expect 'an input missing from the store' '
	fresh
	rm "$(blob $(printf "four five\n" | sha256sum | cut -c 1-64))"
	again 12
	test_is "$(verdict "count[b.txt]")" "not comparable"
	why "count[b.txt]"
	test_grep "input .text. .sha256:[0-9a-f]{12}. is not in the store" why
	test_is "$(verdict sum)" reproduced
'
test_expect 'the listing of an input missing: its items are not comparable, all else is' '
	fresh
	cat store/runs/*/"$(cat ../hash)" >m
	id=$(json m "next(i[\"content\"][\"digest\"] for i in d[\"inputs\"] if i[\"name\"] == \"input:texts\")")
	rm "store/trees/${id:7:2}/${id:7}"
	again 12
	test_is "$(verdict "count[a.txt]")" "not comparable"
	test_is "$(verdict "count[b.txt]")" "not comparable"
	why "count[a.txt]"
	test_grep "${id:7:12}" why
	test_is "$(verdict sum)" reproduced
	again 12 --chained
	test_is "$(verdict "count[a.txt]")" "not comparable"
	test_is "$(verdict scale)" "not comparable"
'
test_expect 'a final output edited in the store: what was made is the same bytes, takes its place, and that is said' '
	fresh
	id=$(content scale/scaled)
	tr 1-4 5-8 <"$(blob $id)" >other
	cat other >"$(blob $id)"
	test_code 0 cairn reproduce --trust "$(cat ../hash)" --store store >report 2>err
	test_grep "every output is the same bytes" report
	test_grep "1 object of the store was damaged and has been replaced by what this run made" <(cat report err)
	test_is "$(sha256sum <"$(blob $id)" | cut -c 1-64)" "$id"
'
test_expect 'code missing' '
	fresh
	rm "$(blob "$(sha256sum ../project/count.sh | cut -c 1-64)")"
	again 12
	test_is "$(verdict "count[a.txt]")" "not comparable"
	why "count[a.txt]"
	test_grep "its code .sha256" why
	test_is "$(verdict sum)" reproduced
	again 12 --chained
	test_is "$(verdict scale)" "not comparable"
'
test_expect 'code edited in the store' '
	fresh
	id=$(sha256sum ../project/count.sh | cut -c 1-64)
	echo "echo 3; # xxxxxxxxxxxxx" >"$(blob $id)"
	truncate -s $(stat -c %s ../project/count.sh) "$(blob $id)"
	again 12
	test_is "$(verdict "count[a.txt]")" "not comparable"
	test_is "$(verdict sum)" reproduced
'
test_expect 'an output lost, or edited: what is made anew has its digest' '
	fresh
	rm "$(blob "$(content scale/scaled)")"
	again 0
	fresh
	echo 99 >"$(blob "$(content scale/scaled)")"
	again 0
'
test_expect 'another version of a tool that gives the same: listed' '
	fresh
	tool() { sed -i "s/adder [0-9.]*/adder $1/; s/n + [0-9]*/n + $2/" ../bin/adder; }
	tool 1.1 0
	test_when_finished "tool 1.0 0"
	again 0
	test_is "$(json report "[[e[\"what\"], e[\"was\"], e[\"is\"]] for e in d[\"environment\"]]")" "[[\"tool adder --version\", \"adder 1.0\", \"adder 1.1\"]]"
'
test_expect 'another version that gives something else: different, listed, and where' '
	fresh
	tool() { sed -i "s/adder [0-9.]*/adder $1/; s/n + [0-9]*/n + $2/" ../bin/adder; }
	tool 2.0 1
	test_when_finished "tool 1.0 0"
	again 11
	test_is "$(verdict sum)" diverged
	test_is "$(verdict scale)" reproduced
	test_is "$(json report "d[\"environment\"][0][\"is\"]")" "adder 2.0"
	again 11 --chained
	test_is "$(verdict scale)" diverged
	test_is "$(json report "[t[\"task\"] for t in d[\"tasks\"] if t[\"after_divergence\"]]")" "[\"scale\"]"
'
test_expect 'the same version that gives something else, of which the bytes of then are gone' '
	fresh
	tool() { sed -i "s/adder [0-9.]*/adder $1/; s/n + [0-9]*/n + $2/" ../bin/adder; }
	rm "$(blob "$(content scale/scaled)")" "$(blob "$(content sum/s)")"
	tool 1.0 1
	test_when_finished "tool 1.0 0"
	again 12
	test_is "$(verdict sum)" "not comparable"
	why sum
	test_grep "not whole in the store" why
	why scale
	test_grep "input .s. .* is not in the store" why
'
test_expect 'a tool that is gone' '
	fresh
	mv ../bin/adder ../bin/adder.gone
	test_when_finished "mv ../bin/adder.gone ../bin/adder"
	again 12
	test_is "$(verdict sum)" "not comparable"
	test_is "$(verdict scale)" reproduced
	test_grep "adder" report
'
test_expect 'an edited manifest is not believed' '
	fresh
	sed -i "s/\"k\":2/\"k\":3/" "$(manifest)"
	again 12
	test_grep "don.t match it any more" err
'
test_expect 'no manifest, no pipeline, no results' '
	fresh
	rm "$(manifest)"
	test_code 4 cairn reproduce --trust "$(cat ../hash)" --store store 2>err
	test_grep "no run" err
	fresh
	cat store/runs/*/"$(cat ../hash)" >m
	id=$(json m "d[\"pipeline_files\"][\"digest\"][7:]")
	rm "store/trees/${id:0:2}/$id"
	again 12
	test_grep "$id" err
	fresh
	cat store/runs/*/"$(cat ../hash)" >m
	id=$(json m "d[\"results\"][\"digest\"][7:]")
	rm "$(blob $id)"
	again 12
	test_grep "results of run lab-" err
'
test_done
