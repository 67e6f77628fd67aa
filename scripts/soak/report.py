"""Report of a soak: totals of all pieces, growth of processes, charts."""

import collections
import html
import json
import os
import statistics
import time

from verdict import flatness

MIB = 1 << 20
WATCHED = ("resident_bytes", "own_bytes", "descriptors", "threads")
# A process has this time to fill its memory; a larger difference than this between its first and
# last third is growth. Its memory depends on the viewers, so a part may differ.
SETTLED_SECONDS, SETTLED_SHARE = 60, 0.25
ALLOWED = {
    "resident_bytes": (0.15, 8 * MIB), "own_bytes": (0.15, 8 * MIB), "descriptors": (0.15, 32),
    # The pools of a device get threads when it hangs, 32 at most, and keep them.
    "threads": (0.1, 32),
}
# Lives that end by a kill are compared at this age.
SHORT_AGE = (10, 40)


def lines_of(path):
    """Lines of JSON, without lines truncated by a crash."""
    found = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                try:
                    found.append(json.loads(line))
                except ValueError:
                    continue
    return found


def pieces(out):
    """Number of pieces so far, including killed ones."""
    return max([0] + [line["piece"] for line in lines_of(f"{out}/samples.jsonl")])


def keep(world, asked, is_whole):
    """Adds the result of a piece."""
    desk = world.desk
    usage = os.times()
    piece = {
        "piece": world.number, "is_whole": is_whole, "seed": asked.seed, "unix": int(time.time()),
        "seconds": round(time.monotonic() - world.began), "bytes": desk.bytes, "whole": desk.whole,
        "explained": desk.explained, "unexplained": desk.unexplained, "wrong": desk.wrong,
        "failed": desk.by_kind, "by_trouble": desk.by_trouble, "by_viewer": desk.by_viewer,
        "did": world.counts, "processor_seconds": round(sum(usage[:4])),
    }
    with open(f"{asked.out}/pieces.jsonl", "a", encoding="utf-8") as file:
        print(json.dumps(piece), file=file)


def lives_of(samples):
    """Samples of each process of each server: `(piece, server, process) -> [(age, is_steady, values)]`."""
    lives = collections.defaultdict(list)
    for sample in samples:
        for server in ("main", "edge"):
            if server in sample:
                values = sample[server]
                lives[sample["piece"], server, values["process"]].append(
                    (values["age"], sample["is_steady"], values)
                )
    return lives


def long_lives(lives):
    """Rows of the table of growth within a process, and the values that grew."""
    rows, grew = [], []
    for (piece, server, _), points in lives.items():
        # Until the phase without ended processes is over.
        while points and not points[-1][1]:
            points = points[:-1]
        if not points or points[-1][0] < 2 * SETTLED_SECONDS:
            continue
        end = points[-1][0]
        row = [f"{server}, piece {piece}", f"{end / 60:.0f} min"]
        for name in WATCHED:
            settled = max(SETTLED_SECONDS, SETTLED_SHARE * end)
            flat = flatness([(age, values[name]) for age, _, values in points], settled)
            if flat is None:
                break
            first, last, slope = flat
            share, more = ALLOWED[name]
            if last > first * (1 + share) + more:
                grew.append(f"{row[0]}: {name} from {first:.0f} to {last:.0f} within one process")
            unit = MIB if name.endswith("bytes") else 1
            row.append(f"{first / unit:.0f}, {last / unit:.0f} ({slope / unit:+.1f})")
        else:
            rows.append(row)
    return rows, grew


def short_lives(lives):
    """The same across processes: their values at one age."""
    rows, grew = [], []
    for server in ("main", "edge"):
        held = []
        for (_, name, _), points in lives.items():
            young = [values for age, _, values in points if SHORT_AGE[0] <= age <= SHORT_AGE[1]]
            if name == server and young:
                held.append(young)
        if len(held) < 6:
            continue
        third = len(held) // 3
        row = [server, str(len(held))]
        for name in WATCHED:
            medians = [statistics.median(values[name] for values in young) for young in held]
            first, last = statistics.median(medians[:third]), statistics.median(medians[-third:])
            share, more = ALLOWED[name]
            if last > first * (1 + share) + more:
                grew.append(f"{server}: {name} from {first:.0f} to {last:.0f} from process to process")
            unit = MIB if name.endswith("bytes") else 1
            row.append(f"{first / unit:.0f}, {last / unit:.0f}")
        rows.append(row)
    return rows, grew


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
                     + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


def sum_of(parts, name):
    total = collections.Counter()
    for part in parts:
        total.update(part[name])
    return sorted(total.items(), key=lambda item: -item[1])


