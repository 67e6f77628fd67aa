#!/usr/bin/env python3
"""Plans of fleets beside their simulation: fleets are drawn by seed, each has a row, and the worst disks.

A fleet has two to four boxes of one to three disks: WD Red, 1 to 6 Mbit/s, 100 to 300 titles for each
disk with a Zipf exponent of 0.6 to 1, 30 to 55 MiB/s of viewers for each disk, and as much memory for
each as two to eight times --memory. `headlong simulate fleet --rule placed` measures after a ramp of
15 minutes. Errors are those of the busy time that the plan expects, as a share of the measured one.

    scripts/fleet_plans.py [--headlong PROGRAM] [--memory 512] [--measured 9000] SEED...
"""

import argparse
import json
import os
import random
import subprocess
import tempfile

FLEET = """name = "drawn from {seed}"
boxes = {boxes}
disks = {disks}
drive = "wd-red-wd10efrx"
memory = "{memory}MiB"
rate = "{rate}MiB/s"
load_percent_max = 200
[server]
piece = "1MiB"
[workload]
preset = "dash-vod"
set.title.dash.count = {titles}
set.title.dash.zipf_alpha = {alpha}
set.title.dash.renditions = ["{kbps}kbps"]
set.title.dash.table_entry_bytes = 0
set.player.rule = "fixed"
set.network.high.bandwidth = "20Mbps"
set.network.bband.bandwidth = "20Mbps"
set.network.medium.bandwidth = "20Mbps"
[phases]
ramp_up = "900s"
measured = "{measured}s"
ramp_down = "0s"
[origin]
delay = "20ms"
rate = "100MiB/s"
kept = "1GiB"
"""


def drawn(seed, memory, measured):
    draw = random.Random(seed)
    boxes, disks = draw.randint(2, 4), draw.randint(1, 3)
    count = boxes * disks
    return {
        "seed": seed, "boxes": boxes, "disks": disks, "kbps": draw.randint(10, 60) * 100,
        "titles": count * draw.randint(100, 300), "alpha": draw.randint(6, 10) / 10,
        "memory": disks * draw.randint(2, 8) * memory, "rate": count * draw.randint(30, 55),
        "measured": measured,
    }


def planned(program, fleet):
    """The disks of a fleet: what was planned of each, and what was measured."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/fleet.toml"
        with open(path, "w", encoding="utf-8") as file:
            file.write(FLEET.format(**fleet))
        command = [os.path.abspath(program), "simulate", "fleet", path, "--rule", "placed", "--json"]
        command += ["--seed", str(fleet["seed"])]
        run = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True)
    return json.loads(run.stdout)["planned"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--headlong", default="target/release/headlong")
    parser.add_argument("--memory", type=int, default=512, help="MiB, of which each disk has two to eight times as much")
    parser.add_argument("--measured", type=int, default=9000, help="seconds")
    parser.add_argument("seeds", nargs="+", type=int, metavar="SEED")
    asked = parser.parse_args()
    error = lambda disk: disk["planned_busy"] / disk["busy"] - 1
    every = []
    print("| seed | fleet | MiB a disk | disks | from memory, %, simulation | busy, %, simulation "
          "| error of the fleet, % | disks within 10 % | worst, % |")
    print("|---|---|---|--:|---|---|--:|--:|--:|")
    for seed in asked.seeds:
        fleet = drawn(seed, asked.memory, asked.measured)
        disks = planned(asked.headlong, fleet)
        every += disks
        span = lambda name: "{:.0f} to {:.0f}".format(
            100 * min(disk[name] for disk in disks), 100 * max(disk[name] for disk in disks))
        whole = sum(disk["planned_busy"] for disk in disks) / sum(disk["busy"] for disk in disks) - 1
        print(f"| {seed} | {fleet['boxes']} boxes of {fleet['disks']}, {fleet['kbps'] / 1000:.1f} Mbit/s "
              f"| {fleet['memory'] // fleet['disks']} | {len(disks)} | {span('hit_ratio')} | {span('busy')} "
              f"| {100 * whole:+.1f} | {sum(abs(error(disk)) <= 0.1 for disk in disks)} "
              f"| {100 * max(map(error, disks), key=abs):+.0f} |", flush=True)
    within = sum(abs(error(disk)) <= 0.1 for disk in every)
    points = max(abs(disk["planned_busy"] - disk["busy"]) for disk in every)
    print(f"\n{within} of {len(every)} disks are within 10 %; the largest difference is {100 * points:.1f} % of a "
          "disk's time.")


if __name__ == "__main__":
    main()
