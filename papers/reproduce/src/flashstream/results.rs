//! Results, compared with the paper.

use headlong_published::{PublishedComparison, PublishedFigure, Tolerance};
use serde::Serialize;

use super::headlong_tier::HeadlongLimit;
use super::tiered_systems::{BlockRun, SystemLimit};
use super::writes::SsdFigures;

/// Time to fill an empty SSD.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct FillTime {
    pub(super) name: &'static str,
    /// The request rate.
    pub(super) requests_per_s: f64,
    /// For an SSD of full size; nothing if it took longer than four days.
    pub(super) minutes: Option<f64>,
}

/// A machine of Table 5.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct MachineResult {
    pub(super) limit: SystemLimit,
    pub(super) watts: f64,
    pub(super) requests_per_joule: Option<f64>,
}

impl MachineResult {
    pub(super) fn new(limit: SystemLimit, watts: f64) -> Self {
        Self {
            requests_per_joule: limit.requests_per_s.map(|rate| rate / watts),
            limit,
            watts,
        }
    }
}

/// Result of one measurement.
#[derive(Debug)]
pub(super) enum MeasurementResult {
    Ssds(Box<SsdFigures>),
    Limit(SystemLimit),
    Machine(MachineResult),
    Fill(FillTime),
    Blocks(BlockRun),
    Ours(HeadlongLimit),
}

/// All results.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(super) struct FlashstreamResult {
    pub(super) schema: &'static str,
    pub(super) is_quick: bool,
    pub(super) scale: u64,
    pub(super) alpha: f64,
    pub(super) seeds: Vec<u64>,
    pub(super) seconds: f64,
    pub(super) ssds: Option<SsdFigures>,
    pub(super) limits: Vec<SystemLimit>,
    pub(super) machines: Vec<MachineResult>,
    pub(super) fills: Vec<FillTime>,
    pub(super) blocks: Vec<BlockRun>,
    pub(super) ours: Vec<HeadlongLimit>,
}

/// A published number.
const fn said(source: &'static str, value: f64) -> PublishedFigure {
    PublishedFigure::new(source, value)
}

/// A published number that must be reproduced within bounds.
const fn holds(source: &'static str, value: f64, from: f64, to: f64) -> PublishedFigure {
    said(source, value).within(Tolerance::Between(from, to))
}

impl FlashstreamResult {
    pub(super) fn take(&mut self, answer: MeasurementResult) {
        match answer {
            MeasurementResult::Ssds(ssds) => self.ssds = Some(*ssds),
            MeasurementResult::Limit(limit) => self.limits.push(limit),
            MeasurementResult::Machine(machine) => self.machines.push(machine),
            MeasurementResult::Fill(fill) => self.fills.push(fill),
            MeasurementResult::Blocks(run) => self.blocks.push(run),
            MeasurementResult::Ours(ours) => self.ours.push(ours),
        }
    }

    fn limit(&self, name: &str) -> Option<&SystemLimit> {
        self.limits.iter().find(|limit| limit.name == name)
    }

    pub(super) fn rate_of(&self, name: &str) -> Option<f64> {
        self.limit(name)?.requests_per_s
    }

    /// All published numbers of the paper, with ours.
    pub(super) fn beside(&self) -> Vec<PublishedComparison> {
        let mut all = Vec::new();
        self.ssd_figures(&mut all);
        self.system_figures(&mut all);
        self.block_figures(&mut all);
        self.machine_figures(&mut all);
        self.our_figures(&mut all);
        all
    }

