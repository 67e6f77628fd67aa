"""The notebooks run, each on small data."""

import csv
import json
from pathlib import Path

import pytest
from conftest import HEADER

papermill = pytest.importorskip("papermill")
NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


def run(name: str, folder: Path, **parameters: object) -> None:
    papermill.execute_notebook(
        str(NOTEBOOKS / name),
        str(folder / "run.ipynb"),
        parameters=parameters,
        progress_bar=False,
        kernel_name="python3",
    )


def test_notebook_writes_the_report_of_a_log(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    run("log-to-report.ipynb", tmp_path, log=str(log), out=str(out))
    assert json.loads(out.read_text())["sessions"] == 300


def test_notebook_compares_the_limits_of_machines(tmp_path: Path) -> None:
    # Each viewer has a title of its own.
    rows = [
        f"{1000 * (viewer * 37 % 2000 + 4 * piece)},300,s{viewer},tv,/f/{viewer}.mp4,"
        f"{piece * 1_000_000},1000000,1000000,0"
        for viewer in range(300)
        for piece in range(20 + viewer * 53 % 60)
    ]
    log, out = tmp_path / "log.csv", tmp_path / "machines.csv"
    log.write_text("\n".join([HEADER, *rows, ""]))
    one = {"drives": "1xwd-red-wd10efrx", "memory": "1GiB"}
    two = {"drives": "2xwd-red-wd10efrx", "memory": "2GiB"}
    machines = {"one": one, "two": two}
    run("which-drives.ipynb", tmp_path, log=str(log), machines=machines, viewers=20, out=str(out))
    with out.open(newline="") as lines:
        viewers = {row["machine"]: float(row["viewers"]) for row in csv.DictReader(lines)}
    assert 1.5 < viewers["two"] / viewers["one"] < 2.7


def test_notebook_simulates_prefetch_sizes(tmp_path: Path) -> None:
    out = tmp_path / "sizes.csv"
    settings = {"phases.ramp_up": "60s", "phases.measured": "60s"}
    parameters = {"sizes": ["512KiB", "2MiB"], "settings": settings, "rate": "5MiB/s"}
    run("prefetch-sizes.ipynb", tmp_path, out=str(out), **parameters)
    with out.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["server.prefetch"] for row in rows] == ["512KiB", "2MiB", "auto"]
    assert all(float(row["offered_mib_s"]) == 5 for row in rows)
    # The figure again from the raw rows: these settings could not be simulated.
    unwritten = tmp_path / "unwritten.csv"
    impossible = {"settings": {"no.such": "key"}, "rate": "5MiB/s"}
    run("prefetch-sizes.ipynb", tmp_path, raw=str(out), out=str(unwritten), **impossible)
    assert not unwritten.exists()
    drawn = json.loads((tmp_path / "run.ipynb").read_text())["cells"][-1]["outputs"]
    assert any("image/png" in output.get("data", {}) for output in drawn)
