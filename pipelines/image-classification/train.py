"""Learns the class of a picture from its pixels. What it prints becomes metrics over time."""

import argparse
import json
import random

from shards import load
from softmax import learn


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--data", required=True)
    p.add_argument("--epochs", type=int, required=True)
    p.add_argument("--lr", type=float, required=True)
    p.add_argument("--seed", type=int, required=True)
    p.add_argument("--out", required=True)
    o = p.parse_args()
    samples = load(o.data)
    classes = sorted({name for _, name, _ in samples})
    weights = [[0.0] * (len(samples[0][2]) + 1) for _ in classes]
    rng = random.Random(o.seed)
    for epoch in range(o.epochs):
        rng.shuffle(samples)
        lr = o.lr * (1 - epoch / o.epochs)
        loss = sum(learn(weights, pixels, classes.index(name), lr) for _, name, pixels in samples)
        print(f"epoch={epoch} loss={loss / len(samples):.4f}", flush=True)
    with open(o.out, "w", encoding="utf-8") as f:
        json.dump({"classes": classes, "weights": weights}, f)


if __name__ == "__main__":
    main()
