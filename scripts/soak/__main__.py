#!/usr/bin/env python3
"""A soak test: servers under viewers and faults for hours. Checks that every byte is correct, that every
failure is explained by a fault, and that the processes do not grow.

A server (main) with two disks, a flash tier and a state folder, and an edge that pulls from it and
serves TLS. Viewers use HTTP/1.1, HTTP/2 and TLS: players, whole titles, clients that leave or reset,
random ranges; every byte is compared. Meanwhile processes are killed about every minute, stopped,
replaced, and deprived of descriptors; one disk fails, hangs, slows down or vanishes, and recovers;
titles are replaced, added, removed and renamed; valid and invalid settings are reloaded, logs rotated,
certificates changed; hostile clients flood main. In the last two fifths of each 20 minutes no process is ended, to measure growth.

Failures: a byte of a version that did not exist; a failed request without an explaining fault; missing
recovery; a panic; a growing process. The exit code is then 1.

    python3 scripts/soak --hours 0.25 [--out FOLDER] [--seed N]

Needs root, /dev/fuse, loop devices, mkfs.ext4, curl and openssl. A soak in a folder with earlier results
adds a piece to them; an interrupted piece counts as far as it got.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import floods
import report
import served
import troubles
from verdict import History, Troubles
from viewers import Desk, Viewer
from world import Disk, Server, Titles, adopt_orphans, clean, guard, run, taken_ports

SAMPLE_SECONDS = 3
TITLES_PER_DISK = 10
PORTS = 9720

MAIN = """
roots = ["{work}/a", "{work}/b"]
memory = "48MiB"
state = "{work}/state"
flash = ["{work}/tier"]
flash_policy = "lru"
flash_write_per_day = "1TiB"
rescan = "5s"
"""
EDGE = """
roots = ["{work}/b"]
memory = "32MiB"
"""
# Common to both; top-level keys before any table.
BOTH = """
listen = ["127.0.0.1:{port}"]
admin = "127.0.0.1:{admin}"
admission = "accept"
read_timeout = "2s"
wait_timeout = "10s"
errors_offline = 4
offline_retry = "1s"
"""
# Viewers of the main server and of the edge; `far` ones read titles that the edge pulls.
VIEWERS = [
    ("main", "player", False), ("main", "player", False), ("main", "player", False), ("main", "whole", False),
    ("main", "whole", False), ("main", "impatient", False), ("main", "impatient", False),
    ("main", "seeker", False), ("main", "seeker", False), ("main", "h2", False),
    ("edge", "player", False), ("edge", "whole", False), ("edge", "h2", False), ("edge", "impatient", False),
    ("edge", "player", True), ("edge", "seeker", True), ("edge", "whole", True), ("edge", "h2", True),
]


class World:
    """All components of one piece of a soak."""

    def __init__(self, asked, number):
        self.out, self.seconds, self.number = asked.out, asked.hours * 3600, number
        self.work = f"{self.out}/work"
        self.over, self.began, self.counts = threading.Event(), time.monotonic(), {}
        self.files = contextlib.ExitStack()
        self.events = self.files.enter_context(open(f"{self.out}/events.jsonl", "a", encoding="utf-8"))
        self.samples = self.files.enter_context(open(f"{self.out}/samples.jsonl", "a", encoding="utf-8"))
        self.lock = threading.Lock()
        self.history, self.troubles = History(), Troubles()
        self.desk = Desk(self.history, self.troubles, self.tell)
        self.seed = asked.seed

    def build(self, stack, asked):
        """Starts disks, titles and servers; `stack` removes them."""
        clean(self.work)
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(f"{self.work}/state")
        os.makedirs(f"{self.work}/pulled")
        stack.callback(os.close, guard(self.work))
        stack.callback(shutil.rmtree, self.work, ignore_errors=True)
        self.ill = Disk(self.work, "a", 512, asked.lab)
        stack.callback(self.ill.end)
        well = Disk(self.work, "b", 512)
        stack.callback(well.end)
        self.titles = Titles(self.history, [self.ill, well], self.seed)
        self.titles.fill(TITLES_PER_DISK)
        for number in range(floods.FILE_COUNT):
            floods.write_title(well.root, number)
        with open(f"{well.root}/sentinel.mp4", "wb") as file:
            file.write(served.content(0, 0, 100_000))
        self.ill.tell(do="remount")
        run("mount", "-o", "remount,noatime", self.ill.root)
        run(asked.headlong, "flash", "format", f"{self.work}/tier", "--size", "256MB")
        self.make_certificate()
        self.servers = [
            Server(asked.headlong, self.work, "main", PORTS, "ab", False),
            Server(asked.headlong, self.work, "edge", PORTS + 2, "b", True),
        ]
        for server in self.servers:
            stack.callback(server.end)
            server.settings = {"cache_control": "max-age=1, stamp-0"}
            self.configure(server)
            server.start()

    def configure(self, server, more=""):
        """Writes the configuration of a server; `more` may make it invalid."""
        text = (MAIN if server.name == "main" else EDGE) + BOTH
        text = text.format(work=self.work, port=server.port, admin=server.admin) + more
        for name, value in server.settings.items():
            text += f"{name} = {json.dumps(value)}\n"
        # On a busy machine a handshake may exceed its ten seconds.
        text += f'[limits]\ndrain_timeout = "5s"\nheader_timeout = "60s"\n[log]\naccess = "{server.access}"\n'
        if server.is_tls:
            text += f'[tls]\ncertificate = "{self.work}/cert.pem"\nkey = "{self.work}/key.pem"\n'
            text += f'[pull."/far/"]\norigin = "http://127.0.0.1:{PORTS}/"\nfolder = "{self.work}/pulled"\n'
            text += 'bytes_max = "120MiB"\nfree_bytes_min = "0B"\nslice_bytes = "1MiB"\nahead_bytes = "2MiB"\n'
            text += 'fresh = "1s"\nstale_max = "1h"\nnegative = "1s"\n'
        server.write_config(text)

    def make_certificate(self):
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-days", "30", "-subj", "/CN=localhost", "-keyout", f"{self.work}/key.new",
            "-out", f"{self.work}/cert.new")
        os.rename(f"{self.work}/key.new", f"{self.work}/key.pem")
        os.rename(f"{self.work}/cert.new", f"{self.work}/cert.pem")

    def is_over(self):
        return self.over.is_set()

    def pause(self, seconds):
        """Waits; returns whether the soak is over."""
        return self.over.wait(seconds)

    def is_steady(self):
        cycle = min(troubles.CYCLE_SECONDS, self.seconds)
        return (time.monotonic() - self.began) % cycle > cycle * (1 - troubles.STEADY_SHARE)

    def tell(self, kind, **more):
        line = {"piece": self.number, "second": round(time.monotonic() - self.began, 1), "kind": kind, **more}
        with self.lock:
            print(json.dumps(line), file=self.events, flush=True)
        if kind in ("wrong", "unexplained"):
            print(f"soak: {kind}: {more['what']}", file=sys.stderr, flush=True)

    def sample(self):
        """Writes one sample of the values that must stay constant, and the counts so far."""
        desk = self.desk
        line = {"piece": self.number, "second": round(time.monotonic() - self.began, 1), "unix": int(time.time())}
        line["is_steady"], line["troubles"] = self.is_steady(), self.troubles.open()
        with desk.lock:
            line.update(bytes=desk.bytes, whole=desk.whole, explained=desk.explained,
                        unexplained=len(desk.unexplained), wrong=len(desk.wrong), failed=dict(desk.by_kind))
        for server in self.servers:
            if server.lock.acquire(blocking=False):
                server.hear()
                server.lock.release()
            process, started = server.process, server.started
            try:
                values = served.of_process(process)
            except (OSError, KeyError):
                continue
            line[server.name] = {"process": process, "age": round(time.monotonic() - started, 1), **values}
        print(json.dumps(line), file=self.samples, flush=True)
        # Forgets versions that can no longer be served: no reply takes longer, and edges do not
        # keep titles without requests.
        before = time.monotonic() - 3600
        self.history.forget(before)
        self.troubles.forget(before)


def watch(world):
    """Runs viewers and troubles until the deadline."""
    servers = {server.name: server for server in world.servers}
    workers = []
    for number, (name, style, is_far) in enumerate(VIEWERS):
        seed = f"{world.seed} {number}"
        viewer = Viewer(world.desk, world.titles, servers[name], style, seed, is_far)
        workers.append(threading.Thread(target=viewer.watch, args=(world.is_over,), daemon=True))
    kinds = (troubles.Processes, troubles.Titles, troubles.Settings, troubles.Disks, troubles.Floods)
    for kind in kinds:
        workers.append(threading.Thread(target=kind(world, world.seed).run, daemon=True))
    for worker in workers:
        worker.start()
    end = world.began + world.seconds
    try:
        while time.monotonic() < end:
            world.sample()
            world.pause(max(0.0, min(SAMPLE_SECONDS, end - time.monotonic())))
    finally:
        world.over.set()
        stop = time.monotonic() + 90
        for worker in workers:
            worker.join(max(0.0, stop - time.monotonic()))
        if stuck := sum(worker.is_alive() for worker in workers):
            world.desk.broke(f"{stuck} viewers or troubles did not end")


def look_back(world):
    """Final checks: panics, and that every server still serves."""
    for server in world.servers:
        if "panicked" in (said := server.said()):
            place = said.index("panicked")
            world.desk.broke(f"{server.name} panicked: {said[max(0, place - 200):place + 400]}")
        try:
            server.stop()
        except (OSError, RuntimeError) as error:
            world.desk.broke(f"{server.name}: {error}")
        with open(f"{world.out}/{server.name}.log", "a", encoding="utf-8") as kept:
            kept.write(said[-200_000:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hours", type=float, default=0.25)
    parser.add_argument("--out", default="target/soak", metavar="FOLDER")
    parser.add_argument("--headlong", default="target/release/headlong")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    asked = parser.parse_args()
    asked.out, asked.headlong = os.path.abspath(asked.out), os.path.abspath(asked.headlong)
    asked.lab = asked.headlong + "-lab"
    os.makedirs(asked.out, exist_ok=True)
    missing = [name for name in (asked.headlong, asked.lab) if not os.path.exists(name)]
    missing += [name for name in ("mkfs.ext4", "curl", "openssl") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        sys.exit(f"soak: needs root; missing: {', '.join(missing) or 'nothing'}")
    if taken := taken_ports(range(PORTS, PORTS + 4)):
        sys.exit(f"soak: in use on 127.0.0.1: {', '.join(map(str, taken))}; stop these listeners, "
                 "perhaps another soak")
    adopt_orphans()
    number = report.pieces(asked.out) + 1
    print(f"soak: piece {number} of {asked.out}, {asked.hours} h, --seed {asked.seed}", flush=True)

    def end(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    world = World(asked, number)
    is_whole = True
    with world.files, contextlib.ExitStack() as stack:
        try:
            world.build(stack, asked)
            world.began = time.monotonic()
            watch(world)
        except KeyboardInterrupt:
            is_whole = False
            print("soak: interrupted; the piece counts as far as it got", file=sys.stderr)
        # From here on an interruption would leave files and processes behind.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        if hasattr(world, "servers"):
            look_back(world)
            report.keep(world, asked, is_whole)
    failures = report.write(asked.out)
    print(open(f"{asked.out}/summary.md", encoding="utf-8").read())
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    try:
        main()
    except subprocess.TimeoutExpired as error:
        sys.exit(f"soak: {error}")
