//! The least number of viewers that any server loses from a start with empty memory, even a server
//! that knows every viewer beforehand.
//!
//! # What is bounded
//!
//! A viewer is lost if one of its calls is not complete in time. Take a server, the set S of the
//! viewers that it does not lose until a time `t`, and a period from `s` to `t`. A call *counts* if
//! its request cannot reach the server before `s` and must be complete by `t` ([`CallBurst`] has
//! both times). All counted calls of the viewers in S are answered within the period, with bytes
//! that the drive reads within it or, unless `s` is the start of the run, with bytes that memory
//! holds since before `s`.
//!
//! # What a viewer needs
//!
//! - *Heads.* A byte crosses a head at the speed of its track ([`MediumLimits`]). Reads of a file
//!   without a read of another in between are a *visit*. If all other requested files are more than
//!   a cylinder away, a visit costs at least the shortest seek before its transfer.
//! - *Memory.* Let one visit read bytes of call j and of a later call i. It reads bytes of j before
//!   the timeout of j, and the request for i arrives at the earliest after the paces and transfers
//!   of the calls between them. For the difference, memory holds the bytes of i. So a viewer needs
//!   either many visits, or memory for the time between.
//!
//! Head time in the period is at most `t - s` for each arm, and one seek for its initial position;
//! memory (the server's plus the drive's) holds at most its size for `t - s`.
//!
//! # Why the sum is a lower bound
//!
//! Let a byte held for a second cost P seconds of a head. For any P the least cost of a viewer is
//! found exactly, over all ways to divide its calls into visits ([`least_cost`]); consecutive calls
//! belong to a visit, because a byte is held least if the last visit before its call reads it. The
//! costs of all viewers in S are at most the head time plus P times the memory of the period, since
//! both are limits of the server; so if they exceed it, S is too large. Removing a viewer saves at
//! most its cost, so at least as many are lost as it takes, most expensive first, to remove the
//! excess. Every period and every P gives a valid number; the result is the greatest of some.
//!
//! Three details keep it valid. Bytes that several viewers want are charged to one of them, and
//! visits and memory of a file to one of its viewers, to all others only the transfer of bytes that
//! no other is charged for: a server may serve the rest with the same reads. A head that waits at a
//! file for later calls instead of leaving holds less memory, but for each second of waiting at
//! most the bytes of that viewer; all transfers are charged with a discount of P times those bytes,
//! which covers it. And only whole units of [`UNIT_BYTES`] count.
//!
//! Rotation, longer seeks, overhead, the limits of requests and queues, and failed guesses cost
//! nothing: a server that loses as few as the bound may not exist, one that loses fewer does not.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use headlong_drive::MediumLimits;
use headlong_player::{ObjectId, ScriptCall, SessionPlan};
use headlong_units::{Duration, Instant};
use headlong_workload::{Catalogue, NetworkClass, Session, SessionStream, Specification};
use serde::{Deserialize, Serialize};

use crate::VirtualExperiment;
use crate::layout::{FileLocation, TitlePlacement};
use crate::setup::SetupError;

/// Bytes that are accounted for together. A call counts with the whole units in it.
const UNIT_BYTES: u64 = 128 * 1024;

/// Periods begin and end at multiples of this part of the run.
const PARTS: u32 = 12;
/// Prices of memory: from the head time that all of it is worth at most, halved each time.
const PRICES: i32 = 14;

/// The least number of viewers lost, for one rate and seed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LossBound {
    /// Rate that the workload was generated for.
    pub rate_mib_s: f64,
    /// Seed of the workload.
    pub seed: u64,
    /// Viewers that arrive before the end of the measured time.
    pub sessions: u64,
    /// Viewers that any server loses before the end of the measured time, at least.
    pub lost: u64,
    /// Start of the period that proves it, seconds from the start of the run.
    pub from_s: f64,
    /// End of that period.
    pub to_s: f64,
    /// Least head time in that period, if no viewer is lost, as a share of the period.
    pub disk_share: f64,
}

