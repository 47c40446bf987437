#!/bin/sh
# count.sh TEXT: the words of a text and how often each occurs, the most frequent first; a tab between.
set -eu
export LC_ALL=C # the same order everywhere

tr -cs '[:alpha:]' '\n' <"$1" | tr '[:upper:]' '[:lower:]' | grep -v '^$' | sort | uniq -c |
	awk '{ print $2 "\t" $1 }' | sort -t "$(printf '\t')" -k2,2nr -k1,1
