#!/usr/bin/env python3
"""firewall.py DIR: holds NetworkPolicies against what enters the pods of the cluster DIR, by nftables on its node (`serve DIR firewall`).

Ours: what is ready-made brings a network of its own, or wants a kernel whose nftables can queue.
It knows `ingress` as the API has it: podSelector, namespaceSelector, ipBlock; ports by number, range and name. A policy about egress ends it, in words, rather than being
passed over. What the node itself sends is let through (probes), and so is what belongs to a connection that was let in. Refused is what iptables' REJECT does by default.

DIR/firewall.state says what holds now: a line `NAMESPACE/POLICY ADDRESS` for each pod that a policy isolates. nft's counter `refused` counts packets.
"""
import http.client
import json
import os
import queue
import ssl
import subprocess
import sys
import threading
import time

KINDS = {"pods": "/api/v1/pods", "namespaces": "/api/v1/namespaces", "policies": "/apis/networking.k8s.io/v1/networkpolicies"}
TABLE = "ip cairn_policies"


class Api:
    """Objects of the three kinds as the API server has them, kept by a watch each; `changes` gets a word whenever there was one."""

    def __init__(self, dir):
        self.context = ssl.create_default_context(cafile=f"{dir}/pki/ca.crt")
        self.context.load_cert_chain(f"{dir}/pki/admin.crt", f"{dir}/pki/admin.key")
        self.objects, self.changes, self.lock = {}, queue.Queue(), threading.Lock()
        for kind in KINDS:
            threading.Thread(target=self.follow, args=(kind,), daemon=True).start()

    def get(self, path):
        connection = http.client.HTTPSConnection("127.0.0.1", 6443, context=self.context)
        connection.request("GET", path)
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(f"{path}: {answer.status} {answer.read(500)!r}")
        return answer

    def follow(self, kind):
        while True:
            try:
                self.list_and_watch(kind)
            except (OSError, ValueError, http.client.HTTPException) as e:
                print(f"{kind}: {e}; again", flush=True)
                time.sleep(0.2)

    def list_and_watch(self, kind):
        page = json.load(self.get(KINDS[kind]))
        self.change(kind, {key(o): o for o in page["items"]})
        for line in self.get(f"{KINDS[kind]}?watch=1&resourceVersion={page['metadata']['resourceVersion']}"):
            event = json.loads(line)
            if event["type"] == "ERROR":
                raise ValueError(event["object"].get("message"))
            with self.lock:
                objects = dict(self.objects[kind])
            objects.pop(key(event["object"]), None)
            if event["type"] != "DELETED":
                objects[key(event["object"])] = event["object"]
            self.change(kind, objects)

    def change(self, kind, objects):
        with self.lock:
            self.objects[kind] = objects
        self.changes.put(kind)

    def next(self):
        """All objects, after the next change and whatever came with it."""
        self.changes.get()
        while not self.changes.empty():
            self.changes.get()
        with self.lock:
            return dict(self.objects)


def key(o):
    return o["metadata"].get("namespace", ""), o["metadata"]["name"]


def labels(o):
    return o["metadata"].get("labels") or {}


def selects(selector, o):
    """An empty selector selects everything."""
    for name, value in (selector.get("matchLabels") or {}).items():
        if labels(o).get(name) != value:
            return False
    for e in selector.get("matchExpressions") or []:
        has, values = labels(o).get(e["key"]), e.get("values") or []
        if not {"In": has in values, "NotIn": has not in values, "Exists": has is not None, "DoesNotExist": has is None}[e["operator"]]:
            return False
    return True


def address(pod):
    """None of a pod that has none of its own: not yet, no longer, or the node's."""
    status = pod.get("status", {})
    if pod["spec"].get("hostNetwork") or status.get("phase") in ("Succeeded", "Failed"):
        return None
    return status.get("podIP")


