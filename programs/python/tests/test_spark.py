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
    sums = headlong.spark.characterise(df, into=5)
    assert sums.shards == [0, 1, 2, 3, 4]
    expected = headlong.characterise(df.toArrow())
    assert sums.report_json() == expected.report_json()


def test_killed_executor_changes_nothing(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    expected = headlong.characterise(log).report_json()
    paths = [os.fspath(path) for path in headlong.split(log, tmp_path / "shards", 8)]
    summing = headlong.spark.summing(paths, {"threads": 1})
    started, killed = tmp_path / "started", tmp_path / "killed"
    started.mkdir()

    def slowly(batches):
        # The first four tasks end; the others wait until an executor was killed.
        for batch in batches:
            number = batch.column(0).to_pylist()[0]
            (started / f"{number}-{os.getpid()}").touch()
            end = time.monotonic() + 120
            while number >= 4 and not killed.exists() and time.monotonic() < end:
                time.sleep(0.05)
            yield from summing(iter([batch]))

    def kill() -> None:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            waiting = [path for path in started.iterdir() if int(path.name.split("-")[0]) >= 4]
            if waiting and (found := executors()):
                os.kill(found[0], signal.SIGKILL)
                killed.touch()
                return
            time.sleep(0.05)

    killer = threading.Thread(target=kill)
    killer.start()
    rows = spark.range(0, 8, 1, 8).mapInArrow(slowly, "shard long, sums binary").collect()
    killer.join()
    assert killed.exists(), "no executor was found"
    told = [int(path.name.split("-")[0]) for path in started.iterdir()]
    assert len(told) > len(set(told)), "no task was started twice"
    sums = headlong.merge(bytes(row.sums) for row in rows)
    assert sums.report_json() == expected


def test_missing_shard_is_an_error_that_names_it(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="this executor does not see the shard"):
        headlong.spark.sum_shards(spark, [tmp_path / "nowhere"])
