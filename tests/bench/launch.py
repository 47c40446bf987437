"""Starting two ranks: Cairn's launcher and a whole `cairn run` of it, against torchrun."""

import json
import os
import shutil
import subprocess

from measure import Contender, interleaved

PYTHON = "/usr/bin/python3"  # Debian's python3-torch

MEET = """import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
dist.destroy_process_group()
"""

PIPELINE = """pipeline: launch
steps:
  train:
    run: {run}
    code: [meet.py]
    cache: false
    resources: {{cpu: 2}}
    distributed: {{framework: torch, procs_per_node: 2}}
"""


def lacking():
    """What is missing here, in words, or None."""
    if not shutil.which("torchrun"):
        return "no torchrun (Debian: python3-torch)"
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode:
        return f"{PYTHON} has no torch (Debian: python3-torch)"
    return None


def contenders(cairn, folder, ranks):
    """`ranks`: the command of one rank. torchrun takes a script of Python, or any program after --no-python."""
    with open(os.path.join(folder, "meet.py"), "w") as f:
        f.write(MEET)
    open(os.path.join(folder, "cairn.yaml"), "w").close()
    with open(os.path.join(folder, "pipeline.yaml"), "w") as f:
        f.write(PIPELINE.format(run=json.dumps(" ".join(ranks))))
    # Its output is passed on line by line, as cairn's is; the default (0) fails in Debian's torch 1.13 on Python 3.11.
    torchrun = ["torchrun", "--nproc_per_node", "2", "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", "--redirects", "1", "--tee", "1",
                "--monitor_interval", "0.05", "--no_python"]  # 5 s by default: that would be its polling, not its start
    made = [Contender("torchrun", torchrun + ranks, lambda r: folder)]
    if cairn:
        made += [Contender("cairn", [cairn, "step", "train", "-w", "procs_per_node=2", "--", *ranks], lambda r: folder),
                 Contender("cairn run", [cairn, "run", "-q", "pipeline.yaml"], lambda r: folder)]
    return made


def measure(bench):
    why = lacking()
    if why:
        bench.row("start 2 ranks", "not measured", "", "", "", None)
        bench.notes.append("start 2 ranks: " + why)
        return
    for what, ranks, rounds in (("`true`", ["true"], 3), ("that meet over gloo", [PYTHON, "meet.py"], 3)):
        medians, reasons = interleaved(contenders(bench.cairn, bench.folder(), ranks), rounds, bench.log)
        bench.add(f"start 2 ranks, {what}, the launcher alone", medians, reasons, "torchrun", "not behind torchrun", limit_ratio=1.0)
        if "cairn run" in medians:
            bench.add(f"start 2 ranks, {what}, a whole `cairn run`", {**medians, "cairn": medians["cairn run"]}, {}, "torchrun", "not behind torchrun",
                      limit_ratio=1.0)
