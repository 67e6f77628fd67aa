//! A clairvoyant bound: the least drive time that any server needs for a workload, even one that
//! knows the future.
//!
//! # What is bounded
//!
//! A workload (its sessions, drawn to the end), a drive, some memory and a window of time. The
//! answer is the least time that the drive's heads need within the window in *any* run in which no
//! call fails from the beginning on. If that exceeds the length of the window, no such run exists.
//! The server may know every session, every re-read and every end beforehand, may use its memory
//! down to single bytes, may prefetch, hold and drop anything at any time, may start the window
//! with the most useful memory content, and may have any processor and network.
//!
//! # When bytes are needed
//!
//! A viewer sends its first call when it arrives, and every other when the previous one is complete
//! and its pace allows. A call is complete no sooner than a round trip and its bytes over the
//! viewer's own line after it was sent, and, as no call fails, no later than its timeout. So each
//! call has an earliest and a latest time of sending that no server can change, and its bytes leave
//! the server's memory between `e`, the earliest time at which it can reach the server, and `l`,
//! the latest at which it may be complete. Only calls with `e` and `l` both within the window
//! *count*; the cost of all others is ignored.
//!
//! # What memory can save
//!
//! Consider one byte of a file. It is in memory during some intervals of time, each begun by a read
//! within the window or going back to before it. Take one such interval and the calls it serves,
//! ordered by `e`: a1, a2, ... With L the largest `l` of all calls before ak (in the order of `e`)
//! that want the byte, ak is served after `e(ak)`, and at least one of a1..a(k-1) was served before
//! L; so the interval covers [L, e(ak)], and these stretches do not overlap for different k, as
//! `e(ak) <= l(ak) <= L` of the next. If the interval goes back to before the window, it covers all
//! from the opening to `e(a1)` as well. So every counted call either costs a read of the byte
//! within the window, or *holds* the byte for its stretch, from max(opening, L) to `e`, and all
//! stretches are held within the window. The memory (the server's plus the drive's own) holds at
//! most size times length of the window.
//!
//! So the calls that are answered without a read form a knapsack: each saves the head time of its
//! bytes and uses bytes times stretch of that product. The fractional knapsack, filled in order of
//! time saved per unit used, saves at least as much as any policy can. Stretches that begin at the
//! opening all lie in memory at that moment, which holds no more than its size of them: those calls
//! get a second full memory, for the bytes that save most, and are left out of the knapsack, which
//! can only increase the savings. (Belady's rule maximizes hits of pieces of one size at known
//! times; here times are known up to an interval, the value of a piece depends on its zone, and
//! only the whole product of memory and time is limited. All three make the bound weaker, never
//! wrong.)
//!
//! # What a read costs
//!
//! Bytes cross a head at the speed of their track ([`MediumLimits`]); no order and no queue changes
//! that. For bytes of a file that only one session wants, with no other wanted file within a
//! track's length on either side, the head must come from another track at least once if any of
//! them is read, which takes at least the shortest switch. It is charged to the byte that would be
//! held longest, which is correct because it is only due when that byte, or another, is read; once
//! for each such file, less one for the head's position at the opening. Repositions within a title,
//! longer seeks, rotation, overhead, wasted prefetches, and memory for data prefetched or in
//! transmission cost nothing: no real server is likely to approach the bound.

use std::collections::{BTreeMap, BTreeSet};

use headlong_drive::MediumLimits;
use headlong_player::{ObjectId, ScriptCall, SessionPlan};
use headlong_units::{Duration, Instant};
use headlong_workload::{Catalogue, NetworkClass, Session, SessionStream, Specification};
use serde::{Deserialize, Serialize};

use crate::VirtualExperiment;
use crate::layout::{FileLocation, TitlePlacement};
use crate::setup::SetupError;

/// Bytes that are accounted for together. A call counts with the whole units in it.
pub(crate) const UNIT_BYTES: u64 = 128 * 1024;

/// The bound for one rate and seed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Rate that the workload was generated for.
    pub rate_mib_s: f64,
    /// Seed of the workload.
    pub seed: u64,
    /// Bytes that any run requests and answers within the window.
    pub asked_mib_s: f64,
    /// Bytes that must be read within the window at least, if reads are chosen for the least head
    /// time.
    pub read_mib_s: f64,
    /// Share of the requested bytes that memory can save at best.
    pub hit_ratio: f64,
    /// Least head time as a share of the available time. Above 1 the workload is impossible.
    pub disk_share: f64,
    /// The share of that for moving to files.
    pub reposition_share: f64,
}

