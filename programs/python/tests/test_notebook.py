"""The notebook runs, from a log to its report."""

import json
from pathlib import Path

import pytest

papermill = pytest.importorskip("papermill")
NOTEBOOK = Path(__file__).parent.parent / "notebooks" / "log-to-report.ipynb"


def test_notebook_writes_the_report_of_a_log(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    papermill.execute_notebook(
        str(NOTEBOOK),
        str(tmp_path / "run.ipynb"),
        parameters={"log": str(log), "out": str(out)},
        progress_bar=False,
        kernel_name="python3",
    )
    assert json.loads(out.read_text())["sessions"] == 300
