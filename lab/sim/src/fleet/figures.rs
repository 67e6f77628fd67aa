//! The record of a fleet's run: its figures, those of its boxes, and the record that a run of one
//! server has.

use std::borrow::Cow;

use headlong_units::MIB;
use serde::{Deserialize, Serialize};

use crate::fleet::placed::ExpectedDisk;
use crate::fleet::setup::FleetSetup;
use crate::fleet::usage::{BoxUse, FleetUse};
use crate::histogram::{ratio, round};
use crate::measure::RunMeasurements;
use crate::run_figures::RunFigures;
use crate::usage::DiskUse;

/// Name and version of the schema of [`FleetFigures`]. New fields may be added under the same name.
pub const FLEET_SCHEMA: &str = "headlong-simulate-fleet-1";

/// The parts that a simulated fleet imitates besides those of each box
/// ([`IMITATED`](crate::IMITATED)), as reports print them.
pub const FLEET_IMITATED: &str = "HAProxy (the further boxes of a popular title lie elsewhere; it \
                                  takes no time and has no connections), a box that lacks a title (it \
                                  fetches the bytes of a request instead of slices), the network \
                                  between boxes, the origin (has every title, and room for all \
                                  requests)";

/// Figures of a run in virtual time, measured within its window. Rates are in MiB/s.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetFigures {
    /// [`FLEET_SCHEMA`].
    pub schema: Cow<'static, str>,
    /// Name of the experiment.
    pub name: String,
    /// How the balancer selected boxes.
    pub rule: Cow<'static, str>,
    /// Disks of a box.
    pub disks: u32,
    /// Viewers that arrived within the window and left before the end of the run.
    pub viewers: u64,
    /// Of those, viewers whose player gave up after failed requests, or who left before playback
    /// started.
    pub lost: u64,
    /// Lost viewers, by viewers.
    pub lost_ratio: f64,
    /// Viewers with at least one stall, by viewers.
    pub stalled_ratio: f64,
    /// Number of stalls.
    pub stalls: u64,
    /// Time of stalls, by time of stalls and playback.
    pub stall_time_ratio: f64,
    /// Most bytes that a box sent, by the mean of the boxes that were always in service.
    pub busiest: f64,
    /// The same within the minute in which it is highest, among the boxes in service throughout
    /// that minute.
    pub busiest_minute: f64,
    /// Most requests in progress at a box in the mean, by the mean of the boxes that were always in
    /// service.
    pub busiest_requests: f64,
    /// Bytes fetched from the origin, by bytes sent to viewers.
    pub origin_ratio: f64,
    /// Bytes that boxes sent to each other, by bytes sent to viewers.
    pub peer_ratio: f64,
    /// Bytes that the boxes sent to viewers.
    pub sent_mib_s: f64,
    /// Bytes read from disks.
    pub disk_mib_s: f64,
    /// Requests that boxes accepted.
    pub requests: u64,
    /// Of those, requests for titles of another box, by requests.
    pub away_ratio: f64,
    /// Requests that a box accepted after another one had refused or failed.
    pub redispatched: u64,
    /// Requests that viewers saw refused.
    pub refused: u64,
    /// Events of the world since the start.
    pub events: u64,
    /// Wall-clock time of the run, if its caller measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_s: Option<f64>,
    /// Each box.
    pub boxes: Vec<BoxFigures>,
    /// Each disk, if titles were placed by a plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<PlannedDiskFigures>,
    /// The figures of all boxes together, as of one server.
    pub run: RunFigures,
}

/// A disk beside what its plan expected of it. Rates are in MiB/s.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedDiskFigures {
    /// Its box and its name, `BOX:DISK`.
    pub disk: String,
    /// Titles on it.
    pub titles: u64,
    /// Bytes that viewers were expected to read of its titles.
    pub planned_sent_mib_s: f64,
    /// Bytes that it sent.
    pub sent_mib_s: f64,
    /// Share of those that was expected to be found in memory, sent before.
    pub planned_hit_ratio: f64,
    /// Share of those that was found in memory.
    pub hit_ratio: f64,
    /// Bytes that it was expected to read.
    pub planned_disk_mib_s: f64,
    /// Bytes that it read.
    pub disk_mib_s: f64,
    /// Mean prefetch that was expected.
    pub planned_prefetch_mib: f64,
    /// Mean prefetch.
    pub prefetch_mib: f64,
    /// Share of time with a read outstanding that was expected.
    pub planned_busy: f64,
    /// Share of time with a read outstanding.
    pub busy: f64,
}

/// Activity of one box within the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoxFigures {
    /// Its name.
    pub name: String,
    /// Time in service, by the window.
    pub up_ratio: f64,
    /// Requests that it accepted.
    pub requests: u64,
    /// Requests that it refused.
    pub refused: u64,
    /// Requests that could not reach it.
    pub unreachable: u64,
    /// Bytes that it sent to viewers.
    pub sent_mib_s: f64,
    /// Bytes that it sent to other boxes.
    pub peer_mib_s: f64,
    /// Bytes that it fetched from the origin.
    pub origin_mib_s: f64,
    /// Mean number of requests in progress.
    pub requests_mean: f64,
}

