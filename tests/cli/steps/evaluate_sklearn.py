"""evaluate_sklearn.py STEP CASES SEED: `STEP evaluate` against scikit-learn on random data, to 1e-12 (relative for what can be larger than 1).

Random tasks, sizes from 0 rows, class names, ties, classes that are missing, formats and numbers of threads. Where scikit-learn errs or
warns, the metric must be null with a reason, and nowhere else."""

import json
import os
import shutil
import subprocess
import sys
import warnings

import numpy as np
import sklearn.metrics as sk

STEP, CASES, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
NAMES = ["ant", "bee", "cow", "dog", "eel", "fox", "gnu", "hen"]


class Case:
    def __init__(self, number):
        self.number, self.rng, self.problems, self.compared = number, np.random.default_rng([SEED, number]), [], 0
        self.settings, self.files = {}, {}

    # ---- writing ----

    def shape(self, text, ext):
        path = f"{ext}"
        with open(path, "w") as f:
            f.write(text)
        return path

    def write(self, name, columns, form):
        n = len(next(iter(columns.values())))
        path = f"{name}.{form}"
        rows = [{k: v[i] for k, v in columns.items()} for i in range(n)]
        with open(path, "w") as f:
            if form == "jsonl":
                for row in rows:
                    f.write(json.dumps(row) + "\n")
                if not rows:
                    os.unlink(path)
                    return self.write(name, columns, "csv")
            else:
                separator = "\t" if form == "tsv" else ","
                quote = (lambda s: f'"{s}"') if self.number % 5 == 0 else (lambda s: s)
                end = "\r\n" if self.number % 7 == 0 else "\n"
                f.write(separator.join(columns) + end)
                for row in rows:
                    f.write(separator.join(quote(v if isinstance(v, str) else repr(v)) for v in row.values()) + end)
        return path

    def step(self, inputs):
        argv = [STEP, "evaluate", "--threads", str(int(self.rng.integers(1, 4))), "--with-json", json.dumps(self.settings), "-o", "report=out/"]
        for name, path in inputs.items():
            argv += ["-i", f"{name}={path}"]
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"case {self.number}: {' '.join(argv)}\n{done.stderr}")
        with open("out/metrics.json") as f:
            return json.load(f)

    # ---- comparing ----

    def expect(self, got, name, function, *args, **kw):
        """Calls scikit-learn; an error or a warning there wants null and a reason."""
        value = got
        for part in name.split("."):
            value = value[part]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                want = function(*args, **kw)
            except (ValueError, Warning) as why:
                want = str(why).split("\n")[0]
        self.compared += 1
        if isinstance(want, str):
            if value is not None:
                self.problems.append(f"{name} is {value}, but scikit-learn says: {want}")
            elif name not in got["undefined"]:
                self.problems.append(f"{name} is null without a reason; scikit-learn says: {want}")
        elif value is None:
            self.problems.append(f"{name} is null ({got['undefined'].get(name)}), not {want}")
        elif not abs(value - want) <= 1e-12 * max(1, abs(want)):
            self.problems.append(f"{name} is {value!r}, not {float(want)!r}")


def quiet(function):
    """Warnings that only tell that 0 is counted for a class without rows: that we count, too."""
    def call(*args, **kw):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kw)
    return call


def nonempty(y, function, *args, **kw):
    if len(y) == 0:
        raise ValueError("no rows")
    return function(*args, **kw)


def size(rng):
    return int(rng.choice([0, 1, 2, 3, 5, 10, 50, 300, 3000], p=[.03, .05, .07, .1, .1, .15, .2, .2, .1]))


def scores_of(rng, n, k, kind):
    if kind == "coarse":  # ties
        raw = rng.integers(1, 5, (n, k)).astype(float)
    elif kind == "sharp":
        raw = np.exp(rng.normal(0, 12, (n, k)))
    else:
        raw = rng.random((n, k)) + 1e-9
    return raw / raw.sum(axis=1, keepdims=True)


def ece(p, right, bins):
    at = np.minimum((p * bins).astype(int), bins - 1)
    return sum(abs(p[at == b].sum() - right[at == b].sum()) for b in range(bins)) / len(p)


