"""Trains one network: with --held-out it says how good it is on points that it didn't see."""

import argparse
import csv
import json
import random

from network import Network


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--points", required=True)
    p.add_argument("--held-out", type=float, default=0, help="share of the points to be tested on")
    p.add_argument("--lr", type=float)
    p.add_argument("--width", type=int)
    p.add_argument("--settings", help="a file with lr and width, in their place")
    p.add_argument("--epochs", type=int, required=True)
    p.add_argument("--seed", type=int, required=True)
    for name in ("result", "metrics", "model"):
        p.add_argument(f"--{name}")
    o = p.parse_args()
    if o.settings:
        with open(o.settings, encoding="utf-8") as f:
            best = json.load(f)
        o.lr, o.width = best["lr"], best["width"]
    with open(o.points, newline="", encoding="utf-8") as f:
        points = [(float(r["x"]), float(r["y"]), int(r["label"])) for r in csv.DictReader(f)]
    rng = random.Random(o.seed)
    rng.shuffle(points)
    cut = round(len(points) * o.held_out)
    unseen, seen = points[:cut], points[cut:]
    network = Network(o.width, o.seed)
    for _ in range(o.epochs):
        rng.shuffle(seen)
        for x, y, label in seen:
            network.learn(x, y, label, o.lr)
    accuracy = {"accuracy": network.accuracy(unseen)} if unseen else {}
    for path, content in ((o.result, {"lr": o.lr, "width": o.width, **accuracy}),
                          (o.metrics, accuracy),
                          (o.model, {"hidden": network.hidden, "out": network.out})):
        if path:
            with open(path, "w", encoding="utf-8") as f:
                json.dump(content, f)


if __name__ == "__main__":
    main()
