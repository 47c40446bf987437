"""The words that enough texts have, the most frequent first."""

import argparse
import collections
import json


def main():
    p = argparse.ArgumentParser(description=__doc__)
    for name in ("texts", "out", "metrics"):
        p.add_argument(f"--{name}", required=True)
    p.add_argument("--min-count", type=int, required=True)
    o = p.parse_args()
    count = collections.Counter()
    with open(o.texts, encoding="utf-8") as f:
        for line in f:
            count.update(set(json.loads(line)["words"]))
    kept = [w for w, n in sorted(count.items(), key=lambda wn: (-wn[1], wn[0])) if n >= o.min_count]
    with open(o.out, "w", encoding="utf-8") as f:
        f.writelines(w + "\n" for w in kept)
    with open(o.metrics, "w", encoding="utf-8") as f:
        json.dump({"words": len(kept), "words_left_out": len(count) - len(kept)}, f)


if __name__ == "__main__":
    main()
