"""The label that the model gives to each text, as a CSV file with the truth beside it."""

import argparse
import csv
import json


def main():
    p = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "texts", "out"):
        p.add_argument(f"--{name}", required=True)
    o = p.parse_args()
    with open(o.model, encoding="utf-8") as f:
        model = json.load(f)
    with open(o.texts, encoding="utf-8") as f, \
            open(o.out, "w", newline="", encoding="utf-8") as out:
        out = csv.writer(out, lineterminator="\n")
        out.writerow(["id", "label", "predicted"])
        for line in map(json.loads, f):
            score = {label: m["prior"] + sum(m["words"].get(w, 0) for w in set(line["words"]))
                     for label, m in model.items()}
            out.writerow([line["id"], line["label"], max(score, key=score.get)])


if __name__ == "__main__":
    main()
