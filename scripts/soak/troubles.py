"""Faults and changes for the servers of a soak. Each kind has its own thread and generator, so that a
seed gives the same order of events of that kind; their times depend on the machine."""

import os
import random
import resource
import signal
import subprocess
import sys
import time

import floods
import served
import viewers

# Phases of a cycle: first processes are killed and replaced, then they live on, so that growth can
# be measured.
CYCLE_SECONDS, STEADY_SHARE = 1200, 0.4
RETURN_SECONDS = 60


class Trouble:
    """Common base of all kinds."""

    def __init__(self, world, seed):
        self.world, self.desk, self.tell = world, world.desk, world.tell
        self.random = random.Random(f"{seed} {type(self).__name__}")
        self.counts = world.counts

    def run(self):
        while not self.world.is_over():
            if self.world.pause(self.wait()):
                return
            try:
                self.once()
            except Exception as error:  # pylint: disable=broad-except
                self.desk.broke(f"{type(self).__name__}: {type(error).__name__} {error}")
                self.world.pause(5)

    def did(self, what, **more):
        self.counts[what] = self.counts.get(what, 0) + 1
        self.tell("did", what=what, **more)

    def until(self, what, is_true, seconds=RETURN_SECONDS, why=lambda: ""):
        """Waits for a condition that must hold; `why` describes the last state otherwise."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if is_true():
                    return True
            except OSError:
                pass
            time.sleep(0.1)
        self.desk.broke(f"not within {seconds} s: {what} {why()}".rstrip())
        return False

    def head(self, server, path="/sentinel.mp4"):
        """Status and fields of a HEAD reply, on a new connection."""
        viewer = viewers.Viewer(self.desk, None, server, "player", 0)
        try:
            return viewer.head(f"HEAD {path} HTTP/1.1\r\nHost: soak\r\n\r\n".encode())
        except viewers.Failure as failure:
            raise ConnectionError(str(failure)) from failure
        finally:
            viewer.close()


class Processes(Trouble):
    """Kills and restarts about every minute; in between stops, upgrades and descriptor shortages."""

    def wait(self):
        return min(self.random.uniform(12, 18), self.world.seconds / 12)

    def once(self):
        if self.world.is_steady():
            return
        server = self.random.choices(self.world.servers, [3, 1])[0]
        what = self.random.choices([self.kill, self.stop, self.upgrade, self.descriptors], [8, 1, 3, 3])[0]
        with server.lock:
            what(server)
            server.forget_ended()

    def kill(self, server):
        self._start_again(server, server.kill, "kill -9")

    def stop(self, server):
        self._start_again(server, server.stop, "stop")

    def _start_again(self, server, end, name):
        trouble = self.world.troubles.begin(f"{name} of {server.name}", server.name)
        if server.is_alive(server.process):
            end()
        # As systemd does with the remaining processes of a unit.
        server.end_all()
        time.sleep(self.random.choice([0, 0, 0.5, 3]))
        # A failed start is reported once, and explains failures until it succeeds.
        server.start()
        trouble.end()
        self.did(name, server=server.name, seconds=round(trouble.ended - trouble.began, 2))

    def upgrade(self, server):
        # An upgrade must not fail any request, so it explains nothing.
        server.replace()
        self.did("upgrade", server=server.name)

    def descriptors(self, server):
        process = server.process
        before = resource.prlimit(process, resource.RLIMIT_NOFILE)
        count = served.of_process(process)["descriptors"]
        trouble = self.world.troubles.begin(f"descriptors of {server.name} short", server.name)
        try:
            resource.prlimit(process, resource.RLIMIT_NOFILE, (count + self.random.randrange(-4, 6), before[1]))
            self.world.pause(self.random.uniform(3, 7))
        finally:
            resource.prlimit(process, resource.RLIMIT_NOFILE, before)
            self.until(f"{server.name} after its descriptor shortage", lambda: self.head(server)[0] == 200)
            trouble.end()
        self.did("descriptor shortage", server=server.name)


class Floods(Trouble):
    """Hostile clients of another address. They fail no request of others, so they explain nothing."""

    SECONDS = 8

    def wait(self):
        return min(self.random.uniform(15, 30), self.world.seconds / 12)

    def once(self):
        server = self.world.servers[0]
        which = self.random.choice(floods.FLOODS).__name__
        script = os.path.abspath(floods.__file__)
        words = [sys.executable, script, "--port", str(server.port), "--seconds", str(self.SECONDS), which]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=150, check=False)
        if ended.returncode:
            raise RuntimeError(f"{which}: {ended.stderr[-500:]}")
        self.did("flood", which=which, became=ended.stdout.strip())


class Titles(Trouble):
    """Titles are replaced, added, removed and renamed."""

    def wait(self):
        return self.random.uniform(2, 6)

    def once(self):
        titles = self.world.titles
        disk = self.random.choice(titles.disks)
        with titles.lock:
            there = [version for version in titles.now.values() if version.root == disk.name]
        # Waits while the disk has a fault.
        if len(there) < 6:
            titles.add(disk)
            self.did("title added")
        else:
            version = self.random.choice(there)
            what = self.random.choices(["replaced", "renamed", "removed"], [6, 2, 2])[0]
            {"replaced": titles.replace, "renamed": titles.rename, "removed": titles.remove}[what](version)
            self.did(f"title {what}", path=version.path)
        if len(there) < 10 and self.random.random() < 0.3:
            titles.add(disk)
            self.did("title added")


class Settings(Trouble):
    """Reloads of valid and invalid settings, new certificates, rotated logs."""

    def wait(self):
        return self.random.uniform(4, 12)

    def once(self):
        server = self.random.choice(self.world.servers)
        kinds = [self.right, self.wrong, self.rotate]
        if server.is_tls:
            kinds += [self.certificate, self.certificate]
        what = self.random.choice(kinds)
        # A server that is down cannot be tested; its troubles are not judged here.
        with server.lock:
            what(server)

    def stamp(self, server):
        status, fields = self.head(server)
        return fields.get("cache-control") if status == 200 else None

    def right(self, server):
        settings = {
            "cache_control": f"max-age=1, stamp-{self.random.getrandbits(32)}",
            "policy": self.random.choice(["fixed", "proportional", "square-root", "first-grow"]),
            "prefetch": self.random.choice(["auto", "512KiB", "2MiB", "6MiB"]),
            "order": self.random.choice(["fcfs", "elevator", "deadline-elevator"]),
            "retention": self.random.choice(["lru", "popularity", "page-cache"]),
            "direct": self.random.choice([True, True, False]),
        }
        server.settings = settings
        self.world.configure(server)
        server.signal(signal.SIGHUP)
        self.until(
            f"the reload of {server.name}", lambda: self.stamp(server) == settings["cache_control"], 20
        )
        self.did("reload", server=server.name)

    def wrong(self, server):
        before = server.said().count("stays in force")
        stamp = server.settings["cache_control"]
        self.world.configure(server, more=self.random.choice(['prefetchh = "1MiB"\n', "no TOML\n", "sweep = 3\n"]))
        try:
            server.signal(signal.SIGHUP)
            self.until(
                f"{server.name} logs that a reload was refused",
                lambda: server.said().count("stays in force") > before, 20,
            )
        finally:
            self.world.configure(server)
        if self.stamp(server) != stamp:
            self.desk.broke(f"{server.name}: an invalid configuration changed the settings")
        self.did("invalid reload", server=server.name)

    def rotate(self, server):
        old = server.access + ".1"
        os.rename(server.access, old)
        server.signal(signal.SIGUSR1)
        is_written = lambda: self.head(server) and os.path.exists(server.access) and os.path.getsize(server.access)
        self.until(f"the new log of {server.name}", is_written, 20)
        self.did("log rotated", server=server.name)

    def certificate(self, server):
        before = viewers.certificate_of(server.address)
        self.world.make_certificate()
        server.signal(signal.SIGHUP)
        self.until("the new certificate", lambda: viewers.certificate_of(server.address) != before, 20)
        self.did("new certificate", server=server.name)


class Disks(Trouble):
    """The disk with fault injection fails, hangs, slows down or vanishes, and recovers."""

    # The answer to the latest request.
    last = ""

    def wait(self):
        return min(self.random.uniform(40, 80), self.world.seconds / 8)

    def once(self):
        disk = self.world.ill
        with self.world.titles.writing[disk.name]:
            # So that no write is in progress during the fault; the first such call reports earlier
            # errors.
            subprocess.run(["sync", "-f", disk.root], check=False, timeout=120, stderr=subprocess.DEVNULL)
            kind = self.random.choice(["vanish", "hang", "slow", "error"])
            trouble = self.world.troubles.begin(f"disk: {kind}", root=disk.name)
            try:
                if kind == "slow":
                    disk.tell(do="fault", kind="slow", factor=self.random.choice([10.0, 100.0, 1000.0]))
                elif kind == "error":
                    size = disk.size_bytes()
                    for _ in range(self.random.randrange(1, 6)):
                        start = self.random.randrange(size // 4096) * 4096
                        end = min(size, start + self.random.choice([1 << 20, 32 << 20]))
                        disk.tell(do="fault", kind="error", from_byte=start, to_byte=end)
                else:
                    disk.tell(do="fault", kind=kind)
                self.world.pause(self.random.uniform(3, 12))
            finally:
                disk.tell(do="release")
                disk.tell(do="faults_clear")
                self.until("titles of the recovered disk", self.is_served, why=lambda: self.last)
                trouble.end()
        self.did(f"disk: {kind}", seconds=round(trouble.ended - trouble.began, 1))

    def is_served(self):
        """Whether an offset of a title that is probably not in memory is served."""
        titles = self.world.titles
        with titles.lock:
            there = [v for v in titles.now.values() if v.root == self.world.ill.name]
        version = self.random.choice(there)
        place = self.random.randrange(version.size)
        viewer = viewers.Viewer(self.desk, titles, self.world.servers[0], "player", 0)
        try:
            text = f"GET {version.path} HTTP/1.1\r\nHost: soak\r\nRange: bytes={place}-{place}\r\n\r\n"
            self.last = viewer.head(text.encode())[0]
            return self.last == 206
        except viewers.Failure as failure:
            self.last = str(failure)
            return False
        finally:
            viewer.close()
