"""An ACME authority (RFC 8555) for one client and http-01: verifies requests with certbot's own
libraries, asks the challenge from one address, and signs for five years.

    python3 acme_authority.py FOLDER ADDRESS PORT

writes the authority's certificate to FOLDER/authority.pem, prints its own port, then one line for
each validation: the name and the outcome.
"""

import datetime
import http.client
import http.server
import json
import sys
import threading

import josepy
from acme import jws
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

folder, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
lock = threading.Lock()
nonces, accounts, orders = set(), [], []
now = datetime.datetime.utcnow()
key = ec.generate_private_key(ec.SECP256R1())
own_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test authority")])


def certificate(subject, public_key, extensions):
    """A certificate of this authority."""
    built = x509.CertificateBuilder(
        own_name, subject, public_key, x509.random_serial_number(),
        now - datetime.timedelta(days=1), now + datetime.timedelta(days=1800))
    for extension in extensions:
        built = built.add_extension(extension, critical=False)
    made = built.sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM)


authority = certificate(own_name, key.public_key(), [x509.BasicConstraints(True, None)])
with open(f"{folder}/authority.pem", "wb") as file:
    file.write(authority)


def problem(kind, detail):
    return 400, {"type": f"urn:ietf:params:acme:error:{kind}", "detail": detail}, {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def url(self, path):
        return f"http://127.0.0.1:{self.server.server_port}{path}"

    def answer(self, status, body, fields=None):
        with lock:
            nonce = josepy.b64encode(f"nonce-{len(nonces)}-{id(self)}".encode()).decode()
            nonces.add(nonce)
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        is_problem = status >= 400
        self.send_header("Content-Type",
                         "application/problem+json" if is_problem else "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Replay-Nonce", nonce)
        for name, value in (fields or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def do_HEAD(self):
        self.answer(200, b"")

    def do_GET(self):
        names = ["newNonce", "newAccount", "newOrder", "revokeCert", "keyChange"]
        self.answer(200, {name: self.url(f"/{name}") for name in names})

    def do_POST(self):
        text = self.rfile.read(int(self.headers["Content-Length"]))
        signed = jws.JWS.json_loads(text.decode())
        head = signed.signature.combined
        nonce = josepy.b64encode(head.nonce).decode()
        with lock:
            is_known = nonce in nonces
            nonces.discard(nonce)
        if not is_known:
            return self.answer(*problem("badNonce", "unknown nonce"))
        account = head.jwk if head.kid is None else accounts[int(head.kid.rsplit("/", 1)[1])]
        if head.url != self.url(self.path) or not signed.verify(account):
            return self.answer(*problem("malformed", "not signed for this URL"))
        payload = json.loads(signed.payload) if signed.payload else None
        self.answer(*self.reply(account, payload))

    def reply(self, account, payload):
        kind, _, number = self.path.lstrip("/").partition("/")
        if kind == "newAccount":
            if account not in accounts:
                accounts.append(account)
            location = self.url(f"/account/{accounts.index(account)}")
            return 201, {"status": "valid"}, {"Location": location}
        if kind == "account":
            return 200, {"status": "valid"}, {}
        if kind == "newOrder":
            names = [of["value"] for of in payload["identifiers"]]
            orders.append({"names": names, "state": ["pending"] * len(names), "chain": None})
            number = len(orders) - 1
            return 201, self.order(number), {"Location": self.url(f"/order/{number}")}
        order, _, index = number.partition("-")
        of = orders[int(order)]
        if kind == "order":
            return 200, self.order(int(order)), {}
        if kind == "authorization":
            name, state = of["names"][int(index)], of["state"][int(index)]
            return 200, {"identifier": {"type": "dns", "value": name}, "status": state,
                         "challenges": [self.challenge(number, state)]}, {}
        if kind == "challenge":
            if payload is not None and of["state"][int(index)] == "pending":
                of["state"][int(index)] = self.validate(of["names"][int(index)], number, account)
            link = f'<{self.url(f"/authorization/{number}")}>;rel="up"'
            return 200, self.challenge(number, of["state"][int(index)]), {"Link": link}
        if kind == "finalize":
            if of["state"] != ["valid"] * len(of["names"]):
                return problem("orderNotReady", "a challenge is not valid")
            self.sign(of, josepy.b64decode(payload["csr"]))
            location = self.url(f"/order/{order}")
            return 200, self.order(int(order)), {"Location": location}
        if kind == "certificate":
            return 200, of["chain"], {}
        return problem("malformed", self.path)

    def order(self, number):
        of = orders[number]
        state = "valid" if of["chain"] else "pending"
        if not of["chain"] and set(of["state"]) == {"valid"}:
            state = "ready"
        if "invalid" in of["state"]:
            state = "invalid"
        reply = {"status": state, "finalize": self.url(f"/finalize/{number}"),
                 "identifiers": [{"type": "dns", "value": name} for name in of["names"]],
                 "authorizations": [self.url(f"/authorization/{number}-{index}")
                                    for index in range(len(of["names"]))]}
        if of["chain"]:
            reply["certificate"] = self.url(f"/certificate/{number}")
        return reply

    def challenge(self, number, state):
        token = josepy.b64encode(f"token {number} of the test authority".encode()).decode()
        return {"type": "http-01", "status": state, "url": self.url(f"/challenge/{number}"),
                "token": token}

    def validate(self, name, number, account):
        token = self.challenge(number, "")["token"]
        thumbprint = josepy.b64encode(account.thumbprint()).decode()
        client = http.client.HTTPConnection(address, port, timeout=10)
        try:
            client.request("GET", f"/.well-known/acme-challenge/{token}", headers={"Host": name})
            reply = client.getresponse()
            is_right = reply.status == 200 and reply.read().decode() == f"{token}.{thumbprint}"
            outcome = "valid" if is_right else "invalid"
            print(name, outcome, reply.status, flush=True)
        except OSError as error:
            outcome = "invalid"
            print(name, outcome, error, flush=True)
        return outcome

    def sign(self, order, request):
        request = x509.load_der_x509_csr(request)
        names = x509.SubjectAlternativeName([x509.DNSName(name) for name in order["names"]])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, order["names"][0])])
        order["chain"] = certificate(subject, request.public_key(), [names]) + authority


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