def write(out):
    """Writes summary, page and chart of all pieces; returns the failures."""
    parts, samples = lines_of(f"{out}/pieces.jsonl"), lines_of(f"{out}/samples.jsonl")
    lives = lives_of(samples)
    long_rows, grew = long_lives(lives)
    short_rows, grew_too = short_lives(lives)
    seconds = sum(part["seconds"] for part in parts)
    total = lambda name: sum(part[name] for part in parts)
    wrong = [what for part in parts for what in part["wrong"]]
    unexplained = [what for part in parts for what in part["unexplained"]]
    failures = wrong + unexplained + grew + grew_too
    text = f"# Soak\n\n{seconds / 3600:.2f} hours in {len(parts)} pieces"
    text += f" (seeds {', '.join(str(part['seed']) for part in parts)}); "
    text += f"{total('whole'):,} requests were answered whole and right, {total('bytes') / 1e9:.1f} GB compared; "
    text += f"{total('explained'):,} failed and are explained by troubles at that time; "
    text += f"{len(unexplained)} failed without an explanation; {len(wrong)} wrong; "
    text += f"{len(grew) + len(grew_too)} grew.\n"
    text += f"CPU time of all processes: {total('processor_seconds') / max(1, seconds):.2f} cores.\n\n"
    text += "Events:\n\n" + table(["what", "times"], sum_of(parts, "did")) + "\n"
    text += "Whole replies by viewer:\n\n" + table(["viewer", "replies"], sum_of(parts, "by_viewer")) + "\n"
    text += "Explained failures by trouble:\n\n" + table(["trouble: failure", "requests"], sum_of(parts, "by_trouble"))
    text += "\nWithin a process: medians of the first and the last third of its life, once it had filled its\n"
    text += "memory, and the slope an hour:\n\n"
    head = ["resident, MiB", "its own, MiB", "descriptors", "threads"]
    text += table(["process", "lived", *head], long_rows)
    text += "\nFrom process to process: medians of the first and the last third of them, at an age of "
    text += f"{SHORT_AGE[0]} to\n{SHORT_AGE[1]} s:\n\n" + table(["server", "processes", *head], short_rows)
    if failures:
        text += "\nFailures:\n\n" + "\n".join(f"- {what}" for what in failures[:200]) + "\n"
    with open(f"{out}/summary.md", "w", encoding="utf-8") as file:
        file.write(text)
    chart = svg(samples, parts)
    with open(f"{out}/soak.svg", "w", encoding="utf-8") as file:
        file.write(chart)
    with open(f"{out}/report.html", "w", encoding="utf-8") as file:
        file.write(f"<!doctype html><meta charset=utf-8><title>Soak</title><body>{chart}"
                   f"<pre>{html.escape(text)}</pre>")
    return failures


# The chart: three panels over one axis of hours, of all consecutive pieces.
WIDTH, LEFT, PANEL, GAP = 760, 56, 110, 34
COLOURS = {"main": "#1f6f8b", "edge": "#c05c1e", "goodput": "#3b7d3b", "failed": "#b0233f"}


def svg(samples, parts):
    starts, at = {}, 0.0
    for piece in sorted({sample["piece"] for sample in samples}):
        starts[piece] = at
        known = [part["seconds"] for part in parts if part["piece"] == piece]
        at += known[0] if known else max(s["second"] for s in samples if s["piece"] == piece)
    hours = max(at / 3600, 1e-3)
    when = lambda sample: (starts[sample["piece"]] + sample["second"]) / 3600
    series = lambda server, name, unit: [
        (when(s), s[server][name] / unit, (s["piece"], s[server]["process"])) for s in samples if server in s
    ]
    goodput, failed = [], []
    # Rates are averages over half a minute.
    step = 10
    for before, after in zip(samples[::step], samples[step::step]):
        span = after["second"] - before["second"]
        if before["piece"] == after["piece"] and span > 0:
            goodput.append((when(after), (after["bytes"] - before["bytes"]) / span / 1e6, 0))
            count = sum(after["failed"].values()) - sum(before["failed"].values())
            failed.append((when(after), count / span, 0))
    panels = [
        ("resident memory, MiB", [("main", series("main", "resident_bytes", MIB)),
                                  ("edge", series("edge", "resident_bytes", MIB))]),
        ("descriptors", [("main", series("main", "descriptors", 1)), ("edge", series("edge", "descriptors", 1))]),
        ("goodput, MB/s; failed requests a second",
         [("goodput", goodput), ("failed", failed)]),
    ]
    height = len(panels) * (PANEL + GAP) + 24
    parts_of = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
                f'font-size="11"><rect width="{WIDTH}" height="{height}" fill="#fff"/>']
    x = lambda hour: LEFT + (WIDTH - LEFT - 12) * hour / hours
    for number, (title, lines) in enumerate(panels):
        top = number * (PANEL + GAP) + 22
        most = max([value for _, line in lines for _, value, _ in line] + [1e-9]) * 1.08
        y = lambda value, top=top, most=most: top + PANEL * (1 - value / most)
        parts_of.append(f'<text x="{LEFT}" y="{top - 8}" fill="#333">{title}</text>')
        for share in (0, 0.5, 1):
            value = most * share / 1.08
            label = f"{value:.0f}" if most > 10 else f"{value:.1f}"
            parts_of.append(f'<path d="M{LEFT} {y(value):.1f}H{WIDTH - 12}" stroke="#ddd"/>'
                            f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end" fill="#666">{label}</text>')
        for place, (name, line) in enumerate(lines):
            parts_of.append(f'<text x="{WIDTH - 12 - 60 * place}" y="{top - 8}" text-anchor="end" '
                            f'fill="{COLOURS[name]}">{name}</text>')
            parts_of.append(f'<path d="{path(thin(line), x, y)}" fill="none" stroke="{COLOURS[name]}" '
                            f'stroke-width="1.2"/>')
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts_of.append(f'<text x="{x(hours * share):.1f}" y="{height - 6}" text-anchor="middle" '
                        f'fill="#666">{hours * share:.2f} h</text>')
    return "".join(parts_of) + "</svg>\n"


def thin(line):
    """At most as many points as can be distinguished."""
    return line[:: max(1, len(line) // 300)]


def path(line, x, y):
    """A new process starts a new line."""
    text, last = "", None
    for hour, value, process in line:
        text += f"{'L' if process == last else 'M'}{x(hour):.1f} {y(value):.1f}"
        last = process
    return text or "M0 0"
