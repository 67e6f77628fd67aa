#!/usr/bin/env python3
"""Latency of one viewer while a client floods the server: p50 and p99 before and during each flood.

A separate server serves files that fit into its memory. One viewer (127.0.0.2) requests 64 KiB every
10 ms, every tenth time on a new connection, and verifies every byte. Then a flood starts from 127.0.0.3,
in another process. The output is a Markdown table: the viewer's latencies, and the outcome of the
flood's connections and requests. Server, viewer and flood share the machine's cores, so part of the
viewer's latency is the flood's own work; compare rows, and `before` with `during`.

    scripts/floods.py [--headlong PROGRAM] [--seconds 10] [FLOOD...]
    scripts/floods.py --port PORT [FLOOD...]      # only the floods, of a running server with such files
"""

import argparse
import collections
import multiprocessing
import os
import random
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time

import served

FILE_COUNT, FILE_BYTES = 8, 4 << 20
ASKED_BYTES = 64 << 10
VIEWER, FLOODER = "127.0.0.2", "127.0.0.3"
PORT = 9700
CONFIG = """
roots = ["{dir}/library"]
listen = ["127.0.0.1:{port}"]
admin = "off"
memory = "256MiB"
[log]
access = "off"
"""


def connect(source, receive_bytes=None, timeout=10.0):
    return served.connect(("127.0.0.1", PORT), source, receive_bytes, timeout)


def request(file, start, end):
    return (
        f"GET /title{file}/video.mp4 HTTP/1.1\r\nHost: floods\r\nRange: bytes={start}-{end}\r\n\r\n"
    ).encode()


