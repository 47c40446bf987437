"""Two arms of a spiral with some noise: x, y and the number of the arm."""

import argparse
import csv
import math
import random


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", required=True)
    p.add_argument("--seed", type=int, required=True)
    o = p.parse_args()
    rng = random.Random(o.seed)
    with open(o.out, "w", newline="", encoding="utf-8") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["x", "y", "label"])
        for _ in range(400):
            arm, t = rng.randrange(2), rng.uniform(0.2, 1)
            angle = 4 * t + math.pi * arm
            x, y = (t * turn(angle) + rng.gauss(0, 0.1) for turn in (math.cos, math.sin))
            out.writerow([f"{x:.4f}", f"{y:.4f}", arm])


if __name__ == "__main__":
    main()