impl LossBound {
    /// Human-readable line.
    pub fn line(&self) -> String {
        format!(
            "{:.1} MiB/s, seed {}: any server loses at least {} of {} viewers; drive used {:.1}% \
             at least from {:.0} s to {:.0} s if none is lost",
            self.rate_mib_s,
            self.seed,
            self.lost,
            self.sessions,
            self.disk_share * 100.0,
            self.from_s,
            self.to_s,
        )
    }
}

/// A call, or calls sent together, as a viewer needs them. Times are seconds.
#[derive(Debug, Clone)]
struct CallDemand {
    earliest: f64,
    latest: f64,
    /// Least time from the viewer's first request to the sending of this one.
    sent: f64,
    /// See [`CallBurst::patience`].
    patience: f64,
    /// Object and whole units of each call.
    units: Vec<(u32, Range<u32>)>,
}

/// Cost of a need to the viewer that is charged for it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ViewerCharge {
    /// Time from the opening of the period until the request can arrive, if memory may hold bytes
    /// since before.
    since_opening: Option<f64>,
    sent: f64,
    patience: f64,
    bytes: f64,
    /// Transfer time.
    seconds: f64,
}

/// Costs in seconds of a head.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ResourcePrices {
    /// For a byte held for a second.
    memory: f64,
    /// For a visit.
    visit: f64,
    /// For a second of transfer.
    transfer: f64,
}

/// A viewer's counted needs in a period.
#[derive(Debug, Clone)]
struct ViewerDemand {
    charges: Vec<ViewerCharge>,
    /// Whether its visits are charged.
    pays_visits: bool,
}

/// The proof of a number of lost viewers.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
struct LossProof {
    lost: u64,
    disk_share: f64,
    from: f64,
    to: f64,
}

impl VirtualExperiment {
    /// The least number of viewers that any server loses until the measured time ends, if nothing
    /// is in memory when the run starts.
    ///
    /// # Errors
    /// If the titles do not fit on the drive, the setup has several disks or an SSD, or players
    /// adapt their bit rate.
    pub fn loss_bound(&self, rate_mib_s: f64, seed: u64) -> Result<LossBound, SetupError> {
        let end = self.setup.window.to.since(Instant::ZERO).as_secs_f64();
        let mut viewers = Vec::new();
        let drawn = self.draw(rate_mib_s, seed, |_, session, class| {
            if session.arrival.as_secs_f64() < end {
                viewers.push(needs(CallTimes::new(session, class)));
            }
        })?;
        let (places, memory) = (&drawn.places, drawn.memory_bytes);
        let context = BoundContext::new(&viewers, places, &drawn.medium, memory);
        let proof = context.best(&viewers, end);
        Ok(LossBound {
            rate_mib_s,
            seed,
            sessions: viewers.len() as u64,
            lost: proof.lost,
            from_s: proof.from,
            to_s: proof.to,
            disk_share: proof.disk_share,
        })
    }

    /// Draws the sessions of a run and passes each, with its number, to `add`.
    ///
    /// # Errors
    /// Those of [`VirtualExperiment::loss_bound`].
    fn draw(
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
}

/// The needs of a viewer.
fn needs(bursts: CallTimes<'_>) -> Vec<CallDemand> {
    let mut sent = 0.0;
    let need = |burst: CallBurst<'_>| {
        sent += burst.gap;
        let units = burst.calls.iter().filter_map(|call| {
            let start = call.range.map_or(0, |range| range.start);
            let end = call.range.map_or(u64::MAX, |range| range.end);
            let end = end.min(start.saturating_add(call.expected_bytes?));
            let units = (start.div_ceil(UNIT_BYTES) as u32)..((end / UNIT_BYTES) as u32);
            Some((call.object.0, units))
        });
        CallDemand {
            earliest: burst.earliest,
            latest: burst.latest,
            sent,
            patience: burst.patience,
            units: units.collect(),
        }
    };
    bursts.map(need).collect()
}