impl Bound {
    /// Whether the bound leaves the workload possible.
    pub fn is_possible(&self) -> bool {
        self.disk_share <= 1.0
    }

    /// Human-readable line.
    pub fn line(&self) -> String {
        let verdict = match self.is_possible() {
            true => "",
            false => ": impossible",
        };
        format!(
            "{:.1} MiB/s, seed {}: {:.1} MiB/s requested in the window, at least {:.1} read \
             ({:.0}% from memory at best), drive used {:.1}% at least{verdict}",
            self.rate_mib_s,
            self.seed,
            self.asked_mib_s,
            self.read_mib_s,
            self.hit_ratio * 100.0,
            self.disk_share * 100.0,
        )
    }
}

/// A requested unit of a file; times are seconds from the start of the run.
#[derive(Debug, Clone, Copy)]
struct RequestedUnit {
    /// File and unit in it.
    unit: (u32, u32),
    earliest: f64,
    latest: f64,
    counts: bool,
}

/// A counted want as an item of the knapsack.
#[derive(Debug, Clone, Copy)]
struct KnapsackItem {
    /// Head time saved if it is not read, seconds.
    seconds: f64,
    /// The part of that for the track switch.
    going_s: f64,
    /// Time it is held if it is not read, seconds.
    held_s: f64,
    /// Whether it is held from the opening of the window on.
    is_from_before: bool,
}

impl VirtualExperiment {
    /// The bound at a rate.
    ///
    /// # Errors
    /// If the titles do not fit on the drive, the setup has several disks or an SSD, or players
    /// adapt their bit rate.
    pub fn bound(&self, rate_mib_s: f64, seed: u64) -> Result<Bound, SetupError> {
        let window = self.setup.window;
        let seconds = |at: Instant| at.since(Instant::ZERO).as_secs_f64();
        let mut demand = UnitDemand::new(seconds(window.from), seconds(window.to));
        let drawn = self.draw(rate_mib_s, seed, |number, session, class| {
            demand.add(number, session, class);
        })?;
        let (medium, memory) = (&drawn.medium, drawn.memory_bytes);
        Ok(demand.settle(&drawn.places, medium, memory, rate_mib_s, seed))
    }

    /// Draws the sessions of a run and passes each, with its number, to `add`.
    ///
    /// # Errors
    /// Those of [`VirtualExperiment::bound`].
    pub(crate) fn draw(
        &self,
        rate_mib_s: f64,
        seed: u64,
        mut add: impl FnMut(u32, &Session, &NetworkClass),
    ) -> Result<DrawnRun, SetupError> {
        let specification = self.specification(rate_mib_s);
        self.check_bound(&specification)?;
        let catalogue = Catalogue::of(&specification);
        let placement =
            TitlePlacement::new(&catalogue, self.disks()).map_err(SetupError::Catalogue)?;
        let sessions = SessionStream::new(&specification, &catalogue, seed);
        let mut sessions = sessions.with_steps(self.steps.iter().copied());
        for (number, session) in (&mut sessions).enumerate() {
            let class = &specification.classes[session.class as usize];
            add(number as u32, &session, class);
        }
        let place = |id| placement.place(sessions.object(ObjectId(id))?);
        let medium = self.drive.medium();
        Ok(DrawnRun {
            places: (0..sessions.object_count() as u32).map(place).collect(),
            memory_bytes: self.setup.engine.memory_bytes + medium.cache_bytes,
            medium,
        })
    }

    /// Whether bounds are known for this setup.
    fn check_bound(&self, specification: &Specification) -> Result<(), SetupError> {
        if specification.has_adaptive_players() || specification.phases.is_some() {
            return Err(SetupError::NoBound);
        }
        if self.setup.flash.is_some() {
            return Err(SetupError::FlashBound);
        }
        if self.setup.disks != 1 {
            return Err(SetupError::OneDisk("the bound"));
        }
        Ok(())
    }

