"""The rest of a cluster for kubeapi.py --cluster STORE: a Job controller, a kubelet and a sidecar that do what they are told.

A Job gets a pod at once; it is scheduled, its program runs here, for real, on files out of the store (a directory), and the sidecar's word comes in its termination
message. What happens else to a pod stands in DIR/plays, JSON objects a line, read for each Job that is made; the first that fits is used up:

    {"task": "GLOB", "times": 1, "play": "oom"}

DIR/idle, when it is there: pods of Jobs run at once, and for ever, without a program.
DIR/executed has a line for each program that was started: attempt id and task. DIR/made has one for each Job that was created: its name; DIR/pods
likewise for pods. DIR/go, when it is there,
holds back the ends of programs until DIR/go/TASK exists.
"""

import fnmatch
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import uuid

TICK = 0.01


def stamp(at=None):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at or time.time()))


def decoded(spec):
    """Texts of a specification are names (json_name() of base/text/json.h): a backslash is two, a byte that is no UTF-8 is \\xNN."""
    if isinstance(spec, str):
        raw = re.sub(rb"\\(?:(\\)|x([0-9a-f]{2}))", lambda m: m[1] or bytes.fromhex(m[2].decode()), spec.encode())
        return raw.decode(errors="surrogateescape")
    if isinstance(spec, list):
        return [decoded(x) for x in spec]
    return {k: decoded(v) for k, v in spec.items()} if isinstance(spec, dict) else spec


def encoded(text):
    """As a name, for what the sidecar tells."""
    return text.replace("\\", "\\\\")


class Store:
    """Blobs of at most 16 MiB in a directory store (storage/FORMAT.md)."""

    def __init__(self, path):
        self.path = path

    def get(self, content):
        _, size, digest = content.split(":")
        data = open(os.path.join(self.path, "blobs", digest[:2], digest), "rb").read()
        assert len(data) == int(size)
        return data

    def lay_out(self, digest, path):
        """A tree of files and directories (storage/FORMAT.md)."""
        listing = open(os.path.join(self.path, "trees", digest[:2], digest), "rb").read()
        at = len(b"cairn-tree/1\n")
        while at < len(listing):
            kind, n = listing[at], int.from_bytes(listing[at + 1 : at + 5], "little")
            to = os.path.join(path, listing[at + 5 : at + 5 + n].decode())
            at += 5 + n + 1
            size, digest = int.from_bytes(listing[at : at + 8], "little"), listing[at + 8 : at + 40].hex()
            at += 40
            if kind == 4:
                os.makedirs(to, exist_ok=True)
                self.lay_out(digest, to)
            else:
                assert kind in (1, 2)
                with open(to, "wb") as out:
                    out.write(self.get(f"blob:{size}:{digest}"))
                os.chmod(to, 0o755 if kind == 2 else 0o644)

    def put(self, data):
        digest = hashlib.sha256(data).hexdigest()
        where = os.path.join(self.path, "blobs", digest[:2])
        os.makedirs(where, exist_ok=True)
        temp = os.path.join(where, f".{uuid.uuid4()}")
        with open(temp, "wb") as out:
            out.write(data)
        os.chmod(temp, 0o444)
        os.rename(temp, os.path.join(where, digest))
        return f"blob:{len(data)}:{digest}"


