"""Viewers of a soak: each sends one request after the other, verifies every byte, and reports each request.

All are paced, so that a soak can run beside other work: `Pace` is the bytes per second of one viewer.
"""

import json
import os
import random
import socket
import ssl
import subprocess
import threading
import time

import served
from verdict import BELIEVED, BELIEVED_EDGE, Body, diagnosis

MIB = 1 << 20
PATIENCE = 45.0
# Prefix under which an edge serves the titles of its origin.
FAR = "/far"


class Failure(Exception):
    """A request that was not answered correctly; `kind` is one word or two. `opened` is the time at which
    its connection was opened, if it had been used before and was closed without an answer."""

    def __init__(self, kind, detail="", opened=None):
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind, self.opened = kind, opened


class Wrong(Exception):
    """A reply that no trouble can explain."""


class Desk:
    """Collects the reports of all viewers: counts of requests and bytes, and failures."""

    def __init__(self, history, troubles, tell):
        self.history, self.troubles, self.tell = history, troubles, tell
        self.lock = threading.Lock()
        self.bytes, self.whole, self.explained, self.by_kind, self.by_trouble = 0, 0, 0, {}, {}
        self.unexplained, self.wrong, self.by_viewer = [], [], {}
        self.tags = {}

    def took(self, count):
        with self.lock:
            self.bytes += count

    def was_whole(self, viewer):
        with self.lock:
            self.whole += 1
            self.by_viewer[viewer] = self.by_viewer.get(viewer, 0) + 1

    def failed(self, ask, failure):
        until = time.monotonic()
        # A reused connection may lead to a process that has ended since.
        since = min(ask.began, failure.opened or ask.began)
        name = self.troubles.explaining(ask.server.name, ask.root, since, until, failure.kind)
        if name is None and ask.is_far and failure.kind != "refused":
            # A trouble of the origin may affect the edge for as long as the edge relies on it.
            since = ask.began - BELIEVED_EDGE
            name = self.troubles.explaining("main", ask.root, since, until, failure.kind)
        if name is None and ask.may_fail_by_change(failure.kind):
            name = "the title changed"
        with self.lock:
            self.by_kind[failure.kind] = self.by_kind.get(failure.kind, 0) + 1
            if name:
                self.explained += 1
                key = f"{name}: {failure.kind}"
                self.by_trouble[key] = self.by_trouble.get(key, 0) + 1
            else:
                self.unexplained.append(f"{ask}: {failure}")
        if name is None:
            self.tell("unexplained", what=f"{ask}: {failure}")

    def was_wrong(self, ask, what):
        with self.lock:
            self.wrong.append(f"{ask}: {what}")
        self.tell("wrong", what=f"{ask}: {what}")

    def broke(self, what):
        """Reports a missing event, or an error of the soak itself."""
        with self.lock:
            self.wrong.append(what)
        self.tell("wrong", what=what)

    def tag_is(self, tag, keys):
        """A strong tag of a path names one version permanently."""
        with self.lock:
            known = self.tags.setdefault(tag, keys)
            both = known & keys
            self.tags[tag] = both or known
            if len(self.tags) > 100_000:
                self.tags.clear()
        return bool(both)


class Ask:
    """One request for bytes of a path."""

    def __init__(self, server, version, is_far, start=None, end=None):
        self.server, self.is_far = server, is_far
        self.path, self.root = version.path, version.root
        self.start, self.end = start, end
        self.began = time.monotonic()

    def __str__(self):
        span = "" if self.start is None else f" {self.start}-{self.end - 1}"
        age = time.monotonic() - self.began
        return f"{self.server.name} {FAR if self.is_far else ''}{self.path}{span} after {age:.1f} s"

    def target(self):
        return (FAR if self.is_far else "") + self.path

    def since(self, troubles):
        """The earliest time whose version may still be served."""
        if not self.is_far:
            return self.began - BELIEVED
        # While its origin is unreachable an edge serves its stored version, however old: it
        # revalidates on request.
        is_ill = troubles.explaining("main", self.root, self.began - BELIEVED_EDGE, time.monotonic())
        return 0.0 if is_ill else self.began - BELIEVED_EDGE

    def may_fail_by_change(self, kind):
        """A removed title is not found, and a shorter one lacks the range; and an edge ends replies that need
        more of a version that its origin no longer has."""
        kinds = {"status 404", "status 416"}
        if self.is_far:
            kinds |= {"status 502", "status 503", "cut short"}
        since = self.since(self.desk.troubles)
        return kind in kinds and self.desk.history.changed(self.path, since, time.monotonic())


