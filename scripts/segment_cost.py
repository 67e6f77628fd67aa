#!/usr/bin/env python3
"""Processor time of the server for segments of a packaged title, and for ranges of the same length of
its file, alternately. All bytes are in memory; segments of HLS have video and audio, those of DASH one
of both.

    scripts/segment_cost.py [--headlong PROGRAM] [--rounds 9] [--requests 400] [FILE.mp4]
"""

import argparse
import http.client
import os
import statistics
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
import xml.etree.ElementTree

PORT = 9706
BASE = f"http://127.0.0.1:{PORT}"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--headlong", default="target/release/headlong")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=400, help="of each kind in a round")
    parser.add_argument("file", nargs="?", default="sample/test-card.mp4")
    return parser.parse_args()


def processor_seconds(process):
    """Time on a processor of all threads; the server ends none of them while it serves."""
    spent = 0
    for thread in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{thread}/schedstat", encoding="ascii") as file:
            spent += int(file.read().split()[0])
    return spent / 1e9


def text_of(url):
    with urllib.request.urlopen(url, timeout=30) as reply:
        return reply.read().decode()


def lines_of(playlist):
    """URLs that a playlist names."""
    lines = text_of(playlist).splitlines()
    return [urllib.parse.urljoin(playlist, line) for line in lines if line and not line.startswith("#")]


def hls_segments(title):
    return lines_of(lines_of(f"{title}/master.m3u8")[0])


def dash_segments(title, kind):
    """Segments of the first representation of a kind, by its SegmentTemplate with a SegmentTimeline."""
    space = "{urn:mpeg:dash:schema:mpd:2011}"
    manifest = xml.etree.ElementTree.fromstring(text_of(f"{title}/manifest.mpd"))
    for of_kind in manifest.iter(f"{space}AdaptationSet"):
        if kind not in (of_kind.get("contentType"), (of_kind.get("mimeType") or "").split("/")[0]):
            continue
        template = next(of_kind.iter(f"{space}SegmentTemplate"))
        count = sum(1 + int(one.get("r", "0")) for one in template.iter(f"{space}S"))
        first = int(template.get("startNumber", "1"))
        name = template.get("media").replace("$RepresentationID$", next(of_kind.iter(f"{space}Representation")).get("id"))
        bases = [base.text for base in manifest.iter(f"{space}BaseURL")]
        base = urllib.parse.urljoin(f"{title}/manifest.mpd", bases[0]) if bases else f"{title}/manifest.mpd"
        return [urllib.parse.urljoin(base, name.replace("$Number$", str(first + n))) for n in range(count)]
    raise SystemExit(f"segment_cost: {title}/manifest.mpd has no {kind}")


class Client:
    """Sends requests on one connection."""

    def __init__(self):
        self.connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)
        self.buffer = bytearray(1 << 20)

    def get(self, path, headers):
        """The number of bytes of the reply."""
        self.connection.request("GET", path, headers=headers)
        reply = self.connection.getresponse()
        if reply.status not in (200, 206):
            raise SystemExit(f"segment_cost: {path}: status {reply.status}")
        size = 0
        while count := reply.readinto(self.buffer):
            size += count
        return size


def main():
    asked = arguments()
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/library")
        os.link(asked.file, f"{folder}/library/film.mp4") if os.stat(asked.file).st_dev == os.stat(folder).st_dev \
            else subprocess.run(["cp", asked.file, f"{folder}/library/film.mp4"], check=True)
        with open(f"{folder}/headlong.toml", "w", encoding="ascii") as config:
            config.write('package = "on"\n[log]\naccess = "off"\n[limits]\nrequests_per_connection_max = 1000000000\n')
        server = subprocess.Popen(
            [asked.headlong, "serve", f"{folder}/library", "--config", f"{folder}/headlong.toml",
             "--listen", f"127.0.0.1:{PORT}", "--admin", "off", "--memory", "512MiB"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            measure(asked, server)
        finally:
            server.terminate()
            server.wait(30)


def measure(asked, server):
    for _ in range(200):
        try:
            hls = hls_segments(f"{BASE}/film.mp4")
            break
        except OSError:
            if server.poll() is not None:
                raise SystemExit("segment_cost: the server has ended") from None
            time.sleep(0.1)
    else:
        raise SystemExit("segment_cost: the server does not answer")
    client, whole = Client(), os.path.getsize(asked.file)
    kinds = {"HLS, video and audio": hls, "DASH, video": dash_segments(f"{BASE}/film.mp4", "video"),
             "DASH, audio": dash_segments(f"{BASE}/film.mp4", "audio")}
    print("| segments | count | bytes each | us of processor a segment | a range | ratio, median of rounds | from, to |")
    print("|---|---|---|---|---|---|---|")
    for kind, urls in kinds.items():
        paths = [urllib.parse.urlsplit(url).path for url in urls]
        sizes = [client.get(path, {}) for path in paths]
        starts = [sum(sizes[:n]) % max(1, whole - max(sizes)) for n in range(len(sizes))]
        requests = {
            "segment": [(path, {}) for path in paths],
            "range": [("/film.mp4", {"Range": f"bytes={start}-{start + size - 1}"})
                      for start, size in zip(starts, sizes)],
        }
        costs = {"segment": [], "range": []}
        for n in range(asked.rounds + 1):
            for which in ("segment", "range") if n % 2 else ("range", "segment"):
                before = processor_seconds(server.pid)
                for number in range(asked.requests):
                    client.get(*requests[which][number % len(paths)])
                costs[which].append(processor_seconds(server.pid) - before)
        # In the first round the server fills its copies for sockets.
        costs = {which: found[1:] for which, found in costs.items()}
        ratios = sorted(a / b for a, b in zip(costs["segment"], costs["range"]))
        each = {which: 1e6 * statistics.median(found) / asked.requests for which, found in costs.items()}
        print(f"| {kind} | {len(paths)} | {sum(sizes) // len(sizes)} | {each['segment']:.0f} | {each['range']:.0f} "
              f"| {statistics.median(ratios):.2f} | {ratios[0]:.2f}, {ratios[-1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
