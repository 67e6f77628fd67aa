"""Progress of long calls, as bars in a notebook or a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

#: Called with what is done, how much of it, and the total (None if it is unknown).
Progress: TypeAlias = Callable[[str, int, int | None], None]

_UNITS = {"reading": "B", "summing": " requests", "simulating": " rows"}


class _Bars:
    """A bar for each kind of work, one after the other."""

    def __init__(self) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            raise ModuleNotFoundError(
                "progress=True needs the package tqdm: pip install tqdm; or give a function of "
                "what is done, how much of it, and the total or None"
            ) from None
        self._new = tqdm
        self._bars: dict[str, Any] = {}

    def __call__(self, what: str, done: int, of: int | None) -> None:
        bar = self._bars.get(what)
        if bar is None:
            unit = _UNITS.get(what, "")
            bar = self._new(total=of, desc=what, unit=unit, unit_scale=True)
            self._bars[what] = bar
        bar.update(done - bar.n)

    def close(self) -> None:
        for bar in self._bars.values():
            bar.close()


@contextmanager
def shown(progress: bool | Progress | None) -> Iterator[Progress | None]:
    """The function that is called meanwhile: bars if ``progress`` is True."""
    if progress is True:
        bars = _Bars()
        try:
            yield bars
        finally:
            bars.close()
    else:
        yield progress or None


@contextmanager
def with_shown(options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The options with such a function."""
    with shown(options.get("progress")) as function:
        yield {**options, "progress": function}
