"""The script of docs/lab/r.md draws its figures from the tables of a log."""

import re
import shutil
import subprocess
from pathlib import Path

import headlong
import pytest
from headlong._programs import program

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import csv, parquet  # noqa: E402

if shutil.which("Rscript") is None:
    pytest.skip("R is missing; apt-get install r-cran-ggplot2 r-cran-bit64", allow_module_level=True)

PAGE = Path(__file__).parents[3] / "docs/lab/r.md"
#: What the script takes from arrow, on tables as CSV; like arrow, it gives numbers of 64 bits.
READING = """
suppressPackageStartupMessages(library(bit64))
all_of <- identity
read_parquet <- function(file, col_select) {
  rows <- read.csv(sub("parquet$", "csv", file), colClasses = "character")[, col_select]
  for (name in names(rows)) {
    is_flag <- rows[[name]][1] %in% c("true", "false")
    rows[[name]] <- if (is_flag) rows[[name]] == "true" else as.integer64(rows[[name]])
  }
  rows
}
"""
#: What the figures show, as numbers.
SHOWN = r"""
cat("Mbit:", format(sum(demand$mbit_s) * width, digits = 12), "\n")
cat("viewers:", max(changes$viewers), "\n")
cat("shares:", length(unique(chains$open)), sum(chains$share == 1), "\n")
"""


def test_script_of_the_page_draws_its_figures(log: Path, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    told = [program(), "trace", "characterise", str(log), "--tables", str(tables)]
    subprocess.run(told, check=True, capture_output=True)
    for name in ("requests", "chains", "sessions"):
        csv.write_csv(parquet.read_table(tables / f"{name}.parquet"), tables / f"{name}.csv")
    found = re.search(r"^```r\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"{PAGE} has no script"
    script = found[1].replace("library(arrow)\n", READING)
    assert script != found[1], "the script no longer reads by arrow"
    (tmp_path / "figures.R").write_text(script + SHOWN)
    ran = subprocess.run(["Rscript", "figures.R"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr

    lines = dict(line.split(":") for line in ran.stdout.splitlines() if ":" in line)
    requests = pyarrow.table(headlong.read_log(log))
    assert float(lines["Mbit"]) == pytest.approx(sum(requests["bytes"].to_pylist()) * 8 / 1e6)
    sessions = parquet.read_table(tables / "sessions.parquet").to_pylist()
    whole = [row for row in sessions if not row["left_out"]]
    starts = [row["t_start"] for row in whole]
    at_once = [sum(r["t_start"] <= ms <= r["t_end"] for r in whole) for ms in starts]
    assert int(lines["viewers"]) == max(at_once)
    kinds, ends = lines["shares"].split()
    assert int(kinds) == 2 and int(ends) >= 2
    for name in ("demand", "viewers", "chains"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