def confusion_metrics(case, got, y, pred, classes):
    n = len(y)
    average = {"labels": classes}
    case.expect(got, "accuracy", nonempty, y, sk.accuracy_score, y, pred)
    case.expect(got, "balanced_accuracy", nonempty, y, quiet(sk.balanced_accuracy_score), y, pred)
    case.expect(got, "mcc", nonempty, y, sk.matthews_corrcoef, y, pred)
    case.expect(got, "f1_micro", nonempty, y, sk.f1_score, y, pred, average="micro", **average)
    for kind in ("macro", "weighted"):
        for name, function in (("precision", sk.precision_score), ("recall", sk.recall_score), ("f1", sk.f1_score)):
            case.expect(got, f"{name}_{kind}", nonempty, y, quiet(function), y, pred, average=kind, **average)
    if n and sorted(got["confusion"]["classes"]) != sorted(classes):
        case.problems.append(f"classes {got['confusion']['classes']}, not {classes}")
    elif n and got["confusion"]["counts"] != sk.confusion_matrix(y, pred, labels=classes).tolist():
        case.problems.append("the confusion matrix differs")
    for c in classes if n else []:
        for name, function in (("precision", sk.precision_score), ("recall", sk.recall_score), ("f1", sk.f1_score)):
            case.expect(got, f"classes.{c}.{name}", function, y, pred, labels=[c], average="macro")


def binary(case):
    rng, n = case.rng, size(case.rng)
    classes = [["0", "1"], ["no", "yes"], ["ham", "spam"], ["-1", "1"]][rng.integers(4)]
    p = scores_of(rng, n, 2, rng.choice(["coarse", "sharp", "smooth"]))[:, 1]
    truth = (rng.random(n) < (p + rng.choice([.5, p.mean() if n else .5])) / 2).astype(int)
    if rng.random() < .1:
        truth[:] = rng.integers(2)
    positive = 1
    case.settings = {"classes": classes, "label": "y", "score": "s", "bootstrap": 0, "bins": int(rng.integers(1, 20))}
    if rng.random() < .3:
        positive = 0
        case.settings["positive"] = classes[0]
    hit = truth == positive
    pred = np.where(p >= .5, positive, 1 - positive)
    form = rng.choice(["csv", "tsv", "jsonl"])
    columns = {"y": [classes[t] for t in truth], "s": [float(v) for v in p]}
    if rng.random() < .5:
        pred = np.where(rng.random(n) < .2, 1 - pred, pred)
        columns["prediction"] = [classes[t] for t in pred]
    if form == "jsonl" and classes[0] in "0-1" and rng.random() < .5:
        columns["y"] = [int(v) for v in columns["y"]]
    got = case.step({"predictions": case.write("p", columns, form)})
    confusion_metrics(case, got, truth.astype(str), pred.astype(str), ["0", "1"]) if classes == ["0", "1"] else \
        confusion_metrics(case, got, np.array(classes)[truth], np.array(classes)[pred], classes)
    case.expect(got, "roc_auc", nonempty, hit, sk.roc_auc_score, hit, p)
    case.expect(got, "pr_auc", nonempty, hit, sk.average_precision_score, hit, p)
    case.expect(got, "log_loss", nonempty, hit, sk.log_loss, hit, p, labels=[False, True])
    case.expect(got, "brier", nonempty, hit, lambda: np.mean((p - hit) ** 2))
    case.expect(got, "ece", nonempty, hit, ece, p, hit, case.settings["bins"])
    for name, function in (("precision", sk.precision_score), ("recall", sk.recall_score), ("f1", sk.f1_score)):
        case.expect(got, name, nonempty, hit, function, truth, pred, pos_label=positive)


