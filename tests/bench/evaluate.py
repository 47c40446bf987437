"""Evaluating many rows: `cairn-steps evaluate` against scikit-learn doing the same by its own functions, reading included on both sides
(pandas for CSV, NumPy for NPY). As a program: evaluate.py make FOLDER ROWS | evaluate.py sklearn FOLDER csv|npy."""

import os
import subprocess
import sys

PYTHONS = ("/usr/bin/python3", sys.executable)


def python():
    """One that has scikit-learn and pandas, or None."""
    for p in PYTHONS:
        if os.access(p, os.X_OK) and subprocess.run([p, "-c", "import sklearn, pandas"], capture_output=True, check=False).returncode == 0:
            return p
    return None


def make(folder, rows):
    import numpy as np
    import pandas as pd
    rng = np.random.default_rng(0)
    p = rng.random(rows)
    y = (rng.random(rows) < p).astype(np.int64)
    pd.DataFrame({"label": y, "score": p}).to_csv(os.path.join(folder, "p.csv"), index=False)
    np.save(os.path.join(folder, "p.npy"), p)
    np.save(os.path.join(folder, "y.npy"), y)


def sklearn(folder, form):
    """What the step measures of two classes, but for MCC's and the calibration's two cheap ones."""
    import json
    import numpy as np
    import pandas as pd
    from sklearn import metrics as m
    if form == "csv":
        frame = pd.read_csv(os.path.join(folder, "p.csv"))
        y, p = frame["label"].to_numpy(), frame["score"].to_numpy()
    else:
        y, p = np.load(os.path.join(folder, "y.npy")), np.load(os.path.join(folder, "p.npy"))
    guess = (p >= .5).astype(y.dtype)
    out = {"accuracy": m.accuracy_score(y, guess), "balanced_accuracy": m.balanced_accuracy_score(y, guess), "mcc": m.matthews_corrcoef(y, guess),
           "confusion": m.confusion_matrix(y, guess).tolist(), "roc_auc": m.roc_auc_score(y, p), "pr_auc": m.average_precision_score(y, p),
           "log_loss": m.log_loss(y, p), "brier": m.brier_score_loss(y, p)}
    for average in ("binary", "macro", "weighted"):
        out[average] = m.precision_recall_fscore_support(y, guess, average=average)[:3]
    print(json.dumps(out))


def inputs(form):
    return ["-i", "predictions=p.csv"] if form == "csv" else ["-i", "predictions=p.npy", "-i", "labels=y.npy"]


if __name__ == "__main__":
    make(sys.argv[2], int(sys.argv[3])) if sys.argv[1] == "make" else sklearn(sys.argv[2], sys.argv[3])
