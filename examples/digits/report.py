"""Draws what the chosen model got right and wrong: a confusion matrix and the wrong digits themselves."""

import argparse
import csv
import json
import os
import tempfile

os.environ.setdefault("MPLCONFIGDIR", tempfile.gettempdir())  # a home directory isn't needed

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "digits", "font.family": "DejaVu Sans", "svg.fonttype": "path"})
import matplotlib.pyplot as plt  # noqa: E402

import table  # noqa: E402

INK, PAPER = "#1f3a5f", "#ffffff"


def read_predictions(path):
    with open(path, newline="", encoding="ascii") as f:
        return [{k: int(v) for k, v in row.items()} for row in csv.DictReader(f)]


def save(figure, path):
    """The same figure gives the same bytes: fixed ids (svg.hashsalt), no date."""
    figure.savefig(path, format="svg", metadata={"Date": None}, facecolor=PAPER)
    plt.close(figure)


def confusion(predictions, path):
    counts = [[0] * 10 for _ in range(10)]
    for p in predictions:
        counts[p["label"]][p["guess"]] += 1
    figure, axes = plt.subplots(figsize=(5.4, 5.4), layout="constrained")
    # The diagonal would drown the mistakes: shade by row share, and mark mistakes apart.
    share = [[c / max(1, sum(row)) for c in row] for row in counts]
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    for i, row in enumerate(counts):
        for j, c in enumerate(row):
            if c:
                axes.text(j, i, c, ha="center", va="center", color=PAPER if share[i][j] > 0.5 else INK if i == j else "#b3261e",
                          weight="normal" if i == j else "bold")
    axes.set(xticks=range(10), yticks=range(10), xlabel="guess", ylabel="label", title="Digits kept aside, by label and guess")
    axes.tick_params(length=0)
    save(figure, path)


def wrong_digits(wrong, images, path):
    columns = min(6, max(3, len(wrong)))
    lines = max(1, -(-len(wrong) // columns))
    figure, axes = plt.subplots(lines, columns, figsize=(1.2 * columns, 1.6 * lines), squeeze=False, layout="constrained")
    for place in axes.flat:
        place.axis("off")
    for place, p in zip(axes.flat, wrong):
        image = images[p["id"]]
        place.imshow([image[r * 8:r * 8 + 8] for r in range(8)], cmap="gray_r", vmin=0, vmax=16)
        place.set_title(f"{p['label']} read as {p['guess']}", fontsize=8, color=INK)
    if not wrong:
        axes[0][0].text(0, 0.5, "none wrong")
    save(figure, path)


def summary(scores, predictions, wrong, path):
    lines = ["# Digits", "", f"Chosen by cross-validation: **{scores['best']}**.", ""]
    lines += [f"Of {len(predictions)} digits kept aside, {len(predictions) - len(wrong)} were read right and {len(wrong)} wrong.", ""]
    lines += ["| model | cross-validation | kept aside |", "| --- | --- | --- |"]
    for name, s in sorted(scores["models"].items(), key=lambda item: (-item[1]["cv_accuracy"], item[0])):
        lines.append(f"| {name} | {s['cv_accuracy']:.4f} | {s['test_accuracy']:.4f} |")
    lines += ["", "![Confusion matrix](confusion.svg)", "", "![Wrong digits](wrong.svg)", ""]
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines))


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--evaluation", required=True, metavar="DIR", help="predictions.csv and scores.json")
    args.add_argument("--test", required=True, metavar="CSV")
    args.add_argument("--show", type=int, default=12, help="how many wrong digits to draw")
    args.add_argument("--out", required=True, metavar="DIR")
    args = args.parse_args()

    predictions = read_predictions(os.path.join(args.evaluation, "predictions.csv"))
    with open(os.path.join(args.evaluation, "scores.json"), encoding="ascii") as f:
        scores = json.load(f)
    images = {row[0]: row[1:65] for row in table.read(args.test)}
    wrong = [p for p in predictions if p["label"] != p["guess"]]
    os.makedirs(args.out, exist_ok=True)
    confusion(predictions, os.path.join(args.out, "confusion.svg"))
    wrong_digits(wrong[:args.show], images, os.path.join(args.out, "wrong.svg"))
    summary(scores, predictions, wrong, os.path.join(args.out, "report.md"))
    print(f"{len(wrong)} wrong of {len(predictions)}; see report.md")


if __name__ == "__main__":
    main()
