#!/bin/bash
# cairn init --template: every folder of pipelines/ comes out of the program as it is in the tree,
# runs in an empty directory with nothing but python3, and gives what it promises.
. "$(dirname "$0")/../../lib.sh"

templates=$(cd "$SRC/pipelines" && printf '%s\n' */ | tr -d / | xargs)
# Packages can't be imported.
printf '#!/bin/sh\nexec /usr/bin/python3 -S "$@"\n' >"$TRASH/bin/python3"
chmod +x "$TRASH/bin/python3"

# metric TASK NAME: of the newest run here.
metric() {
	cairn metrics -n 1 --all --json >metrics.out
	json metrics.out "d[\"runs\"][0][\"metrics\"][\"$1\"][\"$2\"]"
}
# runs_again ARGUMENT...: the steps that a run with these arguments executes, without running it.
runs_again() {
	cairn plan --json "$@" >plan.out
	json plan.out '" ".join(sorted({t["step"] for t in d["tasks"] if t["state"] != "hit"}))'
}

test_expect 'help, the man page and completion name every template' "
	cairn init --help >help
	cairn help --man init | tr -d '\\\\' >man
	for name in $templates; do
		test_grep \"^  \$name  *[a-z]\" help
		test_grep \"\$name  *[a-z]\" man
	done
	for shell in bash zsh fish; do
		cairn completion \$shell >script
		test_grep '$templates' script
	done
"
test_expect 'an unknown name: exit 2, the nearest one, nothing made' '
	test_code 2 cairn init --template tabluar lost 2>err
	test_grep "did you mean .tabular.?" err
	test_lines 1 err
	test_missing lost
'
for name in $templates; do
	test_expect "$name: what is made is what the tree has, and valid" "
		mkdir $name
		cd $name
		cairn init --template $name >../out 2>../err
		test_grep '^made pipeline.yaml' ../out
		test_is \"\$(cat ../err)\" 'next: cairn run'
		(cd '$SRC/pipelines/$name' && find . -type f) >../all
		grep -v '/\.cairn/\|__pycache__' ../all >../files
		test_exists pipeline.yaml cairn.yaml
		while read -r f; do
			test_cmp \"$SRC/pipelines/$name/\$f\" \"\$f\"
		done <../files
		test_cmp '$SRC/pipelines/schema.json' .cairn/schema.json
		test_is \"\$(sed -n 1p pipeline.yaml)\" '# yaml-language-server: \$schema=.cairn/schema.json'
		cairn check >../out
	"
	test_expect "$name: runs, and a second run is all hits" "
		cd $name
		cairn run -q --json >../out
		json ../out 'd[\"counts\"][\"executed\"] == d[\"counts\"][\"total\"] >= 2' >../is
		test_is \"\$(cat ../is)\" true
		cairn run -q --json >../out
		test_is \"\$(json ../out 'd[\"counts\"][\"hits\"] == d[\"counts\"][\"total\"]')\" true
	"
	test_expect "$name: every command that its files name works" "
		cd $name
		find . -maxdepth 1 -name '*.md' -exec cat {} + >../readme
		sed -E 's/^ *# *//' ../readme pipeline.yaml | tr '\\n' ' ' >../words
		{ grep -o '\`cairn [^\`]*\`' ../words; sed -nE 's/^    (cairn [^#]*).*/\1/p' ../readme; } |
			tr -d '\`' | sed 's/ *\$//' | sort -u >../commands
		test_grep '^cairn run\$' ../commands
		while read -r command; do
			eval \"\$command\" >../out 2>&1 </dev/null || {
				echo \"\$command\"
				cat ../out
				exit 1
			}
		done <../commands
	"
	test_expect "$name: the same bytes when it is run again from what is on record" "
		cd $name
		cairn reproduce last -q >../out
	"
done
test_expect 'hello: counts the word that it is given' '
	cd hello
	test_is "$(cairn get count/counts -o -)" "stone 2"
	cairn run -q -p word=path
	test_is "$(metric count count)" 1.0
