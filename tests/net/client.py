"""tests/net/client.py METHOD URL [BODY-FILE]: a plain HTTP client, to look at servers with. Status and body on standard output."""
import http.client
import sys
import urllib.parse


def main():
    method, url = sys.argv[1:3]
    body = open(sys.argv[3], "rb").read() if len(sys.argv) > 3 else None
    u = urllib.parse.urlsplit(url)
    c = http.client.HTTPConnection(u.hostname, u.port, timeout=60)
    try:
        c.request(method, u.path + ("?" + u.query if u.query else ""), body)
        r = c.getresponse()
        data = r.read()
    except (OSError, http.client.HTTPException) as e:
        print(type(e).__name__, file=sys.stderr)
        return 1
    print(r.status, flush=True)
    sys.stdout.buffer.write(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
