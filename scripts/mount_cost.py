#!/usr/bin/env python3
"""Cost of a byte from a mount's memory: CPU time of the mount and of the reader (needs root).

  scripts/mount_cost.py target/release/headlong                  # one program
  scripts/mount_cost.py --beside OLD target/release/headlong     # alternating with another one

Files of 64 MiB are read once, so that they are in the mount's memory; before each measurement the
kernel drops their pages. `cat`, `cp` and `dd` read half of the files, nginx sends each once. Memory
is divided as in a container: the page cache above the mount keeps little.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

FILES, FILE_BYTES = 8, 64 << 20
SETTINGS = 'memory = "1GiB"\npage_cache_max = "64MiB"\n'
PORT = 18990
NGINX = """
daemon off; worker_processes 2; pid {folder}/pid; error_log {folder}/errors; user root;
events {{ worker_connections 1024; }}
http {{
    access_log off; keepalive_requests 1000000; {ways}
    server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""
WAYS = {
    "nginx, 512 KiB": "sendfile off; output_buffers 1 512k;",
    "nginx, 2 x 32 KiB": "sendfile off;",
    # Last, because the kernel caches pages for a program that uses it for a while.
    "nginx, sendfile": "sendfile on; tcp_nopush on;",
}
READERS = {
    "cat": ["cat"],
    "cp": ["cp", "-t", "{sink}"],
    "dd bs=4k": ["dd", "bs=4k", "of=/dev/null"],
    "dd bs=16k": ["dd", "bs=16k", "of=/dev/null"],
}


def processor_seconds(pid):
    """CPU time of a process and its children, without ended threads."""
    total = 0
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((thread / "schedstat").read_text().split()[0]) / 1e9
            children = (thread / "children").read_text().split()
        except OSError:
            continue
        total += sum(processor_seconds(child) for child in children)
    return total


class Mounted:
    """A program's mount of the tree."""

    def __init__(self, program, tree, folder):
        self.point, config = folder / "point", folder / "mount.toml"
        self.point.mkdir()
        config.write_text(SETTINGS)
        command = [program, "mount", tree, self.point, "--config", config]
        self.process = subprocess.Popen(command, stderr=(folder / "log").open("w"))
        end = time.monotonic() + 10
        while not self.point.is_mount():
            if time.monotonic() > end:
                sys.exit(f"the mount failed: {(folder / 'log').read_text()}")
            time.sleep(0.05)
        self.files = [self.point / f"file-{number}" for number in range(FILES)]
        self.folder = folder
        for file in self.files:
            with file.open("rb") as opened:
                while opened.read(1 << 20):
                    pass

    def forget_pages(self):
        for file in self.files:
            with file.open("rb") as opened:
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def end(self):
        self.process.terminate()
        self.process.wait(20)


def read(mounted, words):
    """Bytes read, and CPU seconds of the programs."""
    sink = mounted.folder / "sink"
    sink.mkdir(exist_ok=True)
    before = os.times()
    for file in mounted.files[: FILES // 2]:
        what = [f"if={file}"] if words[0] == "dd" else [file]
        command = [word.format(sink=sink) for word in words] + what
        quiet = subprocess.DEVNULL
        subprocess.run(command, check=True, stdout=quiet, stderr=quiet, timeout=60)
    after = os.times()
    shutil.rmtree(sink)
    spent = after.children_user + after.children_system
    return FILES // 2 * FILE_BYTES, spent - before.children_user - before.children_system


def send(mounted, ways, is_at_once):
    """Bytes sent, and CPU seconds of nginx. One viewer for all files, or one for each."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=mounted.folder))
    text = NGINX.format(folder=folder, ways=ways, port=PORT, root=mounted.point)
    (folder / "nginx.conf").write_text(text)
    nginx = subprocess.Popen(["nginx", "-c", folder / "nginx.conf"], stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        urls = [f"http://127.0.0.1:{PORT}/{file.name}" for file in mounted.files]
        lists = [[url] for url in urls] if is_at_once else [urls]
        viewers = [
            subprocess.Popen(
                ["h2load", "--h1", "-c", "1", "-n", str(len(urls)), *urls],
                stdout=subprocess.PIPE,
                text=True,
            )
            for urls in lists
        ]
        for viewer, urls in zip(viewers, lists):
            said = viewer.communicate(timeout=60)[0]
            if f"{len(urls)} succeeded" not in said:
                sys.exit(f"not all files were sent:\n{said}")
        return FILES * FILE_BYTES, processor_seconds(nginx.pid)
    finally:
        nginx.terminate()
        nginx.wait(20)


def measured(mounted, case):
    """CPU seconds of the mount and of the reader, for each GB."""
    mounted.forget_pages()
    before = processor_seconds(mounted.process.pid)
    size, spent = case(mounted)
    mount = processor_seconds(mounted.process.pid) - before
    return mount / size * 1e9, spent / size * 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--beside", help="another program, measured alternately")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    programs = [options.program] + ([options.beside] if options.beside else [])
    cases = {name: lambda to, words=words: read(to, words) for name, words in READERS.items()}
    for name, ways in WAYS.items():
        for viewers in (1, FILES):
            send_all = lambda to, ways=ways, at_once=viewers > 1: send(to, ways, at_once)
            cases[f"{name}, {viewers} viewers"] = send_all
    # On a disk, not in memory: the mount bypasses the page cache below it.
    top = pathlib.Path(tempfile.mkdtemp(prefix="mount-cost-", dir="/var/tmp"))
    mounts = []
    try:
        tree = top / "tree"
        tree.mkdir()
        for number in range(FILES):
            file = tree / f"file-{number}"
            file.write_bytes(os.urandom(FILE_BYTES))
            # Files written a moment ago are read without the engine.
            os.utime(file, (time.time() - 3600,) * 2)
        for number, program in enumerate(programs):
            folder = top / str(number)
            folder.mkdir()
            mounts.append(Mounted(program, tree, folder))
        print("| CPU s for each GB: mount + reader | | beside | ratio |\n|---|---|---|---|")
        for name, case in cases.items():
            rounds = [[measured(to, case) for to in mounts] for _ in range(options.rounds)]
            cells = []
            for one in range(len(mounts)):
                parts = [statistics.median(part[one][at] for part in rounds) for at in (0, 1)]
                cells.append(f"{parts[0]:.2f} + {parts[1]:.2f}")
            ratios = [sum(both[0]) / sum(both[1]) for both in rounds if len(both) > 1]
            ratio = f"{statistics.median(ratios):.2f}" if ratios else ""
            print(f"| {name} | {' | '.join(cells)} | {ratio} |", flush=True)
    finally:
        for mounted in mounts:
            mounted.end()
        shutil.rmtree(top)


if __name__ == "__main__":
    main()
