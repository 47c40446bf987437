"""A training that meets its other ranks as each framework's ranks would, with Python's own library alone: addresses and roles are the ones that the launcher tells,
and every member must be found where it is said to be. usage: frames_train.py tensorflow|jax|mpi|ps MODEL.bin

Ranks exchange gradients and add them in the order of their ranks, so that the weights are the same bytes wherever they run.

CAIRN_CHECKPOINT  where the checkpoint is, of every 8 steps (else none is kept)
PAUSE_AT          the last rank says `paused` before that step, and waits for ever, unless it went on from a checkpoint
"""
import ctypes
import hashlib
import json
import os
import socket
import struct
import sys
import threading
import time

STEPS, SIZE, EVERY = 40, 96, 8
WITHIN_S = 60  # that a member may take to listen: its pod has begun, its program perhaps not
env = os.environ
apart = "CAIRN_GANG_HOSTS" in env


def pod():
    """Where this is, by what the cluster calls it, not by what the launcher says."""
    return "pod " + socket.gethostname().rpartition("-")[2] if apart else "here"


def say(*words):
    """A line in one write: two threads' print()s tear each other's lines."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


# --- messages: a length and bytes -------------------------------------------------------------------------------------------


def send(s, data):
    s.sendall(struct.pack("<I", len(data)) + data)


def exactly(s, n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more:
            raise EOFError("a member went away")
        data += more
    return data


def receive(s):
    return exactly(s, struct.unpack("<I", exactly(s, 4))[0])


def split(address):
    host, _, port = address.rpartition(":")
    return host, int(port)


def listen(address):
    """At this very address: it must be ours."""
    return socket.create_server(split(address), backlog=64)


def call(address):
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            return socket.create_connection(split(address), timeout=WITHIN_S)
        except (ConnectionRefusedError, socket.gaierror):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def introduce(s, me):
    """Both ends say who they are and where; what the other said."""
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    send(s, f"{me} in {pod()}".encode())
    other = receive(s).decode()
    if apart and other.endswith(pod()) != (s.getpeername()[0] == s.getsockname()[0]):
        sys.exit(f"{other} is reached at {s.getpeername()[0]} from {s.getsockname()[0]} in {pod()}")
    say("met", other)
    return other.split(" in ")[0]


def meet(address, me, expected):
    s = call(address)
    other = introduce(s, me)
    if other != expected:
        sys.exit(f"{address} is {other}, not {expected}")
    return s


def forever():
    """As servers do: they never end by themselves."""
    while True:
        time.sleep(3600)


# --- the arithmetic: IEEE doubles, each operation in one order ----------------------------------------------------------------


def gradient(weights, step, rank, world):
    return [(w * (rank + 1) / world - ((i * 7 + step * 3 + rank * 11) % 13)) / 64 for i, w in enumerate(weights)]


def pack(values):
    return struct.pack(f"<{len(values)}d", *values)


def unpack(data):
    return list(struct.unpack(f"<{len(data) // 8}d", data))


def apply(weights, gradients):
    return [w - 0.1 * sum(g) for w, g in zip(weights, zip(*gradients))]


# --- tensorflow: every member listens, every worker reaches all ---------------------------------------------------------------


class Tensorflow:
    def __init__(self):
        config = json.loads(env["TF_CONFIG"])
        cluster, task = config["cluster"], config["task"]
        kind, self.rank = task["type"], task["index"]
        self.world = len(cluster["worker"])
        me = f"{kind} {self.rank}"
        if sorted(cluster) != ["ps", "worker"] or len(set(sum(cluster.values(), []))) != self.world + len(cluster["ps"]):
            sys.exit(f"TF_CONFIG is {env['TF_CONFIG']}")
        listener = listen(cluster[kind][self.rank])
        self.incoming, self.all_came = {}, threading.Event()
        threading.Thread(target=self.accept, args=(listener, me), daemon=True).start()
        if kind == "ps":
            forever()
        self.outgoing = {f"{k} {i}": meet(a, me, f"{k} {i}") for k in cluster for i, a in enumerate(cluster[k]) if f"{k} {i}" != me}
        if not self.all_came.wait(WITHIN_S):
            sys.exit(f"only {sorted(self.incoming)} came")

    def accept(self, listener, me):
        while True:
            s = listener.accept()[0]
            self.incoming[introduce(s, me)] = s
            if len(self.incoming) == self.world - (me.startswith("worker")):
                self.all_came.set()

    def step(self, weights, mine):
        for name, s in self.outgoing.items():
            if name.startswith("worker"):
                send(s, pack(mine))
        got = {name: unpack(receive(s)) for name, s in self.incoming.items()}
        got[f"worker {self.rank}"] = mine
        return apply(weights, [got[f"worker {i}"] for i in range(self.world)])


# --- jax: all reach the coordinator, which process 0 is ------------------------------------------------------------------------


class Jax:
    def __init__(self):
        address = env["JAX_COORDINATOR_ADDRESS"]
        if address != f"{env['COORDINATOR_ADDRESS']}:{env['COORDINATOR_PORT']}" or any(env[n] != env["JAX_" + n] for n in ("NUM_PROCESSES", "PROCESS_ID")):
            sys.exit("the two sets of names differ")
        self.rank, self.world = int(env["JAX_PROCESS_ID"]), int(env["JAX_NUM_PROCESSES"])
        me = f"process {self.rank}"
        if self.rank:
            self.coordinator = meet(address, me, "process 0")
            return
        listener, self.others = listen(address), {}
        while len(self.others) < self.world - 1:
            s = listener.accept()[0]
            self.others[introduce(s, me)] = s

    def step(self, weights, mine):
        if self.rank:
            send(self.coordinator, pack(mine))
            return apply(weights, [unpack(receive(self.coordinator)) for _ in range(self.world)])
        got = [mine] + [unpack(receive(self.others[f"process {i}"])) for i in range(1, self.world)]
        for s in self.others.values():
            for g in got:
                send(s, pack(g))
        return apply(weights, got)


# --- parameter servers, as ps-lite's meet: through the scheduler ------------------------------------------------------------------


class ParameterServers:
    def __init__(self):
        self.world, self.servers = int(env["DMLC_NUM_WORKER"]), int(env["DMLC_NUM_SERVER"])
        root = f"{env['DMLC_PS_ROOT_URI']}:{env['DMLC_PS_ROOT_PORT']}"
        {"scheduler": self.schedule, "server": self.serve, "worker": self.work}[env["DMLC_ROLE"]](root)

    def schedule(self, root):
        socket.inet_pton(socket.AF_INET, root.split(":")[0])  # ps-lite takes no names
        listener, members = listen(root), {}
        while len(members) < self.world + self.servers:
            s = listener.accept()[0]
            name = introduce(s, "scheduler")
            members[name] = (s, receive(s).decode())
        everyone = json.dumps({name: address for name, (_, address) in members.items()}).encode()
        for s, _ in members.values():
            send(s, everyone)
        forever()

    def register(self, root, me, port):
        s = meet(root, me, "scheduler")
        send(s, f"{s.getsockname()[0]}:{port}".encode())
        return json.loads(receive(s))

    def serve(self, root):
        me = f"server {env['DMLC_SERVER_ID']}"
        listener = socket.create_server(("", 0))
        self.register(root, me, listener.getsockname()[1])
        workers = {}
        while len(workers) < self.world:
            s = listener.accept()[0]
            workers[introduce(s, me)] = s
        weights = None
        try:
            while True:
                pushed = [receive(workers[f"worker {i}"]) for i in range(self.world)]
                weights = apply(weights or [0.0] * (len(pushed[0]) // 8), [unpack(p) for p in pushed])
                for i, p in enumerate(pushed):
                    send(workers[f"worker {i}"], hashlib.sha256(p).digest() + pack(weights))
        except EOFError:  # the workers are done
            say("served", hashlib.sha256(pack(weights)).hexdigest())
            for s in workers.values():  # they wait for this: a server is ended when they have ended
                s.close()
            forever()

    def work(self, root):
        self.rank = int(env["DMLC_WORKER_ID"])
        me = f"worker {self.rank}"
        members = self.register(root, me, 0)
        self.stores = [meet(members[f"server {i}"], me, f"server {i}") for i in range(self.servers)]

    def step(self, weights, mine):
        part = SIZE // self.servers
        pushed = [pack(mine[i * part:(i + 1) * part]) for i in range(self.servers)]
        for s, p in zip(self.stores, pushed):
            send(s, p)
        weights = []
        for i, (s, p) in enumerate(zip(self.stores, pushed)):
            answer = receive(s)
            if answer[:32] != hashlib.sha256(p).digest():
                sys.exit(f"server {i} got other bytes than were pushed")
            weights += unpack(answer[32:])
        return weights

    def close(self):
        for s in self.stores:
            s.shutdown(socket.SHUT_WR)
        for s in self.stores:
            s.recv(1)


# --- mpi: the ranks that mpirun started, by the library itself ---------------------------------------------------------------------


class Mpi:
    def __init__(self):
        self.lib = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)
        self.comm, self.byte = (ctypes.byref(ctypes.c_char.in_dll(self.lib, name)) for name in ("ompi_mpi_comm_world", "ompi_mpi_byte"))
        self.do("MPI_Init", None, None)
        rank, world = ctypes.c_int(), ctypes.c_int()
        self.do("MPI_Comm_rank", self.comm, ctypes.byref(rank))
        self.do("MPI_Comm_size", self.comm, ctypes.byref(world))
        self.rank, self.world = rank.value, world.value
        if str(self.rank) != env["OMPI_COMM_WORLD_RANK"]:
            sys.exit("MPI and mpirun's environment number the ranks differently")
        for i, where in enumerate(self.gather(pod().ljust(32).encode())):
            if i != self.rank:
                say("met rank", i, "in", where.decode().rstrip())

    def do(self, name, *args):
        if getattr(self.lib, name)(*args) != 0:
            sys.exit(f"{name} failed")

    def gather(self, data):
        out = ctypes.create_string_buffer(len(data) * self.world)
        self.do("MPI_Allgather", data, len(data), self.byte, out, len(data), self.byte, self.comm)
        return [out.raw[i * len(data):(i + 1) * len(data)] for i in range(self.world)]

    def step(self, weights, mine):
        return apply(weights, [unpack(g) for g in self.gather(pack(mine))])

    def close(self):
        self.do("MPI_Finalize")


# --- the training -------------------------------------------------------------------------------------------------------------------


def main():
    gang = {"tensorflow": Tensorflow, "jax": Jax, "ps": ParameterServers, "mpi": Mpi}[sys.argv[1]]()
    kept = env.get("CAIRN_CHECKPOINT")
    path, begin, weights = kept and kept + "/state", 0, [0.0] * SIZE
    if path and os.path.exists(path):
        with open(path, "rb") as f:
            data = f.read()
        begin, weights = struct.unpack("<I", data[:4])[0], unpack(data[4:])
    say(f"rank {gang.rank} of {gang.world} begins at {begin} in {pod()}")
    for step in range(begin, STEPS):
        if step == int(env.get("PAUSE_AT", -1)) and gang.rank == gang.world - 1 and begin == 0:
            say("paused")
            forever()
        weights = gang.step(weights, gradient(weights, step, gang.rank, gang.world))
        if gang.rank == 0:
            say(f"norm={sum(w * w for w in weights)!r} step={step + 1}")
        if gang.rank == 0 and path and (step + 1) % EVERY == 0:
            with open(path + ".tmp", "wb") as f:
                f.write(struct.pack("<I", step + 1) + pack(weights))
            os.replace(path + ".tmp", path)
    say("weights", hashlib.sha256(pack(weights)).hexdigest())
    if gang.rank == 0:
        with open(sys.argv[2], "wb") as f:
            f.write(pack(weights))
    if hasattr(gang, "close"):
        gang.close()


main()
