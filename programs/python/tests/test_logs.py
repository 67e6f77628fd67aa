"""Logs as Arrow tables, and their chains."""

import io
import sys
import threading
from pathlib import Path

import duckdb
import headlong
import pandas
import polars
import pyarrow
import pyarrow.compute
import pyarrow.parquet
import pytest
from conftest import HEADER, log_text


def rows(table: object) -> list[dict[str, object]]:
    found = pyarrow.table(table).to_pylist()
    return sorted(found, key=lambda row: [str(value) for value in row.values()])


def test_log_has_a_row_for_each_request(log: Path) -> None:
    table = headlong.read_log(log)
    assert table.column_names == HEADER.split(",")
    assert len(table) == log.read_text().count("\n") - 1
    told = {tuple("" if v is None else str(v) for v in row.values()) for row in rows(table)}
    assert told == {tuple(line.split(",")) for line in log.read_text().splitlines()[1:]}


def test_units_are_in_the_table_and_its_fields(log: Path) -> None:
    table = headlong.read_log(log)
    assert table.units["bytes"] == ("bytes", "bytes sent")
    schema = pyarrow.table(table).schema
    assert schema.field("service_ms").metadata[b"unit"] == b"ms"
    assert schema.metadata[b"headlong.table"] == b"requests"


def test_columns_are_not_copied(log: Path) -> None:
    table = headlong.read_log(log)
    one, other = (pyarrow.table(table)["bytes"].chunk(0).buffers()[1] for _ in range(2))
    assert one.address == other.address


def test_every_library_takes_the_table(log: Path) -> None:
    requests = headlong.read_log(log)
    expected = pyarrow.compute.sum(pyarrow.table(requests)["bytes"]).as_py()
    assert polars.DataFrame(requests)["bytes"].sum() == expected
    assert pandas.DataFrame.from_arrow(requests)["bytes"].sum() == expected
    assert duckdb.sql("SELECT sum(bytes)::BIGINT FROM requests").fetchall() == [(expected,)]


def test_buffers_and_tables_are_read_like_files(log: Path, tmp_path: Path) -> None:
    expected = rows(headlong.read_log(log))
    data = log.read_bytes()
    table = pyarrow.table(headlong.read_log(log))
    parquet = tmp_path / "log.parquet"
    pyarrow.parquet.write_table(table, parquet)
    plain = table.cast(pyarrow.schema([
        (f.name, f.type.value_type if pyarrow.types.is_dictionary(f.type) else f.type)
        for f in table.schema
    ]))
    for source in [
        data,
        bytearray(data),
        memoryview(data),
        io.BytesIO(data),
        io.StringIO(data.decode()),
        [str(log)],
        table,
        plain,
        polars.DataFrame(table),
        pandas.DataFrame.from_arrow(plain),
        headlong.read_log(log),
        parquet,
    ]:
        assert rows(headlong.read_log(source)) == expected, type(source)


def test_times_of_any_unit_are_read(log: Path) -> None:
    expected = rows(headlong.read_log(log))
    table = pyarrow.table(headlong.read_log(log))
    for unit in ["ms", "us", "ns"]:
        times = table["ts_ms"].cast(pyarrow.timestamp("ms")).cast(pyarrow.timestamp(unit))
        timed = table.set_column(0, "ts", times)
        assert rows(headlong.read_log(timed)) == expected, unit


def test_chains_are_those_of_adjacent_reads() -> None:
    text = "\n".join([
        HEADER,
        "1000,0,a,tv,f.mp4,0,10,10,0",
        "2000,0,a,tv,f.mp4,10,10,10,0",
        "3000,0,a,tv,f.mp4,90,,10,0",
        "80000,0,a,tv,f.mp4,20,10,10,0",
        "4000,0,b,tv,f.mp4,20,10,10,0",
    ])
    found = rows(headlong.chains(text.encode()))
    told = [(r["session"], r["start"], r["length"], r["nreq"], r["open"]) for r in found]
    assert sorted(told) == [
        ("a", 0, 20, 2, False), ("a", 20, 10, 1, False), ("a", 90, 10, 1, True),
        ("b", 20, 10, 1, False),
    ]


def test_chains_of_a_table_equal_those_of_its_log(log: Path) -> None:
    for options in [{}, {"gap": "idle"}, {"link": "component"}]:
        of_log = rows(headlong.chains(log, **options))
        assert rows(headlong.chains(headlong.read_log(log), **options)) == of_log


def test_errors_name_the_place(log: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd.csv"
    odd.write_text(HEADER + "\n1000,0,a,tv,f.mp4,0,10,10,0\n" + "what is this\n" * 5)
    for source, options, error, words in [
        (tmp_path / "none.log", {}, headlong.LogError, "none.log cannot be read"),
        (odd, {}, headlong.LogError, "odd.csv:3"),
        (b"no log at all\n" * 9, {}, headlong.LogError, "the buffer is in no known format"),
        (pyarrow.table({"a": [1]}), {}, headlong.LogError, "the table"),
        (pyarrow.table({"a": [[1]]}), {}, headlong.LogError, "the table: it has no column"),
        (7, {}, TypeError, "not int"),
        (log, {"fils": "x"}, TypeError, "unknown option `fils`"),
        (log, {"memory": "many"}, ValueError, "option memory"),
        (log, {"format": "nothing"}, ValueError, "option format"),
        (log, {"title_rule": "("}, headlong.LogError, "title-rule"),
        (log, {"gap": "none"}, ValueError, "gap is received or idle"),
    ]:
        with pytest.raises(error) as told:
            headlong.chains(source, **options)
        assert words in str(told.value), told.value
    assert len(headlong.chains(odd, allow_dropped=True)) == 1


def test_stream_that_fails_is_an_error() -> None:
    def batches():
        yield pyarrow.record_batch({"bytes": [1]})
        raise ValueError("the source broke")

    schema = pyarrow.schema([("bytes", pyarrow.int64())])
    reader = pyarrow.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(headlong.LogError, match="the source broke"):
        headlong.read_log(reader)


def test_other_threads_run_while_a_log_is_read() -> None:
    text = log_text(6000).encode()
    done = threading.Event()

    def read() -> None:
        headlong.characterise(text, threads=1)
        done.set()

    thread = threading.Thread(target=read)
    thread.start()
    turns = 0
    while not done.wait(0.002):
        turns += 1
    thread.join()
    assert turns >= 5


def test_progress_is_told_until_all_is_done(log: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    headlong.characterise(log, progress=lambda *step: told.append(step))
    size, requests = log.stat().st_size, log.read_text().count("\n") - 1
    assert ("reading", size, size) in told
    assert told[-1] == ("summing", requests, requests)


def test_progress_that_fails_ends_nothing(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[BaseException] = []
    monkeypatch.setattr("sys.unraisablehook", lambda found: failures.append(found.exc_value))
    table = headlong.read_log(log, progress=lambda *_: 1 // 0)
    assert len(table) > 0
    assert {type(error) for error in failures} == {ZeroDivisionError}


def test_bars_need_their_package(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ModuleNotFoundError, match="pip install tqdm"):
        headlong.read_log(log, progress=True)
