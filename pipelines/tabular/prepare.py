"""A CSV table becomes rows of numbers: text columns one column a value, numbers scaled."""

import argparse
import csv
import hashlib
import json
import statistics


def is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def numbers(name, cells):
    """A column of numbers: mean 0 and deviation 1. An empty cell becomes the mean."""
    known = [float(c) for c in cells if c]
    mean = statistics.fmean(known)
    deviation = statistics.pstdev(known) or 1.0
    return {name: [(float(c) - mean) / deviation if c else 0.0 for c in cells]}


def words(name, cells):
    """A column of text: a column of 0 and 1 for each of its values."""
    return {f"{name}={value}": [float(c == value) for c in cells] for value in sorted(set(cells))}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    for name in ("table", "label", "positive", "id", "out"):
        p.add_argument(f"--{name}", required=True)
    p.add_argument("--folds", type=int, required=True)
    o = p.parse_args()
    with open(o.table, newline="", encoding="utf-8") as f:
        table = list(csv.DictReader(f))
    for column in (o.label, o.id):
        if not table or column not in table[0]:
            raise SystemExit(f"{o.table}: there is no column {column}")
    columns = {}
    for name in table[0]:
        cells = [row[name] for row in table]
        if name not in (o.label, o.id):
            kind = numbers if any(cells) and all(is_number(c) for c in cells if c) else words
            columns.update(kind(name, cells))
    rows = []
    for i, row in enumerate(table):
        # By the id and nothing else: a new row moves no other row to another fold.
        fold = int.from_bytes(hashlib.sha256(row[o.id].encode()).digest()[:8], "big") % o.folds
        rows.append({"id": row[o.id], "fold": fold, "label": int(row[o.label] == o.positive),
                     "x": [values[i] for values in columns.values()]})
    with open(o.out, "w", encoding="utf-8") as f:
        json.dump({"columns": list(columns), "rows": rows}, f)
    print(f"{len(rows)} rows, {len(columns)} columns")


if __name__ == "__main__":
    main()
