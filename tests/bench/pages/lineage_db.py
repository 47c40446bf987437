"""A database as years of use would leave it: a million artifacts, made by training pipelines of 12 tasks whose first steps are
shared by neighbouring runs. Written with SQL into a database that cairn itself made, so that its schema is the real one."""

import hashlib
import sqlite3

TASKS = 12  # a run: 3 to prepare, 8 folds, 1 to evaluate
OUTPUTS = 3  # each
SHARED = 20  # runs whose first three tasks are the same
RUNS = 100000  # on record; those beyond the ones that made something were all hits


def digest(*what):
    return hashlib.sha256(repr(what).encode()).digest()


def fill(path, artifacts, pipeline="bench"):
    """Adds rows until there are that many artifacts; returns the digest (hex) of one that the last run made."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA synchronous=OFF")
    content = db.execute("SELECT coalesce(max(id), 0) FROM content").fetchone()[0]
    attempt = db.execute("SELECT coalesce(max(id), 0) FROM attempt").fetchone()[0]
    first = db.execute("SELECT coalesce(max(rowid_), 0) + 1 FROM run").fetchone()[0]
    made, run, last = 0, 0, None
    contents, attempts, results, io = [], [], [], []

    def add_runs(numbers):
        """Each with two params and a metric: what `cairn runs` asks for."""
        rates, seconds = (0.1, 0.01, 0.001), 10**9
        db.executemany("INSERT INTO result_set (id, results) VALUES (?,?)", ((first + n, digest("results", n)) for n in numbers))
        db.executemany("INSERT INTO run (rowid_, id, pipeline, state, started_ns, ended_ns, params_json, result_set) VALUES (?,?,?,1,?,?,?,?)",
                       ((first + n, f"{pipeline}-{n:06}", pipeline, (first + n) * seconds, (first + n + 1) * seconds,
                         f'{{"lr":{rates[n % 3]},"seed":{n % 50}}}', first + n) for n in numbers))
        db.executemany("INSERT INTO run_param (run, name, value) VALUES (?,?,?)",
                       (row for n in numbers for row in ((first + n, "lr", rates[n % 3]), (first + n, "seed", n % 50))))
        db.executemany("INSERT INTO set_metric (result_set, name, task, step, value) VALUES (?,'accuracy','evaluate','evaluate',?)",
                       ((first + n, n * 7919 % 10007 / 10007) for n in numbers))

    def make(task, key, reads):
        nonlocal content, attempt, made
        attempt += 1
        attempts.append((attempt, first + run, task, task, pipeline, 1, key, attempt, attempt + 1))
        out = []
        for k in range(OUTPUTS):
            content += 1
            made += 1
            contents.append((content, digest(key, k), 1, 1000))
            io.append((attempt, 1, f"o{k}", content))
            out.append(content)
        results.append((attempt, key, 1, digest(key, "outputs")))
        io.extend((attempt, 0, f"i{n}", c) for n, c in enumerate(reads))
        return out

    prepared = None
    while made < artifacts:
        if run % SHARED == 0:
            prepared = make("extract", digest("extract", run), [])
            prepared = make("shard", digest("shard", run), prepared)
            prepared = make("augment", digest("augment", run), prepared)
        models = []
        for fold in range(TASKS - 4):
            models += make(f"train[fold={fold}]", digest("train", run, fold), prepared)
        last = make("evaluate", digest("evaluate", run), models)
        run += 1
        if len(contents) > 50000 or made >= artifacts:
            db.executemany("INSERT INTO content (id, digest, kind, size) VALUES (?,?,?,?)", contents)
            db.executemany("INSERT INTO attempt (id, run, task, step, pipeline, number, key, started_ns, ended_ns) VALUES (?,?,?,?,?,?,?,?,?)", attempts)
            db.executemany("INSERT INTO result (attempt, key, cacheable, outputs) VALUES (?,?,?,?)", results)
            db.executemany("INSERT INTO io (attempt, dir, name, content) VALUES (?,?,?,?)", io)
            db.commit()
            contents, attempts, results, io = [], [], [], []
    add_runs(range(max(run, RUNS * artifacts // 1000000)))
    db.commit()
    found = db.execute("SELECT digest FROM content WHERE id = ?", (last[0],)).fetchone()[0].hex()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return found
