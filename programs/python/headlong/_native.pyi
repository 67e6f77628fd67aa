"""Types of the native module."""

import os
from collections.abc import Sequence
from typing import Any, final

__version__: str

class HeadlongError(Exception):
    """Base class of the exceptions of this package."""

class LogError(HeadlongError):
    """A log cannot be read or recognised, or too many of its lines were dropped."""

class ShardError(HeadlongError):
    """A shard or partial sum cannot be used; the text names it."""

@final
class Table:
    """An Arrow table, for any library that takes the Arrow PyCapsule interface."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""
    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
    @property
    def units(self) -> dict[str, tuple[str, str]]:
        """Of each column: its unit (empty for names and flags), and its meaning."""
    @property
    def notes(self) -> list[str]:
        """How the log was understood: lines read and dropped, what is missing."""
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The Arrow C stream of the table, as a capsule."""

@final
class Sums:
    """Sums over the sessions of a log, or of some shards of one."""

    @property
    def shards(self) -> list[int]:
        """Numbers of the shards that are summed, from 0."""
    @property
    def shards_total(self) -> int:
        """Number of shards of the whole log."""
    @property
    def notes(self) -> list[str]:
        """How the log was understood."""
    def merge(self, other: Sums) -> Sums:
        """The sums of both; in any order, the report is the same."""
    def report_json(self, title: str = "", command: str = "", thesis: bool = False) -> str:
        """The report as JSON; ShardError if a shard is missing."""
    def to_bytes(self) -> bytes:
        """The bytes of a file that ``headlong trace merge`` takes."""
    @classmethod
    def from_bytes(cls, data: bytes, name: str = "the bytes") -> Sums:
        """Reads such bytes; ``name`` is theirs in messages."""

def read_log(source: object, **options: Any) -> Table: ...
def chains(source: object, gap: str = ..., link: str = ..., **options: Any) -> Table: ...
def characterise(source: object, gap: str = ..., link: str = ..., **options: Any) -> Sums: ...
def split(
    source: object, folder: str | os.PathLike[str], into: int, **options: Any
) -> list[os.PathLike[str]]: ...

# Logs in pieces, for headlong.spark.
def read_piece(
    source: object,
    piece: tuple[int, int, int],
    name: str,
    head: bytes | None = None,
    **options: Any,
) -> tuple[bytes, list[tuple[int, bytes]]]: ...
def survey(name: str, heads: list[bytes]) -> bytes: ...
def shard_usage(survey: bytes, number: int, parts: list[bytes], **options: Any) -> bytes: ...
def sum_plan(survey: bytes, usages: list[bytes], **options: Any) -> bytes: ...
def shard_sums(
    survey: bytes,
    plan: bytes,
    number: int,
    parts: list[bytes],
    chain_rules: tuple[str, str],
    **options: Any,
) -> bytes: ...
