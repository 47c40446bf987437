"""The table of digits: a CSV with a header, an id, 64 pixels from 0 (white) to 16 (black), row by row, and the label."""

import csv

PIXELS = [f"p{i}" for i in range(64)]
HEADER = ["id", *PIXELS, "label"]


def write(path, rows):
    with open(path, "w", newline="", encoding="ascii") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(HEADER)
        out.writerows(rows)


def read(path):
    """Rows of ints. What isn't a digit of this format is an error with its line, not a surprise in training."""
    with open(path, newline="", encoding="ascii") as f:
        lines = csv.reader(f)
        if next(lines, None) != HEADER:
            raise SystemExit(f"{path}: the header isn't id, p0 to p63, label")
        rows = []
        for n, line in enumerate(lines, start=2):
            try:
                row = [int(cell) for cell in line]
            except ValueError:
                raise SystemExit(f"{path}:{n}: not a number") from None
            if len(row) != len(HEADER) or not all(0 <= p <= 16 for p in row[1:65]) or not 0 <= row[65] <= 9:
                raise SystemExit(f"{path}:{n}: not a digit of 64 pixels from 0 to 16 and a label from 0 to 9")
            rows.append(row)
    if not rows:
        raise SystemExit(f"{path}: no digits in it")
    return rows


def pixels(rows):
    return [row[1:65] for row in rows]


def labels(rows):
    return [row[65] for row in rows]
