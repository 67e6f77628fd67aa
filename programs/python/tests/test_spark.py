"""Under Spark, with executors as processes, one of which is killed half-way."""

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import headlong
import pytest

pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java", allow_module_level=True)

import headlong.spark  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("headlong")
    for key, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        # Several pieces even of a small log.
        "spark.sql.files.maxPartitionBytes": "32k",
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def executors() -> list[int]:
    """Process ids of the executors that this process's Java machine has started."""
    parents: dict[int, int] = {}
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                stat = (place / "stat").read_text().rsplit(")", 1)[1].split()
                words = (place / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            parents[int(place.name)] = int(stat[1])
            if any(word.endswith(b"CoarseGrainedExecutorBackend") for word in words):
                found.append(int(place.name))

    def is_ours(pid: int) -> bool:
        while pid > 1 and pid != os.getpid():
            pid = parents.get(pid, 0)
        return pid == os.getpid()

    return [pid for pid in found if is_ours(pid)]


def test_table_of_requests_gives_the_report_of_one_process(spark: SparkSession, log: Path) -> None:
    df = spark.read.csv(str(log), header=True, inferSchema=True)
    assert df.rdd.getNumPartitions() > 2
    sums = headlong.spark.characterise(df, into=5)
    assert sums.shards == [0, 1, 2, 3, 4]
    expected = headlong.characterise(df.toArrow())
    assert sums.report_json() == expected.report_json()


def test_lines_of_a_text_give_the_report_of_one_process(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    odd = tmp_path / "odd.csv"
    lines = log.read_text().splitlines(keepends=True)
    odd.write_text("".join([*lines[:3000], "not a line\n", *lines[3000:]]))
    df = spark.read.text(str(odd), lineSep="\n")
    assert df.rdd.getNumPartitions() > 2
    sums = headlong.spark.characterise(df, name=str(odd), gap="idle")
    assert "odd.csv:3001: not a line" in str(sums.notes)
    assert sums.report_json() == headlong.characterise(odd, gap="idle").report_json()


def test_killed_executor_changes_nothing(
    spark: SparkSession, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, killed = tmp_path / "started", tmp_path / "killed"
    started.mkdir()
    reading = headlong.spark.reading

    def slowly(*how):
        read = reading(*how)

        def wait(batches):
            # The first two tasks end; the others wait until an executor was killed.
            from pyspark import TaskContext

            number = TaskContext.get().partitionId()
            (started / f"{number}-{os.getpid()}").touch()
            end = time.monotonic() + 120
            while number >= 2 and not killed.exists() and time.monotonic() < end:
                time.sleep(0.05)
            yield from read(batches)

        return wait

    def kill() -> None:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            waiting = [path for path in started.iterdir() if int(path.name.split("-")[0]) >= 2]
            if waiting and (found := executors()):
                os.kill(found[0], signal.SIGKILL)
                killed.touch()
                return
            time.sleep(0.05)

    monkeypatch.setattr(headlong.spark, "reading", slowly)
    killer = threading.Thread(target=kill)
    killer.start()
    df = spark.read.text(str(log), lineSep="\n")
    sums = headlong.spark.characterise(df, name=str(log))
    killer.join()
    assert killed.exists(), "no executor was found"
    told = [int(path.name.split("-")[0]) for path in started.iterdir()]
    assert len(told) > len(set(told)), "no task was started twice"
    assert sums.report_json() == headlong.characterise(log).report_json()


def test_shards_of_a_split_give_the_report_of_the_log(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    shards = headlong.split(log, tmp_path / "shards", 3)
    sums = headlong.spark.sum_shards(spark, shards)
    assert sums.report_json() == headlong.characterise(log).report_json()


def test_text_that_is_no_log_is_an_error(spark: SparkSession) -> None:
    df = spark.createDataFrame([("what is this",)] * 9, "line string")
    with pytest.raises(Exception, match="the text is in no known format"):
        headlong.spark.characterise(df)


def test_missing_shard_is_an_error_that_names_it(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="this executor does not see the shard"):
        headlong.spark.sum_shards(spark, [tmp_path / "nowhere"])
