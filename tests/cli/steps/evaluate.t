#!/bin/bash
# The built-in step evaluate: metrics, formats, matching, errors, gate and report. Values are held against scikit-learn by evaluate_sklearn.py.
. "$(dirname "$0")/../../lib.sh"

STEPS=$(dirname "$CAIRN")/cairn-steps
[ -x "$STEPS" ] || test_skip_all "no $STEPS"
evaluate() { "$STEPS" evaluate "$@"; }
# metric NAME: of out/metrics.json, by path
metric() { json out/metrics.json "(lambda v: [v := v[k] for k in '$1'.split('/')][-1])(d)"; }

write p.csv <<'E'
id,y,guess,score,region
a,yes,yes,0.9,eu
b,no,no,0.2,eu
c,yes,no,0.4,us
d,no,yes,0.7,us
e,yes,yes,0.8,eu
f,no,no,0.1,us
E

test_expect 'two classes: counts, areas and probabilities' '
	evaluate -i predictions=p.csv -o report=out/ -w label=y -w prediction=guess --metrics m.json 2>log
	test_is "$(metric accuracy) $(metric rows) $(metric rows_skipped)" "0.66666666666667 6 0"
	test_is "$(metric roc_auc) $(metric positive)" "0.88888888888889 yes"
	test_is "$(metric confusion/counts) $(metric confusion/classes)" "[[2, 1], [1, 2]] [\"no\", \"yes\"]"
	test_is "$(metric classes/yes/precision) $(metric classes/yes/support)" "0.66666666666667 3"
	test_is "$(json m.json "d[\"ci\"][\"accuracy\"][\"low\"] <= d[\"accuracy\"] <= d[\"ci\"][\"accuracy\"][\"high\"]")" true
	test_exists out/report.html out/summary.md out/confusion.svg out/roc.svg out/pr.svg out/calibration.svg
	test_grep "^\| accuracy \| 0.6667 \|" out/summary.md
'
test_expect 'the positive class can be the other one, and the threshold another' '
	evaluate -i predictions=p.csv -o report=out/ -w label=y -w positive=no -w threshold=0.5 2>log
	test_is "$(metric positive) $(metric roc_auc)" "no 0.11111111111111"
	evaluate -i predictions=p.csv -o report=out/ -w label=y -w threshold=0.85 2>log
	test_is "$(metric recall)" 0.33333333333333
'
test_expect 'the bytes depend on the seed, not on the threads' '
	for t in 1 2 7; do
		evaluate --threads $t -i predictions=p.csv -o report=t$t/ -w label=y -w slices=region 2>log
	done
	diff -r t1 t2
	diff -r t1 t7
	evaluate -i predictions=p.csv -o report=t8/ -w label=y -w slices=region -w seed=1 2>log
	test_must_fail cmp -s t1/metrics.json t8/metrics.json
'
# A change of these bytes is a change of the step: raise its version in steps/spec/evaluate.c, then write the new digest here.
test_expect 'the bytes are those of version 2' '
	test_grep "version 2\)" <("$STEPS" evaluate --help)
	(cd t1 && sha256sum metrics.json report.html summary.md confusion.svg roc.svg pr.svg calibration.svg) >sums
	test_is "$(sha256sum <sums | cut -c 1-16)" c99a749111e95f88 || { cat sums; false; }
'
test_expect 'slices by a column' '
	evaluate -i predictions=p.csv -o report=out/ -w label=y -w prediction=guess -w slices=region 2>log
	test_is "$(metric slices/region/eu/rows) $(metric slices/region/eu/accuracy) $(metric slices/region/us/accuracy)" "3 1.0 0.33333333333333"
	test_is "$(metric "slices/region/us/roc_auc")" 0.5
	test_grep "<h2>By region</h2>" out/report.html
'
test_expect 'labels and a baseline in files of their own, matched by id in any order' '
	printf "id,y\nf,no\ne,yes\nd,no\nc,yes\nb,no\na,yes\n" >l.csv
	printf "{\"id\": \"%s\", \"guess\": \"%s\"}\n" c yes b no a no f no e no d no >base.jsonl
	cut -d , -f 1,3 p.csv >q.csv
	evaluate -i predictions=q.csv -i labels=l.csv -i baseline=base.jsonl -o report=out/ -w id=id -w label=y -w prediction=guess 2>log
	test_is "$(metric accuracy) $(metric baseline/accuracy) $(metric difference/accuracy/value)" "0.66666666666667 0.66666666666667 0.0"
	test_is "$(metric comparison/only_model_right) $(metric comparison/only_baseline_right) $(metric comparison/p)" "2 2 1.0"