def peer_match(peer, namespace, world):
    """One entry of `from`: what nft matches, or None where there is nobody. Selectors of pods and namespaces in one entry must both hold."""
    if "ipBlock" in peer:
        block = peer["ipBlock"]
        outside = block.get("except") or []
        return f"ip saddr {block['cidr']}" + (f" ip saddr != {{ {', '.join(outside)} }}" if outside else "")
    if "namespaceSelector" in peer:
        namespaces = {o["metadata"]["name"] for o in world["namespaces"].values() if selects(peer["namespaceSelector"], o)}
    else:
        namespaces = {namespace}
    pods = (p for p in world["pods"].values() if p["metadata"]["namespace"] in namespaces and selects(peer.get("podSelector") or {}, p))
    addresses = sorted({address(p) for p in pods} - {None})
    return f"ip saddr {{ {', '.join(addresses)} }}" if addresses else None


def port_match(port, pod):
    protocol, number = port.get("protocol", "TCP"), port.get("port")
    if number is None:
        return f"meta l4proto {protocol.lower()}"
    if isinstance(number, str):
        containers = pod["spec"]["containers"] + (pod["spec"].get("initContainers") or [])
        named = (p for c in containers for p in c.get("ports") or [] if p.get("name") == number and p.get("protocol", "TCP") == protocol)
        number = next((p["containerPort"] for p in named), None)
        if number is None:
            return None
    return f"{protocol.lower()} dport {number}" + (f"-{port['endPort']}" if "endPort" in port else "")


def allowed(policy, pod, world):
    """What a policy lets into a pod, as nft's matches. No `from` means from anywhere, no `ports` any port; an empty rule both."""
    for rule in policy["spec"].get("ingress") or []:
        peers = [peer_match(p, policy["metadata"]["namespace"], world) for p in rule["from"]] if rule.get("from") else [""]
        ports = [port_match(p, pod) for p in rule["ports"]] if rule.get("ports") else [""]
        for peer in peers:
            for port in ports:
                if peer is not None and port is not None:
                    yield f"{peer} {port}".strip()


def ruleset(world):
    """For `nft -f`, in one transaction; and the state. The counter stays over changes: a flush takes rules only."""
    isolated, state = {}, []
    for name, policy in sorted(world["policies"].items()):
        if "Egress" in policy["spec"].get("policyTypes", []) or "egress" in policy["spec"]:
            sys.exit(f"{'/'.join(name)} is about egress, which this firewall doesn't know")
        for pod in world["pods"].values():
            to = address(pod)
            if to and pod["metadata"]["namespace"] == name[0] and selects(policy["spec"].get("podSelector") or {}, pod):
                isolated.setdefault(to, []).extend(allowed(policy, pod, world))
                state.append(f"{'/'.join(name)} {to}\n")
    rules = [f"add table {TABLE}", f"add counter {TABLE} refused", f"add chain {TABLE} entering {{ type filter hook forward priority 10; policy accept; }}", f"flush table {TABLE}",
             f"add rule {TABLE} entering ct state established,related accept"]
    for to, matches in sorted(isolated.items()):
        chain = "pod_" + to.replace(".", "_")
        rules.append(f"add chain {TABLE} {chain}")
        rules += [f"add rule {TABLE} {chain} {m} accept" for m in dict.fromkeys(matches)]
        rules.append(f"add rule {TABLE} {chain} counter name refused reject")
        rules.append(f"add rule {TABLE} entering ip daddr {to} jump {chain}")
    return "\n".join(rules) + "\n", "".join(sorted(state))


def main(dir):
    with open("/proc/sys/net/bridge/bridge-nf-call-iptables") as f:
        if f.read().strip() != "1":
            sys.exit("what goes over a bridge isn't shown to netfilter here")
    with open("/proc/sys/net/ipv4/icmp_ratelimit", "w") as f: # of this network namespace: whoever is refused twice is told twice
        f.write("0")
    api, holds = Api(dir), None
    while True:
        world = api.next()
        if len(world) < len(KINDS):
            continue
        rules, state = ruleset(world)
        if (rules, state) == holds:
            continue
        subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)
        holds = rules, state
        with open(f"{dir}/firewall.state.new", "w") as f:
            f.write(state)
        os.rename(f"{dir}/firewall.state.new", f"{dir}/firewall.state")


if __name__ == "__main__":
    main(sys.argv[1])
