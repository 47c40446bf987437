"""systemd.py listen PROGRAM...: runs PROGRAM with a socket of loopback as descriptor 3, as systemd's socket activation does; prints its port.
systemd.py notify LOG PROGRAM...: runs PROGRAM with NOTIFY_SOCKET; each message goes into LOG, a line (newlines as |). Ends as PROGRAM does."""

import os
import socket
import subprocess
import sys

if sys.argv[1] == "listen":
    s = socket.create_server(("127.0.0.1", 0))
    print(s.getsockname()[1], flush=True)
    os.dup2(s.fileno(), 3)
    os.set_inheritable(3, True)
    os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
    os.execvp(sys.argv[2], sys.argv[2:])

here = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
here.bind("\0cairn-test-%d" % os.getpid())
here.settimeout(0.2)
env = dict(os.environ, NOTIFY_SOCKET="@cairn-test-%d" % os.getpid(), WATCHDOG_USEC="300000")
program = subprocess.Popen(sys.argv[3:], env=env)
with open(sys.argv[2], "w", buffering=1) as log:
    log.write("PID=%d\n" % program.pid)
    while program.poll() is None:
        try:
            log.write(here.recv(4096).decode().replace("\n", "|") + "\n")
        except socket.timeout:
            pass
sys.exit(program.returncode)