'
test_expect 'the same from CSV with quotes, CR LF and a byte order mark, TSV, JSON lines, and a directory of files' '
	{ printf "\357\273\277"; sed "s/[^,]*/\"&\"/g; s/\$/\r/" p.csv; } >quoted.csv
	tr , "\t" <p.csv >p.tsv
	tail -n +2 p.csv | sed "s/\(.*\),\(.*\),\(.*\),\(.*\),\(.*\)/{\"id\": \"\1\", \"y\": \"\2\", \"guess\": \"\3\", \"score\": \4, \"region\": null}/" >p.jsonl
	mkdir -p parts
	head -n 3 p.csv >parts/1.csv
	{ head -n 1 p.csv; tail -n +4 p.csv; } >parts/2.csv
	evaluate -i predictions=p.csv -o report=out/ -w label=y 2>log
	for f in quoted.csv p.tsv p.jsonl parts; do
		evaluate -i predictions=$f -o report=other/ -w label=y 2>log
		diff -r out other
	done
'
test_expect 'a list of scores in JSON lines, a column each in CSV' '
	printf "{\"label\": %s, \"score\": [%s]}\n" 0 "0.5, 0.3, 0.2" 1 "0.2,0.6,0.2" 2 "0.4,0.4,0.2" 0 "0.9, 0.1, 0" >s.jsonl
	evaluate -i predictions=s.jsonl -o report=out/ -w top_k=2 -w "classes=[0,1,2]" 2>log
	test_is "$(metric accuracy) $(metric top_2_accuracy) $(metric roc_auc_ovr)" "0.75 0.75 0.88888888888889"
	printf "label,p_0,p_1,p_2\n0,.5,.3,.2\n1,.2,.6,.2\n2,.4,.4,.2\n0,.9,.1,0\n" >s.csv
	evaluate -i predictions=s.csv -o report=other/ -w top_k=2 -w "score=p_*" 2>log
	diff -r out other
'
test_expect 'files of several blocks, on several threads: as from one thread, and as from another format' '
	awk "BEGIN { srand(3); for (i = 0; i < 400000; i++) { p = rand(); printf \"%d,%.9f,q%d,%s\\n\", rand() < p, p, i % 50000, i % 3 ? \"x\" : \"longer\" } }" >rows
	{ echo label,score,q,part; cat rows; } >big.csv
	awk -F , "{ printf \"{\\\"part\\\": \\\"%s\\\", \\\"label\\\": %s, \\\"q\\\": \\\"%s\\\", \\\"score\\\": %s}\\n\", \$4, \$1, \$3, \$2 }" rows >big.jsonl
	for task in classification ranking; do
		evaluate --threads 1 -i predictions=big.csv -o report=out/ -w task=$task -w query=q -w slices=part -w bootstrap=3 2>log
		for f in big.csv big.jsonl; do
			evaluate --threads 3 -i predictions=$f -o report=other/ -w task=$task -w query=q -w slices=part -w bootstrap=3 2>log
			diff -r out other
		done
	done
	test_is "$(metric rows) $(metric queries) $(metric slices/part/longer/queries)" "400000 50000 16667"
	sed -i "300000s/,.*,q/,abc,q/" big.csv
	test_code 3 evaluate --threads 3 -i predictions=big.csv -o report=bad/ 2>log
	test_grep "error: big.csv:300000: .score. is not a number: abc" log
	sed -i "300001s/\"score\": .*/\"score\": []}/" big.jsonl
	test_code 3 evaluate --threads 3 -i predictions=big.jsonl -o report=bad/ 2>log
	test_grep "error: big.jsonl:300001: .score. is not a list as|big.jsonl:300001: .score. has another number" log
	rm -f big.* rows