    fn ssd_figures(&self, all: &mut Vec<PublishedComparison>) {
        let Some(ssds) = &self.ssds else {
            return;
        };
        let small = |index: usize, is_write: bool| {
            let of = ssds.small.get(index)?;
            Some(if is_write {
                of.written_mb_s
            } else {
                of.read_mb_s
            })
        };
        let near = Tolerance::Share(0.1);
        for (name, ours, value) in [
            (
                "SSD A (fitted): 4 KB random reads, MB/s",
                small(0, false),
                15.5,
            ),
            (
                "SSD A (fitted): 4 KB random writes, MB/s",
                small(0, true),
                3.25,
            ),
            ("SSD B: 4 KB random reads, MB/s", small(1, false), 14.8),
            (
                "SSD B (fitted): 4 KB random writes, MB/s",
                small(1, true),
                0.02,
            ),
        ] {
            all.push(PublishedComparison::new(
                name,
                ours,
                said("Table 2", value).within(near),
            ));
        }
        let of = |mib: u64| ssds.latencies.iter().find(|of| of.bytes == mib << 20);
        let longest = |mib: u64| {
            let latencies = &of(mib)?.random_s;
            Some(latencies.iter().copied().fold(0.0, f64::max) * 1e3)
        };
        let spikes = PublishedFigure::without_number("3.1, Figure 1: spikes of 800 to 1000 ms");
        let spikes = spikes.within(Tolerance::Between(800.0, 1000.0));
        all.push(PublishedComparison::new(
            "SSD B: longest random write of 8 MB, ms",
            longest(8),
            spikes,
        ));
        let divergence = |mib: u64| of(mib).map(|of| of.divergence);
        let above = said("3.1, Figure 3", 0.1).within(Tolerance::MoreThan);
        let below = said("3.1, Figure 3", 0.1).within(Tolerance::LessThan);
        all.push(PublishedComparison::new(
            "SSD B: divergence with 8 MB",
            divergence(8),
            above,
        ));
        all.push(PublishedComparison::new(
            "SSD B: divergence with 16 MB",
            divergence(16),
            below,
        ));
        let optimal = ssds.blocks.first().and_then(|of| of.optimal_mib);
        let of_paper = holds("3.1, Figure 3", 16.0, 16.0, 16.0);
        all.push(PublishedComparison::new(
            "SSD B: optimal block, MiB",
            optimal,
            of_paper,
        ));
        for (name, value) in [
            ("Intel X25-M: optimal block, MiB (no model of it)", 64.0),
            (
                "Samsung MCCOE64G5MPP: optimal block, MiB (no model of it)",
                4.0,
            ),
        ] {
            all.push(PublishedComparison::new(
                name,
                None,
                said("3.1, Figure 3", value),
            ));
        }
    }

    fn system_figures(&self, all: &mut Vec<PublishedComparison>) {
        if self.fills.is_empty() {
            return;
        }
        let zfs = "ZFS (model), no read-ahead on SSD";
        let [lru, mean, median] = ["LRU", "LFU-Mean", "LFU-Median"]
            .map(|policy| self.rate_of(&format!("FlashStream ({policy})")));
        let by = |of: Option<f64>, other: &str| Some(of? / self.rate_of(other)?);
        all.push(PublishedComparison::new(
            "ZFS: requests per second",
            self.rate_of(zfs),
            said("5.2, Figure 7(a)", 26.0),
        ));
        all.push(PublishedComparison::new(
            "FlashStream (LRU) / ZFS",
            by(lru, zfs),
            said("5.2: two times", 2.0).within(Tolerance::Between(1.6, 2.6)),
        ));
        all.push(PublishedComparison::new(
            "flashcache: requests per second",
            self.rate_of("flashcache (model)"),
            said("5.2", 1.0).within(Tolerance::LessThan),
        ));
        for (name, other) in [("LFU-Mean", mean), ("LFU-Median", median)] {
            let ratio = lru.zip(other).map(|(lru, other)| lru / other);
            let source = "5.2: LRU is slightly better";
            let published =
                PublishedFigure::without_number(source).within(Tolerance::Between(0.97, 1.25));
            all.push(PublishedComparison::new(
                format!("FlashStream: LRU / {name}"),
                ratio,
                published,
            ));
        }
        let share = self
            .limit("flashcache (model)")
            .map(|of| of.ssd_share * 100.0);
        all.push(PublishedComparison::new(
            "flashcache: hits on the SSD, %",
            share,
            said("5.2", 33.4),
        ));
        for (name, value) in [
            ("FlashStream (LRU)", 94.0),
            (zfs, 1_200.0),
            ("flashcache (model)", 1_320.0),
        ] {
            let fill = self.fills.iter().find(|fill| fill.name == name);
            let minutes = fill.and_then(|fill| fill.minutes);
            let what = format!("{name}: minutes to fill 75 GB");
            all.push(PublishedComparison::new(what, minutes, said("5.2", value)));
        }
    }

