"""Speed of the package beside that of the program, and of its chains beside Polars.

    python programs/python/bench/speeds.py [--sessions N | --log FILE] [--rounds N] [--csv]

Without ``--log``, `headlong-lab workload generate` writes a log, in which a session has some 500
requests; with ``--csv`` one of text instead of Parquet. Each run is a process of its own, by turns,
and the least of the rounds counts. Needs Polars and pyarrow.

`read_log` is compared with `headlong trace split --into 1`, which reads a log in the same way and
writes its requests, and with the report of `trace characterise`. Chains are compared with
the query that finds gaps and islands: rows sorted by arrival, where a chain ends if the next row
does not start at the end of the last. A file that a viewer reads twice at a time, or over several
connections, has rows that interrupt each other, so it misses links; these are counted.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import headlong
import polars
from headlong._programs import program
from polars import col

GAP_MS = 40_000
KEY = ["session", "file"]

Run = Callable[[], dict[str, int]]


def islands(requests: polars.LazyFrame) -> polars.LazyFrame:
    """Chains by gaps and islands; requests have the columns of `headlong.read_log`."""
    touches = (
        (col("session") == col("session").shift())
        & (col("file") == col("file").shift())
        & (col("offset") == col("end").shift())
        & (col("received") - col("received").shift() <= GAP_MS)
    )
    return (
        placed(requests)
        .sort(*KEY, "received", "offset")
        .with_columns((~touches.fill_null(False)).cum_sum().alias("chain"))
        .group_by("chain")
        .agg(
            col("session").first(),
            col("file").first(),
            col("offset").min().alias("start"),
            col("end").max(),
            col("received").min().alias("t_start"),
            col("ts_ms").max().alias("t_end"),
            polars.len().alias("nreq"),
        )
    )


def placed(requests: polars.LazyFrame) -> polars.LazyFrame:
    """Requests that belong to a chain."""
    return requests.filter(col("bytes") > 0, col("offset").is_not_null()).with_columns(
        (col("ts_ms") - col("service_ms")).alias("received"),
        (col("offset") + col("bytes")).alias("end"),
    )


def counts(chains: polars.DataFrame) -> dict[str, int]:
    requests = int(chains["nreq"].sum())
    return {"chains": len(chains), "links": requests - len(chains)}


def runs(log: str, folder: Path) -> dict[str, Callable[[], Run]]:
    """Each prepares what is not measured, and returns what is."""

    def of_program(*words: str) -> Callable[[], Run]:
        def run() -> dict[str, int]:
            subprocess.run([program(), "trace", *words], check=True, capture_output=True)
            return {}

        return lambda: run

    def of_query(engine: Any) -> Callable[[], Run]:
        def run() -> dict[str, int]:
            rows = polars.scan_parquet(log)
            if "ts" in rows.collect_schema():
                rows = rows.with_columns((col("ts") * 1000).alias("ts_ms"))
            return counts(islands(rows).collect(engine=engine))

        return lambda: run

    def read() -> dict[str, int]:
        return {"rows": headlong.read_log(log).num_rows}

    def chains() -> dict[str, int]:
        return counts(polars.DataFrame(headlong.chains(log)))

    def of_table() -> Run:
        table = polars.DataFrame(headlong.read_log(log))
        return lambda: counts(polars.DataFrame(headlong.chains(table)))

    def query_of_table() -> Run:
        table = polars.DataFrame(headlong.read_log(log))
        return lambda: counts(islands(table.lazy()).collect())

    every = {
        "read_log": lambda: read,
        "trace split --into 1": of_program("split", log, "--into", "1", "--out", str(folder / "one")),
        "trace characterise --json": of_program("characterise", log, "--json"),
        "chains(path)": lambda: chains,
        "chains(table)": of_table,
        "Polars, from a table": query_of_table,
    }
    if log.endswith(".parquet"):
        every["Polars, from Parquet"] = of_query("in-memory")
        every["Polars, from Parquet, streaming"] = of_query("streaming")
    return every


def measured(name: str, log: str) -> dict[str, float]:
    """Runs one of the runs in this process."""
    with tempfile.TemporaryDirectory() as folder:
        run = runs(log, Path(folder))[name]()
        both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)

        def cpu() -> float:
            return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, both))

        began, before = time.monotonic(), cpu()
        counted = run()
        took = {"s": time.monotonic() - began, "cpu_s": cpu() - before}
    most = max(resource.getrusage(who).ru_maxrss for who in both)
    return {**counted, **took, "mb": most * 1024 / 1e6}


def differences(log: str) -> str:
    """What the query finds of the chains, and what it leaves apart."""
    kinds = {"session": polars.String, "file": polars.String}
    table = polars.DataFrame(headlong.read_log(log)).cast(kinds)
    theirs = islands(table.lazy()).collect().with_columns(length=col("end") - col("start"))
    ours = polars.DataFrame(headlong.chains(log)).cast(kinds)
    same = [*KEY, "start", "length", "t_start", "t_end", "nreq"]
    common = ours.select(same).join(theirs.select(same).unique(), on=same, how="semi").height
    told, found = counts(theirs), counts(ours)
    return (
        f"Polars finds {told['chains']:,} chains, headlong {found['chains']:,}, of which "
        f"{common:,} are equal; Polars leaves apart {found['links'] - told['links']:,} pairs of "
        f"requests that touch within {GAP_MS // 1000} s"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--log", help="CSV, or Parquet with the columns of a plain request log")
    arguments.add_argument("--sessions", default="40000", help="of the log to generate [%(default)s]")
    arguments.add_argument("--csv", action="store_true", help="generate text")
    arguments.add_argument("--rounds", type=int, default=3, help="[%(default)s]")
    arguments.add_argument("--measure", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.measure:
        print(json.dumps(measured(given.measure, given.log)))
        return
    with tempfile.TemporaryDirectory() as folder:
        log = given.log
        if log is None:
            log = f"{folder}/log.{'csv' if given.csv else 'parquet'}"
            words = ["workload", "generate", "netflix-2014-catalog", "--sessions", given.sessions]
            files = f"{folder}/files.csv"
            subprocess.run([program(), *words, "--log", log, "--files", files], check=True)
        least: dict[str, dict[str, float]] = {}
        for _ in range(given.rounds):
            for name in runs(log, Path(folder)):
                words = [sys.executable, __file__, "--measure", name, "--log", log]
                ran = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
                run = json.loads(ran.stdout)
                if name not in least or run["s"] < least[name]["s"]:
                    least[name] = run
        print_all(least)
        print(differences(log))


def print_all(least: dict[str, dict[str, float]]) -> None:
    print(f"{'':32}{'s':>8}{'CPU s':>8}{'MB':>8}")
    for name, run in least.items():
        print(f"{name:32}{run['s']:8.2f}{run['cpu_s']:8.2f}{run['mb']:8.0f}")
    print(f"{least['read_log']['rows']:,} requests; speed relative to")
    ratios = {
        "read_log": ["trace split --into 1", "trace characterise --json"],
        "chains(path)": [name for name in least if name.startswith("Polars, from Parquet")],
        "chains(table)": ["Polars, from a table"],
    }
    for name, others in ratios.items():
        for other in others:
            print(f"  {name:16}{other:32}{least[other]['s'] / least[name]['s']:6.2f}")


if __name__ == "__main__":
    main()
