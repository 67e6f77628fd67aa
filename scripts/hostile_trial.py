#!/usr/bin/env python3
"""Attacks on a server with its defaults, one after the other, beside viewers: what each does to them.

A server with `memory = "256MiB"` serves titles that fit into it and titles that do not. Two viewers of
address 127.0.0.2 ask while an attack of 127.0.0.3 runs and while it does not, in turns: for 64 KiB that
are in memory, every byte verified, and for 64 KiB at a random offset of a title that is not. A row:
the times of the first, the median wait for the second, resident memory, what the server counted, and
a verdict. `ok`: p99 from memory at most 5 times the one without attack and at most 50 ms, bytes that are
not in memory within a second at the median, nothing failed, resident memory within 1.2 times `memory`
and 64 MiB. `processor` is no attack: two processes that burn processor time.

All run in 8 minutes, on a machine that does nothing else. The exit code is 1 if a row is not ok.

    scripts/hostile_trial.py [--headlong PROGRAM] [--folder FOLDER] [--seconds 5] [--rounds 2] [ATTACK...]
"""

import argparse
import collections
import os
import random
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import floods
import served

PORT, ADMIN = 9704, 9705
COLD_FILES, COLD_BYTES = 16, 48 << 20
MEMORY = 256 << 20
NO_WINDOW = struct.pack(">HI", 4, 0)
# Names in `headlong_connections_cut_total` and of counters of refusals.
COUNTED = ("flood", "send-timeout", "header-timeout", "address_refusals", "request_memory_refusals", "limit_waits")


def cold_path(file):
    return f"/cold{file}/video.mp4"


def cold_start():
    return random.randrange(COLD_BYTES - (1 << 20))


# Attacks beside those of floods.py. Each runs until it is stopped, and counts the outcomes.


def processor(count, is_over):
    """No attack: processor time that the server lacks."""
    child = os.fork()
    while not is_over():
        sum(range(10_000))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def settings(count, is_over):
    """HTTP/2: SETTINGS frames without end."""
    floods.endless(count, is_over, b"", floods.frame(4, 0, 0, struct.pack(">HI", 4, 70_000)) * 2000)


def hold(count, is_over, connect_all, wanted):
    """Keeps `wanted` connections open that read nothing; those that the server closes are opened anew."""
    held, poll = {}, select.poll()
    while not is_over():
        for _ in range(min(200, wanted - len(held))):
            try:
                client = connect_all()
            except OSError as error:
                count[type(error).__name__] += 1
                break
            held[client.fileno()] = client
            poll.register(client, select.POLLRDHUP)
            count["opened"] += 1
        for number, _ in poll.poll(50):
            count["closed by the server"] += 1
            poll.unregister(number)
            held.pop(number).close()


def pinned_streams(count, is_over):
    """HTTP/2: 80 connections of 100 requests for bytes that are not in memory, with a window of 0."""

    def opened():
        client = floods.connect(floods.FLOODER, timeout=1.0)
        ask = lambda n: floods.frame(1, 5, 2 * n + 1, floods.head(
            cold_path(random.randrange(COLD_FILES - 1)).encode(), [(b"range", b"bytes=%d-" % cold_start())]))
        client.sendall(floods.PREFACE + floods.frame(4, 0, 0, NO_WINDOW) + b"".join(map(ask, range(100))))
        return client

    hold(count, is_over, opened, 80)


def pinned_replies(count, is_over):
    """HTTP/1.1: 6000 connections that ask for bytes that are not in memory, and read nothing."""

    def opened():
        client = floods.connect(floods.FLOODER, receive_bytes=1024, timeout=0.3)
        path, start = cold_path(random.randrange(COLD_FILES - 1)), cold_start()
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: h\r\nRange: bytes={start}-\r\n\r\n".encode())
        return client

    hold(count, is_over, opened, 6000)


def many_requests(count, is_over, block):
    """HTTP/2: 64,000 requests of 8 addresses with a window of 0."""
    sources = [f"127.0.0.{120 + n}" for n in range(8)]

    def opened():
        client = floods.connect(random.choice(sources), timeout=1.0)
        asks = (floods.frame(1, 5, 2 * n + 1, block(n == 0)) for n in range(100))
        client.sendall(floods.PREFACE + floods.frame(4, 0, 0, NO_WINDOW) + b"".join(asks))
        return client

    hold(count, is_over, opened, 640)


