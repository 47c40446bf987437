#!/bin/sh
# report.sh COUNTS_DIR TOTAL N: a page in Markdown: how long each text is, and the N most frequent words of all of them.
set -eu
export LC_ALL=C

printf '# Words\n\n| text | words | different |\n| --- | ---: | ---: |\n'
for counts in "$1"/*; do
	name=$(basename "$counts")
	awk -F '\t' -v name="${name%%.*}" '{ words += $2 } END { printf "| %s | %d | %d |\n", name, words, NR }' "$counts"
done
awk -F '\t' '{ words += $2 } END { printf "| **all** | %d | %d |\n", words, NR }' "$2"

printf '\n| word | times | |\n| --- | ---: | --- |\n'
head -n "$3" "$2" | awk -F '\t' '{ bar = ""; for (i = 0; i < $2; i++) bar = bar "#"; printf "| %s | %d | %s |\n", $1, $2, bar }'
