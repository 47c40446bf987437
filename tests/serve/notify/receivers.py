"""receivers.py KIND LOG: stands for whom a notification goes to, on a free port of loopback, which it prints.

webhook: answers 503 to the first request of each delivery, 302 to /redirect, 400 to /refuse, 204 to /late, else 204. smtp: takes mails; login me:mail-password.
smtps: takes mails over TLS.
What comes is written to LOG, a JSON object a line."""

import http.server
import json
import sys

kind, log = sys.argv[1], open(sys.argv[2], "a", buffering=1)


def note(**what):
    log.write(json.dumps(what) + "\n")


class Hook(http.server.BaseHTTPRequestHandler):
    seen = set()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        delivery = self.headers["Cairn-Delivery"]
        status = 503 if delivery not in self.seen else 204
        self.seen.add(delivery)
        status = {"/redirect": 302, "/refuse": 400, "/late": 204}.get(self.path.split("?")[0], status)
        note(path=self.path, status=status, headers=dict(self.headers), body=body)
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/hook")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


def webhook():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[3]) if len(sys.argv) > 3 and sys.argv[3] else 0), Hook)
    print(server.server_port, flush=True)
    server.serve_forever()


def smtp():
    from aiosmtpd.controller import Controller
    from aiosmtpd.smtp import AuthResult, SMTP
    import threading

    def login(server, session, envelope, mechanism, data):
        good = data.login == b"me" and data.password == b"mail-password"
        note(login=good)
        return AuthResult(success=good)

    class Take:
        async def handle_DATA(self, server, session, envelope):
            note(sender=envelope.mail_from, to=envelope.rcpt_tos, text=envelope.content.decode())
            return "250 taken"

    class Here(Controller):
        def factory(self):
            return SMTP(self.handler, authenticator=login, auth_require_tls=False, enable_SMTPUTF8=True)

    taker = Here(Take(), hostname="127.0.0.1", port=int(sys.argv[3]))
    taker.start()
    print(sys.argv[3], flush=True)
    threading.Event().wait()


def smtps():
    """SMTP over TLS with the certificate of argument 4, as much of it as one mail needs."""
    import socket
    import ssl

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(sys.argv[4])
    listening = socket.create_server(("127.0.0.1", int(sys.argv[3])))
    print(sys.argv[3], flush=True)
    while True:
        raw, _ = listening.accept()
        try:
            talk(tls.wrap_socket(raw, server_side=True))
        except (OSError, ssl.SSLError) as problem:
            note(problem=str(problem))


def talk(peer):
    lines = peer.makefile("rw", newline="\r\n", encoding="latin-1")

    def say(text):
        lines.write(text + "\r\n")
        lines.flush()

    say("220 here")
    for line in lines:
        verb = line[:4].upper()
        if verb == "QUIT":
            break
        say("354 go on" if verb == "DATA" else "250 fine")
        if verb == "DATA":
            note(text="".join(iter(lines.readline, ".\r\n")))
            say("250 taken")


{"webhook": webhook, "smtp": smtp, "smtps": smtps}[kind]()