def table_requests(count, is_over):
    """Each 91 bytes on the wire: a field of 3,800 bytes in the HPACK table, named three times."""
    value = b"a" * 3800
    literal = b"\x40\x01x\x7f" + bytes([(len(value) - 127) % 128 + 128, (len(value) - 127) // 128]) + value
    path = cold_path(0).encode()

    def block(is_first):
        at = b"bytes=%d-" % cold_start()
        base = b"\x82\x86\x01\x01h\x04" + bytes([len(path)]) + path
        fields = literal + b"\xbe" * 2 if is_first else b"\xbe" * 3
        return base + fields + b"\0\x05range" + bytes([len(at)]) + at

    many_requests(count, is_over, block)


def field_requests(count, is_over):
    """Each with twelve fields of 100 bytes."""
    fields = [(b"x%02d" % n, b"y" * 100) for n in range(12)]

    def block(_is_first):
        at = (b"range", b"bytes=%d-" % cold_start())
        return floods.head(cold_path(0).encode(), [*fields, at])

    many_requests(count, is_over, block)


ATTACKS = [processor, floods.settings_flap, settings, floods.priorities, floods.pings, floods.windows,
           floods.late_resets, floods.rapid_reset, floods.half_heads, pinned_streams, pinned_replies,
           table_requests, field_requests, floods.connections, floods.churn, floods.slow_headers]


class ColdViewer:
    """Requests ranges of a title that no attack asks for, one after the other, on new connections."""

    def __init__(self):
        self.times, self.failed, self.phase = collections.defaultdict(list), collections.Counter(), None
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while True:
            phase, began = self.phase, time.perf_counter()
            if phase:
                start = cold_start()
                try:
                    self.ask(start)
                except (OSError, ValueError) as error:
                    self.failed[f"{phase}: {type(error).__name__} {str(error)[:60]}"] += 1
                self.times[phase].append(time.perf_counter() - began)
            time.sleep(0.1)

    def ask(self, start):
        file = COLD_FILES - 1
        request = urllib.request.Request(
            f"http://127.0.0.1:{PORT}{cold_path(file)}",
            headers={"Range": f"bytes={start}-{start + floods.ASKED_BYTES - 1}"})
        with urllib.request.urlopen(request, timeout=30) as reply:
            if reply.read() != served.content(100 + file, start, floods.ASKED_BYTES):
                raise ValueError("wrong bytes")

    def median(self, phase):
        times = sorted(self.times[phase])
        return times[len(times) // 2] if times else float("nan")


def counters():
    """What the server has counted of connections that it cut or refused."""
    with urllib.request.urlopen(f"http://127.0.0.1:{ADMIN}/metrics", timeout=30) as page:
        lines = page.read().decode().splitlines()
    found = {}
    for line in lines:
        name, _, value = line.rpartition(" ")
        for counted in COUNTED:
            if not line.startswith("#") and counted in name:
                found[counted] = found.get(counted, 0) + int(float(value))
    return found


def percentile(times, share):
    times = sorted(times)
    return times[min(len(times) - 1, int(share * len(times)))] * 1e3 if times else float("nan")


def row(server, attack, seconds, rounds):
    hot, cold = floods.Viewer(1), ColdViewer()
    times, failed = {"before": [], "during": []}, collections.Counter()
    became, most, before = collections.Counter(), 0, counters()
    resident = lambda: served.of_process(server.pid)["resident_bytes"] >> 20
    rested = resident()
    for _ in range(rounds):
        for phase in ("before", "during"):
            flooding = floods.Flooding(attack) if phase == "during" else None
            if flooding:
                time.sleep(1)
            cold.phase = phase
            hot.watch(seconds)
            cold.phase = None
            times[phase] += hot.times
            failed.update({f"{phase}: {what}": number for what, number in hot.failed.items()})
            if flooding:
                most = max(most, resident())
                became.update(flooding.end_counts())
        # The server closes the connections of the attack.
        time.sleep(2)
    hot.close()
    failed.update(cold.failed)
    after = counters()
    counted = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
    p99 = [percentile(times[phase], 0.99) for phase in ("before", "during")]
    waits = [cold.median(phase) for phase in ("before", "during")]
    wrong = [what for what, is_wrong in (
        ("p99", not p99[1] <= min(50, 5 * p99[0])),
        ("not in memory", not waits[1] <= 1),
        ("failures", any(what.startswith("during") for what in failed)),
        ("memory", most > (MEMORY * 6 // 5 >> 20) + 64),
    ) if is_wrong]
    show = lambda counts: ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))
    name = attack.__name__.replace("_", " ")
    print(
        f"| {name} | {percentile(times['before'], 0.5):.2f}, {percentile(times['during'], 0.5):.2f} "
        f"| {p99[0]:.2f}, {p99[1]:.2f} | {waits[0] * 1e3:.0f}, {waits[1] * 1e3:.0f} "
        f"| {rested}, {most}, {resident()} | {show(counted)} | {show(became)} "
        f"| {', '.join(wrong) or 'ok'} |", flush=True)
    if failed:
        print(f"hostile_trial: {name}: {show(failed)}", file=sys.stderr)
    return not wrong


def shared_segments(program, folder):
    """Masters that all name the same 400,000 segments: memory and time until a server has scanned them."""
    library = f"{folder}/shared"
    os.makedirs(library)
    for name in range(4):
        with open(f"{library}/p{name}.m3u8", "w", encoding="ascii") as playlist:
            playlist.write("#EXTM3U\n#EXT-X-TARGETDURATION:1\n")
            playlist.writelines(f"#EXTINF:1,\n{name}-{n}.ts\n" for n in range(100_000))
    for name in range(1000):
        with open(f"{library}/m{name}.m3u8", "w", encoding="ascii") as playlist:
            playlist.write("#EXTM3U\n")
            playlist.writelines(f"#EXT-X-STREAM-INF:BANDWIDTH=1\np{n}.m3u8\n" for n in range(4))
    with Running(program, folder, library) as server:
        began, most, hot = time.monotonic(), 0, []
        while time.monotonic() < began + 60:
            most = max(most, served.of_process(server.process.pid)["resident_bytes"] >> 20)
            asked = time.perf_counter()
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/p0.m3u8", timeout=30) as reply:
                reply.read()
            hot.append(time.perf_counter() - asked)
            if "scanned the roots" in server.log():
                break
            time.sleep(0.05)
        took = time.monotonic() - began
        with urllib.request.urlopen(f"http://127.0.0.1:{ADMIN}/library.json", timeout=60) as page:
            asked, size = time.monotonic(), len(page.read())
        listed = time.monotonic() - asked
    is_ok = most < 300 and took < 5
    print(f"\nshared segments: scanned in {took:.1f} s with {most} MiB resident; meanwhile a playlist took at most "
          f"{max(hot) * 1e3:.0f} ms; /library.json: {size >> 20} MiB in {listed:.1f} s: {'ok' if is_ok else 'NOT OK'}")
    return is_ok


class Running:
    """A server of a library with the defaults but for its memory."""

    def __init__(self, program, folder, library):
        self.output = open(f"{folder}/output", "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [program, "serve", library, "--listen", f"127.0.0.1:{PORT}", "--admin", f"127.0.0.1:{ADMIN}",
             "--memory", f"{MEMORY >> 20}MiB"],
            stdout=self.output, stderr=subprocess.STDOUT, env={**os.environ, "XDG_STATE_HOME": folder})

    def log(self):
        with open(self.output.name, encoding="utf-8", errors="replace") as text:
            return text.read(100_000)

    def __enter__(self):
        floods.wait_until_ready(self.process)
        return self

    def __exit__(self, *_error):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.output.close()


def read_all(paths):
    """Fills the memory of the server, so that it does not grow for other reasons."""
    for path in paths:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}{path}", timeout=60) as reply:
            while reply.read(1 << 20):
                pass


def main():
    by_name = {attack.__name__: attack for attack in ATTACKS}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--headlong", default="target/release/headlong")
    parser.add_argument("--folder", help="for 800 MB of titles; a disk, so that reads of titles take their time")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=" ".join([*by_name, "shared_segments"]))
    asked = parser.parse_args()
    if unknown := set(asked.attacks) - {*by_name, "shared_segments"}:
        parser.error(f"{', '.join(unknown)} unknown; use some of {' '.join(by_name)}")
    chosen = [by_name[name] for name in asked.attacks if name in by_name] if asked.attacks else ATTACKS
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    floods.PORT = PORT
    if asked.folder:
        os.makedirs(asked.folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        library, is_ok = f"{folder}/library", True
        for file in range(floods.FILE_COUNT):
            floods.write_title(library, file)
        for file in range(COLD_FILES):
            os.makedirs(f"{library}/cold{file}")
            with open(f"{library}{cold_path(file)}", "wb") as video:
                video.write(served.content(100 + file, 0, COLD_BYTES))
        print("| attack | p50 ms before, during | p99 ms before, during | not in memory: ms before, during "
              "| resident MiB before, during, after | counted | the attack | verdict |")
        print("|---|---|---|---|---|---|---|---|")
        if chosen:
            with Running(asked.headlong, folder, library) as server:
                read_all([cold_path(file) for file in range(COLD_FILES - 1)])
                for attack in chosen:
                    is_ok &= row(server.process, attack, asked.seconds, asked.rounds)
        if not asked.attacks or "shared_segments" in asked.attacks:
            is_ok &= shared_segments(asked.headlong, folder)
    sys.exit(0 if is_ok else 1)


if __name__ == "__main__":
    main()
