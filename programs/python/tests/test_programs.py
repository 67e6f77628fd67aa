"""Simulations and capacities by the program of the package."""

from pathlib import Path

import headlong
import pytest
from headlong import _programs


def test_grid_has_a_row_for_each_point_and_rate() -> None:
    steps: list[tuple[str, int, int | None]] = []
    rows = headlong.simulate(
        "youtube-sd",
        grid={"memory": ["1GiB", "2GiB"]},
        rate=["2MiB/s", "3MiB/s"],
        threads=2,
        progress=lambda *step: steps.append(step),
    )
    assert steps[-1] == ("simulating", 4, 4)
    told = [(row["memory"], row["offered_mib_s"]) for row in rows]
    assert told == [("1GiB", 2.0), ("1GiB", 3.0), ("2GiB", 2.0), ("2GiB", 3.0)]
    assert all(row["viewers"] > 0 and row["failures"] == 0 for row in rows)


def test_experiment_without_a_grid_is_one_row() -> None:
    settings = {"memory": "2GiB", "server.prefetch": "1MiB"}
    [row] = headlong.simulate("youtube-sd", set=settings, rate="2MiB/s")
    assert row["offered_mib_s"] == 2.0 and "memory" not in row


def test_mistakes_name_keys_and_values() -> None:
    with pytest.raises(headlong.ProgramError, match="server.prefech") as told:
        headlong.simulate("youtube-sd", set={"server.prefech": "1MiB"})
    assert told.value.code == 64


def test_capacity_of_a_log_without_enough_sessions_is_an_error(tmp_path: Path) -> None:
    log = tmp_path / "few.csv"
    log.write_text("ts_ms,session,file,offset,size,bytes\n1000,a,f.mp4,0,10,10\n")
    with pytest.raises(headlong.ProgramError, match="sessions") as told:
        headlong.capacity(log, drives="1xnearline-20tb", memory="4GiB", quick=True)
    assert told.value.code == 5


def test_missing_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(_programs.VARIABLE, str(tmp_path / "none"))
    with pytest.raises(headlong.ProgramError, match="none: there is no such program"):
        headlong.simulate("youtube-sd")
    monkeypatch.delenv(_programs.VARIABLE)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(_programs.sysconfig, "get_path", lambda _: str(tmp_path))
    with pytest.raises(headlong.ProgramError, match="neither in .* nor in PATH"):
        headlong.capacity("x.log", drives="1x", memory="1GiB")
