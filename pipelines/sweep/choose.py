"""Of all trials the one with the best accuracy; of equal ones the smallest network."""

import argparse
import json
import os


def main():
    p = argparse.ArgumentParser(description=__doc__)
    for name in ("results", "out", "metrics"):
        p.add_argument(f"--{name}", required=True)
    o = p.parse_args()
    trials = []
    for folder, _, names in os.walk(o.results, followlinks=True):
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                trials.append(json.load(f))
    trials.sort(key=lambda t: (-t["accuracy"], t["width"], t["lr"]))
    for t in trials:
        print(f"{t['accuracy']:.3f}  lr {t['lr']}, width {t['width']}")
    for path in (o.out, o.metrics):
        with open(path, "w", encoding="utf-8") as f:
            json.dump(trials[0], f)


if __name__ == "__main__":
    main()
