"""Running programs and taking their time and memory: medians of interleaved rounds (A B A B), so that a machine that gets
slower or faster meanwhile does so for all."""

import os
import shutil
import statistics
import tempfile
import time


class Failed(Exception):
    pass


class Sample:
    """seconds: by the clock; cpu: of the program and the programs that it waited for, user and system. rss_bytes is never
    less than Python's own peak (peak_rss() says why): enough for limits of many MB."""

    def __init__(self, seconds, rss_bytes, cpu=0.0):
        self.seconds, self.rss_bytes, self.cpu = seconds, rss_bytes, cpu


def once(argv, cwd, log):
    """One execution; its output goes to the end of `log`."""
    here = os.getcwd()
    program = shutil.which(argv[0]) or argv[0]
    out = (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    actions = [out, (os.POSIX_SPAWN_DUP2, 1, 2), (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
    os.chdir(cwd)
    try:
        begin = time.perf_counter()
        pid = os.posix_spawn(program, argv, os.environ, file_actions=actions)
        _, status, usage = os.wait4(pid, 0)
        seconds = time.perf_counter() - begin
    finally:
        os.chdir(here)
    if status != 0:
        with open(log, errors="replace") as f:
            tail = f.read()[-2000:]
        raise Failed(f"{' '.join(argv)} in {cwd}: status {status}\n{tail}")
    return Sample(seconds, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime)


def peak_rss(argv, cwd, log):
    """Bytes of one more execution. By GNU time, since a process starts with the peak of the process that starts it, and
    Python's is higher than what is measured here."""
    gnu_time = shutil.which("time")
    if not gnu_time:
        raise Failed("needs GNU time")
    with tempfile.NamedTemporaryFile("r") as told:
        once([gnu_time, "-f", "%M", "-o", told.name, *argv], cwd, log)
        return int(told.read().split()[-1]) * 1024


class Contender:
    """prepare(round) makes or cleans what a round needs and gives the folder to run in; it isn't timed."""

    def __init__(self, name, argv, prepare):
        self.name, self.argv, self.prepare = name, argv, prepare


def interleaved(contenders, rounds, log, warm=1):
    """name → Sample of medians. Contenders that fail are left out, with their reason in `reasons`."""
    samples = {c.name: [] for c in contenders}
    reasons = {}
    for r in range(-warm, rounds):
        for c in contenders:
            if c.name in reasons:
                continue
            try:
                sample = once(c.argv, c.prepare(r), log)
            except (Failed, OSError) as why:
                reasons[c.name] = str(why)
                continue
            if r >= 0:
                samples[c.name].append(sample)
    medians = {name: Sample(statistics.median(s.seconds for s in got), max(s.rss_bytes for s in got), statistics.median(s.cpu for s in got))
               for name, got in samples.items() if got and name not in reasons}
    return medians, reasons
