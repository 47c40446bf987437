"""Learns from all folds but one and predicts that one; without --fold it learns from all."""

import argparse
import csv
import json

from logistic import fit, probability


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rows", required=True)
    p.add_argument("--fold", type=int)
    p.add_argument("--epochs", type=int, required=True)
    p.add_argument("--lr", type=float, required=True)
    p.add_argument("--l2", type=float, required=True)
    p.add_argument("--predictions")
    p.add_argument("--model")
    o = p.parse_args()
    with open(o.rows, encoding="utf-8") as f:
        data = json.load(f)
    weights = fit([r for r in data["rows"] if r["fold"] != o.fold], o.epochs, o.lr, o.l2)
    if o.predictions:
        with open(o.predictions, "w", newline="", encoding="utf-8") as f:
            out = csv.writer(f, lineterminator="\n")
            out.writerow(["id", "label", "score"])
            for row in data["rows"]:
                if row["fold"] == o.fold:
                    score = f"{probability(weights, row['x']):.6f}"
                    out.writerow([row["id"], row["label"], score])
    if o.model:
        with open(o.model, "w", encoding="utf-8") as f:
            json.dump(dict(zip([*data["columns"], "intercept"], weights)), f, indent=1)


if __name__ == "__main__":
    main()
