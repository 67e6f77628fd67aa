"""Tests that a soak detects failures: `python3 scripts/soak/tests.py`, takes a second."""

import os
import socket
import sys
import time
import unittest

sys.path[1:1] = [os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]

import report
import verdict
import world
from served import content


class Bytes(unittest.TestCase):
    def setUp(self):
        self.history = verdict.History()
        self.old = self.history.new("/a", 3_000_000, "a")
        self.history.begins(self.old)
        self.new = self.history.new("/a", 3_000_000, "a")
        self.history.begins(self.new)
        self.history.ends(self.old)

    def body(self, parts, start=0, versions=None):
        body = verdict.Body(versions or self.history.all_of("/a"), start)
        return all([body.take(part) for part in parts])

    def test_accepts_correct_bytes_in_any_chunks(self):
        for key in (self.old.key, self.new.key):
            self.assertTrue(self.body([content(key, 5, 1), content(key, 6, 100_000), content(key, 100_006, 7)], 5))
        self.assertTrue(self.body([content(self.new.key, 0, 3_000_000)]))

    def test_detects_wrong_byte(self):
        data = bytearray(content(self.new.key, 70_000, 100_000))
        data[99_999] ^= 1
        self.assertFalse(self.body([bytes(data)], 70_000))

    def test_detects_two_versions_in_one_reply(self):
        self.assertFalse(self.body([content(self.old.key, 0, 4096), content(self.new.key, 4096, 4096)]))
        what = verdict.diagnosis([self.old], 0, content(self.old.key, 0, 4096) + content(self.new.key, 4096, 96))
        self.assertIn("up to place 4096", what)

    def test_detects_bytes_of_another_offset(self):
        for distance in (1, 4096, 128 << 10, 1 << 20):
            self.assertFalse(self.body([content(self.new.key, distance, 64)], 0, [self.new]))

    def test_detects_bytes_beyond_the_end(self):
        self.assertFalse(self.body([content(self.new.key, 2_999_990, 20)], 2_999_990))

    def test_only_existing_versions_count(self):
        now = time.monotonic()
        self.assertEqual(self.history.there("/a", now + 1, now + 2), [self.new])
        self.assertEqual(self.history.there("/a", now - 9, self.old.born - 1), [])
        self.assertEqual(self.history.there("/a", now - 9, now), [self.old, self.new])


class Failures(unittest.TestCase):
    def test_trouble_explains_only_its_own_failures(self):
        troubles = verdict.Troubles()
        now = time.monotonic()
        disk = troubles.begin("disk", root="a")
        kill = troubles.begin("kill", server="main")
        self.assertEqual(troubles.explaining("edge", "a", now, now + 1), "disk")
        self.assertEqual(troubles.explaining("main", "b", now, now + 1), "kill")
        self.assertIsNone(troubles.explaining("edge", "b", now, now + 1))
        self.assertIsNone(troubles.explaining("edge", "a", now, now + 1, "refused"))
        self.assertIsNone(troubles.explaining("main", "a", now, now + 1, "status 404"))
        disk.end()
        kill.end()
        late = now + verdict.AFTER + 1
        self.assertIsNone(troubles.explaining("main", "a", late, late + 1))
        self.assertIsNone(troubles.explaining("main", "a", now - 9, now - 8))


class Growth(unittest.TestCase):
    @staticmethod
    def life(of, seconds=600, is_steady=True):
        rest = {"resident_bytes": 50 << 20, "own_bytes": 40 << 20, "descriptors": 50, "threads": 20}
        points = [(age, is_steady, {**rest, **of(age)}) for age in range(0, seconds, 3)]
        return {(1, "main", 7): points}

    def test_constant_process_is_flat(self):
        rows, grew = report.long_lives(self.life(lambda age: {"descriptors": 50 + age % 20}))
        self.assertEqual((len(rows), grew), (1, []))

    def test_steady_phase_counts_before_a_kill(self):
        lives = self.life(lambda age: {"threads": 50 + age * 0.5})
        [points] = lives.values()
        points += [(age, False, points[-1][2]) for age in range(600, 660, 3)]
        rows, grew = report.long_lives(lives)
        self.assertEqual((len(rows), len(grew)), (1, 1))

    def test_initial_fill_is_not_growth(self):
        _, grew = report.long_lives(self.life(lambda age: {"resident_bytes": min(100, age) << 20}))
        self.assertEqual(grew, [])

    def test_detects_leak_of_memory_descriptors_or_threads(self):
        for name, each in (("resident_bytes", 100_000), ("descriptors", 0.5), ("threads", 0.5)):
            _, grew = report.long_lives(self.life(lambda age: {name: 50 + age * each}))
            self.assertEqual(len(grew), 1, name)

    def test_detects_growth_across_processes(self):
        lives = {}
        for process in range(12):
            life = self.life(lambda age: {"descriptors": 50 + 20 * process}, 60, False)
            lives[1, "main", process] = life[1, "main", 7]
        rows, grew = report.short_lives(lives)
        self.assertEqual((len(rows), len(grew)), (1, 1))


class Ports(unittest.TestCase):
    def test_names_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            self.assertEqual(world.taken_ports([port]), [port])
        self.assertEqual(world.taken_ports([port]), [])


if __name__ == "__main__":
    unittest.main()
