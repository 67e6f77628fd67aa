//! Phases of a session: trying bit rates, playing, and inactivity (thesis 5.4, A12).
//!
//! A viewer that tries bit rates leaves a cluster of short chains, the *transient* phase; one that
//! has settled reads one long chain, the *stable* phase; one that has paused reads nothing, the
//! *inactive* phase. Phases are found per session from its chains alone, so the length of a log is
//! not limited.

use alloc::vec::Vec;

use crate::{Chain, ContentKind};

/// Thresholds between phases. The defaults are those of thesis 5.4.3 and 5.4.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseRules {
    /// Chains that last longer are long, and form a stable phase; others are short, ms (A11: 40 s).
    pub short_ms_max: i64,
    /// A short chain belongs to the preceding cluster if it starts less than this after the latest
    /// end in the cluster, ms (thesis 5.4.3: 10 s).
    pub cluster_gap_ms: i64,
    /// Shortest time without an active chain that is an inactive phase, ms (thesis 5.4.5: 40 s).
    pub inactive_ms_min: i64,
    /// Whether chains of audio files form transient and stable phases. The thesis mentions
    /// non-audio in 5.4.2 only, and its numbers fit all files better, so both readings are
    /// supported.
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

/// Type of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PhaseKind {
    /// A cluster of short chains.
    Transient,
    /// One long chain.
    Stable,
    /// No active chain of any file.
    Inactive,
}

/// One phase of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// Its type.
    pub kind: PhaseKind,
    /// First arrival, ms; for an inactive phase the end of the preceding activity.
    pub start_ms: i64,
    /// Last completion, ms; for an inactive phase the next arrival.
    pub end_ms: i64,
    /// Chains in it: one if stable, none if inactive.
    pub chains: u32,
    /// Requests in its chains.
    pub requests: u64,
    /// Sum of the lengths of its chains, bytes.
    pub bytes: u64,
    /// Its first chain, as an index into the session's chains.
    pub first_chain: Option<u32>,
}

impl Phase {
    /// Its duration, ms.
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

    /// Order within a session. A cluster precedes a long chain that starts with it: the viewer
    /// tried bit rates before it settled.
    const fn rank(&self) -> (i64, PhaseKind, i64) {
        (self.start_ms, self.kind, self.end_ms)
    }
}

/// The phases of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPhases {
    /// Session number.
    pub session: u32,
    /// First arrival of the session, ms.
    pub start_ms: i64,
    /// Last completion of the session, ms.
    pub end_ms: i64,
    /// By start time; transient before stable at equal times. Phases may overlap.
    pub phases: Vec<Phase>,
    /// Index of the phase of each chain; `None` for audio chains that form no phases.
    pub phase_of: Vec<Option<u32>>,
    /// Time in clusters, ms.
    pub transient_ms: i64,
    /// Time with at least one long chain active, ms.
    pub stable_ms: i64,
    /// Time in inactive phases, ms.
    pub inactive_ms: i64,
    /// Time outside all phases, ms: gaps too long for a cluster and too short for an inactive
    /// phase, and time with audio only.
    pub unphased_ms: i64,
}

impl SessionPhases {
    /// From the first arrival to the last completion, ms.
    pub const fn span_ms(&self) -> i64 {
        self.end_ms.saturating_sub(self.start_ms)
    }

    /// Whether the first phase is transient.
    pub fn starts_transient(&self) -> bool {
        self.phases
            .first()
            .is_some_and(|phase| phase.kind == PhaseKind::Transient)
    }
}

/// The phases of one session from all its chains, in any order; `None` without chains.
///
/// `kind_of` returns the kind of a file.
pub fn phases(
    chains: &[Chain],
    kind_of: impl Fn(u32) -> ContentKind,
    rules: &PhaseRules,
) -> Option<SessionPhases> {
    let mut order: Vec<u32> = (0..).zip(chains).map(|(place, _)| place).collect();
    order.sort_by_key(|&place| chains[place as usize].start_ms);
    let first = chains.get(*order.first()? as usize)?;
    let counts = |chain: &Chain| rules.with_audio || kind_of(chain.file) != ContentKind::Audio;

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

/// Sorts phases, and updates the indexes in `phase_of`.
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

/// Length of the union of phases sorted by start, ms.
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
