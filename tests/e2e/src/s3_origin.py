"""An S3 bucket that verifies AWS Signature Version 4 in the arguments of the URL, written from its
specification ("Authenticating Requests: Using Query Parameters") with hashlib and hmac alone.

Arguments: folder, seconds by which its clock is ahead, key id, secret, region. The bucket is `bucket`,
in path style. It prints its port, and then a line for each request: method, path, status, reason.
"""
import calendar, hashlib, hmac, http.server, os, re, sys, time
from urllib.parse import parse_qsl, quote, unquote, urlsplit

FOLDER, AHEAD, KEY, SECRET, REGION = sys.argv[1], int(sys.argv[2]), *sys.argv[3:6]


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def judge(method, target, headers):
    """None, or the reason for a refusal."""
    url = urlsplit(target)
    said = dict(parse_qsl(url.query, keep_blank_values=True))
    if said.get("X-Amz-Algorithm") != "AWS4-HMAC-SHA256":
        return "AccessDenied"
    scope = said["X-Amz-Credential"].split("/")
    stamp = said["X-Amz-Date"]
    if scope[0] != KEY:
        return "InvalidAccessKeyId"
    if scope[1:] != [stamp[:8], REGION, "s3", "aws4_request"]:
        return "AuthorizationQueryParametersError"
    begins = calendar.timegm(time.strptime(stamp, "%Y%m%dT%H%M%SZ"))
    now = time.time() + AHEAD
    if now > begins + int(said["X-Amz-Expires"]) or now < begins - 900:
        return "RequestTimeTooSkewed"
    names = said["X-Amz-SignedHeaders"].split(";")
    given = {name.lower(): value.strip() for name, value in headers.items()}
    pairs = sorted(
        (quote(name, safe="-_.~"), quote(value, safe="-_.~"))
        for name, value in said.items()
        if name != "X-Amz-Signature"
    )
    canonical = "\n".join(
        [
            method,
            quote(unquote(url.path), safe="/-_.~"),
            "&".join(f"{name}={value}" for name, value in pairs),
            "".join(f"{name}:{given[name]}\n" for name in names),
            ";".join(names),
            "UNSIGNED-PAYLOAD",
        ]
    )
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, "/".join(scope[1:]), digest])
    key = mac(mac(mac(mac(("AWS4" + SECRET).encode(), scope[1]), scope[2]), scope[3]), scope[4])
    right = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return None if hmac.compare_digest(right, said["X-Amz-Signature"]) else "SignatureDoesNotMatch"


class Bucket(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def date_time_string(self, timestamp=None):
        return super().date_time_string(time.time() + AHEAD)

    def log_message(self, *_):
        pass

    def say(self, status, reason, body=b"", fields=()):
        line = f"{self.command} {urlsplit(self.path).path} {status} {reason}\n"
        os.write(1, line.encode())  # One call for each line: threads of other requests print as well.
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)) if body is not None else "0")
        self.end_headers()
        if self.command == "GET" and body:
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        reason = judge(self.command, self.path, self.headers)
        if reason:
            return self.say(403, reason, f"<Error><Code>{reason}</Code></Error>".encode())
        path = unquote(urlsplit(self.path).path)
        file = os.path.join(FOLDER, path.removeprefix("/bucket/"))
        if not path.startswith("/bucket/") or not os.path.isfile(file):
            return self.say(404, "NoSuchKey")
        with open(file, "rb") as opened:
            data = opened.read()
        tag = '"' + hashlib.md5(data).hexdigest() + '"'
        fields = [("ETag", tag), ("Accept-Ranges", "bytes")]
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        condition = self.headers.get("If-Range", tag)
        if not span or condition != tag or self.command == "HEAD":
            return self.say(200, "OK", data, fields)
        first, last = int(span[1]), min(int(span[2]), len(data) - 1)
        fields.append(("Content-Range", f"bytes {first}-{last}/{len(data)}"))
        self.say(206, "OK", data[first : last + 1], fields)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
print(server.server_address[1], flush=True)
server.serve_forever()
