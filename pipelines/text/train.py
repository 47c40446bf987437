"""Naive Bayes: how likely each word is under each label. Put a network in its place if you like."""

import argparse
import collections
import json
import math


def main():
    p = argparse.ArgumentParser(description=__doc__)
    for name in ("texts", "words", "out"):
        p.add_argument(f"--{name}", required=True)
    p.add_argument("--smoothing", type=float, required=True)
    o = p.parse_args()
    with open(o.words, encoding="utf-8") as f:
        vocabulary = f.read().split()
    texts = collections.Counter()
    count = collections.defaultdict(collections.Counter)
    with open(o.texts, encoding="utf-8") as f:
        for line in map(json.loads, f):
            texts[line["label"]] += 1
            count[line["label"]].update(set(line["words"]))
    model = {}
    for label, n in sorted(texts.items()):
        part = {w: (count[label][w] + o.smoothing) / (n + 2 * o.smoothing) for w in vocabulary}
        model[label] = {"prior": math.log(n / sum(texts.values())),
                        "words": {w: math.log(v) for w, v in part.items()}}
    with open(o.out, "w", encoding="utf-8") as f:
        json.dump(model, f, indent=1)


if __name__ == "__main__":
    main()