'
test_expect 'image-classification: how good it is; shards stay when training changes' '
	cd image-classification
	test_is "$(metric evaluate accuracy | awk "{print (\$1 >= 0.85)}")" 1
	cairn get predict/predictions -o predictions.csv
	test_grep "^id,label,predicted,prob_cross,prob_disc,prob_stripes$" predictions.csv
	test_is "$(runs_again -p epochs=2)" "evaluate predict train"
	cairn metrics --plot loss --json >plot
	test_is "$(json plot "len(d[\"series\"][0][\"points\"])")" 12
'
test_expect 'tabular: each row is predicted once; a gate that fails keeps the model back' '
	cd tabular
	test_is "$(metric evaluate roc_auc | awk "{print (\$1 >= 0.85)}")" 1
	test_is "$(metric evaluate rows)" 320.0
	cairn get fit/model -o model.json
	test_is "$(json model.json "d[\"calls_to_support\"] > 0 > d[\"months\"]")" true
	test_is "$(runs_again -p l2=0.2)" "evaluate fit train"
	sed "s/>= 0.85/>= 0.999/" pipeline.yaml >strict.yaml
	test_code 1 cairn run -q -p l2=0.2 strict.yaml 2>err
	test_grep roc_auc err
	cairn runs --json -n 1 >runs
	test_is "$(json runs "d[\"runs\"][0][\"state\"]")" failed
	test_must_fail cairn get fit/model -o none.json
'
test_expect 'text: how good it is; a setting runs again what reads it alone' '
	cd text
	test_is "$(metric evaluate accuracy | awk "{print (\$1 >= 0.85)}")" 1
	test_is "$(runs_again -p smoothing=2)" "evaluate predict train"
	test_is "$(runs_again -p min_count=4)" "evaluate predict train vocabulary"
'
test_expect 'sweep: the best trial is trained again; a value more runs its trials alone' '
	cd sweep
	cairn metrics -n 1 --json >out
	best=$(json out "max(m[\"accuracy\"] for m in d[\"runs\"][0][\"metrics\"].values())")
	test_is "$(metric choose accuracy)" "$best"
	cairn get choose/best -o best.json
	cairn get train/model -o model.json
	test_is "$(json model.json "len(d[\"hidden\"])")" "$(json best.json "d[\"width\"]")"
	sed "s/width: \[2, 6, 12\]/width: [2, 6, 12, 16]/" pipeline.yaml >wider.yaml
	cairn plan --json wider.yaml >out
	test_is "$(json out "[t[\"task\"][-9:-1] for t in d[\"tasks\"] if t[\"state\"] == \"run\"]")" \
		"[\"width=16\", \"width=16\", \"width=16\"]"
'
test_expect 'what is there is kept, and what differs is said' '
	mkdir mine
	cd mine
	echo "pipeline: own" >pipeline.yaml
	echo "jobs: 1" >cairn.yaml
	cairn init --template tabular >out 2>err
	test_is "$(cat pipeline.yaml)" "pipeline: own"
	test_is "$(cat cairn.yaml)" "jobs: 1"
	test_grep "^kept pipeline.yaml" out
	test_grep "^made data/customers.csv" out
	test_grep "pipeline.yaml was there already and isn.t the template.s" err
	test_no_grep "cairn.yaml" err
	cairn init --template tabular --json >out 2>err
	json out "{f[\"path\"]: f[\"state\"] for f in d[\"files\"]}" >states
	test_is "$(json states "d[\"pipeline.yaml\"], d[\"train.py\"]")" "[\"differs\", \"kept\"]"
	test_is "$(json out "d[\"template\"]")" tabular
'
test_expect 'the schema becomes that of this version; a link is no place for it' '
	echo old >hello/.cairn/schema.json
	cairn init hello >out
	test_cmp "$SRC/pipelines/schema.json" hello/.cairn/schema.json
	mkdir linked elsewhere
	ln -s ../elsewhere linked/.cairn
	test_must_fail cairn init linked 2>err
	test_grep .cairn err
	test_is "$(ls elsewhere)" ""
	mkdir data
	mkdir shared
	ln -s ../data shared/data
	test_must_fail cairn init --template text shared 2>err
	test_grep data err
	test_is "$(ls data)" ""
'
test_done
