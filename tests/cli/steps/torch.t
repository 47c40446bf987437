#!/bin/bash
# Two ranks of real PyTorch (Debian: python3-torch) over gloo: interrupted in mid-epoch and uninterrupted give the same bytes.
. "$(dirname "$0")/../../lib.sh"

python=/usr/bin/python3
"$python" -c 'import torch.distributed as d; assert d.is_available() and d.is_gloo_available()' 2>/dev/null ||
	test_skip_all 'PyTorch with gloo is not installed (Debian: python3-torch)'

touch cairn.yaml
mkfifo fifo
cat >train.py <<'E'
import os, sys, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(7)
torch.use_deterministic_algorithms(True)
torch.set_num_threads(1)
dist.init_process_group("gloo")  # env://: what the launcher says
rank, world, where, path = dist.get_rank(), dist.get_world_size(), os.environ["WHERE"], os.environ["CAIRN_CHECKPOINT"] + "/state.pt"
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
x = torch.randn(64, 8, generator=torch.Generator().manual_seed(1))
y = x.sum(dim=1, keepdim=True).sin()
begin = 0
if os.path.exists(path):
    state = torch.load(path)
    begin = state["step"]
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
if rank == 0:
    open(f"{where}/begun", "a").write(f"{begin} of {world}\n")
for step in range(begin, 40):
    batch = slice((step * 16) % 64 + rank * 8, (step * 16) % 64 + rank * 8 + 8)
    loss = torch.nn.functional.mse_loss(model(x[batch]), y[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    if rank == 0:
        print(f"loss={total.item() / world!r} step={step + 1}")
        if (step + 1) % 8 == 0:
            torch.save({"step": step + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, path + ".tmp")
            os.replace(path + ".tmp", path)
        if os.path.exists(f"{where}/stop") and step + 1 == 21:
            open(f"{where}/there", "w").close()
            os.read(os.open(f"{where}/fifo", os.O_RDWR), 1)
if rank == 0:
    with open(sys.argv[1], "wb") as f:
        for p in model.parameters():
            f.write(p.detach().numpy().tobytes())
E
for name in whole cut; do
	write $name.yaml <<Y
pipeline: $name
steps:
  train:
    uses: train
    run: $python train.py \${{ outputs.model }}
    code: [train.py]
    env: {WHERE: "$PWD", TAG: $name}
    outputs: {model: model.bin}
    checkpoint: ckpt/
    distributed: {framework: torch, procs_per_node: 2}
Y
done

test_expect 'two ranks train one model' '
	cairn -q run whole.yaml
	cairn get train/model -o whole.model
	cairn get train/series -o whole.series
	test_is "$(cat begun)" "0 of 2"
	test_lines 40 whole.series
	test_is "$(wc -c <whole.model)" $(((8 * 16 + 16 + 16 + 1) * 4))
	python3 -c "import json; l = [json.loads(x)[\"loss\"] for x in open(\"whole.series\")]; assert sum(l[-4:]) < sum(l[:4]) * 0.8, l"
'

test_expect 'killed with the engine in mid-epoch, it goes on from its checkpoint and ends with the same bytes' '
	rm -f begun
	touch stop
	start run cairn -q run cut.yaml
	wait_until 60 test -e there
	kill -9 "$(cat run.pid)"
	wait_until 30 test -s run.rc
	rm stop
	cairn -q resume
	test_is "$(tr "\n" " " <begun)" "0 of 2 16 of 2 "
	cairn get train/model -o cut.model
	cairn get train/series -o cut.series
	cmp whole.model cut.model
	test_cmp whole.series cut.series
'

test_expect 'a rank that throws ends the other, which waits for it in a collective' '
	cat >bad.py <<-"E"
	import torch, torch.distributed as dist
	dist.init_process_group("gloo")
	if dist.get_rank() == 1:
	    raise ValueError("this batch is bad")
	dist.all_reduce(torch.zeros(1))
	dist.barrier()
	E
	sed -e "s/train.py .*/bad.py/" -e "s/\[train.py\]/[bad.py]/" -e "/outputs: {/d" whole.yaml >bad.yaml
	test_code 1 cairn -q run bad.yaml
	cairn logs train >log
	test_grep "^ValueError: this batch is bad" log
	cairn logs train --rank 1 >log
	test_grep "ValueError: this batch is bad" log
'
test_done
