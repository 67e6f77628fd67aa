//! Phases of a session: trying bit rates, settling on one, and doing nothing (thesis 5.4, A12).
//!
//! A viewer that tries out bit rates leaves a cluster of short chains, the *transient* phase; one
//! that has settled reads one long chain, the *stable* phase; one that is paused reads nothing, the
//! *inactive* phase. Phases are found one session at a time from its chains alone, so that a log
//! of any length can be told; [`PhaseTotals`] adds sessions up.

use alloc::vec::Vec;

use crate::{Chain, Kind};

/// What tells phases apart. The default has the values of thesis 5.4.3 and 5.4.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseRules {
    /// A chain that lasts longer is long, and a stable phase; others are short, ms (A11: 40 s).
    pub short_ms_max: i64,
    /// A short chain belongs to the cluster before it if it starts less than this after the
    /// latest end in the cluster, ms (thesis 5.4.3: 10 s).
    pub cluster_gap_ms: i64,
    /// Least time without a chain in progress that is an inactive phase, ms (thesis 5.4.5: 40 s).
    pub inactive_ms_min: i64,
    /// Whether chains of audio files make transient and stable phases too. The thesis speaks of
    /// non-audio in 5.4.2 only, and its numbers fit all files better, so both readings are of use.
    pub with_audio: bool,
}

impl Default for PhaseRules {
    fn default() -> Self {
        Self {
            short_ms_max: 40_000,
            cluster_gap_ms: 10_000,
            inactive_ms_min: 40_000,
            with_audio: false,
        }
    }
}

/// What a phase is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PhaseKind {
    /// A cluster of short chains.
    Transient,
    /// One long chain.
    Stable,
    /// No chain of any file in progress.
    Inactive,
}

/// One phase of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// What it is.
    pub kind: PhaseKind,
    /// First arrival in it, ms; the end of what came before if it is inactive.
    pub start_ms: i64,
    /// Last completion in it, ms; the next arrival if it is inactive.
    pub end_ms: i64,
    /// Chains in it: one if it is stable, none if it is inactive.
    pub chains: u32,
    /// Requests in its chains.
    pub requests: u64,
    /// Bytes in its chains, as the sum of their lengths.
    pub bytes: u64,
    /// Its first chain, as an index into the session's chains.
    pub first_chain: Option<u32>,
}

impl Phase {
    /// How long it lasts, ms.
    pub const fn duration_ms(&self) -> i64 {
        self.end_ms.saturating_sub(self.start_ms)
    }

    fn of_chain(kind: PhaseKind, chain: &Chain, place: u32) -> Self {
        let mut phase = Self {
            kind,
            start_ms: chain.start_ms,
            end_ms: chain.end_ms,
            chains: 0,
            requests: 0,
            bytes: 0,
            first_chain: Some(place),
        };
        phase.add(chain);
        phase
    }

    fn add(&mut self, chain: &Chain) {
        self.end_ms = self.end_ms.max(chain.end_ms);
        self.chains += 1;
        self.requests += u64::from(chain.requests);
        self.bytes = self.bytes.saturating_add(chain.length);
    }

    /// Order in a session. A cluster comes before a long chain that starts with it, as the viewer
    /// who tries and settles at once has tried first.
    const fn rank(&self) -> (i64, PhaseKind, i64) {
        (self.start_ms, self.kind, self.end_ms)
    }
}

/// The phases of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPhases {
    /// Whose.
    pub session: u32,
    /// First arrival of the session, ms.
    pub start_ms: i64,
    /// Last completion of the session, ms.
    pub end_ms: i64,
    /// By start, and transient before stable where both start at once. They may overlap.
    pub phases: Vec<Phase>,
    /// Of each chain the index of its phase; none for audio if that makes no phases.
    pub phase_of: Vec<Option<u32>>,
    /// Time in clusters, ms.
    pub transient_ms: i64,
    /// Time in which at least one long chain is in progress, ms.
    pub stable_ms: i64,
    /// Time in inactive phases, ms.
    pub inactive_ms: i64,
    /// Time that belongs to no phase, ms: gaps too long for a cluster and too short to be inactive,
    /// and what only audio fills.
    pub unphased_ms: i64,
}

/// A transient phase that is not the session's first, between stable ones (thesis 5.4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Successor {
    /// Index of the transient phase.
    pub phase: u32,
    /// The last stable phase that started before it.
    pub stable_before: Option<u32>,
    /// The first stable phase that started with or after it.
    pub stable_after: Option<u32>,
}

impl SessionPhases {
    /// From first arrival to last completion, ms.
    pub const fn span_ms(&self) -> i64 {
        self.end_ms.saturating_sub(self.start_ms)
    }

