"""A training that is the same wherever its ranks run: DDP over gloo, checkpoints every 8 steps. usage: gang_train.py MODEL.bin

CAIRN_CHECKPOINT  where the checkpoint is (else none is kept)
PAUSE_AT          this rank writes its pid to `paused` before that step, and waits for ever
SLOW              seconds that each step takes at least
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(7)
torch.use_deterministic_algorithms(True)
torch.set_num_threads(1)
dist.init_process_group("gloo")  # env://: what the launcher says
rank, world = dist.get_rank(), dist.get_world_size()
kept = os.environ.get("CAIRN_CHECKPOINT")
path = kept and kept + "/state.pt"
pause, slow = int(os.environ.get("PAUSE_AT", -1)), float(os.environ.get("SLOW", 0))
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
x = torch.randn(64, 8, generator=torch.Generator().manual_seed(1))
y = x.sum(dim=1, keepdim=True).sin()
begin = 0
if path and os.path.exists(path):
    state = torch.load(path)
    begin = state["step"]
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
print(f"rank {rank} of {world} begins at {begin}", flush=True)
if rank == 0 and not os.environ.get("CAIRN_POD_SERVICE"):
    with open("begun", "a") as f:
        f.write(f"{begin}\n")
for step in range(begin, 40):
    if step == pause:
        with open("paused.tmp", "w") as f:
            f.write(f"{os.getpid()}\n")
        os.replace("paused.tmp", "paused")
        while True:
            time.sleep(3600)
    batch = slice((step * 16) % 64 + rank * 8, (step * 16) % 64 + rank * 8 + 8)
    loss = torch.nn.functional.mse_loss(model(x[batch]), y[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    time.sleep(slow)
    if rank == 0:
        print(f"loss={total.item() / world!r} step={step + 1}", flush=True)
        if path and (step + 1) % 8 == 0:
            torch.save({"step": step + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, path + ".tmp")
            os.replace(path + ".tmp", path)
if rank == 0:
    with open(sys.argv[1], "wb") as f:
        for p in model.parameters():
            f.write(p.detach().numpy().tobytes())