    fn block_figures(&self, all: &mut Vec<PublishedComparison>) {
        let [Some(large), Some(small)] =
            [16 << 20, 4096].map(|bytes| self.blocks.iter().find(|run| run.block_bytes == bytes))
        else {
            return;
        };
        let figure = "5.3, Figure 8";
        for (name, ours, published) in [
            (
                "16 MB blocks: filled in an hour, %",
                large.filled,
                said(figure, 70.4),
            ),
            ("16 MB blocks: hits, %", large.ssd_share, said(figure, 34.4)),
            (
                "4 KB blocks: filled in an hour, %",
                small.filled,
                said(figure, 0.08).within(Tolerance::Between(0.01, 1.0)),
            ),
            ("4 KB blocks: hits, %", small.ssd_share, said(figure, 0.65)),
            (
                "4 KB blocks: hits that are late, %",
                small.missed_share,
                said(figure, 3.0),
            ),
            ("4 KB blocks: SSD busy, %", small.busy, said(figure, 100.0)),
        ] {
            all.push(PublishedComparison::new(
                name,
                Some(ours * 100.0),
                published,
            ));
        }
    }

    fn machine_figures(&self, all: &mut Vec<PublishedComparison>) {
        let [stream, a, b] = self.machines.as_slice() else {
            return;
        };
        let rates = [64.0, 34.0, 48.0];
        let joules = [2.91, 0.57, 1.50];
        for (machine, (rate, joule)) in [stream, a, b]
            .into_iter()
            .zip(rates.into_iter().zip(joules))
        {
            let name = machine.limit.name;
            all.push(PublishedComparison::new(
                format!("{name}: requests per second"),
                machine.limit.requests_per_s,
                said("Table 5", rate),
            ));
            all.push(PublishedComparison::new(
                format!("{name}: requests per joule"),
                machine.requests_per_joule,
                said("Table 5", joule),
            ));
        }
        let by = |of: fn(&MachineResult) -> Option<f64>| Some(of(stream)? / of(b)?);
        all.push(PublishedComparison::new(
            "FlashStream / Traditional B: requests per second",
            by(|machine| machine.limit.requests_per_s),
            holds("5.4: 33 % more", 1.33, 1.1, 1.7),
        ));
        all.push(PublishedComparison::new(
            "FlashStream / Traditional B: requests per joule",
            by(|machine| machine.requests_per_joule),
            holds("5.4: 94 % more", 1.94, 1.6, 2.5),
        ));
    }

    fn our_figures(&self, all: &mut Vec<PublishedComparison>) {
        let ours = |name: &str| self.ours.iter().find(|of| of.name == name);
        let rate = |name: &str| ours(name)?.requests_per_s;
        let zfs = self.rate_of("ZFS (model), no read-ahead on SSD");
        let by_zfs = rate("headlong, lru").zip(zfs).map(|(ours, zfs)| ours / zfs);
        if by_zfs.is_some() {
            all.push(PublishedComparison::new(
                "headlong, lru / ZFS (model)",
                by_zfs,
                said("aim: at least the paper's two times", 2.0).within(Tolerance::MoreThan),
            ));
        }
        let default = "headlong, adaptive (default)";
        let by_lru = rate(default)
            .zip(rate("headlong, lru"))
            .map(|(of, lru)| of / lru);
        if by_lru.is_some() {
            let source = "aim: 1.2 times, or half the wear at the same rate";
            all.push(PublishedComparison::new(
                "headlong: adaptive / lru, requests per second",
                by_lru,
                PublishedFigure::without_number(source),
            ));
            let written = |name: &str| ours(name).map(|of| of.written_gb_per_day);
            let wear = written(default).zip(written("headlong, lru"));
            all.push(PublishedComparison::new(
                "headlong: adaptive / lru, bytes written",
                wear.map(|(of, lru)| of / lru.max(1e-9)),
                PublishedFigure::without_number(source),
            ));
        }
    }

    /// Whether all criteria hold.
    pub(super) fn holds(&self) -> bool {
        let judged = self.beside();
        judged
            .iter()
            .all(|line| line.judgement().holds() != Some(false))
    }
}
