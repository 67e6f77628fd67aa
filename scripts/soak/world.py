"""Disks, titles and servers of a soak, and their cleanup."""

import ctypes
import json
import os
import random
import resource
import signal
import socket
import subprocess
import threading
import time
import urllib.request

import served

PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)
MIB = 1 << 20


def adopt_orphans():
    """Makes replacement processes of a server children of this one, so that it can wait for them."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def guard(folder):
    """Starts a process that cleans up if this one is killed; it waits while the returned pipe is open."""
    ours, its = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.close(its)
        while os.read(ours, 1):
            pass
        clean(folder)
        os._exit(0)
    os.close(ours)
    os.set_inheritable(its, False)
    return its


def run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def clean(folder):
    """Ends processes and mounts left by an earlier soak of this folder."""
    own = os.fsencode(folder) + b"/"
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            if int(process) != os.getpid() and b"--config" in words and any(w.startswith(own) for w in words):
                os.kill(int(process), signal.SIGKILL)
        except OSError:
            continue
    with open("/proc/self/mountinfo", encoding="utf-8") as lines:
        points = [line.split()[4] for line in lines if line.split()[4].startswith(folder + "/")]
    for point in reversed(points):
        subprocess.run(["umount", "-l", point], check=False)


class Disk:
    """A separate file system on a loop device over a file; with `is_ill`, over an emulated SSD with fault
    injection."""

    def __init__(self, folder, name, size_mib, lab=None):
        self.name, self.root = name, f"{folder}/{name}"
        self.emulator, self.control = None, f"{folder}/{name}.sock"
        os.makedirs(self.root)
        if lab:
            self.emulator = subprocess.Popen(
                [lab, "disk", "emulate", "ssd-sata-low-end", "--size", f"{size_mib}MiB", "--mount", self.root,
                 "--control", self.control, "--json"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                start_new_session=True,
            )
            line = self.emulator.stdout.readline()
            if '"ready":true' not in line:
                raise RuntimeError(f"the emulated disk did not start: {line or 'see disk emulate'}")
        else:
            image = f"{folder}/{name}.img"
            with open(image, "wb") as file:
                file.truncate(size_mib * MIB)
            run("mkfs.ext4", "-q", "-F", "-m", "0", image)
            run("mount", "-o", "loop", image, self.root)
        run("mount", "-o", "remount,noatime", self.root)

    def tell(self, **command):
        """Sends a command to the emulated disk."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            client.connect(self.control)
            client.sendall(json.dumps(command).encode() + b"\n")
            answer = b""
            while b"\n" not in answer:
                got = client.recv(1 << 16)
                if not got:
                    raise RuntimeError("the emulated disk has ended")
                answer += got
        answer = json.loads(answer)
        if not answer["ok"]:
            raise RuntimeError(f"{command}: {answer['error']}")

    def size_bytes(self):
        found = os.statvfs(self.root)
        return found.f_blocks * found.f_frsize

    def end(self):
        if self.emulator:
            try:
                self.tell(do="faults_clear")
                self.tell(do="release")
            except (OSError, RuntimeError):
                pass
            self.emulator.send_signal(signal.SIGTERM)
            try:
                self.emulator.wait(30)
            except subprocess.TimeoutExpired:
                self.emulator.kill()
                self.emulator.wait(30)
        else:
            subprocess.run(["umount", "-l", self.root], check=False)


class Titles:
    """Titles on the disks, and their changes."""

    SIZES_MIB = (1, 24)

    def __init__(self, history, disks, seed):
        self.history, self.disks = history, disks
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.now, self.numbers = {}, 0
        # Nothing is written to a disk with a fault: lost writes are not under test.
        self.writing = {disk.name: threading.Lock() for disk in disks}

    def fill(self, count):
        for disk in self.disks:
            for _ in range(count):
                self.add(disk)

    def some(self, roots=None):
        """An existing title in one of these roots, the popular ones more often."""
        with self.lock:
            paths = [path for path, version in self.now.items() if not roots or version.root in roots]
            return self.now[paths[min(int(self.random.paretovariate(0.7)) - 1, len(paths) - 1)]]

    def known(self, path):
        with self.lock:
            return self.now.get(path)

    def _write(self, disk, path):
        size = self.random.randrange(self.SIZES_MIB[0] * MIB, self.SIZES_MIB[1] * MIB)
        version = self.history.new(path, size, disk.name)
        beside = f"{disk.root}/.new"
        with open(beside, "wb") as file:
            for at in range(0, size, MIB):
                file.write(served.content(version.key, at, min(MIB, size - at)))
            file.flush()
            os.fsync(file.fileno())
        # Half of them have old times, as from a copy that keeps times; all times differ.
        if self.random.random() < 0.5:
            then = time.time() - 1e6 + version.key
            os.utime(beside, (then, then))
        return version, beside

    def add(self, disk):
        with self.writing[disk.name]:
            self.numbers += 1
            path = f"/title{self.numbers}.mp4"
            version, beside = self._write(disk, path)
            self._name(version, beside, disk.root + path)

    def replace(self, version):
        disk = self._disk(version)
        with self.writing[disk.name]:
            new, beside = self._write(disk, version.path)
            self._name(new, beside, disk.root + version.path)
            self.history.ends(version)

    def remove(self, version):
        disk = self._disk(version)
        with self.writing[disk.name]:
            with self.lock:
                del self.now[version.path]
            os.remove(disk.root + version.path)
            self.history.ends(version)

    def rename(self, version):
        disk = self._disk(version)
        with self.writing[disk.name]:
            self.numbers += 1
            path = f"/title{self.numbers}.mp4"
            with self.lock:
                del self.now[version.path]
            with self.history.lock:
                same = type(version)(path, version.key, version.size, version.root)
            self._name(same, disk.root + version.path, disk.root + path)
            self.history.ends(version)

    def _name(self, version, from_path, to_path):
        self.history.begins(version)
        os.rename(from_path, to_path)
        with self.lock:
            self.now[version.path] = version

    def _disk(self, version):
        return next(disk for disk in self.disks if disk.name == version.root)


