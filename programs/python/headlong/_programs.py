"""Simulations and capacities, by the program ``headlong-lab`` of this package.

The program runs as a child process, so Python's lock is free and a simulation uses all cores.
"""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from ._native import HeadlongError
from ._progress import Progress, shown

PROGRAM = "headlong-lab"
#: Names another program.
VARIABLE = "HEADLONG_LAB"


class ProgramError(HeadlongError):
    """The program is missing, or refused or failed; ``code`` is its exit code."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code


def program() -> str:
    """The path of ``headlong-lab``: that of the variable HEADLONG_LAB, beside Python, or in PATH."""
    given = os.environ.get(VARIABLE)
    if given:
        if not os.access(given, os.X_OK):
            raise ProgramError(f"{VARIABLE}={given}: there is no such program")
        return given
    beside = Path(sysconfig.get_path("scripts")) / PROGRAM
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(PROGRAM)
    if found is None:
        raise ProgramError(
            f"the program {PROGRAM} is neither in {beside.parent} nor in PATH; install a wheel that "
            f"has it, or name it by the variable {VARIABLE}"
        )
    return found


def _run(words: list[str], meanwhile: Callable[[], None] | None = None) -> str:
    """Runs the program, and returns what it prints; ``meanwhile`` is called several times."""
    out = subprocess.PIPE
    with subprocess.Popen(
        [program(), *words], stdin=subprocess.DEVNULL, stdout=out, stderr=out, text=True
    ) as child:
        try:
            printed, told = _ended(child, meanwhile)
        except BaseException:
            child.kill()
            raise
    if child.returncode != 0:
        told = told.strip() or f"{PROGRAM} ended with {child.returncode}"
        raise ProgramError(told, child.returncode)
    return printed


def _ended(child: subprocess.Popen[str], meanwhile: Callable[[], None] | None) -> tuple[str, str]:
    while meanwhile:
        try:
            both = child.communicate(timeout=0.2)
        except subprocess.TimeoutExpired:
            meanwhile()
        else:
            meanwhile()
            return both
    return child.communicate()


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _options(given: Mapping[str, object | None]) -> list[str]:
    """Words of the options that are given; a flag is True."""
    words: list[str] = []
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
    return words


def simulate(
    experiment: str | os.PathLike[str],
    *,
    set: Mapping[str, object] | None = None,
    grid: Mapping[str, Iterable[object]] | None = None,
    rate: str | Iterable[str] = (),
    seed: int | None = None,
    seeds: int | None = None,
    server: str | None = None,
    workload: str | None = None,
    quick: bool = False,
    threads: int | None = None,
    progress: bool | Progress | None = None,
) -> list[dict[str, Any]]:
    """Simulates an experiment in virtual time: a row for each point of the grid, and each rate.

    ``experiment`` is a preset such as ``"youtube-sd"`` or the path of a TOML file; ``set`` changes
    keys (``{"memory": "8GiB"}``), ``grid`` varies them (``{"server.prefetch": ["1MiB", "2MiB"]}``).
    ``rate`` is one rate or several, such as ``"25MiB/s"``; without it the highest rate without a
    failure is searched. ``seed`` and ``seeds`` choose the viewers. ``progress`` counts the rows of
    a grid: True for a bar (needs ``tqdm``), or a function of ``"simulating"``, the rows that are
    done, and all.

    A row has the value of each axis under its name, as text; ``offered_mib_s`` (MiB/s; None if no
    rate passed), ``failed_mib_s`` (the lowest rate that failed in the search), ``failures`` (calls,
    over all seeds), ``worlds`` (runs made), and means over the seeds, such as ``viewers``,
    ``disk_mib_s`` or ``wait_p99_ms``, whose names end in their units.
    ``polars.DataFrame(rows)`` or ``pandas.DataFrame(rows)`` makes a table.

    Raises :class:`ProgramError` with every mistake in keys and values.
    """
    axes = {name: [_word(value) for value in values] for name, values in (grid or {}).items()}
    words = ["simulate", os.fspath(experiment)]
    for key, value in (set or {}).items():
        words += ["--set", f"{key}={_word(value)}"]
    for name, values in axes.items():
        words += ["--grid", f"{name}={','.join(values)}"]
    rates = [rate] if isinstance(rate, str) else list(rate)
    for one in rates:
        words += ["--rate", one]
    chosen = {"seed": seed, "seeds": seeds, "server": server, "workload": workload}
    words += _options({**chosen, "quick": quick})
    if not axes:
        # One point: that of an empty grid.
        words += ["--only", _run([*words, "--list"]).split()[0]]
    with tempfile.TemporaryDirectory() as folder, shown(progress if axes else None) as function:
        table, points = Path(folder) / "rows.csv", Path(folder) / "points"
        rows_of_point = max(1, len(rates))
        rows = math.prod(len(values) for values in axes.values()) * rows_of_point

        def count() -> None:
            done = len(list(points.glob("*.json"))) * rows_of_point
            if function:
                function("simulating", done, rows)

        if function:
            # A file for each point, as soon as it is done.
            _run([*words, *_options({"threads": threads, "into": points})], count)
            words += _options({"collect": points, "csv": table})
        else:
            words += _options({"threads": threads, "csv": table})
        _run(words)
        with table.open(newline="") as lines:
            return [_typed(row, axes) for row in csv.DictReader(lines)]


def _typed(row: dict[str, str], axes: Container[str]) -> dict[str, Any]:
    def typed(name: str, text: str) -> Any:
        if name in axes:
            return text
        if text == "":
            return None
        return int(text) if name in ("failures", "worlds") else float(text)

    return {name: typed(name, text) for name, text in row.items()}


def capacity(
    log: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    drives: str,
    memory: str,
    flash: str | None = None,
    catalogue: str | None = None,
    samples: int | None = None,
    quick: bool = False,
    files: str | os.PathLike[str] | None = None,
    format: str | None = None,
    log_format: str | None = None,
    session_field: str | None = None,
    threads: int | None = None,
    allow_dropped: bool = False,
) -> dict[str, Any]:
    """How many viewers a machine bears without a failed request, from a log: the JSON of
    ``headlong capacity``.

    ``drives`` is a number and a preset or the file of a drive (``"4xnearline-20tb"``), ``memory``
    a size (``"32GiB"``), ``flash`` SSDs like ``drives``, ``catalogue`` the bytes of all titles
    (``"40TB"``). Fields name their units; each estimate is an object of ``value``, ``low`` and
    ``high``. ``quick`` leaves out changes of the machine and the comparison.

    Raises :class:`ProgramError` for a log without byte ranges, fewer than 200 sessions, and mistakes.
    """
    logs = [log] if isinstance(log, (str, os.PathLike)) else list(log)
    words = ["capacity", *[os.fspath(one) for one in logs], "--json"]
    machine = {"drives": drives, "memory": memory, "flash": flash, "catalogue": catalogue}
    reading = {
        "files": files,
        "format": format,
        "log_format": log_format,
        "session_field": session_field,
        "threads": threads,
        "allow_dropped": allow_dropped,
    }
    answer: dict[str, Any] = json.loads(
        _run([*words, *_options({**machine, "samples": samples, "quick": quick, **reading})])
    )
    return answer