    /// The highest rate, to a resolution, at which the bound leaves the workload possible for every
    /// seed.
    ///
    /// # Errors
    /// If the titles do not fit on the drive, or players adapt their bit rate.
    pub fn bound_rate(
        &self,
        resolution_mib_s: f64,
        seeds: impl Iterator<Item = u64> + Clone,
    ) -> Result<(f64, Vec<Bound>), SetupError> {
        let probe = |steps: u64| -> Result<(bool, Vec<Bound>), SetupError> {
            let mut bounds = Vec::new();
            for seed in seeds.clone() {
                bounds.push(self.bound(steps as f64 * resolution_mib_s, seed)?);
            }
            Ok((bounds.iter().all(Bound::is_possible), bounds))
        };
        let (mut possible, mut bounds) = (0_u64, Vec::new());
        let mut step = ((64.0 / resolution_mib_s) as u64)
            .max(1)
            .next_power_of_two();
        let mut impossible = None;
        loop {
            let next = match impossible {
                None => possible + step,
                Some(impossible) if impossible - possible > 1 => {
                    possible + (impossible - possible) / 2
                }
                Some(_) => break,
            };
            let (is_possible, found) = probe(next)?;
            match is_possible {
                true => (possible, bounds) = (next, found),
                false => impossible = Some(next),
            }
            if impossible.is_none() {
                step *= 2;
            }
            // The workload requests less than its rate says; no drive limits it.
            if next as f64 * resolution_mib_s > 1e6 {
                break;
            }
        }
        Ok((possible as f64 * resolution_mib_s, bounds))
    }
}

/// Inputs of a bound beside the sessions of a run.
pub(crate) struct DrawnRun {
    /// The location of each object, by object number.
    pub(crate) places: Vec<Option<FileLocation>>,
    pub(crate) medium: MediumLimits,
    /// Of the server and of the drive.
    pub(crate) memory_bytes: u64,
}

/// All requested units.
struct UnitDemand {
    from: f64,
    to: f64,
    wants: Vec<RequestedUnit>,
    /// The only session that requests a file, or `None` if there are several.
    sessions: BTreeMap<u32, Option<u32>>,
}

impl UnitDemand {
    fn new(from: f64, to: f64) -> Self {
        Self {
            from,
            to,
            wants: Vec::new(),
            sessions: BTreeMap::new(),
        }
    }

    /// Adds one session: its calls with the interval in which their bytes leave the server.
    fn add(&mut self, number: u32, session: &Session, class: &NetworkClass) {
        let bursts = CallTimes::new(session, class);
        let until = self.to + class.delay.as_secs_f64();
        for burst in bursts.take_while(|burst| burst.earliest <= until) {
            for call in burst.calls {
                self.want(number, call, burst.earliest, burst.latest);
            }
        }
    }

    fn want(&mut self, session: u32, call: &ScriptCall, earliest: f64, latest: f64) {
        let end = call.range.map_or(u64::MAX, |range| range.end);
        let start = call.range.map_or(0, |range| range.start);
        let Some(bytes) = call.expected_bytes else {
            return;
        };
        let end = end.min(start + bytes);
        let one = self.sessions.entry(call.object.0).or_insert(Some(session));
        if *one != Some(session) {
            *one = None;
        }
        // Only whole units count; a partial one can still supply later requests of the same unit.
        for unit in start / UNIT_BYTES..end.div_ceil(UNIT_BYTES) {
            let is_whole = unit * UNIT_BYTES >= start && (unit + 1) * UNIT_BYTES <= end;
            let is_within = earliest >= self.from && latest <= self.to;
            self.wants.push(RequestedUnit {
                unit: (call.object.0, unit as u32),
                earliest,
                latest,
                counts: is_whole && is_within,
            });
        }
    }

