"""Splits the digits into a table to train on and one to test on, every label in the same share in both."""

import argparse
import random

import table


def split(rows, test_share, seed):
    """Stratified. Which rows go where depends on nothing but rows, share and seed."""
    by_label = {}
    for row in rows:
        by_label.setdefault(row[65], []).append(row)
    train, test = [], []
    chance = random.Random(seed)
    for label in sorted(by_label):
        group = by_label[label]
        chance.shuffle(group)
        n = max(1, round(len(group) * test_share))
        test += group[:n]
        train += group[n:]
    return sorted(train), sorted(test)


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--digits", required=True, metavar="CSV")
    args.add_argument("--seed", type=int, required=True)
    args.add_argument("--test-share", type=float, required=True)
    args.add_argument("--train", required=True, metavar="CSV")
    args.add_argument("--test", required=True, metavar="CSV")
    args = args.parse_args()

    train, test = split(table.read(args.digits), args.test_share, args.seed)
    if not train:
        raise SystemExit("nothing is left to train on: --test-share is too large")
    table.write(args.train, train)
    table.write(args.test, test)
    print(f"{len(train)} digits to train on, {len(test)} to test on")


if __name__ == "__main__":
    main()
