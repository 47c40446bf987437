"""policy_peer.py serve PORT… | ask TARGET… | rank: pods that listen and pods that ask, for policy.t.

serve: answers every connection and datagram at these ports (0: one that the kernel picks) with the list of them.
ask: for each target (tcp:HOST:PORT, udp:HOST:PORT) a line `TARGET open`, or `TARGET refused`, or what else befell it.
rank: of a gang of two. It serves, meets the other rank at each of its ports, asks $OUTSIDE, and meets the other again once there is a file `again`; a file `end` ends it.
"""
import os
import socket
import sys
import threading
import time


def answer_tcp(listener, text):
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(text)


def answer_udp(receiver, text):
    while True:
        _, sender = receiver.recvfrom(100)
        receiver.sendto(text, sender)


def serve(wanted):
    """Listens from when it returns."""
    pairs = []
    for port in wanted:
        listener = socket.create_server(("", port), backlog=100)
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind(listener.getsockname())
        pairs.append((listener, receiver))
    ports = [listener.getsockname()[1] for listener, _ in pairs]
    text = " ".join(map(str, ports)).encode()
    for listener, receiver in pairs:
        threading.Thread(target=answer_tcp, args=(listener, text), daemon=True).start()
        threading.Thread(target=answer_udp, args=(receiver, text), daemon=True).start()
    return ports


def greeting(connection):
    """Who is connected got in, whether the other says anything or waits to be asked."""
    try:
        return connection.recv(100).decode()
    except TimeoutError:
        return ""


def ask(target):
    """Whether there was an answer, and it or what came instead."""
    protocol, host, port = target.split(":")
    try:
        with socket.socket(socket.AF_INET, {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}[protocol]) as s:
            s.settimeout(5)
            s.connect((host, int(port)))
            if protocol == "tcp":
                return True, greeting(s)
            s.send(b"?")
            return True, s.recv(100).decode()
    except ConnectionRefusedError:
        return False, "refused"
    except OSError as e:
        return False, str(e)


def meet(target):
    """As ranks do: the other may not be there yet, nor its name, nor may a firewall know it already."""
    deadline = time.monotonic() + 60
    while True:
        there, said = ask(target)
        if there or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    if not there:
        sys.exit(f"{target}: {said}")
    return said


def wait_for(file):
    while not os.path.exists(file):
        time.sleep(0.1)


def rank():
    me = int(os.environ["RANK"])
    ports = serve([1025, 40404, 0])
    print("serves", *ports, flush=True)
    name, _, domain = os.environ["MASTER_ADDR"].partition(".")
    other = f"{name[:-1]}{1 - me}.{domain}"
    targets = [f"{p}:{other}:{port}" for port in meet(f"tcp:{other}:1025").split() for p in ("tcp", "udp")]
    for target in targets:
        meet(target)
    print("met rank", 1 - me, "at", len(targets), flush=True)
    meet(os.environ["OUTSIDE"])
    print("outside answers", flush=True)
    wait_for("again")
    print("again:", *(ask(target)[0] for target in targets), ask(os.environ["OUTSIDE"])[0], flush=True)
    wait_for("end")


def main(what, *words):
    if what == "serve":
        print("serves", *serve([int(w) for w in words]), flush=True)
        threading.Event().wait()
    elif what == "ask":
        for target in words:
            there, said = ask(target)
            print(target, "open" if there else said)
    elif what == "rank":
        rank()


if __name__ == "__main__":
    main(*sys.argv[1:])