    fn settle(
        mut self,
        places: &[Option<FileLocation>],
        medium: &MediumLimits,
        memory_bytes: u64,
        rate_mib_s: f64,
        seed: u64,
    ) -> Bound {
        let lonely = self.lonely(places, medium);
        let order = |want: &RequestedUnit| (want.unit, want.earliest);
        self.wants.sort_by(|a, b| {
            let (a, b) = (order(a), order(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        let mut items: Vec<KnapsackItem> = Vec::new();
        // The item of each isolated file that would be held longest.
        let mut longest: BTreeMap<u32, usize> = BTreeMap::new();
        for same in self.wants.chunk_by(|a, b| a.unit == b.unit) {
            let (file, unit) = same[0].unit;
            let Some(place) = places.get(file as usize).and_then(Option::as_ref) else {
                continue;
            };
            let start = place.physical + u64::from(unit) * UNIT_BYTES;
            let seconds = medium.seconds_for(start, UNIT_BYTES);
            let mut held_from = self.from;
            for want in same {
                if want.counts {
                    if lonely.contains(&file) {
                        let held = want.earliest - held_from;
                        let best = longest.entry(file).or_insert(items.len());
                        if items.get(*best).is_none_or(|best| best.held_s < held) {
                            *best = items.len();
                        }
                    }
                    items.push(KnapsackItem {
                        seconds,
                        going_s: 0.0,
                        held_s: (want.earliest - held_from).max(0.0),
                        is_from_before: held_from <= self.from,
                    });
                }
                held_from = held_from.max(want.latest);
            }
        }
        for index in longest.values().skip(1) {
            items[*index].going_s = medium.switch_s;
        }
        let length = self.to - self.from;
        let units = memory_bytes as f64 / UNIT_BYTES as f64;
        let all = items.len() as f64;
        let missed = fill(items, units, length);
        let mib_s = |units: f64| units * UNIT_BYTES as f64 / (1u64 << 20) as f64 / length;
        let time = length * f64::from(medium.arms);
        Bound {
            rate_mib_s,
            seed,
            asked_mib_s: mib_s(all),
            read_mib_s: mib_s(missed.units),
            hit_ratio: if all > 0.0 {
                1.0 - missed.units / all
            } else {
                0.0
            },
            disk_share: missed.seconds / time,
            reposition_share: missed.going_s / time,
        }
    }

    /// Files that one session wants, with no other wanted file within a track's length.
    fn lonely(&self, places: &[Option<FileLocation>], medium: &MediumLimits) -> BTreeSet<u32> {
        let mut lonely = isolated(self.sessions.keys(), places, medium.track_bytes_max);
        lonely.retain(|file| self.sessions.get(file).is_some_and(Option::is_some));
        lonely
    }
}

/// Of some files, those that are at least `gap_bytes` from every other of them.
pub(crate) fn isolated<'f>(
    files: impl Iterator<Item = &'f u32>,
    places: &[Option<FileLocation>],
    gap_bytes: u64,
) -> BTreeSet<u32> {
    let mut wanted: Vec<(u64, u64, u32)> = files
        .filter_map(|file| {
            let place = places.get(*file as usize)?.as_ref()?;
            Some((place.physical, place.physical + place.size_bytes, *file))
        })
        .collect();
    wanted.sort_unstable();
    let is_far = |pair: &[(u64, u64, u32)]| pair[1].0 >= pair[0].1 + gap_bytes;
    let far: Vec<bool> = wanted.windows(2).map(is_far).collect();
    let is_far = |index: Option<usize>| {
        let far = index.and_then(|index| far.get(index));
        far.copied().unwrap_or(true)
    };
    let is_isolated = |index: &usize| is_far(index.checked_sub(1)) && is_far(Some(*index));
    let isolated = (0..wanted.len()).filter(is_isolated);
    isolated.map(|index| wanted[index].2).collect()
}

/// Units that the knapsack leaves to be read.
struct UnreadUnits {
    units: f64,
    seconds: f64,
    going_s: f64,
}

/// Fills `units` of memory at the opening, then the knapsack of the window in order of savings per
/// unit used. The last item may be taken in part.
fn fill(items: Vec<KnapsackItem>, units: f64, length_s: f64) -> UnreadUnits {
    let saved = |item: &KnapsackItem| item.seconds + item.going_s;
    let (mut before, mut within): (Vec<KnapsackItem>, Vec<KnapsackItem>) =
        items.into_iter().partition(|item| item.is_from_before);
    before.sort_by(|a, b| saved(b).total_cmp(&saved(a)));
    let worth = |item: &KnapsackItem| saved(item) / item.held_s;
    within.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    let mut missed = UnreadUnits {
        units: 0.0,
        seconds: 0.0,
        going_s: 0.0,
    };
    let takes_unit: fn(&KnapsackItem) -> f64 = |_| 1.0;
    let takes_time: fn(&KnapsackItem) -> f64 = |item| item.held_s;
    for (items, takes, mut room) in [
        (before, takes_unit, units),
        (within, takes_time, units * length_s),
    ] {
        for item in &items {
            let taken = takes(item);
            let kept = if taken <= room { 1.0 } else { room / taken };
            room -= kept * taken;
            missed.units += 1.0 - kept;
            missed.seconds += (1.0 - kept) * saved(item);
            missed.going_s += (1.0 - kept) * item.going_s;
        }
    }
    missed
}

// A viewer sends its first call when it arrives, and every other when the previous one is complete
// and its pace allows. A call is complete no sooner than a round trip and its bytes over the
// viewer's own line after it was sent, and no later than its timeout, or the viewer is lost.

/// Calls that are sent together. Times are seconds from the start of the run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallBurst<'s> {
    pub(crate) calls: &'s [ScriptCall],
    /// Earliest time at which the requests can reach the server.
    pub(crate) earliest: f64,
    /// Latest time at which the replies may be complete.
    pub(crate) latest: f64,
    /// Least time from the sending of the previous burst to the sending of this one; 0 for the
    /// first.
    pub(crate) gap: f64,
    /// Longest time from the sending of the requests until the last byte leaves the server, less
    /// the time that a request takes to the server.
    pub(crate) patience: f64,
}

/// The bursts of a session in order; none of an adaptive player.
#[derive(Debug)]
pub(crate) struct CallTimes<'s> {
    rest: &'s [ScriptCall],
    class: &'s NetworkClass,
    /// Earliest and latest time of sending of the next burst.
    sent: (f64, f64),
    gap: f64,
}

impl<'s> CallTimes<'s> {
    pub(crate) fn new(session: &'s Session, class: &'s NetworkClass) -> Self {
        let arrival = session.arrival.as_secs_f64();
        Self {
            rest: match &session.plan {
                SessionPlan::Script(script) => &script.calls,
                SessionPlan::Adaptive(_) | SessionPlan::Phases(_) => &[],
            },
            class,
            sent: (arrival, arrival),
            gap: 0.0,
        }
    }
}

impl<'s> Iterator for CallTimes<'s> {
    type Item = CallBurst<'s>;

