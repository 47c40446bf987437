import json
import os
import sys

lr, epochs, fold = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
os.makedirs("model", exist_ok=True)
with open("series.jsonl", "w") as series:
    for step in range(epochs):
        loss = 1 / (1 + step * lr) + 0.01 * fold
        series.write(json.dumps({"step": step, "loss": loss, "accuracy": 1 - loss / 2, "wall_time": 1000 + step * (2 + fold)}) + "\n")
        print(f"\x1b[1;36mepoch {step}\x1b[0m loss \x1b[32m{loss:.4f}\x1b[0m")
print("\x1b[33mWARNING\x1b[0m: done")
json.dump({"loss": loss, "accuracy": 1 - loss / 2}, open("metrics.json", "w"))
open("model/weights.bin", "wb").write(bytes(range(256)) * 16)
json.dump({"lr": lr, "fold": fold}, open("model/config.json", "w"))