impl FleetFigures {
    /// Computes the figures from the measurements of a fleet's world.
    pub(crate) fn new(
        name: &str,
        fleet: &FleetSetup,
        (disks, rate_mib_s): (u32, f64),
        expected: &[ExpectedDisk],
        seen: &RunMeasurements,
    ) -> Self {
        let length_s = seen.length().as_secs_f64();
        let planned = expected.iter().zip(&seen.disks);
        let planned = planned.map(|(of, used)| PlannedDiskFigures::new(of, used, length_s));
        let none = FleetUse::default();
        let used = seen.fleet.as_ref().unwrap_or(&none);
        let seconds = used.seconds as f64;
        let mib_s = |bytes: u64| ratio(bytes as f64 / MIB as f64, seconds);
        let share = |part: u64, whole: u64| round(part as f64 / whole.max(1) as f64, 6);
        let (mut gave_up, mut stalled, mut stalls) = (0, 0, 0);
        let (mut stall_s, mut played_s) = (0.0, 0.0);
        for class in &seen.viewing {
            gave_up += class.gave_up;
            stalled += class.stalled;
            stalls += class.stalls;
            stall_s += class.stall_time.as_secs_f64();
            played_s += class.played.as_secs_f64();
        }
        let viewers = seen.sessions_steady;
        let lost = seen.sessions_steady_failed + gave_up;
        let requests = used.sum(|one| one.requests);
        let to_viewers = |one: &BoxUse| one.sent_bytes.saturating_sub(one.peer_bytes);
        let sent_bytes = used.sum(to_viewers);
        let boxes = fleet.boxes.iter().zip(&used.boxes);
        let figures = |name: &str, one: &BoxUse| BoxFigures {
            name: name.to_owned(),
            up_ratio: ratio(one.seconds_up as f64, seconds),
            requests: one.requests,
            refused: one.refused,
            unreachable: one.unreachable,
            sent_mib_s: mib_s(to_viewers(one)),
            peer_mib_s: mib_s(one.peer_bytes),
            origin_mib_s: mib_s(one.pulled_bytes),
            requests_mean: ratio(one.in_progress as f64, seconds),
        };
        // There are a thousand disks; the boxes have sums.
        let run = RunFigures {
            disks: Vec::new(),
            ..RunFigures::new(rate_mib_s, fleet.seed, seen)
        };
        Self {
            schema: FLEET_SCHEMA.into(),
            name: name.to_owned(),
            rule: fleet.rule.name().into(),
            disks,
            viewers,
            lost,
            lost_ratio: share(lost, viewers),
            stalled_ratio: share(stalled, viewers),
            stalls,
            stall_time_ratio: round(stall_s / (stall_s + played_s).max(1e-9), 6),
            busiest: round(used.busiest(), 4),
            busiest_minute: round(used.busiest_minute, 4),
            busiest_requests: round(used.busiest_requests(), 4),
            origin_ratio: share(used.sum(|one| one.pulled_bytes), sent_bytes),
            peer_ratio: share(used.sum(|one| one.peer_bytes), sent_bytes),
            sent_mib_s: mib_s(sent_bytes),
            disk_mib_s: run.disk_mib_s,
            requests,
            away_ratio: share(used.sum(|one| one.requests_away), requests),
            redispatched: used.redispatched,
            refused: used.refused,
            events: seen.events,
            wall_s: None,
            boxes: boxes
                .map(|(named, one)| figures(&named.name, one))
                .collect(),
            planned: planned.collect(),
            run,
        }
    }
}

impl PlannedDiskFigures {
    fn new(expected: &ExpectedDisk, used: &DiskUse, seconds: f64) -> Self {
        let ExpectedDisk { id, load, work } = expected;
        let mib = |bytes: f64| round(bytes / MIB as f64, 3);
        let mib_s = |bytes: u64| ratio(bytes as f64 / MIB as f64, seconds);
        let stats = &used.stats;
        Self {
            disk: id.to_string(),
            titles: load.titles,
            planned_sent_mib_s: mib(load.bytes_per_s),
            sent_mib_s: mib_s(stats.bytes_sent),
            planned_hit_ratio: round(work.hit_ratio, 4),
            hit_ratio: ratio(stats.bytes_reused as f64, stats.bytes_sent as f64),
            planned_disk_mib_s: mib(work.read_bytes_per_s),
            disk_mib_s: mib_s(stats.bytes_read),
            planned_prefetch_mib: mib(work.prefetch_bytes as f64),
            prefetch_mib: mib(stats.job_bytes as f64 / stats.jobs.max(1) as f64),
            planned_busy: round(work.busy, 4),
            busy: ratio(stats.busy_time.as_secs_f64(), seconds),
        }
    }

    /// The expected share of busy time by the measured one.
    pub fn busy_ratio(&self) -> f64 {
        ratio(self.planned_busy, self.busy)
    }
}