    fn next(&mut self) -> Option<CallBurst<'s>> {
        if self.rest.is_empty() {
            return None;
        }
        let members = self.rest.iter().skip(1);
        let count = 1 + members.take_while(|call| call.with_previous).count();
        let (calls, rest) = self.rest.split_at(count);
        let timeout = calls.iter().map(|call| {
            let timeout = call.timeout.map(Duration::as_secs_f64);
            timeout.unwrap_or(f64::INFINITY)
        });
        let timeout = timeout.fold(0.0, f64::max);
        let delay = self.class.delay.as_secs_f64();
        let bytes: u64 = calls.iter().filter_map(|call| call.expected_bytes).sum();
        let line = self.class.bandwidth;
        let line = line.map_or(0.0, |rate| rate.time_for(bytes).as_secs_f64());
        let (earliest, latest) = self.sent;
        let burst = CallBurst {
            calls,
            earliest: earliest + delay,
            latest: latest + timeout,
            gap: self.gap,
            patience: (timeout - 2.0 * delay).max(0.0),
        };
        self.rest = rest;
        if let Some(next) = rest.first() {
            let seconds = |time: Option<Duration>| time.map_or(0.0, Duration::as_secs_f64);
            let (pace, think) = (seconds(next.pace), seconds(next.think));
            self.gap = pace.max(2.0 * delay + line + think);
            self.sent = (
                earliest + self.gap,
                (latest + pace).max(latest + timeout + think),
            );
        }
        Some(burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(seconds: f64, held_s: f64) -> KnapsackItem {
        KnapsackItem {
            seconds,
            going_s: 0.0,
            held_s,
            is_from_before: false,
        }
    }

    #[test]
    fn memory_goes_to_items_with_highest_saving_per_use() {
        let items = vec![
            item(1.0, 10.0),
            item(1.0, 2.0),
            item(3.0, 10.0),
            item(1.0, 0.0),
        ];
        let missed = fill(items.clone(), 1.0, 7.0);
        // The item held for no time is free, then 1/2, then half of 3/10.
        assert_eq!((missed.units, missed.seconds), (1.5, 2.5));
        let missed = fill(items, 1e9, 7.0);
        assert_eq!((missed.units, missed.seconds), (0.0, 0.0));
    }

    #[test]
    fn initial_content_fits_into_memory() {
        let mut items = vec![item(1.0, 0.1), item(3.0, 0.1), item(2.0, 0.1)];
        items.iter_mut().for_each(|item| item.is_from_before = true);
        items.push(item(5.0, 2.0));
        let missed = fill(items, 1.5, 2.0);
        assert_eq!((missed.units, missed.seconds), (1.5, 2.0));
    }
}
