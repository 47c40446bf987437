"""Writes the handwritten digits that scikit-learn carries as a CSV table (see table.py)."""

import argparse

from sklearn.datasets import load_digits

import table


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--out", required=True, metavar="CSV")
    args = args.parse_args()

    digits = load_digits()
    rows = [[i, *(int(p) for p in image), int(label)] for i, (image, label) in enumerate(zip(digits.data, digits.target))]
    table.write(args.out, rows)
    print(f"{len(rows)} digits")


if __name__ == "__main__":
    main()
