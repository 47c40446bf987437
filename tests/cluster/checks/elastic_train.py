"""A PyTorch training whose ranks come and go. usage: elastic_train.py MODEL

Each step adds 1 to every weight, in parts of the ranks. So the weights are the number of steps, unless one was lost or done twice.
It ends when rank 0 finds the file `go` in its directory. The first rank of each node keeps what all have (CAIRN_CHECKPOINT);
where ranks begin again, the newest of these counts.
"""
import os
import sys
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")  # env://: what torchrun says
rank, world = dist.get_rank(), dist.get_world_size()
path = os.environ["CAIRN_CHECKPOINT"] + "/state.pt"
weights, step = torch.zeros(8), torch.zeros(1, dtype=torch.long)
if os.path.exists(path):
    state = torch.load(path)
    weights, step = state["weights"], state["step"]
steps = [torch.zeros(1, dtype=torch.long) for _ in range(world)]
dist.all_gather(steps, step)
newest = max(range(world), key=lambda r: steps[r].item())
dist.broadcast(step, newest)
dist.broadcast(weights, newest)
print(f"rank {rank} of {world} begins at {step.item()}", flush=True)
while True:
    part, over = torch.ones(8) / world, torch.tensor([int(rank == 0 and os.path.exists("go"))])
    dist.all_reduce(part)
    dist.all_reduce(over)
    weights += part
    step += 1
    if rank == 0:  # before it is kept: a step that was kept isn't made again
        print(f"loss={1 / step.item()!r} step={step.item()}", flush=True)
    if os.environ["LOCAL_RANK"] == "0":
        torch.save({"weights": weights, "step": step}, path + ".tmp")
        os.replace(path + ".tmp", path)
    if over.item():
        break
    time.sleep(0.2)
if rank == 0:
    with open(sys.argv[1], "w") as f:
        f.write(f"{step.item()} {weights.round().long().tolist()}\n")
