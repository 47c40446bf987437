"""Trains on all ranks that torch's environment names (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), or on one.

The order of the samples follows from the seed and the epoch alone, so that a training that goes on from its checkpoint
does exactly what it would have done without the interruption.
"""

import argparse
import os

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from model import build, prepare
from shards import load

SAVE_EVERY = 50  # steps between two checkpoints


def options():
    p = argparse.ArgumentParser(description=__doc__)
    for name in ("data", "val", "checkpoint", "out"):
        p.add_argument(f"--{name}", required=True)
    for name in ("epochs", "batch", "seed"):
        p.add_argument(f"--{name}", type=int, required=True)
    p.add_argument("--lr", type=float, required=True)
    return p.parse_args()


def save(path, **state):
    """Under another name first: whoever kills us leaves a whole checkpoint."""
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)


def accuracy(net, images, labels):
    net.eval()
    with torch.no_grad():
        hits = sum((net(prepare(images[i:i + 1000])).argmax(1) == labels[i:i + 1000]).sum().item() for i in range(0, len(labels), 1000))
    net.train()
    return hits / len(labels)


def main():
    o = options()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count()) if cuda else torch.device("cpu")
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(o.seed)
    if world > 1:
        distributed.init_process_group("nccl" if cuda and torch.cuda.device_count() >= world else "gloo")

    _, images, labels = load(o.data)
    labels = torch.as_tensor(labels)
    net = build().to(device)
    steps = len(labels) // o.batch * o.epochs
    optimizer = torch.optim.Adam(net.parameters(), lr=o.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=o.lr, total_steps=steps)
    done = 0
    checkpoint = os.path.join(o.checkpoint, "state.pt")
    if os.path.exists(checkpoint):
        state = torch.load(checkpoint, map_location=device)
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        done = state["done"]
        print(f"going on at step {done} of {steps}")
    ddp = DistributedDataParallel(net) if world > 1 else net
    loss_of = nn.CrossEntropyLoss()

    per_epoch = len(labels) // o.batch
    for step in range(done, steps):
        epoch, at = divmod(step, per_epoch)
        if at == 0 or step == done:
            order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(o.seed * 1000003 + epoch))
        mine = order[at * o.batch:(at + 1) * o.batch][rank::world]
        optimizer.zero_grad()
        loss = loss_of(ddp(prepare(images[mine.numpy()]).to(device)), labels[mine].to(device))
        loss.backward()
        optimizer.step()
        schedule.step()
        if rank == 0 and (step + 1) % SAVE_EVERY == 0:
            print(f"loss={loss.item():.6g} lr={schedule.get_last_lr()[0]:.4g} step={step + 1}")
            save(checkpoint, net=net.state_dict(), optimizer=optimizer.state_dict(), schedule=schedule.state_dict(), done=step + 1)
    if rank == 0:
        _, val_images, val_labels = load(o.val)
        print(f"val_accuracy={accuracy(net.cpu(), val_images, torch.as_tensor(val_labels)):.6g} step={steps}")
        torch.save(net.state_dict(), o.out)
    if world > 1:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