'
test_expect 'plots: a histogram has numbers at both axes, labels of 40 classes stand upright' '
	mkdir -p plots
	cd plots
	{ echo label,prediction; seq 1000 | awk "{print \$1 \",\" \$1 + \$1 % 7}"; } >r.csv
	evaluate -i predictions=r.csv -o report=out/ -w task=regression 2>log
	python3 - <<-E
		import re
		svg = open("out/histogram.svg").read()
		y = re.findall(r"text-anchor=.end.>([0-9.k]+)<", svg)
		assert len(y) >= 3 and y[0] == "0", y
	E
	{ echo label,prediction; seq 400 | awk "{c = \"class\" \$1 % 40; print c \",\" c}"; } >c.csv
	evaluate -i predictions=c.csv -o report=out/ 2>log
	test_is "$(grep -o "rotate(90)" out/confusion.svg | wc -l)" 40
	cd ..
'
test_expect 'regression and ranking' '
	printf "label,prediction\n1,2\n2,2\n3,5\n" >r.csv
	evaluate -i predictions=r.csv -o report=out/ -w task=regression 2>log
	test_is "$(metric mae) $(metric r2) $(metric error_median) $(metric max_error)" "1.0 -1.5 1.0 2.0"
	test_exists out/histogram.svg
	printf "q,label,score\n1,0,.9\n1,1,.8\n2,1,.7\n2,0,.1\n3,0,.5\n" >k.csv
	evaluate -i predictions=k.csv -o report=out/ -w task=ranking -w query=q 2>log
	test_is "$(metric mrr) $(metric map) $(metric queries) $(metric queries_without_relevant)" "0.5 0.5 3 1"
'
test_expect 'what is not defined is null, with its reason' '
	printf "label,score\n1,.2\n1,.9\n" >one.csv
	evaluate -i predictions=one.csv -o report=out/ 2>log
	test_is "$(metric roc_auc) $(metric undefined/roc_auc)" "null only one class is in the labels"
	test_is "$(metric accuracy) $(metric classes/0/recall)" "0.5 null"
	head -n 1 one.csv >none.csv
	evaluate -i predictions=none.csv -o report=out/ 2>log
	test_is "$(metric rows) $(metric accuracy) $(metric undefined/accuracy)" "0 null there are no rows"
	evaluate -i predictions=none.csv -o report=out/ -w "classes=[0,1,2]" 2>log
	test_is "$(metric rows) $(metric roc_auc_ovr)" "0 null"
	printf "label,score\n1,2.5\n0,-1\n" >logits.csv
	evaluate -i predictions=logits.csv -o report=out/ 2>log
	test_is "$(metric roc_auc) $(metric log_loss)" "1.0 null"
	test_grep "no probabilities: row 1 has one outside" out/metrics.json
'

test_expect 'of two score columns the larger decides, and their difference orders the rows; a threshold given decides by the positive one' '
	printf "label,p_a,p_b\na,-1.5,-2\nb,-3,-2.5\nb,0.2,0.4\na,3,2.5\n" >two.csv
	evaluate -i predictions=two.csv -o report=out/ -w "score=p_*" 2>log
	test_is "$(metric accuracy) $(metric roc_auc) $(metric log_loss)" "1.0 1.0 null"
	evaluate -i predictions=two.csv -o report=out/ -w "score=p_*" -w threshold=0.4 2>log
	test_is "$(metric accuracy) $(metric roc_auc) $(metric confusion/counts)" "0.5 1.0 [[1, 1], [1, 1]]"
	printf "label,p_a,p_b\na,.6,.4\nb,.45,.55\nb,.3,.7\na,.2,.8\n" >two.csv
	evaluate -i predictions=two.csv -o report=out/ -w "score=p_*" 2>log
	test_is "$(metric accuracy) $(metric roc_auc)" "0.75 0.5"
'
test_expect 'macro averages are over the classes that occur, or that are listed' '
	printf "label,prediction\n0,0\n0,0\n" >same.csv
	evaluate -i predictions=same.csv -o report=out/ 2>log
	test_is "$(metric f1_macro) $(metric precision_macro) $(metric accuracy)" "1.0 1.0 1.0"
	evaluate -i predictions=same.csv -o report=out/ -w classes="[0, 1]" 2>log
	test_is "$(metric f1_macro)" 0.5
	printf "label,score\n0,.1\n0,.2\n" >same.csv
	evaluate -i predictions=same.csv -o report=out/ 2>log
	test_is "$(metric f1_macro)" 1.0