    /// The first phase of a kind: of transient ones the *first transient phase* of thesis 5.4.3.
    pub fn first(&self, kind: PhaseKind) -> Option<u32> {
        self.after(0, kind)
    }

    /// Whether trying came before settling: the first of all phases is transient.
    pub fn starts_transient(&self) -> bool {
        self.phases
            .first()
            .is_some_and(|phase| phase.kind == PhaseKind::Transient)
    }

    /// The transient phases after the first, each with the stable phases around it.
    pub fn successors(&self) -> impl Iterator<Item = Successor> {
        let mut stable_before = None;
        let mut is_first = true;
        (0..).zip(&self.phases).filter_map(move |(place, phase)| {
            if phase.kind == PhaseKind::Stable {
                stable_before = Some(place);
            }
            if phase.kind != PhaseKind::Transient || core::mem::take(&mut is_first) {
                return None;
            }
            Some(Successor {
                phase: place,
                stable_before,
                stable_after: self.after(place, PhaseKind::Stable),
            })
        })
    }

    fn after(&self, from: u32, kind: PhaseKind) -> Option<u32> {
        let mut later = (from..).zip(&self.phases[from as usize..]);
        later
            .find(|(_, phase)| phase.kind == kind)
            .map(|(place, _)| place)
    }
}

/// The phases of one session, from all its chains, in any order. There are none of no chains.
///
/// `kind_of` tells what is in a file.
pub fn phases(
    chains: &[Chain],
    kind_of: impl Fn(u32) -> Kind,
    rules: &PhaseRules,
) -> Option<SessionPhases> {
    let mut order: Vec<u32> = (0..).zip(chains).map(|(place, _)| place).collect();
    order.sort_by_key(|&place| chains[place as usize].start_ms);
    let first = chains.get(*order.first()? as usize)?;
    let counts = |chain: &Chain| rules.with_audio || kind_of(chain.file) != Kind::Audio;

    let mut found: Vec<Phase> = Vec::new();
    let mut phase_of = alloc::vec![None; chains.len()];
    let mut cluster: Option<usize> = None;
    let mut busy_until_ms = first.start_ms;
    for place in order {
        let chain = &chains[place as usize];
        if chain.start_ms.saturating_sub(busy_until_ms) >= rules.inactive_ms_min {
            found.push(inactive(busy_until_ms, chain.start_ms));
        }
        busy_until_ms = busy_until_ms.max(chain.end_ms);
        if !counts(chain) {
            continue;
        }
        let is_near = |&cluster: &usize| {
            chain.start_ms.saturating_sub(found[cluster].end_ms) < rules.cluster_gap_ms
        };
        let phase = if chain.duration_ms() > rules.short_ms_max {
            found.push(Phase::of_chain(PhaseKind::Stable, chain, place));
            found.len() - 1
        } else if let Some(cluster) = cluster.filter(is_near) {
            found[cluster].add(chain);
            cluster
        } else {
            found.push(Phase::of_chain(PhaseKind::Transient, chain, place));
            cluster = Some(found.len() - 1);
            found.len() - 1
        };
        phase_of[place as usize] = Some(phase as u32);
    }
    let phases = in_order(&found, &mut phase_of);
    let of = |kind| covered_ms(phases.iter().filter(move |phase| phase.kind == kind));
    Some(SessionPhases {
        session: first.session,
        start_ms: first.start_ms,
        end_ms: busy_until_ms,
        transient_ms: of(PhaseKind::Transient),
        stable_ms: of(PhaseKind::Stable),
        inactive_ms: of(PhaseKind::Inactive),
        unphased_ms: busy_until_ms
            .saturating_sub(first.start_ms)
            .saturating_sub(covered_ms(phases.iter())),
        phases,
        phase_of,
    })
}

fn inactive(start_ms: i64, end_ms: i64) -> Phase {
    Phase {
        kind: PhaseKind::Inactive,
        start_ms,
        end_ms,
        chains: 0,
        requests: 0,
        bytes: 0,
        first_chain: None,
    }
}

/// Sorts phases, and makes `phase_of` mean the sorted ones.
fn in_order(found: &[Phase], phase_of: &mut [Option<u32>]) -> Vec<Phase> {
    let mut order: Vec<u32> = (0..).zip(found).map(|(place, _)| place).collect();
    order.sort_by_key(|&place| found[place as usize].rank());
    let mut place_of = alloc::vec![0; found.len()];
    for (&phase, place) in order.iter().zip(0..) {
        place_of[phase as usize] = place;
    }
    for phase in phase_of.iter_mut().flatten() {
        *phase = place_of[*phase as usize];
    }
    order.iter().map(|&place| found[place as usize]).collect()
}