/// The drive, memory, and the places of the files.
struct BoundContext<'p> {
    places: &'p [Option<FileLocation>],
    medium: &'p MediumLimits,
    memory_bytes: f64,
    /// Files that no wanted file is close to.
    isolated: BTreeSet<u32>,
}

impl<'p> BoundContext<'p> {
    fn new(
        viewers: &[Vec<CallDemand>],
        places: &'p [Option<FileLocation>],
        medium: &'p MediumLimits,
        memory_bytes: u64,
    ) -> Self {
        let needs = viewers.iter().flatten();
        let objects: BTreeSet<u32> = needs
            .flat_map(|need| need.units.iter().map(|(object, _)| *object))
            .collect();
        Self {
            places,
            medium,
            memory_bytes: memory_bytes as f64,
            isolated: isolated(objects.iter(), places, medium.cylinder_bytes_max),
        }
    }

    /// The best proof of all periods and prices.
    fn best(&self, viewers: &[Vec<CallDemand>], end: f64) -> LossProof {
        let at = |part: u32| end * f64::from(part) / f64::from(PARTS);
        let mut best = LossProof::default();
        for from in 0..PARTS {
            for to in from + 1..=PARTS {
                let proof = self.proof(viewers, at(from), at(to));
                if proof > best {
                    best = proof;
                }
            }
        }
        best
    }

    /// The best proof of one period.
    fn proof(&self, viewers: &[Vec<CallDemand>], from: f64, to: f64) -> LossProof {
        let demands = self.demands(viewers, from, to);
        let bytes = |demand: &ViewerDemand| demand.charges.iter().map(|charge| charge.bytes).sum();
        let bytes_max = demands.iter().map(bytes).fold(0.0, f64::max);
        let arms = f64::from(self.medium.arms);
        let length = to - from;
        let heads = arms * (length + self.medium.seek_s);
        let dearest = 1.0 / (self.memory_bytes / arms).max(bytes_max).max(1.0);
        let mut best = LossProof::default();
        for halved in 0..PRICES {
            let memory = dearest * 0.5_f64.powi(halved);
            let prices = ResourcePrices {
                memory,
                visit: self.medium.seek_s,
                transfer: 1.0 - memory * bytes_max,
            };
            let held = memory * self.memory_bytes * length;
            let costs: Vec<f64> = demands.iter().map(|demand| demand.cost(&prices)).collect();
            let all: f64 = costs.iter().sum();
            let proof = LossProof {
                lost: least_removed(costs, heads + held),
                disk_share: (all - held - arms * self.medium.seek_s) / (arms * length),
                from,
                to,
            };
            if proof > best {
                best = proof;
            }
        }
        best
    }

    /// Which counted needs of a period each viewer is charged for. Viewers with the most calls come
    /// first: they are charged for all of their needs.
    fn demands(&self, viewers: &[Vec<CallDemand>], from: f64, to: f64) -> Vec<ViewerDemand> {
        let counts = |need: &&CallDemand| need.earliest >= from && need.latest <= to;
        let mut order: Vec<(usize, &Vec<CallDemand>)> = viewers
            .iter()
            .map(|needs| (needs.iter().filter(counts).count(), needs))
            .filter(|(count, _)| *count > 0)
            .collect();
        order.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let mut charged: HashSet<(u32, u32)> = HashSet::new();
        let mut visited: HashSet<u32> = HashSet::new();
        let mut demands = Vec::new();
        for (count, needs) in order {
            let mut demand = ViewerDemand {
                charges: Vec::with_capacity(count),
                pays_visits: true,
            };
            let mut objects = HashSet::new();
            for need in needs.iter().filter(counts) {
                let (mut bytes, mut seconds) = (0.0, 0.0);
                for (object, units) in &need.units {
                    objects.insert(*object);
                    let Some(Some(place)) = self.places.get(*object as usize) else {
                        demand.pays_visits = false;
                        continue;
                    };
                    for unit in units
                        .clone()
                        .filter(|unit| charged.insert((*object, *unit)))
                    {
                        let at = place.physical + u64::from(unit) * UNIT_BYTES;
                        seconds += self.medium.seconds_for(at, UNIT_BYTES);
                        bytes += UNIT_BYTES as f64;
                    }
                }
                demand.charges.push(ViewerCharge {
                    since_opening: (from > 0.0).then_some(need.earliest - from),
                    sent: need.sent,
                    patience: need.patience,
                    bytes,
                    seconds,
                });
            }
            for object in objects {
                let is_first = visited.insert(object);
                demand.pays_visits &= is_first && self.isolated.contains(&object);
            }
            demands.push(demand);
        }
        demands
    }
}

