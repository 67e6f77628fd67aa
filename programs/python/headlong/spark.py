"""Logs that outgrow a machine, characterised under Spark.

The driver divides the log by session into shards; each shard is one task, which any executor may
run, and run again if an executor is lost; the driver merges the sums. The report is that of one
process, byte for byte. Needs ``pip install headlong[spark]`` on the driver and the executors.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import Gap, Link, LogOptions, Sums, characterise as _characterise, merge, split

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = "shard long, sums binary"


def characterise(
    df: DataFrame,
    *,
    folder: str | os.PathLike[str] | None = None,
    into: int | None = None,
    gap: Gap = "received",
    link: Link = "one-to-one",
    **options: Unpack[LogOptions],
) -> Sums:
    """Sums over the sessions of a DataFrame of requests, whose ``report`` is that of one process.

    ``df`` has the columns of a request log: those of :func:`headlong.read_log`, or usual names.
    ``folder`` holds the shards for a while, some 20 bytes a request; every executor must see it
    under the same path (default: a temporary folder, for executors on this machine). ``into`` is
    the number of shards, by default four for each core that Spark has.

    The rows pass through the driver once, as Arrow; joining and summing is what is distributed.
    """
    session = df.sparkSession
    shards = into or min(512, 4 * max(1, session.sparkContext.defaultParallelism))
    with tempfile.TemporaryDirectory(prefix="headlong-", dir=folder) as place:
        paths = split(df.toArrow(), place, shards, **options)
        return sum_shards(session, paths, gap=gap, link=link, threads=1)


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
    rows = numbers.mapInArrow(task, _SCHEMA).collect()
    return merge(Sums.from_bytes(bytes(row.sums), paths[row.shard]) for row in rows)


def summing(
    paths: list[str], options: dict[str, Any]
) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    """The function of a task: from places in ``paths`` to the sums of these shards."""

    def sums(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        for batch in batches:
            for number in batch.column(0).to_pylist():
                path = paths[number]
                if not Path(path).exists():
                    raise FileNotFoundError(f"{path}: this executor does not see the shard")
                done = _characterise(path, **options).to_bytes()
                row = {"shard": [number], "sums": [done]}
                schema = pyarrow.schema([("shard", pyarrow.int64()), ("sums", pyarrow.binary())])
                yield pyarrow.RecordBatch.from_pydict(row, schema)

    return sums
