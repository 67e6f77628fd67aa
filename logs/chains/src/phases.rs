//! Phases of a session: trying bit rates, settling on one, and doing nothing (thesis 5.4, A12).
//!
//! A viewer that tries out bit rates leaves a cluster of short chains, the *transient* phase; one
//! that has settled reads one long chain, the *stable* phase; one that is paused reads nothing, the
//! *inactive* phase. Phases are found one session at a time from its chains alone, so that a log
//! of any length can be worked on.

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

impl SessionPhases {
    /// From first arrival to last completion, ms.
    pub const fn span_ms(&self) -> i64 {
        self.end_ms.saturating_sub(self.start_ms)
    }

    /// Whether trying came before settling: the first of all phases is transient.
    pub fn starts_transient(&self) -> bool {
        self.phases
            .first()
            .is_some_and(|phase| phase.kind == PhaseKind::Transient)
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
