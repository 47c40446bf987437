"""Chooses the model that did best in cross-validation and tests it on the digits kept aside.

The choice doesn't look at the test digits: a model chosen by its test score would make that score too good.
"""

import argparse
import csv
import json
import os

import joblib
from sklearn.metrics import accuracy_score, f1_score

import table


def read_models(folder):
    """name → (cross-validation accuracy, model), in order of name."""
    models = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name, "metrics.json"), encoding="ascii") as f:
            models[name] = (json.load(f)["cv_accuracy"], joblib.load(os.path.join(folder, name, "model.joblib")))
    if not models:
        raise SystemExit(f"{folder}: no models in it")
    return models


def write_json(path, value):
    with open(path, "w", encoding="ascii") as f:
        json.dump(value, f, indent=2, sort_keys=True)
        f.write("\n")


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--models", required=True, metavar="DIR", help="one folder per model")
    args.add_argument("--test", required=True, metavar="CSV")
    args.add_argument("--out", required=True, metavar="DIR")
    args.add_argument("--metrics", required=True, metavar="JSON")
    args = args.parse_args()

    rows = table.read(args.test)
    x, y = table.pixels(rows), table.labels(rows)
    models = read_models(args.models)
    best = max(models, key=lambda name: models[name][0])
    guesses = [int(g) for g in models[best][1].predict(x)]

    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "predictions.csv"), "w", newline="", encoding="ascii") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["id", "label", "guess"])
        out.writerows([row[0], label, guess] for row, label, guess in zip(rows, y, guesses))
    scores = {
        name: {"cv_accuracy": cv, "test_accuracy": round(accuracy_score(y, model.predict(x)), 6)}
        for name, (cv, model) in models.items()
    }
    write_json(os.path.join(args.out, "scores.json"), {"best": best, "models": scores})
    metrics = {
        "accuracy": scores[best]["test_accuracy"],
        "macro_f1": round(f1_score(y, guesses, average="macro"), 6),
        "wrong": sum(a != b for a, b in zip(y, guesses)),
    }
    write_json(args.metrics, metrics)
    print(f"best: {best}, {metrics['accuracy']:.4f} right on {len(y)} digits kept aside")


if __name__ == "__main__":
    main()