class Viewer:
    """Requests random ranges of files, one after the other."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.client = None
        self.times, self.failed, self.count = [], collections.Counter(), 0

    def watch(self, seconds):
        self.times, self.failed = [], collections.Counter()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            due = time.monotonic() + 0.01
            began = time.perf_counter()
            try:
                self.ask()
                self.times.append(time.perf_counter() - began)
            except (OSError, ValueError) as error:
                self.failed[type(error).__name__ + " " + str(error)[:60]] += 1
                self.close()
            time.sleep(max(0.0, due - time.monotonic()))

    def ask(self):
        self.count += 1
        if self.count % 10 == 0:
            self.close()
        if self.client is None:
            self.client = connect(VIEWER)
        file = self.random.randrange(FILE_COUNT)
        start = self.random.randrange(FILE_BYTES - ASKED_BYTES)
        self.client.sendall(request(file, start, start + ASKED_BYTES - 1))
        head, body = b"", b""
        while b"\r\n\r\n" not in head:
            head += self.receive()
        head, body = head.split(b"\r\n\r\n", 1)
        if not head.startswith(b"HTTP/1.1 206"):
            raise ValueError(head[:40].decode("latin-1"))
        parts, size = [body], len(body)
        while size < ASKED_BYTES:
            parts.append(self.receive())
            size += len(parts[-1])
        if b"".join(parts) != served.content(file, start, ASKED_BYTES):
            raise ValueError("wrong bytes")

    def receive(self):
        got = self.client.recv(1 << 18)
        if not got:
            raise ValueError("closed")
        return got

    def close(self):
        if self.client:
            self.client.close()
        self.client = None

    def seen(self):
        times = sorted(self.times)
        at = lambda share: times[min(len(times) - 1, int(share * len(times)))] if times else float("nan")
        return len(times), at(0.5) * 1e3, at(0.99) * 1e3, sum(self.failed.values()), dict(self.failed)


# The floods. Each runs until it is stopped, and counts the outcomes.


def connections(count, is_over):
    """As many new connections as possible, without requests, all kept open."""
    held = []
    while not is_over():
        try:
            held.append(connect(FLOODER, timeout=1.0))
            count["opened"] += 1
        except OSError as error:
            count[type(error).__name__] += 1
            time.sleep(0.001)
        if len(held) >= 9000:
            held.pop(0).close()


def churn(count, is_over):
    """Connections that request one byte and are reset at once."""
    while not is_over():
        try:
            client = connect(FLOODER, timeout=1.0)
            client.sendall(request(0, 0, 0))
            served.reset(client)
            count["reset"] += 1
        except OSError as error:
            count[type(error).__name__] += 1


def slow_headers(count, is_over):
    """1000 connections, each with a header that arrives a byte at a time and never ends."""
    held = {}
    while not is_over():
        while len(held) < 1000 and not is_over():
            client = connect(FLOODER, timeout=1.0)
            client.sendall(b"GET /title0/video.mp4 HTTP/1.1\r\nHost: floods\r\nX-Slow: ")
            client.setblocking(False)
            held[client.fileno()] = client
            count["opened"] += 1
        for number, client in list(held.items()):
            try:
                client.send(b"x")
                if client.recv(1024) == b"":
                    raise ConnectionResetError
            except BlockingIOError:
                continue
            except OSError:
                held.pop(number).close()
                count["closed by the server"] += 1
        time.sleep(0.2)


def tiny_windows(count, is_over):
    """500 readers of whole files with the smallest possible buffer, which read a byte from time to time."""
    held = {}
    while not is_over():
        while len(held) < 500 and not is_over():
            client = connect(FLOODER, receive_bytes=1024, timeout=1.0)
            client.sendall(request(len(held) % FILE_COUNT, 0, FILE_BYTES - 1))
            client.setblocking(False)
            held[client.fileno()] = client
            count["asked"] += 1
        for number, client in list(held.items()):
            try:
                if client.recv(1) == b"":
                    raise ConnectionResetError
            except BlockingIOError:
                continue
            except OSError:
                held.pop(number).close()
                count["closed by the server"] += 1
        time.sleep(0.5)


def ranges(count, is_over):
    """20 connections that request single bytes, 50 requests at a time in one packet."""
    held = []
    while not is_over():
        while len(held) < 20:
            held.append(connect(FLOODER, timeout=5.0))
        for client in list(held):
            places = [random.randrange(FILE_BYTES) for _ in range(50)]
            try:
                client.sendall(b"".join(request(place % FILE_COUNT, place, place) for place in places))
                count["asked"] += 50
                client.setblocking(False)
                drain(client)
                client.setblocking(True)
            except OSError as error:
                count[type(error).__name__] += 1
                held.remove(client)
                client.close()


def many_ranges(count, is_over):
    """20 connections that repeatedly request 500 ranges in one request."""
    asked = ",".join(f"{place}-{place}" for place in range(0, 500 * 4000, 4000))
    text = f"GET /title0/video.mp4 HTTP/1.1\r\nHost: floods\r\nRange: bytes={asked}\r\n\r\n".encode()
    held = [connect(FLOODER, timeout=2.0) for _ in range(20)]
    while not is_over():
        for number, client in enumerate(held):
            try:
                client.sendall(text)
                status = client.recv(1 << 16)[9:12].decode("latin-1")
                count["status " + status if status.isdigit() else "more of a reply"] += 1
            except OSError as error:
                count[type(error).__name__] += 1
                client.close()
                held[number] = connect(FLOODER, timeout=2.0)


def sessions(count, is_over):
    """4 connections on which every request belongs to another viewer, and to another title if possible."""
    held = [connect(FLOODER, timeout=2.0) for _ in range(4)]
    asked = 0
    while not is_over():
        for number, client in enumerate(held):
            asked += 1
            text = (
                f"GET /title{asked % FILE_COUNT}/video.mp4 HTTP/1.1\r\nHost: floods\r\n"
                f'CMCD-Session: sid="{asked:032x}"\r\nRange: bytes=0-0\r\n\r\n'
            )
            try:
                client.sendall(text.encode())
                reply = b""
                # The body is one byte.
                while len(reply.partition(b"\r\n\r\n")[2]) < 1:
                    got = client.recv(1 << 16)
                    if not got:
                        raise ConnectionResetError
                    reply += got
                count["status " + reply[9:12].decode("latin-1")] += 1
            except OSError as error:
                count[type(error).__name__] += 1
                client.close()
                held[number] = connect(FLOODER, timeout=2.0)


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def rapid_reset(count, is_over):
    """HTTP/2: streams that are opened and reset in the same packet (CVE-2023-44487)."""
    # GET and http by their indexes in the static table; path and authority as literals.
    path, host = b"/title0/video.mp4", b"floods"
    block = b"\x82\x86\x04" + bytes([len(path)]) + path + b"\x01" + bytes([len(host)]) + host
    while not is_over():
        client = connect(FLOODER, timeout=1.0)
        try:
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
            stream = 1
            while not is_over() and stream < 1 << 30:
                packet = b""
                for _ in range(100):
                    packet += frame(1, 5, stream, block) + frame(3, 0, stream, struct.pack(">I", 8))
                    stream += 2
                client.sendall(packet)
                count["streams reset"] += 100
                client.setblocking(False)
                drain(client)
                client.settimeout(1.0)
        except OSError:
            count["closed by the server"] += 1
        client.close()


def drain(client):
    try:
        while True:
            if client.recv(1 << 16) == b"":
                raise ConnectionResetError
    except BlockingIOError:
        pass


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def head(path, fields=()):
    """A header block without the dynamic table."""
    text = lambda value: bytes([len(value)]) + value
    pairs = [(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"floods"), (b":path", path), *fields]
    return b"".join(b"\0" + text(name) + text(value) for name, value in pairs)


def endless(count, is_over, opening, repeated):
    """64 connections of HTTP/2 that send the same frames without end, and reconnect when closed."""
    poll, held = select.poll(), {}
    while not is_over():
        while len(held) < 64 and not is_over():
            try:
                client = connect(FLOODER, timeout=1.0)
                client.sendall(PREFACE + frame(4, 0, 0, b"") + opening)
            except OSError as error:
                count[type(error).__name__] += 1
                continue
            client.setblocking(False)
            held[client.fileno()] = (client, [0])
            poll.register(client, select.POLLIN | select.POLLOUT)
            count["opened"] += 1
        for number, _ in poll.poll(50):
            client, at = held[number]
            try:
                drain(client)
                sent = client.send(repeated[at[0]:])
                at[0] = (at[0] + sent) % len(repeated)
                count["MB sent"] += sent / 1e6
            except BlockingIOError:
                continue
            except OSError:
                count["closed by the server"] += 1
                poll.unregister(number)
                held.pop(number)[0].close()
    count["MB sent"] = round(count["MB sent"])


def settings_flap(count, is_over):
    """HTTP/2: 100 unread streams on each connection, and an initial window that alternates."""
    streams = b"".join(frame(1, 5, 2 * n + 1, head(b"/title0/video.mp4")) for n in range(100))
    flap = [frame(4, 0, 0, struct.pack(">HI", 4, size)) for size in (0, 65535)]
    endless(count, is_over, streams, b"".join(flap) * 400)


def priorities(count, is_over):
    """HTTP/2: PRIORITY frames without end."""
    endless(count, is_over, b"", frame(2, 0, 1, struct.pack(">IB", 3, 7)) * 2000)


def pings(count, is_over):
    """HTTP/2: PING frames without end."""
    endless(count, is_over, b"", frame(6, 0, 0, b"12345678") * 2000)


def windows(count, is_over):
    """HTTP/2: WINDOW_UPDATE frames without end."""
    endless(count, is_over, b"", frame(8, 0, 0, struct.pack(">I", 1)) * 2000)


def late_resets(count, is_over):
    """HTTP/2: RST_STREAM of a stream that has ended, without end."""
    ended = frame(1, 5, 1, head(b"/nothing"))
    endless(count, is_over, ended, frame(3, 0, 1, struct.pack(">I", 8)) * 2000)


def unread_streams(count, is_over):
    """HTTP/2: 80 connections of 100 requests at random offsets with a window of 0."""
    held, poll = {}, select.poll()
    while not is_over():
        while len(held) < 80 and not is_over():
            client = connect(FLOODER, timeout=1.0)
            ask = lambda n: frame(1, 5, 2 * n + 1, head(
                b"/title%d/video.mp4" % random.randrange(FILE_COUNT),
                [(b"range", b"bytes=%d-" % random.randrange(FILE_BYTES))]))
            client.sendall(PREFACE + frame(4, 0, 0, struct.pack(">HI", 4, 0)) + b"".join(map(ask, range(100))))
            client.setblocking(False)
            held[client.fileno()] = client
            poll.register(client, select.POLLIN)
            count["requests"] += 100
        for number, _ in poll.poll(50):
            try:
                drain(held[number])
            except OSError:
                count["closed by the server"] += 1
                poll.unregister(number)
                held.pop(number).close()


def half_heads(count, is_over):
    """HTTP/2: 1000 connections with HEADERS that do not end."""
    held, poll = {}, select.poll()
    while not is_over():
        while len(held) < 1000 and not is_over():
            client = connect(FLOODER, timeout=1.0)
            client.sendall(PREFACE + frame(4, 0, 0, b"") + frame(1, 1, 1, head(b"/title0/video.mp4")))
            client.setblocking(False)
            held[client.fileno()] = client
            poll.register(client, select.POLLIN)
            count["opened"] += 1
        for number, _ in poll.poll(200):
            try:
                drain(held[number])
            except OSError:
                count["closed by the server"] += 1
                poll.unregister(number)
                held.pop(number).close()


FLOODS = [connections, churn, slow_headers, tiny_windows, ranges, many_ranges, sessions, rapid_reset,
          settings_flap, priorities, pings, windows, late_resets, unread_streams, half_heads]


def flood(which, over, told):
    count = collections.Counter()
    try:
        which(count, over.is_set)
    except OSError as error:
        count["ended by " + type(error).__name__] += 1
    told.put(dict(count))


class Flooding:
    """A flood in a process of its own."""

    def __init__(self, which):
        self.over, self.told = multiprocessing.Event(), multiprocessing.Queue()
        self.process = multiprocessing.Process(target=flood, args=(which, self.over, self.told), daemon=True)
        self.process.start()

    def end_counts(self):
        """Stops it; returns what became of its connections and requests."""
        self.over.set()
        became = self.told.get(timeout=60)
        self.process.join(60)
        return became

    def end(self):
        """Stops it; returns the same as text."""
        became = self.end_counts()
        return ", ".join(f"{number} {what}" for what, number in sorted(became.items()))


def write_title(root, file):
    """A file that the floods request."""
    os.makedirs(f"{root}/title{file}")
    with open(f"{root}/title{file}/video.mp4", "wb") as video:
        video.write(served.content(file, 0, FILE_BYTES))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--headlong", default="target/release/headlong")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--port", type=int, help="flood this port of 127.0.0.1 and start no server")
    parser.add_argument("floods", nargs="*", metavar="FLOOD", help=" ".join(f.__name__ for f in FLOODS))
    asked = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    by_name = {f.__name__: f for f in FLOODS}
    if unknown := set(asked.floods) - set(by_name):
        parser.error(f"{', '.join(unknown)} unknown; use some of {' '.join(by_name)}")
    chosen = [by_name[name] for name in asked.floods] or FLOODS
    if asked.port:
        global PORT  # pylint: disable=global-statement
        PORT = asked.port
        for which in chosen:
            flooding = Flooding(which)
            time.sleep(asked.seconds)
            print(f"{which.__name__}: {flooding.end()}", flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        for file in range(FILE_COUNT):
            write_title(f"{folder}/library", file)
        with open(f"{folder}/headlong.toml", "w", encoding="utf-8") as config:
            config.write(CONFIG.format(dir=folder, port=PORT))
        with open(f"{folder}/output", "w", encoding="utf-8") as output:
            server = subprocess.Popen(
                [asked.headlong, "serve", "--config", f"{folder}/headlong.toml"],
                stdout=output, stderr=output, env={**os.environ, "XDG_STATE_HOME": folder},
            )
        try:
            table(server, chosen, asked.seconds)
        except BaseException:
            with open(f"{folder}/output", encoding="utf-8") as output:
                sys.stderr.write(output.read()[-2000:])
            raise
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(30)


def table(server, chosen, seconds):
    wait_until_ready(server)
    viewer = Viewer(1)
    viewer.watch(3)
    print(
        "| flood | p50 ms before, during | p99 ms before, during | failed | resident MiB | descriptors "
        "| the flood |"
    )
    print("|---|---|---|---|---|---|---|")
    for which in chosen:
        viewer.watch(seconds)
        before = viewer.seen()
        flooding = Flooding(which)
        viewer.watch(seconds)
        during = viewer.seen()
        process = served.of_process(server.pid)
        memory = process["resident_bytes"] >> 20
        # A flood may not have noticed yet that the server has closed some of its connections.
        descriptors = process["descriptors"]
        became = flooding.end()
        name = which.__name__.replace("_", " ")
        print(
            f"| {name} | {before[1]:.2f}, {during[1]:.2f} | {before[2]:.2f}, {during[2]:.2f} "
            f"| {before[3]}, {during[3]} of {during[0] + during[3]} | {memory} | {descriptors} "
            f"| {became} |", flush=True,
        )
        if during[3]:
            print(f"floods: {name}: failures of the viewer: {during[4]}", file=sys.stderr)
        # The server closes the rest of the flood's connections.
        time.sleep(3)


def wait_until_ready(server):
    for _ in range(300):
        if server.poll() is not None:
            sys.exit(f"floods: the server exited with {server.returncode}")
        try:
            connect(VIEWER).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("floods: the server did not become ready")


if __name__ == "__main__":
    main()
