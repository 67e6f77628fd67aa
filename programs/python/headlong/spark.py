"""Logs that outgrow a machine, characterised under Spark.

Spark's executors read the log, each some pieces of it, and sum its sessions, each some shards of
them; the driver passes on names of files and counts. The report is that of one process, byte for
byte, also if an executor is lost. Needs ``pip install headlong[spark]`` on the driver and the
executors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import Gap, Link, LogOptions, Sums, _native, characterise as _characterise, merge

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

    Batches = Iterator[pyarrow.RecordBatch]

_SUMS = "shard long, sums binary"
#: Rows of a piece: its head (shard -1), and the part that it has of each shard.
_PARTS = "shard long, part binary"
#: Most shards of a log that is read in pieces.
_SHARDS_MAX = 256
#: The first lines of a text, and their bytes, by which its format is recognised.
_HEAD_LINES, _HEAD_BYTES = 4000, 64 << 10


def characterise(
    df: DataFrame,
    *,
    name: str | None = None,
    into: int | None = None,
    gap: Gap = "received",
    link: Link = "one-to-one",
    **options: Unpack[LogOptions],
) -> Sums:
    """Sums over the sessions of a log, whose ``report`` is that of one process.

    ``df`` has a request in each row, with the columns of :func:`headlong.read_log` or usual names;
    or, in its only column, a line of a log in each row, as ``spark.read.text(path, lineSep="\\n")``
    gives it. A partition of it is read as one piece, so the order of rows is that of the
    DataFrame. It is read again if an executor is lost, and has to have the same rows then.

    ``name`` is that of the log in the report ("the table", or "the text"). ``into`` is the number
    of shards into which sessions are divided, up to 256: by default four for each core that Spark
    has. Of ``options``, ``files`` names a table that the driver and all executors see under the
    same path, and ``threads`` is 1 unless it is given.

    Raises an exception of Spark with the text of :class:`headlong.LogError` if an executor cannot
    read a piece; :class:`headlong.ShardError` if executors have another version, or rows have
    changed while they were read.
    """
    from pyspark import StorageLevel

    context = df.sparkSession.sparkContext
    shards = into or 4 * max(1, context.defaultParallelism)
    shards = min(_SHARDS_MAX, shards)
    # Spark has a display of its own, instead of progress.
    given: dict[str, Any] = {"threads": 1, **options, "progress": None}
    is_text = [field.dataType.typeName() for field in df.schema.fields] == ["string"]
    head = _head_of(df) if is_text else None
    name = name or ("the text" if is_text else "the table")
    # On disk: a part that is lost with its executor is read again.
    parts = df.mapInArrow(reading(name, shards, head, given), _PARTS)
    parts = parts.persist(StorageLevel.DISK_ONLY)
    try:
        heads = [bytes(row.part) for row in parts.where("shard < 0").collect()]
        survey = _native.survey(name, heads)
        del heads
        by_shard = parts.where("shard >= 0").groupBy("shard")
        told = context.broadcast(survey)

        def usage(number: int, parts: list[bytes]) -> bytes:
            return _native.shard_usage(told.value, number, parts, **given)

        rows = by_shard.applyInArrow(_of_shards(usage), _SUMS).collect()
        plan = _native.sum_plan(survey, [bytes(row.sums) for row in rows], **given)
        planned = context.broadcast(plan)

        def sums(number: int, parts: list[bytes]) -> bytes:
            rules = (gap, link)
            return _native.shard_sums(told.value, planned.value, number, parts, rules, **given)

        rows = by_shard.applyInArrow(_of_shards(sums), _SUMS).collect()
        found = {row.shard: bytes(row.sums) for row in rows}
        # Of shards without a session.
        empty = {number: sums(number, []) for number in range(shards) if number not in found}
        both = {**found, **empty}
        return merge(Sums.from_bytes(part, f"shard {number}") for number, part in both.items())
    finally:
        parts.unpersist()


def _head_of(df: DataFrame) -> bytes:
    lines = [row[0] or "" for row in df.head(_HEAD_LINES)]
    return "".join(line + "\n" for line in lines).encode()[:_HEAD_BYTES]


def reading(
    name: str, shards: int, head: bytes | None, options: dict[str, Any]
) -> Callable[[Batches], Batches]:
    """The function of a task that reads a partition as a piece of the log of this name.

    With the ``head`` of a text, its rows are lines.
    """

    def read(batches: Batches) -> Batches:
        import pyarrow
        from pyspark import TaskContext

        rows = pyarrow.Table.from_batches(filled) if (filled := list(batches)) else None
        if rows is None or rows.num_rows == 0:
            return
        context = TaskContext.get()
        assert context is not None, "only tasks of Spark read pieces"
        piece = (context.partitionId(), rows.num_rows, shards)
        source = rows if head is None else _text_of(rows)
        first, parts = _native.read_piece(source, piece, name, head, **options)
        yield _rows("part", [(-1, first)])
        for part in parts:
            yield _rows("part", [part])

    return read


def _text_of(rows: pyarrow.Table) -> bytes:
    """Lines as a text."""
    import pyarrow
    import pyarrow.compute

    texts = []
    for lines in rows.column(0).chunks:
        lines = lines.cast(pyarrow.large_binary()).fill_null(b"")
        # A list of all lines, joined as one value.
        ends = pyarrow.array([0, len(lines)], pyarrow.int64())
        lists = pyarrow.LargeListArray.from_arrays(ends, lines)
        joined = pyarrow.compute.binary_join(lists, pyarrow.scalar(b"\n", pyarrow.large_binary()))
        texts.append(joined[0].as_py())
    return b"\n".join(texts) + b"\n"


def _rows(column: str, rows: list[tuple[int, bytes]]) -> pyarrow.RecordBatch:
    import pyarrow

    schema = pyarrow.schema([("shard", pyarrow.int64()), (column, pyarrow.binary())])
    numbers, parts = [number for number, _ in rows], [part for _, part in rows]
    return pyarrow.RecordBatch.from_pydict({"shard": numbers, column: parts}, schema)


def _of_shards(
    result: Callable[[int, list[bytes]], bytes],
) -> Callable[[pyarrow.Table], pyarrow.Table]:
    """The function of a task that has all parts of a shard."""

    def of_shard(parts: pyarrow.Table) -> pyarrow.Table:
        import pyarrow

        number = parts.column("shard")[0].as_py()
        done = result(number, parts.column("part").to_pylist())
        return pyarrow.Table.from_batches([_rows("sums", [(number, done)])])

    return of_shard


def sum_shards(
    session: SparkSession,
    shards: Iterable[str | os.PathLike[str]],
    *,
    gap: Gap = "received",
    link: Link = "one-to-one",
    threads: int = 1,
    memory: int | str | None = None,
) -> Sums:
    """Merged sums of the shards of one :func:`headlong.split`, each summed as a task of its own.

    Raises :class:`headlong.ShardError` if a shard is of another split, repeated, cut or missing.
    """
    paths = [os.fspath(shard) for shard in shards]
    task = summing(paths, {"gap": gap, "link": link, "threads": threads, "memory": memory})
    numbers = session.range(0, len(paths), 1, max(1, len(paths)))
    rows = numbers.mapInArrow(task, _SUMS).collect()
    return merge(Sums.from_bytes(bytes(row.sums), paths[row.shard]) for row in rows)


def summing(paths: list[str], options: dict[str, Any]) -> Callable[[Batches], Batches]:
    """The function of a task: from places in ``paths`` to the sums of these shards."""

    def sums(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                path = paths[number]
                if not Path(path).exists():
                    raise FileNotFoundError(f"{path}: this executor does not see the shard")
                yield _rows("sums", [(number, _characterise(path, **options).to_bytes())])

    return sums