def taken_ports(ports):
    """The ports on which another process listens."""
    taken = []
    for port in ports:
        with socket.socket() as free:
            # As the server does: a port in TIME_WAIT is free.
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                free.bind(("127.0.0.1", port))
            except OSError:
                taken.append(port)
    return taken


class Server:
    """A server that is started, killed and upgraded."""

    def __init__(self, program, folder, name, port, roots, is_tls):
        self.program, self.folder, self.name, self.port, self.is_tls = program, folder, name, port, is_tls
        self.roots = roots
        self.admin = port + 1
        self.address = ("127.0.0.1", port)
        self.config = f"{folder}/{name}.toml"
        self.output = f"{folder}/{name}.log"
        self.access = f"{folder}/{name}.access"
        self.settings = {}
        # Held while the server is signalled, killed or started.
        self.lock = threading.RLock()
        self.process, self.started, self.pids = None, 0.0, set()
        self.notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notices.bind(f"{folder}/{name}.notify")

    def write_config(self, text):
        with open(self.config + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(self.config + ".new", self.config)

    def start(self):
        def prepare():
            # Ctrl-C is for the soak, which ends its children in order.
            os.setsid()
            resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))

        with open(self.output, "a", encoding="utf-8") as output:
            child = subprocess.Popen(
                [self.program, "serve", "--config", self.config],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=prepare,
                env={**os.environ, "NOTIFY_SOCKET": f"{self.folder}/{self.name}.notify"},
            )
        # Waited for by process id, like its replacements.
        child.returncode = 0
        self.pids.add(child.pid)
        self.process, self.started = child.pid, time.monotonic()
        self.wait_until_ready()

    def wait_until_ready(self, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self.is_alive(self.process):
                raise RuntimeError(f"{self.name} ended instead of serving; see {self.output}")
            try:
                if self.ask("/healthz").startswith("ok"):
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise RuntimeError(f"{self.name} was not ready within {seconds} s; see {self.output}")

    def ask(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}{path}", timeout=10) as reply:
            return reply.read().decode()

    def said(self):
        with open(self.output, encoding="utf-8", errors="replace") as file:
            return file.read()

    def signal(self, number):
        os.kill(self.process, number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self._wait_for_end(30)

    def stop(self, seconds=60):
        self.signal(signal.SIGTERM)
        self._wait_for_end(seconds)

    def _wait_for_end(self, seconds):
        end = time.monotonic() + seconds
        while self.is_alive(self.process):
            if time.monotonic() > end:
                raise RuntimeError(f"{self.name} ({self.process}) did not end")
            time.sleep(0.02)
        self.pids.discard(self.process)

    def is_alive(self, process):
        try:
            return os.waitpid(process, os.WNOHANG) == (0, 0)
        except ChildProcessError:
            return False

    def forget_ended(self):
        self.pids = {process for process in self.pids if self.is_alive(process)}

    def hear(self):
        """Receives its service manager notifications; the caller holds the lock."""
        self.notices.setblocking(False)
        try:
            while True:
                self.notices.recv(1 << 16)
        except BlockingIOError:
            pass

    def replace(self):
        """Upgrades the server; returns the id of the new process."""
        self.hear()
        self.signal(signal.SIGUSR2)
        self.notices.settimeout(60)
        while True:
            for line in self.notices.recv(1 << 16).decode().splitlines():
                if line.startswith("MAINPID="):
                    self.process, self.started = int(line[8:]), time.monotonic()
                    self.pids.add(self.process)
                    return self.process

    def end_all(self):
        """Kills all of its processes, including replaced ones."""
        for process in list(self.pids):
            try:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        self.pids.clear()

    def end(self):
        self.end_all()
        self.notices.close()
