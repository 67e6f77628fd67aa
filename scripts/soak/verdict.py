"""Verdict on a reply: the versions to which its bytes may belong, and the trouble that explains a failure.

Times are of `time.monotonic`. A version exists from just before the call that gave it its name until
just after the call that removed the name. A trouble has a time span, and the servers and titles whose
requests may fail meanwhile. A request without an explaining trouble must be answered correctly and whole.
"""

import bisect
import collections
import statistics
import threading
import time

from served import PERIOD, content

# Validity of a look-up (`revalidate`, 1 s), and its longest duration on a busy machine.
BELIEVED = 6.0
# An edge revalidates after this time (`fresh`), and its origin also relies on a look-up.
BELIEVED_EDGE = 14.0
# How long after a trouble's end a request may start that fails because of it.
AFTER = 3.0


class Version:
    """One content of one path."""

    def __init__(self, path, key, size, root):
        self.path, self.key, self.size, self.root = path, key, size, root
        self.born, self.gone = float("inf"), float("inf")

    def holds(self, start, data):
        """Whether these are its bytes from that offset on."""
        if start + len(data) > self.size:
            return False
        at = 0
        while at < len(data):
            length = min(len(data) - at, PERIOD)
            if data[at : at + length] != content(self.key, start + at, length):
                return False
            at += length
        return True


class History:
    """All versions of all paths, and the times at which a path had none."""

    def __init__(self):
        self.lock = threading.Lock()
        self.versions = collections.defaultdict(list)
        self.keys = 0

    def new(self, path, size, root):
        """A version with unique content; it gets its name later."""
        with self.lock:
            self.keys += 1
            return Version(path, self.keys, size, root)

    def begins(self, version):
        """Must be called right before the version gets its name."""
        with self.lock:
            version.born = time.monotonic()
            self.versions[version.path].append(version)

    def ends(self, version):
        """Must be called right after the version has lost its name."""
        with self.lock:
            version.gone = time.monotonic()

    def there(self, path, since, until):
        """Versions that existed at some time in the interval."""
        with self.lock:
            return [v for v in self.versions[path] if v.born <= until and v.gone >= since]

    def all_of(self, path):
        with self.lock:
            return list(self.versions[path])

    def changed(self, path, since, until):
        """Whether the path got or lost a version in the interval."""
        with self.lock:
            times = [t for v in self.versions[path] for t in (v.born, v.gone)]
        return any(since <= t <= until for t in times)

    def forget(self, before):
        """Forgets versions that can no longer be served."""
        with self.lock:
            for path, versions in list(self.versions.items()):
                self.versions[path] = [v for v in versions if v.gone >= before]
                if not self.versions[path]:
                    del self.versions[path]


# A missing title (404) is explained only by a change of the title, not by a trouble.
NEVER = {"status 403", "status 404", "status 412", "status 416"}


class Trouble:
    """A time in which requests may fail: of `server` (or all) and titles of `root` (or all). A faulty disk
    (`root`) is no reason to refuse a connection."""

    def __init__(self, name, server=None, root=None):
        self.name, self.server, self.root = name, server, root
        self.began, self.ended = time.monotonic(), float("inf")

    def end(self):
        self.ended = time.monotonic()

    def explains(self, server, root, since, until, kind=""):
        return (
            kind not in NEVER
            and not (self.root and kind == "refused")
            and self.server in (None, server)
            and self.root in (None, root)
            and self.began <= until
            and since <= self.ended + AFTER
        )


class Troubles:
    """All of them."""

    def __init__(self):
        self.lock = threading.Lock()
        self.all = []

    def begin(self, name, server=None, root=None):
        trouble = Trouble(name, server, root)
        with self.lock:
            self.all.append(trouble)
        return trouble

    def explaining(self, server, root, since, until, kind=""):
        """The name of a trouble that explains a failure, or None."""
        with self.lock:
            found = (t.name for t in self.all if t.explains(server, root, since, until, kind))
            return next(found, None)

    def open(self):
        with self.lock:
            return sorted({t.name for t in self.all if t.ended == float("inf")})

    def forget(self, before):
        with self.lock:
            self.all = [t for t in self.all if t.ended >= before]


class Body:
    """The bytes of one reply as they arrive, and the versions to which all of them may belong."""

    def __init__(self, candidates, start):
        self.candidates, self.at, self.length = candidates, start, 0

    def take(self, data):
        self.candidates = [v for v in self.candidates if v.holds(self.at, data)]
        self.at += len(data)
        self.length += len(data)
        return bool(self.candidates)


def diagnosis(versions, start, data):
    """Describes bytes that belong to no possible version, for the failure report."""
    for version in versions:
        if version.holds(start, data):
            return f"bytes of version {version.key}, which did not exist at that time"
    first = next((v for v in versions if v.holds(start, data[:16])), None)
    if first is None:
        return "bytes of no version from the first on"
    right = bisect.bisect_left(range(len(data)), True, key=lambda n: not first.holds(start, data[: n + 1]))
    return f"bytes of version {first.key} up to place {start + right}, and others from there on"


def flatness(points, is_settled_after):
    """For `(age, value)` of one process: medians of the first and the last third after it has settled, and
    the slope per hour (Theil-Sen, of the medians of pairs); None if there are too few."""
    points = [point for point in points if point[0] >= is_settled_after]
    if len(points) < 12:
        return None
    third = len(points) // 3
    first = statistics.median(value for _, value in points[:third])
    last = statistics.median(value for _, value in points[-third:])
    step = max(1, len(points) // 200)
    few = points[::step]
    slopes = [
        (b[1] - a[1]) / (b[0] - a[0]) * 3600
        for n, a in enumerate(few) for b in few[n + 1 :] if b[0] > a[0]
    ]
    return first, last, statistics.median(slopes)
