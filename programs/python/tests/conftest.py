"""A request log for the tests."""

import random
from pathlib import Path

import pytest

HEADER = "ts_ms,service_ms,session,device,file,offset,size,bytes,disk"


def log_text(sessions: int) -> str:
    """Sessions that read a film in pieces, with a pause, a skip and open-ended requests."""
    rows = []
    for session in range(sessions):
        draw = random.Random(session)
        film, start = draw.randrange(12), 1_000_000 + draw.randrange(3_000_000)
        offset = 0
        for piece in range(draw.randrange(3, 25)):
            size = draw.choice(["", "500000"])
            ts_ms = start + piece * draw.choice([4000, 9000, 50_000])
            rows.append(
                f"{ts_ms},{draw.randrange(900)},s{session},tv-{session % 3},/films/{film}.mp4,"
                f"{offset},{size},500000,{film % 2}"
            )
            offset += 500_000 * draw.choice([1, 1, 1, 7])
    return "\n".join([HEADER, *rows, ""])


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "requests.csv"
    path.write_text(log_text(300))
    return path
