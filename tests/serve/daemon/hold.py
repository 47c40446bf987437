"""hold.py FILE [FROM N]: locks N bytes of FILE from FROM on, or the whole file, as a process that
hangs would; says `held` and keeps it until its standard input ends."""

import fcntl
import sys

with open(sys.argv[1], "r+b") as f:
    start, n = (int(x) for x in sys.argv[2:4]) if len(sys.argv) > 2 else (0, 0)
    fcntl.lockf(f, fcntl.LOCK_EX, n, start)
    print("held", flush=True)
    sys.stdin.read()
