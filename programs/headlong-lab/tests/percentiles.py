"""Percentiles of the records of a run (--records), by numpy and nothing of headlong's.

    percentiles.py RECORDS.csv FROM TO

prints as JSON how many replies count and were whole, and p50, p90 and p99 of the time from the
column FROM to the column TO, in ms.
"""

import csv
import json
import sys

import numpy

file, begin, end = sys.argv[1:]
with open(file, newline="") as records:
    rows = [row for row in csv.DictReader(records) if row["counts"] == "1" and row["outcome"] == "whole"]
times = numpy.array([float(row[end]) for row in rows]) - numpy.array([float(row[begin]) for row in rows])
# The time that so many of all are at or below, as a histogram tells it.
p50, p90, p99 = numpy.quantile(times * 1e3, [0.5, 0.9, 0.99], method="inverted_cdf")
print(json.dumps({"count": len(times), "p50": p50, "p90": p90, "p99": p99}))