'
test_expect 'averages of a model are over the classes of its own rows: not of a baseline, nor of another slice' '
	printf "label,prediction\n0,0\n1,1\n2,0\n" >m3.csv
	printf "prediction\n3\n1\n0\n" >b3.csv
	evaluate -i predictions=m3.csv -o report=alone/ 2>log
	evaluate -i predictions=m3.csv -i baseline=b3.csv -o report=out/ 2>log
	for name in f1_macro precision_macro recall_macro balanced_accuracy accuracy mcc; do
		test_is "$(metric $name)" "$(json alone/metrics.json "d[\"$name\"]")"
	done
	test_is "$(metric f1_macro) $(metric baseline/f1_macro)" "0.55555555555556 0.25"
	printf "label,prediction,part\na,a,x\na,a,x\nb,c,y\nc,c,y\n" >parts.csv
	evaluate -i predictions=parts.csv -o report=out/ -w slices=part 2>log
	test_is "$(metric f1_macro) $(metric slices/part/x/f1_macro) $(metric slices/part/y/f1_macro)" "0.55555555555556 1.0 0.33333333333333"
	evaluate -i predictions=parts.csv -o report=out/ -w slices=part -w "classes=[\"a\",\"b\",\"c\"]" 2>log
	test_is "$(metric slices/part/x/f1_macro)" 0.33333333333333
'
test_expect 'a baseline without scores is compared by its classes; what it has no metric for is not defined' '
	printf "guess\n" >classes.csv
	printf "%s\n" yes no no no yes yes >>classes.csv
	evaluate -i predictions=p.csv -i baseline=classes.csv -o report=out/ -w label=y -w prediction=guess --metrics m.json 2>log
	test_is "$(metric difference/accuracy/value) $(metric difference/accuracy/p)" "0.0 1.0"
	for name in roc_auc log_loss brier ece; do
		test_is "$(json m.json "[d[\"difference\"][\"$name\"][k] for k in (\"value\", \"low\", \"high\", \"p\")]")" "[null, null, null, null]"
		test_is "$(metric undefined/difference.$name)" "the baseline has no scores, only classes"
	done
	test_grep "^\| roc_auc \| 0.8889 \| .* \| – \| – \|$" out/summary.md
	test_code 1 evaluate -i predictions=p.csv -i baseline=classes.csv -o report=out/ -w label=y -w prediction=guess -w gate.difference.roc_auc.value="> 0" 2>log
	test_grep "difference.roc_auc.value is not defined" log
	evaluate -i predictions=classes.csv -i labels=p.csv -i baseline=p.csv -o report=out/ -w label=y -w prediction=guess 2>log
	test_is "$(metric baseline/roc_auc) $(json out/metrics.json "\"roc_auc\" in d[\"difference\"]")" "0.88888888888889 false"