class Viewer:
    """One viewer; `style` is the method that it repeats."""

    def __init__(self, desk, titles, server, style, seed, is_far=False, pace=600_000):
        self.desk, self.titles, self.server, self.is_far, self.pace = desk, titles, server, is_far, pace
        self.style, self.random = style, random.Random(seed)
        self.name = ("far " if is_far else "") + style + (" TLS" if server.is_tls else "")
        self.client, self.rest, self.tag, self.session = None, b"", None, None

    def watch(self, is_over):
        """Sends requests until stopped, and continues after failures."""
        while not is_over():
            self.session = f"{self.random.getrandbits(64):016x}"
            try:
                getattr(self, self.style)(is_over)
            except (Failure, Wrong):
                self.close()
                time.sleep(0.3 + self.random.random())
            except Exception as error:  # pylint: disable=broad-except
                # An error of the soak itself must not pass for an idle viewer.
                self.close()
                self.desk.broke(f"viewer {self.name}: {type(error).__name__} {error}")
                time.sleep(5)

    def some(self):
        """A title of the server: an edge has one disk of its own, and pulls the other titles."""
        return self.titles.some(None if self.is_far else self.server.roots)

    # Styles of viewers.

    def player(self, is_over):
        """Plays a title range by range on one connection, and seeks sometimes."""
        version = self.some()
        place = 0
        for _ in range(self.random.randrange(5, 60)):
            now = self.titles.known(version.path)
            if is_over() or now is None or place >= now.size:
                break
            end = min(now.size, place + self.random.choice([128, 256, 512]) * 1024)
            self.ask(now, place, end)
            place = end if self.random.random() < 0.9 else self.random.randrange(now.size)
        if self.random.random() < 0.3:
            self.close()

    def whole(self, is_over):
        """Takes a whole title in one reply, slowly."""
        self.close()
        self.ask(self.some())

    def impatient(self, is_over):
        """Starts a title without pacing, and soon leaves, by a close or a reset."""
        self.close()
        pace, self.pace = self.pace, 40_000_000
        try:
            self.ask(self.some(), leave_after=self.random.randrange(1, 3 * MIB))
        finally:
            self.pace = pace
        time.sleep(0.5 + 2 * self.random.random())

    def seeker(self, is_over):
        """Ranges of all lengths at random offsets, some with the tag of an earlier reply."""
        version = self.some()
        self.tag = None
        for _ in range(20):
            now = self.titles.known(version.path)
            if is_over() or now is None:
                return
            start = self.random.randrange(now.size)
            length = min(now.size - start, int(self.random.paretovariate(0.5) * 100), MIB)
            self.ask(now, start, start + length, if_range=self.tag)
            time.sleep(0.1 * self.random.random())

    def h2(self, is_over):
        """Some ranges of a title over one HTTP/2 connection, by curl; without TLS only one range, because curl
        7.88 does not reuse such a connection."""
        version = self.some()
        asks, options, told = [], ["curl"], "%{json}\\t%header{content-range}\\n"
        for number in range(6 if self.server.is_tls else 1):
            start = self.random.randrange(version.size)
            end = min(version.size, start + self.random.randrange(1, MIB))
            ask = self._ask(version, start, end)
            place = f"{self.server.folder}/{threading.get_ident()}-{number}"
            options += ["--next"] if asks else []
            options += ["--silent", "--max-time", str(int(PATIENCE)), "--limit-rate", str(self.pace)]
            options += ["--insecure", "--http2"] if self.server.is_tls else ["--http2-prior-knowledge"]
            options += ["--range", f"{start}-{end - 1}", "--output", place, "--write-out", told]
            scheme = "https" if self.server.is_tls else "http"
            options += [f"{scheme}://127.0.0.1:{self.server.port}{ask.target()}"]
            asks.append((ask, place))
        try:
            done = subprocess.run(options, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
            for (ask, place), line in zip(asks, done.stdout.splitlines(), strict=True):
                reply, _, content_range = line.partition("\t")
                self.judge_curl(ask, place, json.loads(reply), content_range)
        finally:
            for _, place in asks:
                if os.path.exists(place):
                    os.remove(place)
        time.sleep(0.5 * self.random.random())

    def judge_curl(self, ask, place, reply, content_range):
        try:
            if reply["exitcode"] != 0:
                kind = {7: "refused", 28: "timed out"}.get(reply["exitcode"], "cut short")
                raise Failure(kind, f"curl: {reply['errormsg']}")
            if reply["http_code"] != 206:
                raise Failure(f"status {reply['http_code']}")
            if reply["http_version"] != "2":
                raise Wrong(f"HTTP {reply['http_version']}")
            with open(place, "rb") as file:
                data = file.read()
            fields = {"content-length": str(len(data)), "content-range": content_range}
            _, start, size = self._promised(ask, 206, fields, None)
            self.take(ask, Body([v for v in self.candidates(ask) if v.size == size], start), data)
            self.desk.was_whole(self.name)
        except Failure as failure:
            self.desk.failed(ask, failure)
        except Wrong as wrong:
            self.desk.was_wrong(ask, wrong)

    # Helpers of the styles.

    def _ask(self, version, start=None, end=None):
        ask = Ask(self.server, version, self.is_far, start, end)
        ask.desk = self.desk
        return ask

    def candidates(self, ask):
        since = ask.since(self.desk.troubles)
        return self.desk.history.there(ask.path, since, time.monotonic())

    def ask(self, version, start=None, end=None, leave_after=None, if_range=None):
        ask = self._ask(version, start, end)
        try:
            self._exchange(ask, leave_after, if_range)
            self.desk.was_whole(self.name)
        except Failure as failure:
            self.desk.failed(ask, failure)
            raise
        except Wrong as wrong:
            self.desk.was_wrong(ask, wrong)
            raise
        except (ConnectionRefusedError, ConnectionAbortedError) as error:
            failure = Failure("refused", str(error))
            self.desk.failed(ask, failure)
            raise failure from error
        except TimeoutError as error:
            failure = Failure("timed out")
            self.desk.failed(ask, failure)
            raise failure from error
        except OSError as error:
            failure = Failure("cut short", f"{type(error).__name__} {error}")
            self.desk.failed(ask, failure)
            raise failure from error

    def _exchange(self, ask, leave_after, if_range):
        text = f"GET {ask.target()} HTTP/1.1\r\nHost: soak\r\nCMCD-Session: sid=\"{self.session}\"\r\n"
        if ask.start is not None:
            text += f"Range: bytes={ask.start}-{ask.end - 1}\r\n"
        if if_range:
            text += f"If-Range: {if_range}\r\n"
        status, fields = self.head(text.encode() + b"\r\n")
        if status not in (200, 206):
            self.close()
            raise Failure(f"status {status}")
        if if_range and status == 206 and fields.get("etag") != if_range:
            raise Wrong(f"a range of {fields.get('etag')} for a client that has {if_range}")
        length, start, size = self._promised(ask, status, fields, if_range)
        body = Body([v for v in self.candidates(ask) if v.size == size], start)
        if not body.candidates:
            raise Wrong(f"a length of {size}, which no version had at that time")
        while body.length < length:
            data = self._receive(length - body.length)
            self.take(ask, body, data)
            if leave_after is not None and body.length >= leave_after:
                if self.random.random() < 0.5:
                    served.reset(self.client)
                    self.client = None
                self.close()
                return
            time.sleep(len(data) / self.pace)
        tag = fields.get("etag", "")
        if tag.startswith('"'):
            if body.length >= 64 and not self.desk.tag_is((ask.path, tag), {v.key for v in body.candidates}):
                raise Wrong(f"another version under the tag {tag}")
            self.tag = tag
        if fields.get("connection", "").lower() == "close":
            self.close()

    def _promised(self, ask, status, fields, if_range):
        """Number of body bytes, their offset, and the length of the version."""
        length = int(fields.get("content-length", -1))
        if length < 0:
            raise Wrong("no length")
        if status == 200:
            if ask.start is not None and not if_range:
                raise Wrong("the whole title instead of a range")
            return length, 0, length
        span, _, size = fields.get("content-range", "").removeprefix("bytes ").partition("/")
        first, _, last = span.partition("-")
        if ask.start is None or not (first.isdigit() and last.isdigit() and size.isdigit()):
            raise Wrong(f"Content-Range: {fields.get('content-range')}")
        end = min(ask.end, int(size))
        if (int(first), int(last) + 1, length) != (ask.start, end, end - ask.start):
            raise Wrong(f"bytes {span}/{size}, {length} of them")
        return length, ask.start, int(size)

    def take(self, ask, body, data):
        self.desk.took(len(data))
        place = body.at
        if not body.take(data):
            # A title may have got a new version since the start of the reply.
            raise Wrong(diagnosis(self.desk.history.all_of(ask.path), place, data))

    def head(self, text):
        if self.client is None:
            self.opened = time.monotonic()
            self.client = served.connect(self.server.address, timeout=PATIENCE)
            self.rest = b""
            if self.server.is_tls:
                context = ssl.create_default_context()
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                self.client = context.wrap_socket(self.client)
        self.client.sendall(text)
        head = b""
        while b"\r\n\r\n" not in head:
            got = self.client.recv(1 << 16)
            if not got:
                raise Failure("cut short", "closed before a reply", self.opened)
            head += got
        head, self.rest = head.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        fields = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:])}
        return int(lines[0][9:12]), fields

    def _receive(self, most):
        if self.rest:
            data, self.rest = self.rest[:most], self.rest[most:]
            return data
        data = self.client.recv(min(most, 1 << 17))
        if not data:
            raise Failure("cut short", "closed within the body")
        return data

    def close(self):
        if self.client is not None:
            try:
                self.client.close()
            except OSError:
                pass
        self.client, self.rest = None, b""


def certificate_of(address):
    """The certificate of a server, in DER."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(address, timeout=10) as plain:
        with context.wrap_socket(plain) as client:
            return client.getpeercert(binary_form=True)
