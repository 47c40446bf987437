"""The network's word on each image: a CSV with the label, the predicted class, and a probability a class."""

import argparse
import csv

import torch

from model import build, prepare
from shards import NAMES, load


def main():
    p = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "data", "out"):
        p.add_argument(f"--{name}", required=True)
    o = p.parse_args()
    torch.use_deterministic_algorithms(True)
    net = build()
    net.load_state_dict(torch.load(o.model, map_location="cpu"))
    net.eval()
    keys, images, labels = load(o.data)
    with torch.no_grad(), open(o.out, "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["id", "label", "predicted", *(f"prob_{name}" for name in NAMES)])
        for i in range(0, len(labels), 1000):
            probabilities = net(prepare(images[i:i + 1000])).softmax(1).double()
            for key, label, row in zip(keys[i:], labels[i:i + 1000], probabilities):
                out.writerow([key, NAMES[label], NAMES[row.argmax().item()], *(f"{v:.9g}" for v in row.tolist())])


if __name__ == "__main__":
    main()
