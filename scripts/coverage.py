#!/usr/bin/env python3
"""Line coverage by crate and file from llvm-cov's export (lcov), without the lines of tests.

    scripts/coverage.py LCOV LINES

Counts the code that operators run: `server` and `programs/headlong`. Code under `#[cfg(test)]` and in
files of test modules is excluded. The uncovered ranges are written to LINES.
"""

import collections
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COUNTED = re.compile(r"(server/[a-z]+|programs/headlong)/src/")
TEST_ITEM = re.compile(r"(\s*)#\[cfg\((all\()?test\b")
TEST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[path = \"([^\"]+)\"\]\s*)?(?:pub(?:\(crate\))? )?mod (\w+);")


def main(lcov, lines):
    hits = collections.defaultdict(lambda: collections.defaultdict(int))
    file = None
    with open(lcov, encoding="utf-8") as export:
        for row in export:
            if row.startswith("SF:"):
                path = os.path.relpath(row[3:].strip(), ROOT)
                file = path if COUNTED.match(path) else None
            elif row.startswith("DA:") and file:
                line, count = row[3:].split(",")[:2]
                hits[file][int(line)] += int(count)

    tests = test_files(hits)
    crates = collections.defaultdict(list)
    with open(lines, "w", encoding="utf-8") as out:
        for path in sorted(set(hits) - tests):
            text = source(path)
            left_out = test_lines(text)
            counted = {line: count for line, count in hits[path].items() if line not in left_out}
            missed = sorted(line for line, count in counted.items() if count == 0)
            crates[COUNTED.match(path).group(1)].append((path, len(counted), len(missed)))
            for first, last in stretches(missed, set(counted)):
                print(f"{path}:{first}-{last}\t{text[first - 1].strip()[:80]}", file=out)
    report(crates, lines)


def source(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read().splitlines()


def test_files(paths):
    """Files of test modules, and all files below them."""
    found = set()
    for path in paths:
        folder, name = os.path.split(path)
        own = folder if name in ("lib.rs", "main.rs", "mod.rs") else path.removesuffix(".rs")
        for named, module in TEST_MODULE.findall("\n".join(source(path))):
            if named:
                found.add(os.path.normpath(os.path.join(folder, named)))
                continue
            inside = os.path.join(own, module)
            found |= {other for other in paths if other == inside + ".rs" or other.startswith(inside + "/")}
    return found


def test_lines(text):
    """Numbers of the lines compiled for tests only: from the attribute to the item's end."""
    found = set()
    number = 0
    while number < len(text):
        attribute = TEST_ITEM.match(text[number])
        if not attribute:
            number += 1
            continue
        # rustfmt indents the end of an item like its beginning.
        ends = (attribute.group(1) + "}", attribute.group(1) + "};")
        opened = False
        while number < len(text):
            line = text[number]
            found.add(number + 1)
            number += 1
            opened = opened or line.rstrip().endswith("{")
            if line in ends or not opened and line.rstrip().endswith((";", ",")):
                break
    return found


def stretches(missed, counted):
    """Consecutive lines, ignoring lines without code."""
    first = last = None
    for line in missed:
        if first is not None and not any(between in counted for between in range(last + 1, line)):
            last = line
            continue
        if first is not None:
            yield first, last
        first = last = line
    if first is not None:
        yield first, last


def report(crates, lines):
    for crate, files in sorted(crates.items()):
        for path, counted, missed in files:
            if missed:
                print(f"  {share(counted, missed)}  {missed:5d} of {counted:5d} not run  {path}")
        counted, missed = (sum(file[column] for file in files) for column in (1, 2))
        print(f"{share(counted, missed)}  {missed:7d} of {counted:5d} not run  {crate}\n")
    print(f"uncovered ranges: {os.path.relpath(lines, ROOT)}")


def share(counted, missed):
    return f"{100 * (counted - missed) / counted:5.1f} %" if counted else "      -"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