def multi(case):
    rng, n, k = case.rng, size(case.rng), int(case.rng.integers(3, 9))
    classes = NAMES[:k] if rng.random() < .5 else [str(i) for i in range(k)]
    p = scores_of(rng, n, k, rng.choice(["coarse", "sharp", "smooth"]))
    truth = np.array([rng.choice(k, p=(row + 1 / k) / 2 if rng.random() < .9 else None) for row in p], int)
    if rng.random() < .1:
        truth[:] = rng.integers(k)
    form = rng.choice(["csv", "jsonl", "list", "npy", "fortran"])
    case.settings = {"label": "y", "bootstrap": 0, "top_k": [1, 2, 3]}
    inputs = {}
    if form in ("npy", "fortran"):
        classes = [str(i) for i in range(k)]
        case.settings["classes"] = classes
        np.save("p.npy", np.asfortranarray(p) if form == "fortran" else p)
        np.save("y.npy", truth.astype(rng.choice(["i1", "<i4", ">i8", "u2"])) if rng.random() < .7 else truth.astype("U"))
        inputs = {"predictions": "p.npy", "labels": "y.npy"}
    elif form == "list" and n:
        case.settings |= {"score": "p", "classes": classes}
        inputs["predictions"] = case.write("p", {"y": [classes[t] for t in truth], "p": p.tolist()}, "jsonl")
    else:
        case.settings["score"] = "p_*"
        columns = {"y": [classes[t] for t in truth]} | {f"p_{c}": p[:, i].tolist() for i, c in enumerate(classes)}
        inputs["predictions"] = case.write("p", columns, "csv" if form == "list" else form)
    got = case.step(inputs)
    y, pred, labels = np.array(classes)[truth], np.array(classes)[p.argmax(axis=1)], list(range(k))
    confusion_metrics(case, got, y, pred, classes)
    case.expect(got, "roc_auc_ovr", nonempty, y, sk.roc_auc_score, truth, p, multi_class="ovr", labels=labels)
    case.expect(got, "roc_auc_ovr_weighted", nonempty, y, sk.roc_auc_score, truth, p, multi_class="ovr", average="weighted", labels=labels)
    case.expect(got, "roc_auc_ovo", nonempty, y, sk.roc_auc_score, truth, p, multi_class="ovo", labels=labels)
    onehot = (truth[:, None] == np.arange(k)).astype(int)
    case.expect(got, "pr_auc", nonempty, y, sk.average_precision_score, onehot, p)
    case.expect(got, "log_loss", nonempty, y, sk.log_loss, truth, p, labels=labels)
    case.expect(got, "brier", nonempty, y, lambda: np.mean(((p - onehot) ** 2).sum(axis=1)))
    case.expect(got, "ece", nonempty, y, lambda: ece(p.max(axis=1), p.argmax(axis=1) == truth, 15))
    for cut in (1, 2, 3):
        if cut < k:
            case.expect(got, f"top_{cut}_accuracy", nonempty, y, sk.top_k_accuracy_score, truth, p, k=cut, labels=labels)


def regression(case):
    rng, n = case.rng, size(case.rng)
    scale = 10.0 ** rng.integers(-3, 5)
    y = rng.normal(rng.choice([0, 100]) * scale, scale, n)
    p = y + rng.normal(0, scale / 3, n)
    if rng.random() < .3:
        y, p = np.round(y / scale), np.round(p / scale)
    if rng.random() < .1:
        y[:] = 3.5
    case.settings = {"task": "regression", "bootstrap": 0}
    form = rng.choice(["csv", "tsv", "jsonl", "npy"])
    if form == "npy":
        np.save("p.npy", p.astype(rng.choice(["<f8", ">f8"])))
        np.save("y.npy", y)
        got = case.step({"predictions": "p.npy", "labels": "y.npy"})
    else:
        got = case.step({"predictions": case.write("p", {"label": y.tolist(), "prediction": p.tolist()}, form)})
    case.expect(got, "mae", sk.mean_absolute_error, y, p)
    case.expect(got, "mse", sk.mean_squared_error, y, p)
    case.expect(got, "rmse", sk.mean_squared_error, y, p, squared=False)
    case.expect(got, "r2", sk.r2_score, y, p)
    case.expect(got, "explained_variance", sk.explained_variance_score, y, p)
    case.expect(got, "max_error", sk.max_error, y, p)
    case.expect(got, "median_absolute_error", sk.median_absolute_error, y, p)
    case.expect(got, "mape", sk.mean_absolute_percentage_error, y, p)
    case.expect(got, "mean_error", nonempty, y, lambda: np.mean(p - y))
    for name, q in (("error_p05", .05), ("error_p25", .25), ("error_median", .5), ("error_p75", .75), ("error_p95", .95)):
        case.expect(got, name, nonempty, y, lambda: np.quantile(p - y, q))
    for name, q in (("abs_error_p90", .9), ("abs_error_p95", .95), ("abs_error_p99", .99)):
        case.expect(got, name, nonempty, y, lambda: np.quantile(abs(p - y), q))


