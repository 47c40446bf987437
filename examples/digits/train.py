"""Trains one support vector machine and measures it by cross-validation on the training digits."""

import argparse
import json
import os

import joblib
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import SVC

import table


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--data", required=True, metavar="CSV")
    args.add_argument("--kernel", choices=["linear", "rbf"], required=True)
    args.add_argument("--c", type=float, required=True, help="how much a wrong digit costs")
    args.add_argument("--gamma", type=float, required=True, help="width of the rbf kernel")
    args.add_argument("--model", required=True, metavar="DIR")
    args.add_argument("--metrics", required=True, metavar="JSON")
    args = args.parse_args()

    rows = table.read(args.data)
    x, y = table.pixels(rows), table.labels(rows)
    model = SVC(kernel=args.kernel, C=args.c, gamma=args.gamma)
    folds = cross_val_score(model, x, y, cv=StratifiedKFold(5, shuffle=True, random_state=0))
    model.fit(x, y)

    metrics = {"cv_accuracy": round(float(folds.mean()), 6), "support_vectors": int(model.n_support_.sum())}
    os.makedirs(args.model, exist_ok=True)
    joblib.dump(model, os.path.join(args.model, "model.joblib"))
    for path in (os.path.join(args.model, "metrics.json"), args.metrics):
        with open(path, "w", encoding="ascii") as f:
            json.dump(metrics, f, indent=2, sort_keys=True)
            f.write("\n")
    print(f"kernel {args.kernel}, c {args.c:g}: {metrics['cv_accuracy']:.4f} in cross-validation")


if __name__ == "__main__":
    main()
