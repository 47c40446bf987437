#!/bin/sh
# total.sh COUNTS... : the counts of several texts added up, in the same form as count.sh gives them.
set -eu
export LC_ALL=C

cat "$@" | awk -F '\t' '{ n[$1] += $2 } END { for (w in n) print w "\t" n[w] }' | sort -t "$(printf '\t')" -k2,2nr -k1,1