'
test_expect 'columns prob_* are of the classes that they name, in whatever order they stand' '
	printf "label,prob_a,prob_b,prob_c\na,.7,.2,.1\nb,.1,.8,.1\nc,.2,.2,.6\nc,.5,.4,.1\n" >abc.csv
	printf "prob_c,prob_a,prob_b\n.1,.7,.2\n.1,.1,.8\n.6,.2,.2\n.1,.5,.4\n" >cab.csv
	evaluate -i predictions=abc.csv -i baseline=cab.csv -o report=out/ -w "score=prob_*" 2>log
	test_is "$(metric accuracy) $(metric baseline/accuracy) $(metric difference/log_loss/value)" "0.75 0.75 0.0"
	evaluate -i predictions=cab.csv -i labels=abc.csv -o report=listed/ -w "score=prob_*" -w "classes=[\"a\",\"b\",\"c\"]" 2>log
	test_is "$(json listed/metrics.json "[d[\"accuracy\"], d[\"log_loss\"]]")" "[$(metric accuracy), $(metric log_loss)]"
	sed "1s/prob_[abc]/prob_x&/g" abc.csv >named.csv
	evaluate -i predictions=named.csv -o report=out/ -w "score=prob_*" -w "classes=[\"a\",\"b\",\"c\"]" 2>log
	test_is "$(metric accuracy)" 0.75
	sed "1s/prob_a/prob_z/" cab.csv >zab.csv
	test_code 3 evaluate -i predictions=abc.csv -i baseline=zab.csv -o report=out/ -w "score=prob_*" 2>log
	test_grep "zab.csv: 3 columns match .score., and 2 of them belong to the 3 classes" log
	test_code 3 evaluate -i predictions=zab.csv -i labels=abc.csv -o report=out/ -w "score=prob_*" -w "classes=[\"a\",\"b\",\"c\"]" 2>log
	test_grep "and 2 of them belong to the 3" log
'
test_expect 'as many slices as there may be' '
	python3 - <<-E
		with open("wide.csv", "w") as f:
		    f.write("label,prediction," + ",".join(f"s{i}" for i in range(33)) + "\n")
		    for row in range(4):
		        f.write(f"{row % 2},{row // 2}," + ",".join(str((row + i) % 3) for i in range(33)) + "\n")
	E
	evaluate -i predictions=wide.csv -o report=out/ -w bootstrap=0 -w "slices=$(python3 -c "import json; print(json.dumps([f\"s{i}\" for i in range(32)]))")" 2>log
	test_is "$(json out/metrics.json "len(d[\"slices\"])")" 32
'
test_expect 'numbers whose squares leave the range of a double: r2 is right, what cannot be held is null with a reason' '
	for e in 0 200 -200 307 -300; do
		printf "label,prediction\n1e$e,2e$e\n2e$e,2e$e\n3e$e,5e$e\n" >far.csv
		evaluate -i predictions=far.csv -o report=out/ -w task=regression 2>log
		test_is "$e $(metric r2)" "$e -1.5"
	done
	printf "label,prediction\n1e200,2e200\n2e200,5e200\n" >far.csv
	test_code 1 evaluate -i predictions=far.csv -o report=out/ -w task=regression -w gate.mse="<= 1" 2>log
	test_is "$(metric mse) $(metric undefined/mse)" "null it is beyond what a 64-bit float can hold"
'

# ---- errors ----------------------------------------------------------------------------------------------------------------------

# fails CODE PATTERN ARGUMENT...
fails() {
	test_code "$1" evaluate -o report=bad/ "${@:3}" 2>log
	test_grep "evaluate: error: $2" log
	test_lines 1 log
}
test_expect 'a bad cell is named by file, line and column' '
	printf "label,score\n1,.2\n0,x\n" >b.csv
	fails 3 "b.csv:3: .score. is not a number: x" -i predictions=b.csv
	printf "label,score\n1,.2\n0,nan\n" >b.csv
	fails 3 "b.csv:3: .score. is not a finite number: nan" -i predictions=b.csv
	printf "label,score\n1,.2\n,.5\n" >b.csv
	fails 3 "b.csv:3: .label. is empty" -i predictions=b.csv
	printf "label,score\n1,.2\n0\n" >b.csv
	fails 3 "b.csv:3: 1 field, but the first row has 2" -i predictions=b.csv
	printf "label,score\n1,.2\n0,.3,4\n" >b.csv
	fails 3 "b.csv:3: 3 fields, but the first row has 2" -i predictions=b.csv
	printf "{\"label\": 1, \"score\": 0.5}\n{\"label\": 1}\n" >b.jsonl
	fails 3 "b.jsonl:2: .score. is missing" -i predictions=b.jsonl
	printf "{\"label\": 1, \"score\": NaN}\n" >b.jsonl
	fails 3 "b.jsonl:1: .score. is not a finite number: NaN" -i predictions=b.jsonl
	printf "{\"label\": 1, \"score\": [1]}\n{\"label\": 1, \"score\": [1, 2]}\n" >b.jsonl
	fails 3 "b.jsonl:2: .score. has another number of values" -i predictions=b.jsonl
	test_missing bad/metrics.json
'
test_expect 'columns, rows and classes that do not fit' '
	fails 3 "p.csv has no column .label." -i predictions=p.csv
	fails 3 "p.csv has no column .regoin. .did you mean .region.\?." -i predictions=p.csv -w label=y -w slices=regoin
	fails 3 "p.csv has no column that matches .x_\*." -i predictions=p.csv -w label=y -w "score=x_*"
	printf "y\nyes\n" >short.csv
	fails 3 "p.csv has 6 rows, short.csv has 1; both need the same number" -i predictions=p.csv -i labels=short.csv -w label=y
	fails 3 "p.csv: row 2: .y. is .no., which is none of the classes" -i predictions=p.csv -w label=y -w "classes=[\"yes\",\"maybe\"]"
	printf "id,y\na,yes\na,no\nb,no\nc,no\nd,no\ne,no\n" >twice.csv
	fails 3 "twice.csv: the id .a. is there twice, in rows 1 and 2" -i predictions=p.csv -i labels=twice.csv -w label=y -w id=id
	fails 3 "twice.csv: the id .a. is there twice, in rows 1 and 2" -i predictions=twice.csv -i labels=twice.csv -w label=y -w id=id -w prediction=y
	fails 3 "twice.csv: the id .a. is there twice, in rows 1 and 2" -i predictions=twice.csv -i labels=twice.csv -w label=y -w id=id -w prediction=y -w on_bad=skip
	printf "id,y\na,yes\n" >few.csv
	fails 3 "few.csv has no row with the id .b., which is in row 2 of p.csv" -i predictions=p.csv -i labels=few.csv -w label=y -w id=id
	fails 3 "positive: there is no class .perhaps." -i predictions=p.csv -w label=y -w positive=perhaps
	fails 3 "gate.accuracy: .high. is no condition" -i predictions=p.csv -w label=y -w gate.accuracy=high
	fails 3 "ranking: .query. must name the column" -i predictions=p.csv -w label=y -w task=ranking
	printf "label,prob_a,prob_\377\na,1,0\n" >latin.csv
	fails 3 "latin.csv: the name of class 2 is not text in UTF-8" -i predictions=latin.csv -w "score=prob_*"
	fails 1 "cannot read gone.csv" -i predictions=gone.csv
	: >empty.csv
	fails 3 "empty.csv is empty: its first line must name the columns" -i predictions=empty.csv
	head -c 3000 /dev/zero >zero.csv
	fails 3 "zero.csv: a NUL byte at offset 0" -i predictions=zero.csv
'
test_expect 'a column that JSON lines have from some later line on is an error, not passed over' '
	printf "{\"label\": 0, \"prediction\": 0}\n{\"label\": 1, \"prediction\": 1, \"score\": 0.5}\n" >b.jsonl
	fails 3 "b.jsonl:2: .score. is here, but not in the first line" -i predictions=b.jsonl
	fails 3 "b.jsonl:2: .score. is here, but not in the first line" -i predictions=b.jsonl -w on_bad=skip
	printf "{\"label\": 0, \"score\": 0}\n\n{\"score\": 1, \"label\": 1, \"prediction\": 0}\n" >b.jsonl
	fails 3 "b.jsonl:3: .prediction. is here, but not" -i predictions=b.jsonl
	printf "{\"label\": \"a\", \"p_a\": 1, \"p_b\": 0}\n{\"label\": \"b\", \"p_a\": 0, \"p_b\": 0, \"p_c\": 1}\n" >b.jsonl
	fails 3 "b.jsonl:2: .p_c. is here, but not" -i predictions=b.jsonl -w "score=p_*"
	printf "{\"id\": 1, \"label\": 0}\n{\"id\": 2, \"label\": 1, \"region\": \"eu\"}\n" >l.jsonl
	printf "{\"id\": 1, \"prediction\": 0, \"region\": \"us\"}\n{\"id\": 2, \"prediction\": 1, \"region\": \"us\"}\n" >b.jsonl
	fails 3 "l.jsonl:2: .region. is here, but not" -i predictions=b.jsonl -i labels=l.jsonl -w id=id -w slices=region
	# What nobody asked for may come and go, and so may a column that may be empty.
	printf "{\"label\": 0, \"prediction\": 0}\n{\"note\": 1, \"prediction\": 1, \"label\": 1, \"region\": \"eu\"}\n" >b.jsonl
	evaluate -i predictions=b.jsonl -o report=out/ -w slices=region 2>log
	test_is "$(metric accuracy) $(metric slices/region/eu/rows)" "1.0 1"
'
test_expect 'a baseline adds no class to a model of two, nor to one with scores' '
	printf "label,prediction,s0,s1\n0,0,.9,.1\n1,1,.2,.8\n1,0,.6,.4\n0,0,.7,.3\n" >m.csv
	printf "label,prediction,s0,s1\n0,2,.9,.1\n1,1,.2,.8\n1,1,.6,.4\n0,0,.7,.3\n" >base.csv
	cut -d, -f1-2 m.csv >classes.csv
	for m in "classes.csv" "m.csv -w score=s1" "m.csv -w score=[\"s0\",\"s1\"]"; do
		set -- $m
		fails 3 "base.csv: row 1: .prediction. is .2., which is none of the classes that the labels" -i baseline=base.csv -i predictions="$@"
	done
	evaluate -i predictions=m.csv -i baseline=base.csv -o report=out/ -w score=s1 -w on_bad=skip 2>log
	test_is "$(metric rows_skipped) $(metric classes/1/support) $(metric roc_auc)" "1 2 1.0"
	printf "label,prediction\na,a\nb,c\nc,b\n" >m.csv
	printf "label,prediction\na,a\nb,d\nc,c\n" >base.csv
	evaluate -i predictions=m.csv -i baseline=base.csv -o report=out/ 2>log
	test_is "$(metric baseline/accuracy)" 0.66666666666667
'
test_expect 'a probability of 0 costs what the type of the scores can tell, as in scikit-learn' '
	python3 - <<-P
	import struct
	for name, code, size in ("f2", "e", 2), ("f4", "f", 4), ("f8", "d", 8):
	    head = "{\"descr\": \"<%s\", \"fortran_order\": False, \"shape\": (2,), }" % name
	    head = head.ljust(117) + chr(10)
	    open(name + ".npy", "wb").write(bytes([147]) + b"NUMPY" + bytes([1, 0]) + struct.pack("<H", len(head)) + head.encode() + struct.pack("<2" + code, 0, 1))
	P
	printf "label\n1\n0\n" >y.csv
	for t in f2:6.9314718 f4:15.942385 f8:36.043653; do
		evaluate -i predictions=${t%:*}.npy -i labels=y.csv -o report=out/ 2>log
		test_grep "\"log_loss\": ${t#*:}" out/metrics.json
	done
'
# array NAME ROWS COLUMNS: an NPY of float64; COLUMNS 0: one dimension
array() {
	python3 - "$@" <<-P
	import struct, sys
	name, rows, columns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
	shape = "(%d,)" % rows if not columns else "(%d, %d)" % (rows, columns)
	head = "{\"descr\": \"<f8\", \"fortran_order\": False, \"shape\": %s, }" % shape
	head = head.ljust(117) + chr(10)
	n = rows * max(columns, 1)
	open(name, "wb").write(bytes([147]) + b"NUMPY" + bytes([1, 0]) + struct.pack("<H", len(head)) + head.encode() + struct.pack("<%dd" % n, *range(n)))
	P
}
test_expect 'an array has no column that a setting could name' '
	array p.npy 6 0
	fails 3 "query: p.npy is an array, which has no column .region." -i predictions=p.npy -i labels=y.csv -w task=ranking -w query=region
	fails 3 "slices: p.npy is an array, which has no column .region." -i predictions=p.npy -i labels=y.csv -w task=regression -w slices=region
	fails 3 "id: p.npy is an array, which has no column .id." -i predictions=p.npy -i labels=p.csv -w task=regression -w id=id -w label=score
'
test_expect 'several numbers a row are an error where one is wanted, of labels as of predictions' '
	array two.npy 6 2
	array one.npy 6 1
	for task in regression "ranking -w query=region"; do
		fails 3 "two.npy has 2 numbers a row; ${task%% *} wants one" -i predictions=p.csv -i labels=two.npy -w task=$task -w prediction=score
		fails 3 "two.npy has 2 numbers a row; ${task%% *} wants one" -i predictions=p.csv -i baseline=two.npy -w task=$task -w prediction=score -w label=score
		printf "{\"label\": [1, 2], \"prediction\": 1, \"score\": 1, \"region\": \"eu\"}\n" >two.jsonl
		fails 3 "two.jsonl has 2 numbers a row; ${task%% *} wants one .it reads .label.." -i predictions=two.jsonl -w task=$task
	done
	evaluate -i predictions=p.csv -i labels=one.npy -o report=out/ -w task=regression -w prediction=score 2>log
	test_is "$(metric rows)" 6
'
test_expect 'on_bad: skip leaves such rows out, and counts them' '
	printf "label,score\n1,.9\n0,x\n0,.1\n1,\n2,.5\n1,.8\n" >b.csv
	evaluate -i predictions=b.csv -o report=out/ -w on_bad=skip -w classes="[0,1]" 2>log
	test_is "$(metric rows) $(metric rows_skipped) $(metric accuracy)" "3 3 1.0"
	test_grep "3 of 6 rows skipped" log
	evaluate -i predictions=p.csv -i labels=few.csv -o report=out/ -w label=y -w id=id -w on_bad=skip -w prediction=guess -w "classes=[\"no\",\"yes\"]" 2>log
	test_is "$(metric rows) $(metric rows_skipped)" "1 5"
	# Labels that nobody predicted are left out, too.
	printf "id,guess\na,yes\nb,no\nz,no\n" >some.csv
	evaluate -i predictions=some.csv -i labels=p.csv -o report=out/ -w label=y -w id=id -w on_bad=skip -w prediction=guess 2>log
	test_is "$(metric rows) $(metric rows_skipped)" "2 5"
	test_grep "5 of 7 rows skipped" log
	# The first row is not what the others are held against when it has no value.
	printf "{\"label\": 0, \"score\": null}\n{\"label\": 1}\n{\"label\": 1, \"score\": [0.2, 0.8]}\n{\"label\": 0, \"score\": [0.9, 0.1]}\n" >first.jsonl
	evaluate -i predictions=first.jsonl -o report=out/ -w on_bad=skip 2>log
	test_is "$(metric rows) $(metric rows_skipped) $(metric accuracy)" "2 2 1.0"
'
test_expect 'a gate that is not met: exit 1, after everything has been written' '
	rm -rf out m.json
	test_code 1 evaluate -i predictions=p.csv -o report=out/ -w label=y --metrics m.json -w gate.accuracy=">= 0.9" -w gate.nothing="> 1" 2>log
	test_grep "error: gate: accuracy is 0.66666666666667, not >= 0.9, nothing is no metric, not > 1" log
	test_exists out/report.html m.json
	evaluate -i predictions=p.csv -o report=out/ -w label=y --metrics m.json -w gate.accuracy=">= 0.6" -w gate.classes.yes.recall=">0.5" 2>log
'
test_expect 'hostile class names are text in the report' '
	printf "label,prediction\n<script>alert(1)</script>,a&b\na&b,a&b\n\"x\"\"|\n*y*\",a&b\n" >h.csv
	evaluate -i predictions=h.csv -o report=out/ -w title="</title><script>" 2>log
	test_no_grep "<script" out/report.html
	test_no_grep "<script" out/confusion.svg
	test_grep "&lt;script&gt;alert" out/report.html
	test_no_grep "https?://[^w]" out/report.html
	test_lines 22 out/summary.md
	python3 -c "import sys, xml.dom.minidom; xml.dom.minidom.parse(\"out/confusion.svg\")"
'
test_expect 'help says what there is to know' '
	"$STEPS" evaluate --help >out.txt
	test_grep "predictions +CSV, TSV, JSON lines or NPY" out.txt
	test_grep "roc_auc_ovo" out.txt
	test_grep "gate: .accuracy" out.txt
'

PYTHON=
for p in python3 /usr/bin/python3; do
	if "$p" -c 'import sklearn, scipy' 2>/dev/null; then
		PYTHON=$p
		break
	fi
done
if [ "$PYTHON" ]; then
	cases=100
	[ "${CAIRN_TEST_FULL:-0}" != 1 ] || cases=300
	export cases
	test_expect "$cases random cases agree with scikit-learn to 1e-12" '
		'"$PYTHON"' -B "$SRC/tests/cli/steps/evaluate_sklearn.py" "$STEPS" "$cases" 1
	'
	test_expect 'NPY: every type of number, either order, wide and tall' '
		'"$PYTHON"' -B - "$STEPS" <<-"P"
		import itertools, json, subprocess, sys
		import numpy as np
		rng = np.random.default_rng(5)
		y = rng.integers(0, 2, 50)
		s = rng.integers(0, 9, 50) / 8
		want = {} # by the size of a score, whose type says what a probability of 0 costs
		for label, score in itertools.product(["i1", "u1", "<i2", ">i4", "<i8", ">u8", "?", "U3", ">U3", "S2", "f4"], ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8"]):
		    np.save("y.npy", y.astype(label) if label != "?" else y == 1)
		    np.save("s.npy", s.astype(score))
		    names = ["False", "True"] if 0 else None
		    subprocess.run([sys.argv[1], "evaluate", "-i", "predictions=s.npy", "-i", "labels=y.npy", "-o", "report=n/", "-w", "bootstrap=0"], check=True, stderr=subprocess.DEVNULL)
		    got = json.load(open("n/metrics.json"))
		    first = want.setdefault(score[2], got)
		    assert got == first, (label, score)
		P
	'
else
	test_skip 'random cases agree with scikit-learn' 'needs python3-sklearn and python3-scipy'
fi

test_done