class Program:
    """One attempt of a specification, executed."""

    def __init__(self, cluster, attempt, pod):
        self.cluster, self.a, self.pod = cluster, attempt, pod
        self.stopped = False

    def run(self):
        a, store, work = self.a, self.cluster.store, tempfile.mkdtemp(prefix="cairn-pod-")
        self.cluster.note("executed", f'{a["id"]} {a["task"]}')
        if a.get("code"):
            store.lay_out(a["code"].split(":")[2], work)
        for i in a["inputs"]:
            path = os.path.join(work, i["path"])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "wb").write(store.get(i["id"]))
        for o in a["outputs"]:
            os.makedirs(os.path.join(work, os.path.dirname(o["path"])), exist_ok=True)
        env = {"PATH": os.environ["PATH"], "HOME": work, **dict(e.split("=", 1) for e in a["env"])}
        began = time.time_ns()
        argv = list(a["argv"])
        if argv[0].endswith("/cairn-launch"):  # the sidecar would have put it there
            argv[0] = os.path.join(os.path.dirname(os.path.realpath(shutil.which("cairn"))), "cairn-launch")
        p = subprocess.Popen(argv, cwd=work, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for line in p.stdout:
            self.cluster.print(self.pod, line)
        p.wait()
        self.say_series(work)
        self.cluster.hold(a["task"], self.pod)
        result = {"attempt": a["id"], "ran": True, "exit": p.returncode, "started_ns": began, "ended_ns": max(time.time_ns(), began + 1), "rss": 1 << 20}
        log = self.cluster.log_of(self.pod)
        if log:
            result["log"] = store.put(log)
        if p.returncode:
            result.update(failure="failed", error=f"exit status {p.returncode}", error_code=15, log_tail=encoded(log.decode(errors="replace")[-1000:]))
        else:
            result["outputs"] = [self.output(work, o) for o in a["outputs"]]
            if a.get("metrics"):
                result["metrics"] = encoded(open(os.path.join(work, a["metrics"])).read())
        shutil.rmtree(work, ignore_errors=True)
        return result

    def say_series(self, work):
        """As the sidecar does, in its own log."""
        path = os.path.join(work, self.a.get("series") or "none")
        if os.path.exists(path):
            lines = [json.loads(line) for line in open(path).read().splitlines()]
            for n, line in enumerate(lines):
                numbers = {k: line[k] for k in sorted(line, key=lambda k: k != "step") if k != "time"}
                said = json.dumps({"cairn_series": self.a["id"], **numbers}, separators=(",", ":"))
                when = time.time_ns() - (len(lines) - n) * 10**9  # a second apart
                self.cluster.sidecars.setdefault(self.pod, []).append((when, f"cairn pod: {said}\n".encode()))

    def output(self, work, o):
        return self.cluster.store.put(open(os.path.join(work, o["path"]), "rb").read())


class Cluster:
    def __init__(self, directory, store, api):
        """api: lock, objects, change(kind, collection, object)."""
        self.dir, self.store, self.api = directory, Store(store), api
        self.logs, self.news = {}, threading.Condition()
        self.sidecars = {}  # pod → what its sidecar has said: times and lines
        self.plays = {}
        self.ended = set()

    def note(self, name, line):
        with self.news, open(os.path.join(self.dir, name), "a") as out:
            out.write(line + "\n")

    # --- logs

    def print(self, pod, line):
        with self.news:
            self.logs.setdefault(pod, []).append((time.time_ns(), line))
            self.news.notify_all()

    def log_of(self, pod):
        return b"".join(line for _, line in self.logs.get(pod, []))

    # --- what is to happen

    def play(self, task):
        path = os.path.join(self.dir, "plays")
        version = os.stat(path).st_mtime_ns if os.path.exists(path) else 0
        lines = [json.loads(x) for x in open(path) if x.strip()] if os.path.exists(path) else []
        with self.news:
            for n, p in enumerate(lines):
                key = (n, version)
                if fnmatch.fnmatchcase(task, p.get("task", "*")) and self.plays.get(key, 0) < p.get("times", 1):
                    self.plays[key] = self.plays.get(key, 0) + 1
                    return p["play"]
        return "well"

    def hold(self, task, pod=None):
        gate = os.path.join(self.dir, "go")
        while os.path.isdir(gate) and not os.path.exists(os.path.join(gate, task)) and not (pod and self.is_going(pod)):
            time.sleep(TICK)

    # --- objects

    def created(self, collection, job):
        ns = collection.split("/")[5]
        job["metadata"]["creationTimestamp"] = stamp()
        self.note("made", job["metadata"]["name"])
        threading.Thread(target=self.live, args=(ns, json.loads(json.dumps(job))), daemon=True).start()

    def deleted(self, collection, job):
        """The garbage collector: its pods are told to go."""
        pods = f"/api/v1/namespaces/{collection.split('/')[5]}/pods"
        for (where, name), pod in list(self.api.objects.items()):
            owners = pod["metadata"].get("ownerReferences", [])
            if where == pods and any(o["uid"] == job["metadata"]["uid"] for o in owners):
                self.go(pods, name, 5)

    def go(self, pods, name, grace):
        with self.api.lock:
            pod = self.api.objects.get((pods, name))
            if pod and pod["status"]["phase"] in ("Succeeded", "Failed"):
                return self.remove(pods, name)
            if pod and "deletionTimestamp" not in pod["metadata"]:
                pod["metadata"]["deletionTimestamp"] = stamp(time.time() + grace)
                pod["metadata"]["deletionGracePeriodSeconds"] = grace
                self.api.change("MODIFIED", pods, pod)

    def is_going(self, name):
        with self.api.lock:
            return not any(n == name and "deletionTimestamp" not in p["metadata"] for (_, n), p in self.api.objects.items())

    def patch(self, pods, name, **fields):
        with self.api.lock:
            pod = self.api.objects.get((pods, name))
            if pod is None:
                return False
            pod["status"].update(fields)
            self.api.change("MODIFIED", pods, pod)
        time.sleep(TICK)
        return True

    def remove(self, pods, name):
        with self.api.lock:
            pod = self.api.objects.pop((pods, name), None)
            if pod:
                self.api.change("DELETED", pods, pod)

    def end_job(self, ns, job, kind, reason=None, message=""):
        where = f"/apis/batch/v1/namespaces/{ns}/jobs"
        with self.api.lock:
            have = self.api.objects.get((where, job["metadata"]["name"]))
            if have and have["metadata"]["uid"] == job["metadata"]["uid"]:
                if "index" in job:
                    ended = job["ended"]
                    ended[job["index"]] = kind
                    status = have.setdefault("status", {})
                    for key, k in (("completedIndexes", "Complete"), ("failedIndexes", "Failed")):
                        status[key] = ",".join(str(i) for i in sorted(ended) if ended[i] == k)
                    if len(ended) < job["n"]:
                        self.api.change("MODIFIED", where, have)
                        return
                    kind, reason = ("Failed", "FailedIndexes") if "Failed" in ended.values() else ("Complete", None)
                c = {"type": kind, "status": "True", "lastTransitionTime": stamp(), "message": message}
                if reason:
                    c["reason"] = reason
                have.setdefault("status", {}).setdefault("conditions", []).append(c)
                self.api.change("MODIFIED", where, have)

    def event(self, ns, job, reason, message, kind="Warning"):
        self.event_of(ns, {"kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}, reason, message, kind)

    def event_of(self, ns, involved, reason, message, kind="Warning"):
        where, name = f"/api/v1/namespaces/{ns}/events", f"e-{uuid.uuid4()}"
        e = {"metadata": {"name": name, "uid": name}, "type": kind, "reason": reason, "message": message, "lastTimestamp": stamp(), "involvedObject": involved}
        with self.api.lock:
            self.api.objects[(where, name)] = e
            self.api.change("ADDED", where, e)

    def make_pod(self, ns, job, status, spec=None, tick=TICK):
        pods, meta = f"/api/v1/namespaces/{ns}/pods", job["spec"]["template"]["metadata"]
        index = {"batch.kubernetes.io/job-completion-index": str(job["index"])} if "index" in job else {}
        name = f'{job["metadata"]["name"]}-{uuid.uuid4().hex[:5]}'
        pod = {"metadata": {"name": name, "uid": str(uuid.uuid4()), "labels": {**job["metadata"].get("labels", {}), **meta.get("labels", {}), **index},
                            "annotations": {**meta.get("annotations", {}), **index}, "creationTimestamp": stamp(),
                            "ownerReferences": [{"kind": "Job", "controller": True, "name": job["metadata"]["name"],
                                                           "uid": job["metadata"]["uid"]}]},
               "spec": spec or {"nodeName": ""}, "status": {"phase": "Pending", **status}}
        with self.api.lock:
            if (f"/apis/batch/v1/namespaces/{ns}/jobs", job["metadata"]["name"]) not in self.api.objects:
                return pods, name
            self.api.objects[(pods, name)] = pod
            self.api.change("ADDED", pods, pod)
        self.note("pods", name)
        time.sleep(tick)
        return pods, name

    def schedule(self, pods, name):
        with self.api.lock:
            if (pods, name) in self.api.objects:
                self.api.objects[(pods, name)]["spec"]["nodeName"] = "node-1"
        self.patch(pods, name, conditions=[{"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp()}])

    # --- a Job's life

    def live(self, ns, job):
        spec = decoded(json.loads(self.store.get(job["metadata"]["annotations"]["cairn.internal/spec"])))
        attempts, per_pod = spec["attempts"], spec.get("per_pod", 0)
        if os.path.exists(os.path.join(self.dir, "idle")):
            return self.idle(ns, job, range(-(-len(attempts) // per_pod)) if per_pod else [None])
        if not per_pod:
            return self.live_one(ns, job, attempts)
        n = -(-len(attempts) // per_pod)
        assert (job["spec"]["completions"], job["spec"]["parallelism"], job["spec"]["completionMode"], job["spec"]["backoffLimitPerIndex"]) == (n, n, "Indexed", 0)
        ended = {}
        for i in range(n):
            one = {**job, "index": i, "ended": ended, "n": n}
            threading.Thread(target=self.live_one, args=(ns, one, attempts[i * per_pod:(i + 1) * per_pod]), daemon=True).start()

    def idle(self, ns, job, indexes):
        """All its pods run and say nothing more: thousands, each as long as a real one."""
        running = {"running": {"startedAt": stamp()}}
        conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp()}]
        for i in indexes:
            self.make_pod(ns, job if i is None else {**job, "index": i},
                          {"phase": "Running", "conditions": conditions, **containers(running, running)},
                          {**job["spec"]["template"]["spec"], "nodeName": "node-1"}, tick=0)

    def live_one(self, ns, job, attempts):
        """A Job with one pod, or one index of an array."""
        task = attempts[0]["task"]
        play = self.play(task)
        time.sleep(TICK)
        try:
            getattr(self, "play_" + play.replace("-", "_"))(ns, job, attempts)
        except Exception as e:  # a test has to see it
            self.note("broken", f"{task}: {play}: {e!r}")

    def start(self, ns, job, pod=None):
        pods, name = pod or self.make_pod(ns, job, {})
        self.schedule(pods, name)
        self.patch(pods, name, **containers({"running": {"startedAt": stamp()}}, waiting("PodInitializing")))
        self.patch(pods, name, phase="Running", **containers({"running": {"startedAt": stamp()}}, {"running": {"startedAt": stamp()}}))
        return pods, name

    def ends(self, code, message, sidecar_code=0, reason=None):
        """How both containers ended."""
        side = {"exitCode": sidecar_code, "reason": "Completed", "startedAt": stamp(), "finishedAt": stamp(), "message": message}
        ended = {"exitCode": code, "reason": reason or ("Completed" if code == 0 else "Error"), "startedAt": stamp(), "finishedAt": stamp()}
        return {"terminated": side}, {"terminated": ended}

    def finish(self, ns, job, pods, name, code, results, sidecar_code=0, reason=None, **status):
        """Both containers end; then the Job does."""
        message = results if isinstance(results, str) else json.dumps({"cairn_result": 1, "results": results})
        side, ended = self.ends(code, message, sidecar_code, reason)
        going = self.is_going(name)
        self.patch(pods, name, **{"phase": "Failed" if code else "Succeeded", **containers(side, ended), **status})
        if job.get("late"):
            self.hold("count")
        self.end_job(ns, job, "Failed" if code else "Complete", "BackoffLimitExceeded" if code else None)
        if going:
            self.remove(pods, name)

    def play_well(self, ns, job, attempts, wrap=None, pod=None):
        pods, name = self.start(ns, job, pod)
        results = []
        for a in attempts:
            if self.is_going(name):
                break
            results.append(Program(self, a, name).run())
        if self.is_going(name):
            for r in results[-1:]:
                r.update(stopped=True)
            return self.finish(ns, job, pods, name, 143, results)
        code = next((r["exit"] for r in results if r["exit"]), 0)
        text = json.dumps({"cairn_result": 1, "results": results})
        if wrap:
            text = json.dumps({"cairn_result": 1, "result": self.store.put(text.encode())})
        self.finish(ns, job, pods, name, code, text)

    def play_count_later(self, ns, job, attempts):
        """The pod has ended, but the Job's controller doesn't come to it."""
        self.play_well(ns, {**job, "late": True}, attempts)

    def play_gang(self, ns, job, attempts):
        """The pods of several nodes, two ranks each, which talk in turn; at the end all of them fail."""
        a, nodes = attempts[0], job["spec"]["completions"]
        pods = [self.start(ns, job, self.make_pod(ns, {**job, "index": i}, {})) for i in range(nodes)]
        self.note("executed", f'{a["id"]} {a["task"]}')
        for line in ("first", "second", "third"):
            for i, (_, name) in enumerate(pods):
                for rank in (2 * i, 2 * i + 1):
                    self.print(name, f"[rank {rank}] {line} of {rank}\n".encode())
        self.hold(a["task"], pods[0][1])
        for i, (_, name) in enumerate(pods):
            self.print(name, f"[rank {2 * i}] end of {2 * i}\n".encode())
            self.print(name, f"[rank {2 * i + 1}] end of {2 * i + 1}".encode())  # without an end
        for where, name in pods:
            log = self.store.put(self.log_of(name))
            self.finish(ns, job, where, name, 1, [{"attempt": a["id"], "ran": True, "exit": 1, "failure": "failed", "error": "it was told to", "error_code": 15, "log": log}])

    def play_gang_ends(self, ns, job, attempts):
        """A wide gang, each pod of which has ended when it is first seen: the last one badly."""
        a, nodes = attempts[0], job["spec"]["completions"]
        for i in range(nodes):
            code = 7 if i == nodes - 1 else 0
            result = {"attempt": a["id"], "ran": True, "exit": code}
            if code:
                result.update(failure="failed", error=f"exit status {code}", error_code=15)
            side, ended = self.ends(code, json.dumps({"cairn_result": 1, "results": [result]}))
            self.make_pod(ns, {**job, "index": i}, {"phase": "Failed" if code else "Succeeded", **containers(side, ended)}, tick=0)
        self.end_job(ns, job, "Failed", "BackoffLimitExceeded")

    def play_long_result(self, ns, job, attempts):
        self.play_well(ns, job, attempts, wrap=True)

    def play_oom(self, ns, job, attempts):
        pods, name = self.start(ns, job)
        self.finish(ns, job, pods, name, 137, [{"attempt": attempts[0]["id"], "ran": True, "main_died": True}], reason="OOMKilled")

    def play_killed(self, ns, job, attempts):
        pods, name = self.start(ns, job)
        self.print(name, b"the last words\n")
        self.finish(ns, job, pods, name, 137, [{"attempt": attempts[0]["id"], "ran": True, "main_died": True}])

    def disrupted(self, ns, job, attempts, reason, confirmed=True):
        pods, name = self.start(ns, job)
        c = [{"type": "PodScheduled", "status": "True"}, {"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": stamp()}]
        self.patch(pods, name, conditions=c)
        self.go(pods, name, 1)
        if confirmed:
            self.finish(ns, job, pods, name, 143, [{"attempt": attempts[0]["id"], "ran": True, "stopped": True, "exit": 143}])

    def play_evicted(self, ns, job, attempts):
        self.disrupted(ns, job, attempts, "EvictionByEvictionAPI")

    def play_preempted(self, ns, job, attempts):
        self.disrupted(ns, job, attempts, "PreemptionByScheduler")

    def play_taint(self, ns, job, attempts):
        self.disrupted(ns, job, attempts, "DeletionByTaintManager")

    def play_node_lost(self, ns, job, attempts):
        self.disrupted(ns, job, attempts, "DeletionByTaintManager", confirmed=False)

    def play_node_deleted(self, ns, job, attempts):
        pods, name = self.start(ns, job)
        self.patch(pods, name, phase="Failed", conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}])
        self.remove(pods, name)
        self.end_job(ns, job, "Failed", "PodFailurePolicy")

    def play_pod_deleted(self, ns, job, attempts):
        pods, name = self.start(ns, job)
        self.go(pods, name, 1)
        self.finish(ns, job, pods, name, 143, [{"attempt": attempts[0]["id"], "ran": True, "stopped": True, "exit": 143}])

    def play_job_deleted(self, ns, job, attempts):
        pods, name = self.start(ns, job)
        where = f"/apis/batch/v1/namespaces/{ns}/jobs"
        with self.api.lock:
            have = self.api.objects.pop((where, job["metadata"]["name"]))
            self.api.change("DELETED", where, have)
        self.go(pods, name, 1)
        self.remove(pods, name)

    def play_disk_full(self, ns, job, attempts):
        pods, name = self.start(ns, job)
        self.patch(pods, name, phase="Failed", reason="Evicted", message="Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.")
        self.end_job(ns, job, "Failed", "BackoffLimitExceeded")

    def play_beside(self, ns, job, attempts):
        """A container beside main goes on: the pod never ends, and the kubelet starts the sidecar again."""
        pods, name = self.start(ns, job)
        results = [Program(self, a, name).run() for a in attempts]
        side = {"exitCode": 0, "reason": "Completed", "finishedAt": stamp(), "message": json.dumps({"cairn_result": 1, "results": results})}
        ended = {"exitCode": 0, "reason": "Completed", "startedAt": stamp(), "finishedAt": stamp()}
        status = containers({"running": {"startedAt": stamp()}}, {"terminated": ended}, restarts=1, last={"terminated": side})
        status["containerStatuses"].append({"name": "proxy", "state": {"running": {"startedAt": stamp()}}})
        self.patch(pods, name, phase="Running", **status)
        self.until_gone(pods, name)

    def play_never_up(self, ns, job, attempts):
        """Its volumes aren't there: no container is made."""
        pods, name = self.make_pod(ns, job, {})
        self.schedule(pods, name)
        self.patch(pods, name, **containers(waiting("PodInitializing"), waiting("PodInitializing")))
        self.until_gone(pods, name)

    def play_never_brought(self, ns, job, attempts):
        """The sidecar has words, and no end."""
        pods, name = self.make_pod(ns, job, {})
        self.sidecars[name] = [(time.time_ns(), b"cairn pod: the store answers in Latin\n")]
        self.schedule(pods, name)
        self.patch(pods, name, **containers({"running": {"startedAt": stamp()}}, waiting("PodInitializing")))
        self.until_gone(pods, name)

    def play_never_ends(self, ns, job, attempts):
        """Nothing in the pod holds the program to its time."""
        pods, name = self.start(ns, job)
        self.until_gone(pods, name)

    def play_never_says(self, ns, job, attempts):
        pods, name = self.start(ns, job)
        ended = {"exitCode": 0, "reason": "Completed", "startedAt": stamp(), "finishedAt": stamp()}
        self.patch(pods, name, **containers({"running": {"startedAt": stamp()}}, {"terminated": ended}))
        self.until_gone(pods, name)

    def play_store_away(self, ns, job, attempts):
        """It has ended, and its sidecar, which isn't ready, says why main hasn't."""
        pods, name = self.start(ns, job)
        results = [Program(self, a, name).run() for a in attempts]
        self.sidecars[name] = [(time.time_ns(), b"cairn pod: the store does not accept the outputs of the program; retried for 12h: no route\n")]
        long_ago = {"running": {"startedAt": stamp(time.time() - 600)}}
        status = containers(long_ago, long_ago)
        status["initContainerStatuses"][0]["ready"] = False
        self.patch(pods, name, **status)
        self.hold("store")
        self.finish(ns, job, pods, name, 0, json.dumps({"cairn_result": 1, "results": results}))

    def play_job_deadline(self, ns, job, attempts):
        """As the controller does it: pods first, then it says so in the Job."""
        pods, name = self.start(ns, job)
        self.go(pods, name, 1)
        ended = {"exitCode": 143, "reason": "Error", "startedAt": stamp(), "finishedAt": stamp()}
        self.patch(pods, name, phase="Failed", **containers({"terminated": ended}, {"terminated": ended}))
        time.sleep(0.5)
        self.end_job(ns, job, "Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
        self.remove(pods, name)

    def play_no_image(self, ns, job, attempts):
        pods, name = self.make_pod(ns, job, {})
        self.schedule(pods, name)
        pull = 'failed to pull image "registry.test/none:1": not found'
        self.patch(pods, name, **containers({"running": {"startedAt": stamp()}}, waiting("ErrImagePull", pull)))
        self.patch(pods, name, **containers({"running": {"startedAt": stamp()}}, waiting("ImagePullBackOff", "Back-off pulling image \"registry.test/none:1\": not found")))
        self.until_gone(pods, name)

    def play_bad_image(self, ns, job, attempts):
        pods, name = self.make_pod(ns, job, {})
        self.schedule(pods, name)
        self.patch(pods, name, **containers({"running": {"startedAt": stamp()}}, waiting("InvalidImageName", "couldn't parse image name")))
        self.until_gone(pods, name)

    def play_no_secret(self, ns, job, attempts):
        pods, name = self.make_pod(ns, job, {})
        self.schedule(pods, name)
        self.patch(pods, name, **containers({"running": {"startedAt": stamp()}}, waiting("CreateContainerConfigError", 'secret "cairn-secrets" not found')))
        self.until_gone(pods, name)

    def play_no_room(self, ns, job, attempts):
        c = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."}]
        self.until_gone(*self.make_pod(ns, job, {"conditions": c}))

    def play_room_later(self, ns, job, attempts):
        c = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."}]
        pods, name = self.make_pod(ns, job, {"conditions": c})
        self.hold("room", name)
        self.play_well(ns, job, attempts, pod=(pods, name))

    def play_quota(self, ns, job, attempts):
        self.event(ns, job, "FailedCreate", 'Error creating: pods "x" is forbidden: exceeded quota: compute, requested: cpu=4, used: cpu=0, limited: cpu=2')

    def play_quota_later(self, ns, job, attempts):
        self.play_quota(ns, job, attempts)
        self.hold("quota")
        self.play_well(ns, job, attempts)

    def suspend(self, ns, job, yes):
        where = f"/apis/batch/v1/namespaces/{ns}/jobs"
        with self.api.lock:
            have = self.api.objects.get((where, job["metadata"]["name"]))
            if have:
                have["spec"]["suspend"] = yes
                self.api.change("MODIFIED", where, have)

    def play_queue_later(self, ns, job, attempts):
        """As Kueue does: it makes a Workload for the Job, and says of that why it waits."""
        name = f'job-{job["metadata"]["name"]}-12ab3'
        self.suspend(ns, job, True)
        self.event(ns, job, "Suspended", "Job suspended", "Normal")
        self.event(ns, job, "CreatedWorkload", f"Created Workload: {ns}/{name}", "Normal")
        self.event_of(ns, {"kind": "Workload", "name": name, "uid": str(uuid.uuid4())}, "Pending", "couldn't assign flavors to pod set main: insufficient unused quota")
        self.hold("queue")
        self.suspend(ns, job, False)
        self.event(ns, job, "FailedCreate", "exceeded quota: compute")
        self.hold("pod")
        self.play_well(ns, job, attempts)

    def play_sidecar_dies(self, ns, job, attempts):
        pods, name = self.start(ns, job)
        self.print(name, b"only the container has this\n")
        self.finish(ns, job, pods, name, 122, "", sidecar_code=137)

    # And it is long; this server doesn't mind how much of it is asked for.
    def play_sidecar_dies_late(self, ns, job, attempts):
        pods, name = self.start(ns, job)
        for _ in range(64):
            self.print(name, b"kept" * (1 << 18))
        self.print(name, b"dropped")
        self.finish(ns, job, pods, name, 122, "", sidecar_code=137)

    def play_sidecar_loops(self, ns, job, attempts):
        pods, name = self.make_pod(ns, job, {})
        self.schedule(pods, name)
        last = {"terminated": {"exitCode": 1, "reason": "Error", "message": "no such bucket", "finishedAt": stamp()}}
        for n in range(1, 5):
            self.patch(pods, name, **containers(waiting("CrashLoopBackOff"), waiting("PodInitializing"), restarts=n, last=last))
        self.until_gone(pods, name)

    def play_upload_fails(self, ns, job, attempts):
        pods, name = self.start(ns, job)
        r = {"attempt": attempts[0]["id"], "ran": True, "failure": "store", "error": "keeping output `o`: the store is read-only", "error_code": 9}
        self.finish(ns, job, pods, name, 123, [r])

    def play_no_result(self, ns, job, attempts):
        pods, name = self.start(ns, job)
        self.finish(ns, job, pods, name, 0, "")

    def play_lies(self, ns, job, attempts):
        pods, name = self.start(ns, job)
        self.finish(ns, job, pods, name, 0, '{"cairn_result": 1, "results": [{"attempt": "x"}]}')

    def play_deadline(self, ns, job, attempts):
        self.end_job(ns, job, "Failed", "DeadlineExceeded", "Job was active longer than specified deadline")

    def play_twice(self, ns, job, attempts):
        """Events come twice and out of order: an older state after a newer one."""
        pods, name = self.start(ns, job)
        with self.api.lock:
            old = json.loads(json.dumps(self.api.objects[(pods, name)]))
        results = [Program(self, a, name).run() for a in attempts]
        with self.api.lock:
            self.api.change("MODIFIED", pods, old)
            self.api.change("MODIFIED", pods, json.loads(json.dumps(old)))
        self.finish(ns, job, pods, name, 0, results)
        with self.api.lock:
            if (pods, name) in self.api.objects:
                self.api.change("MODIFIED", pods, self.api.objects[(pods, name)])

    def until_gone(self, pods, name):
        while not self.is_going(name):
            time.sleep(TICK)
        self.remove(pods, name)


def waiting(reason, message=None):
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def containers(sidecar, main, restarts=0, last=None):
    return {"initContainerStatuses": [{"name": "cairn", "state": sidecar, "restartCount": restarts, "started": "running" in sidecar, "ready": "running" in sidecar,
                                       **({"lastState": last} if last else {})}],
            "containerStatuses": [{"name": "main", "state": main, "restartCount": 0, "started": "running" in main, "ready": "running" in main}]}
