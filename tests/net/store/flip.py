"""tests/net/store/flip.py: stands between a client and a server that checks signatures, and changes one thing of a request.

    python3 tests/net/store/flip.py DIR HOST:PORT

DIR/flip says what, one word: signature, method, path, query, body, or a header's name; "none": nothing. One bit of it, in each request that has it. A second
word, a method, and a third, text of the query ("-": there is none), choose among requests.
DIR/port: where it listens. DIR/seen: what was changed and the status that came, a line each.
"""
import http.client
import http.server
import os
import re
import sys


def change(text):
    """The last letter or digit becomes another one."""
    for i in range(len(text) - 1, -1, -1):
        if text[i].isalnum():
            c = text[i]
            other = chr(ord(c) ^ 1)
            return text[:i] + (other if other.isalnum() else "b" if c != "b" else "c") + text[i + 1:]
    return None


class Between(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def flip(self, what, method, target, headers, body):
        path, mark, query = target.partition("?")
        new = None
        if what == "signature":
            headers["Authorization"] = new = re.sub(r"Signature=(.*)", lambda m: "Signature=" + change(m.group(1)), headers["Authorization"])
        elif what == "method":
            method = new = {"GET": "HEAD", "HEAD": "GET", "PUT": "POST", "POST": "PUT", "DELETE": "GET"}[method]
        elif what == "path":
            new = change(path)
            target = new + mark + query
        elif what == "query" and query:
            new = change(query)
            target = path + mark + new
        elif what == "body" and body:
            body = new = body[:-1] + bytes([body[-1] ^ 1])
        else:
            for name in list(headers):
                if name.lower() == what:
                    headers[name] = new = change(headers[name])
        return new is not None, method, target, headers, body

    def handle_any(self):
        where, upstream = self.server.where, self.server.upstream
        with open(os.path.join(where, "flip")) as f:
            what, wanted, query = (f.read().split() + ["", ""])[:3]
        method, target = self.command, self.path
        own = target.partition("?")[2]
        if wanted not in ("", method) or (bool(own) if query == "-" else query not in own):
            what = "none"
        headers = dict(self.headers.items())
        if "100-continue" in headers.pop("Expect", "").lower():
            self.send_response_only(100)
            self.end_headers()
        body = self.rfile.read(int(headers.get("Content-Length", 0)))
        done = False
        if what != "none":
            done, method, target, headers, body = self.flip(what, method, target, headers, body)
        c = http.client.HTTPConnection(upstream, timeout=60)
        c.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            c.putheader(name, value)
        try:
            c.endheaders(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before the body was read: the answer may lie there already
        r = c.getresponse()
        answer = r.read()
        with open(os.path.join(where, "seen"), "a") as f:
            f.write(f"{self.command} {'flipped' if done else 'same'} {r.status}\n")
        self.send_response_only(r.status)
        for name, value in r.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        if self.command == "HEAD":
            self.send_header("Content-Length", r.getheader("Content-Length", "0"))
        elif r.status != 204:
            self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any


def main():
    where, upstream = sys.argv[1:]
    os.makedirs(where, exist_ok=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Between)
    server.where, server.upstream = where, upstream
    with open(os.path.join(where, "flip"), "w") as f:
        f.write("none\n")
    with open(os.path.join(where, "port.new"), "w") as f:
        f.write(f"{server.server_address[1]}\n")
    os.rename(os.path.join(where, "port.new"), os.path.join(where, "port"))
    server.serve_forever()


main()
