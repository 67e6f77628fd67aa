"""Sums of shards: merged in any order, they are those of one run."""

import json
import pickle
import random
from pathlib import Path

import headlong
import pytest
from headlong import _native


@pytest.fixture(scope="module")
def shards(log: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return headlong.split(log, tmp_path_factory.mktemp("shards"), 7)


@pytest.fixture(scope="module")
def parts(shards: list[Path]) -> list[headlong.Sums]:
    return [headlong.characterise(shard) for shard in shards]


def test_merge_in_any_order_equals_one_run(log: Path, parts: list[headlong.Sums]) -> None:
    expected = headlong.characterise(log).report_json()
    for seed in range(3):
        mixed = random.Random(seed).sample(parts, len(parts))
        assert headlong.merge(mixed).report_json() == expected
    by_bytes = [pickle.loads(pickle.dumps(part)) for part in parts]
    half, rest = headlong.merge(by_bytes[:3]), headlong.merge([p.to_bytes() for p in by_bytes[3:]])
    assert rest.merge(half).report_json() == expected


def test_report_has_the_tables(log: Path) -> None:
    sums = headlong.characterise(log)
    told = headlong.report(sums, title="A log")
    assert told["about"]["title"] == "A log" and told["sessions"] == 300
    assert told == json.loads(sums.report_json(title="A log"))


def test_parts_that_do_not_fit_are_named(
    log: Path, shards: list[Path], parts: list[headlong.Sums], tmp_path: Path
) -> None:
    other = headlong.split(log, tmp_path, 6)
    cut = tmp_path / "cut"
    cut.write_bytes(Path(shards[2]).read_bytes()[:-100])
    data = parts[1].to_bytes()
    for call, words in [
        (lambda: parts[0].merge(parts[0]), "shard 0 of 7 is already"),
        (lambda: parts[0].merge(headlong.characterise(other[1])), "another log or split"),
        (lambda: parts[0].merge(headlong.characterise(shards[1], gap="idle")), "other rules"),
        (lambda: headlong.report(headlong.merge(parts[1:])), "shard 0 is missing"),
        (lambda: headlong.merge([data, data[:-1]]), "part 1: is cut or damaged"),
        (lambda: headlong.merge([b"something else"]), "part 0: is not a partial sum"),
        (lambda: headlong.characterise(cut), "cut: is cut or damaged"),
        (lambda: headlong.split(log, tmp_path, 1000), "1 to 512 shards"),
    ]:
        with pytest.raises(headlong.ShardError) as told:
            call()
        assert words in str(told.value), told.value
    with pytest.raises(TypeError, match="option files: .*shard-001 is a shard"):
        headlong.characterise(shards[1], files="files.csv")
    with pytest.raises(ValueError, match="no sums"):
        headlong.merge([])


def test_failed_merge_changes_nothing(parts: list[headlong.Sums]) -> None:
    one = parts[0]
    with pytest.raises(headlong.ShardError):
        one.merge(one)
    assert one.shards == [0] and one.shards_total == 7


def test_log_read_in_pieces_gives_the_report_of_one_process(log: Path) -> None:
    lines = log.read_text().splitlines(keepends=True)
    cuts = [0, 900, 901, 2500, len(lines)]
    heads, parts = [], {number: [] for number in range(5)}
    head = "".join(lines[:100]).encode()
    for number, (start, end) in enumerate(zip(cuts, cuts[1:])):
        text = "".join(lines[start:end]).encode()
        first, rest = _native.read_piece(text, (number, end - start, 5), str(log), head)
        heads.append(first)
        for shard, part in rest:
            parts[shard].append(part)
    survey = _native.survey(str(log), heads)
    usages = [_native.shard_usage(survey, shard, found) for shard, found in parts.items()]
    plan = _native.sum_plan(survey, usages)
    rules = ("received", "one-to-one")
    sums = [_native.shard_sums(survey, plan, shard, part, rules) for shard, part in parts.items()]
    assert headlong.merge(sums).report_json() == headlong.characterise(log).report_json()


def test_pieces_that_do_not_fit_are_named(log: Path) -> None:
    text = log.read_bytes()
    head, _ = _native.read_piece(text, (0, 1, 2), "a.log")
    survey = _native.survey("a.log", [head])
    for call, words in [
        (lambda: _native.survey("a.log", [head, head]), "a.log: piece 0 is here twice"),
        (lambda: _native.survey("a.log", [head[:-1]]), "a.log: is cut or damaged"),
        (lambda: _native.sum_plan(survey, []), "a.log: 0 requests of all shards are here"),
        (lambda: _native.shard_usage(head[1:], 0, []), "is not what was read of a piece"),
    ]:
        with pytest.raises(headlong.ShardError) as told:
            call()
        assert words in str(told.value), told.value
    with pytest.raises(headlong.LogError, match="a.log is in no known format"):
        _native.read_piece(b"what\n" * 9, (0, 9, 2), "a.log")
