"""A training by JAX itself: each process has its part of a batch, gradients are added by psum. usage: jax_train.py MODEL.bin"""
import hashlib
import os
import sys

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false --xla_force_host_platform_device_count=1"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

jax.distributed.initialize(num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"]))  # the address it finds itself
rank, world = jax.process_index(), jax.process_count()
print(f"rank {rank} of {world} sees {jax.device_count()} devices, {jax.local_device_count()} of them here", flush=True)
mesh = Mesh(np.array(jax.devices()), ("data",))


def part(whole):
    return jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("data")), np.array_split(whole, world)[rank])


def loss(w, x, y):
    return jnp.mean((jnp.tanh(x @ w["a"]) @ w["b"] - y) ** 2)


def step(w, x, y):
    value, g = jax.value_and_grad(loss)(w, x, y)
    g = jax.lax.psum(g, "data")
    return jax.tree.map(lambda a, d: a - 0.1 * d / world, w, g), jax.lax.psum(value, "data") / world


# check_vma: else a gradient by what is the same everywhere is added already
step = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=(PartitionSpec(), PartitionSpec("data"), PartitionSpec("data")), out_specs=PartitionSpec(), check_vma=False))
random = np.random.default_rng(1)
w = {"a": random.standard_normal((8, 16), np.float32), "b": random.standard_normal((16, 1), np.float32)}
x = random.standard_normal((64, 8), np.float32)
y = np.sin(x.sum(axis=1, keepdims=True))
for i in range(10):
    w, value = step(w, part(x), part(y))
    if rank == 0:
        print(f"loss={float(value)!r} step={i + 1}", flush=True)
data = b"".join(np.asarray(w[name]).tobytes() for name in sorted(w))
all_ranks = multihost_utils.process_allgather(np.frombuffer(hashlib.sha256(data).digest(), np.uint8))
if any((other != all_ranks[0]).any() for other in all_ranks):
    sys.exit("the processes have different weights")
print("weights", hashlib.sha256(data).hexdigest(), flush=True)
if rank == 0:
    with open(sys.argv[1], "wb") as f:
        f.write(data)
jax.distributed.shutdown()
