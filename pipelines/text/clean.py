"""Texts become lists of words, and are split into those to learn from and those to test on."""

import argparse
import csv
import hashlib
import json
import re


def words(text):
    return re.findall(r"[^\W_]+(?:'[^\W_]+)*", text.lower())


def share(seed, key):
    """A number in 0..1 that depends on the key alone: a new text moves no other one."""
    digest = hashlib.sha256(f"{seed} {key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def main():
    p = argparse.ArgumentParser(description=__doc__)
    for name in ("texts", "train", "test"):
        p.add_argument(f"--{name}", required=True)
    p.add_argument("--seed", type=int, required=True)
    p.add_argument("--test-share", type=float, required=True)
    o = p.parse_args()
    with open(o.texts, newline="", encoding="utf-8") as f, \
            open(o.train, "w", encoding="utf-8") as train, \
            open(o.test, "w", encoding="utf-8") as test:
        for row in csv.DictReader(f):
            line = {"id": row["id"], "label": row["label"], "words": words(row["text"])}
            out = test if share(o.seed, row["id"]) < o.test_share else train
            out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
