"""tests/net/store/soak.py DIR SECONDS [SEED]: two writers, clients killed with -9, and a collector that never rests, on one store.

Needs what cairn needs for its store (CAIRN_STORE, AWS_*) and cairn on PATH. Prints one line of JSON: what was done. Exit 1 when something ended in a way that
no kill explains; what it said is on standard error. Whether the store is whole afterwards is walker.py's to say.
"""
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

PIPELINE = """
pipeline: soak
params: {shared: 0, own: none, work: 0}
steps:
  many:
    run: for i in $(seq 40); do echo "$i of ${{ params.shared }}" >${{ outputs.d }}/$i; done; mkdir ${{ outputs.d }}/deep; seq ${{ params.shared }}000 >${{ outputs.d }}/deep/er
    outputs: {d: d/}
  below:
    run: cat ${{ inputs.f }} >${{ outputs.o }}
    inputs: {f: "${{ steps.many.outputs.d }}/7"}
    outputs: {o: o.txt}
  alone:
    run: yes "${{ params.shared }}" | head -c 700000 | openssl enc -aes-128-ctr -nosalt -K 00${{ params.shared }} -iv 00 2>/dev/null >${{ outputs.o }}
    outputs: {o: o.bin}
  text:
    run: seq ${{ params.shared }} 90000 >${{ outputs.o }}
    outputs: {o: o.txt}
  mine:
    run: echo "${{ params.own }}" >${{ outputs.o }}
    outputs: {o: o.txt}
  long:
    run: sleep ${{ params.work }} # work that goes on while others collect
    inputs: {f: "${{ steps.many.outputs.d }}/7"}
    cache: false
"""
SHARED = 12  # values of the param that both writers use: fewer runs are kept, so that content comes and goes


class Soak:
    def __init__(self, where, seconds, seed):
        self.dir, self.until = where, time.monotonic() + seconds
        self.counts, self.wrong = collections.Counter(), []
        self.lock, self.random = threading.Lock(), random.Random(seed)

    def roll(self, n):
        with self.lock:
            return self.random.randrange(n)

    def count(self, what, n=1):
        with self.lock:
            self.counts[what] += n

    def project(self, name):
        path = os.path.join(self.dir, name)
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, "pipeline.yaml"), "w", encoding="ascii") as f:
            f.write(PIPELINE)
        with open(os.path.join(path, "cairn.yaml"), "w", encoding="ascii"):
            pass
        return path

    def cairn(self, path, args, may_die, fine):
        """Runs it; kills it at any time when it may die. fine: exit statuses that are no surprise."""
        p = subprocess.Popen(["cairn", "-C", path, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        killer = threading.Timer(self.roll(2500 if self.roll(2) else 8000) / 1000, p.send_signal, [signal.SIGKILL]) if may_die else None
        if killer:
            killer.start()
        out, err = p.communicate()
        if killer:
            killer.cancel()
        if p.returncode == -signal.SIGKILL:
            self.count("killed")
        elif p.returncode in fine:
            self.count(args[0] if args[0] != "store" else "store " + args[1])
        else:
            with self.lock:
                self.wrong.append(f"cairn {' '.join(args)}: exit {p.returncode}\n{err[-2000:]}")
        return p.returncode, out

    def write(self, name):
        path, n = self.project(name), 0
        while time.monotonic() < self.until and not self.wrong:
            n += 1
            what, may_die = self.roll(20), self.roll(3) == 0
            if what < 13:
                args = ["run", "-q", "-p", f"shared={self.roll(SHARED)}", "-p", f"own={name}{n if what < 6 else n % 3}", "-p", f"work={self.roll(7) * self.roll(2)}"]
                if self.cairn(path, args, may_die, (0,))[0] == -signal.SIGKILL and self.roll(2):
                    self.cairn(path, ["resume", "-q"], self.roll(4) == 0, (0, 2, 3, 4))
            elif what < 15:
                self.cairn(path, ["store", "push", "-q"] + ["--unsent"] * self.roll(2), may_die, (0, 1))
            elif what < 17:
                self.cairn(path, ["store", "pull", "-q"], may_die, (0, 1, 4))  # what is collected meanwhile can't be had
            elif what < 18:
                shutil.rmtree(os.path.join(path, ".cairn/store"), ignore_errors=True)  # the directory in front is lost
                self.count("directories lost")
            elif what < 19:
                shutil.rmtree(os.path.join(path, ".cairn"), ignore_errors=True)  # another machine
                self.count("machines lost")
            else:
                self.cairn(path, ["store", "verify", "-q", "--sample", "10%"], may_die, (0, 1))

    def collect(self):
        path = self.project("collector")
        while time.monotonic() < self.until and not self.wrong:
            code, out = self.cairn(path, ["store", "gc", "--keep-runs", "3", "--grace", "1s", "--json"], self.roll(12) == 0, (0, 4))
            if code == 0:
                res = json.loads(out)
                self.count("sweeps", res["deleted"] > 0)
                self.count("deleted", res["deleted"])
                self.count("deleted_bytes", res["deleted_bytes"])
            time.sleep(0.1)

    def run(self):
        threads = [threading.Thread(target=self.write, args=[name]) for name in ("ann", "bob")] + [threading.Thread(target=self.collect)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for name in ("ann", "bob"):
            if not self.wrong:
                self.cairn(self.project(name), ["run", "-q", "-p", "shared=1", "-p", f"own={name}-last"], False, (0,))
                # A run whose lease lapsed (no processor for so long) says that it sent nothing; a later process sends it.
                self.cairn(self.project(name), ["store", "push", "-q", "--unsent"], False, (0,))
        print(json.dumps(dict(sorted(self.counts.items()))))
        for w in self.wrong:
            print(w, file=sys.stderr)
        return 1 if self.wrong else 0


if __name__ == "__main__":
    sys.exit(Soak(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else time.time_ns()).run())