def ranking(case):
    rng, queries = case.rng, int(case.rng.integers(1, 30))
    query, gain, score = [], [], []
    exponential = bool(rng.random() < .3)
    for q in range(queries):
        m = int(rng.integers(2, 30))
        query += [q] * m
        gain += [int(g) for g in np.maximum(rng.integers(-2, 5, m), 0)]
        score += [float(s) for s in (rng.random(m) if rng.random() < .5 else rng.integers(0, 4, m))]
    order = rng.permutation(len(query))
    query, gain, score = (np.array(v)[order] for v in (query, gain, score))
    case.settings = {"task": "ranking", "query": "q", "bootstrap": 0, "k": [1, 5, 10], "gain": "exponential" if exponential else "linear"}
    names = [f"q{q}" for q in query]
    got = case.step({"predictions": case.write("p", {"q": names, "label": gain.tolist(), "score": score.tolist()}, rng.choice(["csv", "jsonl"]))})
    worth = 2.0 ** gain - 1 if exponential else gain
    groups = [np.flatnonzero(query == q) for q in range(queries)]

    def mean(function):
        return np.mean([function(g) for g in groups])

    def reciprocal(g):
        relevant = score[g][gain[g] > 0]
        return 1 / np.sum(score[g] >= relevant.max()) if len(relevant) else 0

    for name, k in (("ndcg", None), ("ndcg_at_1", 1), ("ndcg_at_5", 5), ("ndcg_at_10", 10)):
        case.expect(got, name, mean, lambda g: sk.ndcg_score([worth[g]], [score[g]], k=k))
    case.expect(got, "map", mean, lambda g: sk.average_precision_score(gain[g] > 0, score[g]) if (gain[g] > 0).any() else 0)
    case.expect(got, "mrr", mean, reciprocal)


def comparison(case):
    import scipy.stats
    rng, n = case.rng, int(case.rng.integers(2, 400))
    y = rng.normal(0, 1, n)
    a, b = (y + rng.normal(0, s, n) for s in (.5, .6))
    if rng.random() < .5:
        y, a, b = np.round(y), np.round(a * 2) / 2, np.round(b * 2) / 2
    ids = [f"i{i}" for i in rng.permutation(n)]
    order = rng.permutation(n)
    case.settings = {"task": "regression", "id": "id", "bootstrap": 0}
    case.write("y", {"id": ids, "label": y.tolist()}, "csv")
    case.write("a", {"id": [ids[i] for i in order], "prediction": a[order].tolist()}, "jsonl")
    case.write("b", {"id": ids, "prediction": b.tolist()}, "tsv")
    got = case.step({"predictions": "a.jsonl", "labels": "y.csv", "baseline": "b.tsv"})
    case.expect(got, "mae", sk.mean_absolute_error, y, a)
    case.expect(got, "baseline.mae", sk.mean_absolute_error, y, b)
    case.expect(got, "comparison.p", lambda: scipy.stats.wilcoxon(abs(a - y), abs(b - y), mode="approx").pvalue)


def main():
    compared = failed = 0
    kinds = (binary, multi, regression, ranking, comparison)
    for number in range(CASES):
        case = Case(number)
        shutil.rmtree("out", ignore_errors=True)
        kinds[number % len(kinds)](case)
        compared += case.compared
        if case.problems:
            failed += 1
            print(f"case {number} ({kinds[number % len(kinds)].__name__}), {case.settings}:")
            for problem in case.problems[:12]:
                print(f"  {problem}")
            if failed == 5:
                break
    print(f"{compared} metrics of {CASES} cases compared with scikit-learn {sk.__dict__.get('__version__', '') or __import__('sklearn').__version__}")
    return 1 if failed or not compared else 0


sys.exit(main())