impl ViewerDemand {
    fn cost(&self, prices: &ResourcePrices) -> f64 {
        match self.pays_visits {
            true => least_cost(&self.charges, prices),
            false => {
                let cost = |charge: &ViewerCharge| charge.cost(prices, 0.0);
                self.charges.iter().map(cost).sum()
            }
        }
    }
}

impl ViewerCharge {
    /// Cost if a visit reads the bytes and memory holds them for `held` seconds, or if memory has
    /// held them since before the opening.
    fn cost(&self, prices: &ResourcePrices, held: f64) -> f64 {
        let holding = |seconds: f64| prices.memory * self.bytes * seconds;
        let read = self.seconds * prices.transfer + holding(held);
        self.since_opening
            .map_or(read, |since| read.min(holding(since)))
    }
}

/// The least cost of a viewer's charges over all ways to divide them into visits.
fn least_cost(charges: &[ViewerCharge], prices: &ResourcePrices) -> f64 {
    // The least cost of the charges before each one, and of all.
    let mut least = vec![f64::INFINITY; charges.len() + 1];
    least[0] = 0.0;
    for first in 0..charges.len() {
        let before = least[first];
        // Without a visit, if memory has held the bytes since before the opening.
        if let Some(since) = charges[first].since_opening {
            let held = before + prices.memory * charges[first].bytes * since;
            least[first + 1] = least[first + 1].min(held);
        }
        let mut cost = before + prices.visit;
        let read_latest = charges[first].sent + charges[first].patience;
        for (index, charge) in charges.iter().enumerate().skip(first) {
            cost += charge.cost(prices, (charge.sent - read_latest).max(0.0));
            least[index + 1] = least[index + 1].min(cost);
        }
    }
    least[charges.len()]
}

/// How many costs have to be removed at least until the sum of the rest is available.
fn least_removed(mut costs: Vec<f64>, available: f64) -> u64 {
    costs.sort_by(|a, b| b.total_cmp(a));
    // Rounding must not add a viewer.
    let mut excess = costs.iter().sum::<f64>() * (1.0 - 1e-9) - available;
    let needed = costs.iter().take_while(|cost| {
        let is_needed = excess > 0.0;
        excess -= **cost;
        is_needed
    });
    needed.count() as u64
}

/// Inputs of a bound beside the sessions of a run.
struct DrawnRun {
    /// The location of each object, by object number.
    places: Vec<Option<FileLocation>>,
    medium: MediumLimits,
    /// Of the server and of the drive.
    memory_bytes: u64,
}

/// Of some files, those that are at least `gap_bytes` from every other of them.
fn isolated<'f>(
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

// A viewer sends its first call when it arrives, and every other when the previous one is complete
// and its pace allows. A call is complete no sooner than a round trip and its bytes over the
// viewer's own line after it was sent, and no later than its timeout, or the viewer is lost.

