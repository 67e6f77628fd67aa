"""Shared by scripts/floods.py and scripts/soak: content that is known at every offset, connections that
can be reset, and the kernel's counters of a process."""

import os
import random
import socket
import struct

# A prime: the server's distances in a file (pieces, slices, sectors) are powers of two, so none is
# a multiple of it, and bytes from a wrong offset are detected.
PERIOD = 1_048_583
# Two keys are shifted against each other, also not by a power of two.
STRIDE = 7_919
_BLOCK = random.Random(20261125).randbytes(PERIOD)
_TWICE = _BLOCK + _BLOCK


def content(key, start, length):
    """The bytes of the file with this key from an offset on."""
    at = (key * STRIDE + start) % PERIOD
    if length <= PERIOD:
        return _TWICE[at : at + length]
    parts = [_BLOCK[at:]]
    rest = length - len(parts[0])
    parts += [_BLOCK] * (rest // PERIOD)
    parts.append(_BLOCK[: rest % PERIOD])
    return b"".join(parts)


def connect(address, source=None, receive_bytes=None, timeout=10.0):
    client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if receive_bytes:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.settimeout(timeout)
        if source:
            client.bind((source, 0))
        client.connect(address)
    except OSError:
        client.close()
        raise
    return client


def reset(client):
    """Closes a connection by a reset, like a client whose machine has failed."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def of_process(process):
    """Resident and private bytes, threads, descriptors and seconds of CPU time."""
    values = {}
    with open(f"/proc/{process}/status", encoding="ascii") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name in ("VmRSS", "RssAnon", "Threads"):
                values[name] = int(value.split()[0])
    with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return {
        "resident_bytes": values["VmRSS"] << 10,
        "own_bytes": values["RssAnon"] << 10,
        "threads": values["Threads"],
        "descriptors": len(os.listdir(f"/proc/{process}/fd")),
        "processor_seconds": (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
    }
