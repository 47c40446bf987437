#!/usr/bin/env python3
"""Runs as their engines left them on record. recorded.py DATABASE: one on a cluster, of which one task ended on a node, one runs, one waits
for a quota. recorded.py DATABASE ended PIPELINE N: N runs that have succeeded, begun from now on."""

import json
import sqlite3
import sys
import time

S = 10**9
now = time.time_ns()
db = sqlite3.connect(sys.argv[1])


def cluster():
    db.execute("INSERT INTO run (id, pipeline, path, state, started_ns, params_json, options_json, total, executed, pid, pid_start, host)"
               " VALUES ('cluster-rec0d', 'cluster', 'cluster.yaml', 0, ?, '{}', ?, 3, 1, 1, 1, 'engine-pod-0')", (now - 90 * S, json.dumps({"runner": "kubernetes"})))
    run = db.execute("SELECT rowid_ FROM run WHERE id = 'cluster-rec0d'").fetchone()[0]
    for n, (task, begun, ended, node, waiting) in enumerate((
            ("shard", 90, 60, "node-a", None), ("train[fold=0]", 55, None, "gpu-node-1", None),
            ("train[fold=1]", 55, None, None, "quota team-a: 8 of 8 nvidia.com/gpu are in use"))):
        db.execute("INSERT INTO attempt (run, task, step, pipeline, number, key, started_ns, ended_ns, node, waiting, image) VALUES (?,?,?,'cluster',1,?,?,?,?,?,?)",
                   (run, task, task.split("[")[0], bytes([n]) * 32, now - begun * S, 0 if ended is None else now - ended * S, node, waiting, "registry.example/train@sha256:" + "0" * 64))


def ended(pipeline, n):
    for i in range(n):
        db.execute("INSERT INTO run (id, pipeline, path, state, started_ns, ended_ns, params_json, options_json, total, executed)"
                   " VALUES (?, ?, ?, 1, ?, ?, '{}', '{}', 1, 1)", (f"{pipeline}-rec{i:03}", pipeline, f"{pipeline}.yaml", now + i, now + i + S))


if len(sys.argv) > 2:
    ended(sys.argv[3], int(sys.argv[4]))
else:
    cluster()
db.commit()