/// How long the union of phases is that are sorted by start, ms.
fn covered_ms<'a>(phases: impl Iterator<Item = &'a Phase>) -> i64 {
    let mut covered_ms = 0_i64;
    let mut until_ms = i64::MIN;
    for phase in phases {
        let from_ms = phase.start_ms.max(until_ms);
        covered_ms = covered_ms.saturating_add(phase.end_ms.saturating_sub(from_ms).max(0));
        until_ms = until_ms.max(phase.end_ms);
    }
    covered_ms
}

/// Sums over sessions; sums of parts of a log can be added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PhaseTotals {
    /// Sessions.
    pub sessions: u64,
    /// Sum of the sessions' spans, ms.
    pub span_ms: i64,
    /// Sum of [`SessionPhases::transient_ms`].
    pub transient_ms: i64,
    /// Sum of [`SessionPhases::stable_ms`].
    pub stable_ms: i64,
    /// Sum of [`SessionPhases::inactive_ms`].
    pub inactive_ms: i64,
    /// Sum of [`SessionPhases::unphased_ms`].
    pub unphased_ms: i64,
    /// Transient phases.
    pub transients: u64,
    /// Stable phases.
    pub stables: u64,
    /// Inactive phases.
    pub inactives: u64,
    /// Transient phases that are not the first of their session.
    pub successors: u64,
    /// Sum of the durations of stable phases, overlaps counted each time, ms.
    pub stable_durations_ms: i64,
    /// Bytes in transient phases.
    pub transient_bytes: u64,
    /// Bytes in stable phases.
    pub stable_bytes: u64,
    /// Sessions whose first phase is transient.
    pub starting_transient: u64,
    /// Sessions with a stable phase.
    pub with_stable: u64,
    /// Sessions that could have no stable phase, as they are not longer than a short chain.
    pub brief: u64,
}

impl PhaseTotals {
    /// Counts one more session, found by these rules.
    pub fn add(&mut self, of: &SessionPhases, rules: &PhaseRules) {
        self.sessions += 1;
        self.span_ms = self.span_ms.saturating_add(of.span_ms());
        self.transient_ms = self.transient_ms.saturating_add(of.transient_ms);
        self.stable_ms = self.stable_ms.saturating_add(of.stable_ms);
        self.inactive_ms = self.inactive_ms.saturating_add(of.inactive_ms);
        self.unphased_ms = self.unphased_ms.saturating_add(of.unphased_ms);
        let mut transients = 0_u64;
        let mut stables = 0;
        for phase in &of.phases {
            match phase.kind {
                PhaseKind::Transient => {
                    transients += 1;
                    self.transient_bytes = self.transient_bytes.saturating_add(phase.bytes);
                }
                PhaseKind::Stable => {
                    stables += 1;
                    self.stable_bytes = self.stable_bytes.saturating_add(phase.bytes);
                    self.stable_durations_ms =
                        self.stable_durations_ms.saturating_add(phase.duration_ms());
                }
                PhaseKind::Inactive => self.inactives += 1,
            }
        }
        self.transients += transients;
        self.stables += stables;
        self.successors += transients.saturating_sub(1);
        self.starting_transient += u64::from(of.starts_transient());
        self.with_stable += u64::from(stables > 0);
        self.brief += u64::from(of.span_ms() <= rules.short_ms_max);
    }

    /// Adds the sessions of another part of the log.
    pub fn merge(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.span_ms = self.span_ms.saturating_add(other.span_ms);
        self.transient_ms = self.transient_ms.saturating_add(other.transient_ms);
        self.stable_ms = self.stable_ms.saturating_add(other.stable_ms);
        self.inactive_ms = self.inactive_ms.saturating_add(other.inactive_ms);
        self.unphased_ms = self.unphased_ms.saturating_add(other.unphased_ms);
        self.transients += other.transients;
        self.stables += other.stables;
        self.inactives += other.inactives;
        self.successors += other.successors;
        self.stable_durations_ms = self
            .stable_durations_ms
            .saturating_add(other.stable_durations_ms);
        self.transient_bytes = self.transient_bytes.saturating_add(other.transient_bytes);
        self.stable_bytes = self.stable_bytes.saturating_add(other.stable_bytes);
        self.starting_transient += other.starting_transient;
        self.with_stable += other.with_stable;
        self.brief += other.brief;
    }

    /// A time as a share of the sum of spans (thesis 5.4.6); none if nothing lasted.
    pub fn share(&self, of_ms: i64) -> Option<f64> {
        (self.span_ms > 0).then(|| of_ms as f64 / self.span_ms as f64)
    }

    /// How long a stable phase lasts on average, ms (thesis 5.4.4: 8.5 min).
    pub fn mean_stable_ms(&self) -> Option<f64> {
        (self.stables > 0).then(|| self.stable_durations_ms as f64 / self.stables as f64)
    }
}