/// Calls that are sent together. Times are seconds from the start of the run.
#[derive(Debug, Clone, Copy)]
struct CallBurst<'s> {
    calls: &'s [ScriptCall],
    /// Earliest time at which the requests can reach the server.
    earliest: f64,
    /// Latest time at which the replies may be complete.
    latest: f64,
    /// Least time from the sending of the previous burst to the sending of this one; 0 for the
    /// first.
    gap: f64,
    /// Longest time from the sending of the requests until the last byte leaves the server, less
    /// the time that a request takes to the server.
    patience: f64,
}

/// The bursts of a session in order; none of an adaptive player.
#[derive(Debug)]
struct CallTimes<'s> {
    rest: &'s [ScriptCall],
    class: &'s NetworkClass,
    /// Earliest and latest time of sending of the next burst.
    sent: (f64, f64),
    gap: f64,
}

impl<'s> CallTimes<'s> {
    fn new(session: &'s Session, class: &'s NetworkClass) -> Self {
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
    use proptest::prelude::*;

    use super::*;

    /// Cost of one division: bit k of `visits` begins a visit at charge k, and bit k of `held`
    /// serves it from memory since before the opening.
    fn cost_of(
        charges: &[ViewerCharge],
        prices: &ResourcePrices,
        visits: u32,
        held: u32,
    ) -> Option<f64> {
        let mut cost = 0.0;
        let mut read_latest = None;
        for (k, charge) in charges.iter().enumerate() {
            if visits >> k & 1 == 1 {
                read_latest = Some(charge.sent + charge.patience);
                cost += prices.visit;
            }
            if held >> k & 1 == 1 {
                cost += prices.memory * charge.bytes * charge.since_opening?;
                continue;
            }
            let held = (charge.sent - read_latest?).max(0.0);
            cost += charge.seconds * prices.transfer + prices.memory * charge.bytes * held;
        }
        Some(cost)
    }

    fn charges(has_opening: bool) -> impl Strategy<Value = Vec<ViewerCharge>> {
        let one = (0.0..20.0_f64, 0.0..15.0_f64, 0.0..4.0_f64, 0.0..2.0_f64);
        let make = move |parts: Vec<(f64, f64, f64, f64)>| {
            let mut sent = 0.0;
            let charge = |(gap, patience, bytes, seconds): (f64, f64, f64, f64)| {
                sent += gap;
                ViewerCharge {
                    since_opening: has_opening.then_some(sent + 1.0),
                    sent,
                    patience,
                    bytes,
                    seconds,
                }
            };
            parts.into_iter().map(charge).collect::<Vec<ViewerCharge>>()
        };
        prop::collection::vec(one, 0..7).prop_map(make)
    }

    proptest! {
        #[test]
        fn cost_equals_least_over_all_divisions(
            charges in any::<bool>().prop_flat_map(charges),
            memory in 0.0..0.2_f64,
            visit in 0.0..5.0_f64,
        ) {
            let prices = ResourcePrices { memory, visit, transfer: 0.9 };
            let ways = 0..1_u32 << charges.len();
            let each = ways.clone().flat_map(|visits| ways.clone().map(move |held| (visits, held)));
            let costs = each.filter_map(|(visits, held)| cost_of(&charges, &prices, visits, held));
            let least = costs.fold(f64::INFINITY, f64::min);
            let found = least_cost(&charges, &prices);
            prop_assert!((found - least).abs() < 1e-9, "{} {}", found, least);
        }

        #[test]
        fn removes_as_few_as_any_subset_that_fits(
            costs in prop::collection::vec(0.0..3.0_f64, 0..9),
            available in 0.0..10.0_f64,
        ) {
            let left = |kept: &u32| -> f64 {
                let kept = costs.iter().enumerate().filter(|(k, _)| kept >> k & 1 == 1);
                kept.map(|(_, cost)| cost).sum()
            };
            let sets = 0..1_u32 << costs.len();
            let fitting = sets.filter(|kept| left(kept) <= available);
            let most = fitting.map(u32::count_ones).max().unwrap_or(0);
            let removed = least_removed(costs.clone(), available);
            prop_assert_eq!(removed, costs.len() as u64 - u64::from(most));
        }
    }
}
