"""What the model says of each picture: a CSV with the truth, the class, a probability a class."""

import argparse
import csv
import json

from shards import load
from softmax import probabilities


def main():
    p = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "data", "out"):
        p.add_argument(f"--{name}", required=True)
    o = p.parse_args()
    with open(o.model, encoding="utf-8") as f:
        model = json.load(f)
    with open(o.out, "w", newline="", encoding="utf-8") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["id", "label", "predicted", *(f"prob_{c}" for c in model["classes"])])
        for key, name, pixels in load(o.data):
            found = probabilities(model["weights"], pixels)
            best = model["classes"][found.index(max(found))]
            out.writerow([key, name, best, *(f"{v:.6f}" for v in found)])


if __name__ == "__main__":
    main()
