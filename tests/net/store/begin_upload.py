"""tests/net/store/begin_upload.py s3://BUCKET/PREFIX KEY: begins a multipart upload that nobody goes on with; prints its id. Signed here."""
import datetime
import hashlib
import hmac
import http.client
import os
import re
import sys
import urllib.parse


def main():
    bucket, _, prefix = sys.argv[1][len("s3://"):].partition("/")
    host = urllib.parse.urlsplit(os.environ["AWS_ENDPOINT_URL"]).netloc
    path, now = f"/{bucket}/{prefix}/{sys.argv[2]}", datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    empty, scope = hashlib.sha256(b"").hexdigest(), f"{now[:8]}/us-east-1/s3/aws4_request"
    request = f"POST\n{path}\nuploads=\nhost:{host}\nx-amz-content-sha256:{empty}\nx-amz-date:{now}\n\nhost;x-amz-content-sha256;x-amz-date\n{empty}"
    key = b"AWS4" + os.environ["AWS_SECRET_ACCESS_KEY"].encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    c = http.client.HTTPConnection(host, timeout=60)
    c.request("POST", path + "?uploads=", headers={"x-amz-date": now, "x-amz-content-sha256": empty, "Authorization": (
        f"AWS4-HMAC-SHA256 Credential={os.environ['AWS_ACCESS_KEY_ID']}/{scope}, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}")})
    r = c.getresponse()
    body = r.read().decode()
    if r.status != 200:
        raise SystemExit(f"{r.status} {body}")
    print(re.search("<UploadId>(.*?)</UploadId>", body).group(1))


main()
