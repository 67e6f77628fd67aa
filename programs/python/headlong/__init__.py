"""Request logs of video servers in Python.

Logs become Arrow tables, chains (sequential reads) and sums, by the code of ``headlong trace``;
experiments and capacities come from the program ``headlong-lab``, which the package brings along.

Every table is an Arrow table: ``pyarrow.table(t)``, ``polars.DataFrame(t)``,
``pandas.DataFrame.from_arrow(t)`` and DuckDB take it without a copy of its numbers. Sizes are in
bytes, times in milliseconds since 1970 (UTC) or seconds where a name ends in ``_s``.

Options of reading, the same for all functions on logs (:class:`LogOptions`):

``files``
    path of a table ``file,title,kind,kbps,size,disk,duration_s`` with properties of files
``format``, ``log_format``
    name of the format, or nginx's ``log_format`` or Apache's ``LogFormat`` word for word;
    by default the format is recognised
``session_field``, ``session_idle_s``
    name of the session id; seconds without a request after which a viewer without an id starts a
    new session (1800)
``title_rule``
    regular expression on names of files whose only group is the title
``trusted``
    proxies whose lists of clients' addresses are believed, as networks separated by commas
``memory``, ``threads``, ``spill``
    most memory, as bytes or a text such as ``"4GiB"`` (1 GiB); threads (all cores); the folder for
    what does not fit in memory
``allow_dropped``
    read the log even if more than a tenth of its lines are dropped
``progress``
    True for bars, in notebooks and terminals (needs ``tqdm``); or a function that is called with
    ``"reading"`` (bytes) or ``"summing"`` (requests), how much is done, and the total or None
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import IO, Any, Literal, Protocol, TypeAlias, TypedDict, Unpack

from . import _native
from ._native import HeadlongError, LogError, ShardError, Sums, Table, __version__
from ._programs import ProgramError, capacity, simulate
from ._progress import Progress, with_shown

__all__ = [
    "ArrowStream",
    "HeadlongError",
    "LogError",
    "LogOptions",
    "ProgramError",
    "Progress",
    "ShardError",
    "Source",
    "Sums",
    "Table",
    "__version__",
    "capacity",
    "chains",
    "characterise",
    "merge",
    "read_log",
    "report",
    "simulate",
    "split",
]


class ArrowStream(Protocol):
    """A table of any library that speaks the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


StrPath: TypeAlias = str | os.PathLike[str]

#: A log: a path, paths, the bytes of a log, an open file, or an Arrow table with the columns of a
#: request log (those of :func:`read_log`, or names that are usual).
Source: TypeAlias = (
    StrPath
    | Sequence[StrPath]
    | bytes
    | bytearray
    | memoryview
    | IO[bytes]
    | IO[str]
    | ArrowStream
)

Gap = Literal["received", "idle"]
Link = Literal["one-to-one", "component"]


class LogOptions(TypedDict, total=False):
    """Options of reading a log; the module describes each."""

    files: StrPath | None
    format: str | None
    log_format: str | None
    session_field: str | None
    session_idle_s: float | None
    title_rule: str | None
    trusted: str | None
    memory: int | str | None
    threads: int | None
    spill: StrPath | None
    allow_dropped: bool | None
    progress: bool | Progress | None


def read_log(source: Source, **options: Unpack[LogOptions]) -> Table:
    """The requests of a log, a row each, sessions in one piece and by arrival within a session.

    Columns: ``ts_ms`` (completion, ms since 1970), ``service_ms`` (ms), ``session``, ``device``,
    ``file`` (dictionaries of names), ``offset`` (bytes; null if unknown), ``size`` (bytes requested;
    null if open-ended), ``bytes`` (sent), ``disk``. ``Table.units`` has each unit.

    Raises :class:`LogError` if the log cannot be read or recognised, or more than a tenth of its
    lines are dropped; the text names the log and the line. ``Table.notes`` tells what was dropped.
    """
    with with_shown(options) as given:
        return _native.read_log(source, **given)


def chains(
    source: Source,
    *,
    gap: Gap = "received",
    link: Link = "one-to-one",
    **options: Unpack[LogOptions],
) -> Table:
    """Joins requests of one session for adjacent bytes of a file, within 40 s, to chains.

    Columns: ``session``, ``file``, ``title`` (names), ``kind`` (0 audio, 1 video, 2 both), ``kbps``
    (kbit/s; null unless ``files`` has it), ``start`` and ``length`` (bytes), ``t_start`` and
    ``t_end`` (ms since 1970), ``open`` and ``mixed`` (flags), ``nreq`` (requests), ``disk``.

    ``gap`` says how the 40 s are measured: between arrivals, or from a completion to the next
    arrival (``"idle"``). ``link``: one successor and predecessor each, or all adjacent requests
    are one chain (``"component"``).
    """
    with with_shown(options) as given:
        return _native.chains(source, gap=gap, link=link, **given)


def characterise(
    source: Source,
    *,
    gap: Gap = "received",
    link: Link = "one-to-one",
    **options: Unpack[LogOptions],
) -> Sums:
    """Sums over the sessions of a log, or of one shard of :func:`split` (a path).

    Sums of shards are merged in any order, by ``a.merge(b)`` or :func:`merge`; ``report`` of all
    of them is that of the whole log, byte for byte. They can be pickled and stored
    (``Sums.to_bytes``), and ``headlong trace merge`` reads the same bytes.
    """
    with with_shown(options) as given:
        return _native.characterise(source, gap=gap, link=link, **given)


def split(
    source: Source, folder: StrPath, into: int, **options: Unpack[LogOptions]
) -> list[os.PathLike[str]]:
    """Divides a log by session into ``into`` shards (1 to 512) in ``folder``; returns their paths.

    Each shard can be characterised on another machine, without the others.
    """
    with with_shown(options) as given:
        return _native.split(source, folder, into, **given)


def merge(parts: Iterable[Sums | bytes]) -> Sums:
    """Merges sums of shards, or the bytes of such sums, in any order.

    Raises :class:`ShardError`, which names the part, for a part of another version, log, split or
    rules, a shard that occurs twice, and damaged bytes.
    """
    merged: Sums | None = None
    for number, part in enumerate(parts):
        if not isinstance(part, Sums):
            part = Sums.from_bytes(part, f"part {number}")
        merged = part if merged is None else merged.merge(part)
    if merged is None:
        raise ValueError("there are no sums to merge")
    return merged


def report(sums: Sums, *, title: str = "", thesis: bool = False) -> dict[str, Any]:
    """The report as ``headlong trace characterise --json`` gives it: tables, figures, provenance.

    Raises :class:`ShardError` if a shard is missing. ``thesis`` adds the published figures.
    """
    loaded: dict[str, Any] = json.loads(sums.report_json(title=title, thesis=thesis))
    return loaded
