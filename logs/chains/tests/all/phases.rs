//! Phases found in one pass agree with a literal implementation of their definitions.

use std::collections::BTreeSet;

use headlong_chains::{Chain, ContentKind, Phase, PhaseKind, PhaseRules, phases};
use proptest::collection::vec;
use proptest::prelude::*;

/// Files 0 and 3 are audio.
fn kind_of(file: u32) -> ContentKind {
    [
        ContentKind::Audio,
        ContentKind::Video,
        ContentKind::Combined,
    ][file as usize % 3]
}

fn chain(file: u32, start_ms: i64, end_ms: i64) -> Chain {
    Chain {
        session: 5,
        file,
        start: 0,
        length: 1000,
        start_ms,
        end_ms,
        is_open: false,
        is_mixed: false,
        requests: 3,
        disk: 0,
    }
}

fn rules(with_audio: bool) -> PhaseRules {
    PhaseRules {
        with_audio,
        ..PhaseRules::default()
    }
}

/// Time between two chains: negative if they overlap.
fn gap_ms(one: &Chain, other: &Chain) -> i64 {
    one.start_ms.max(other.start_ms) - one.end_ms.min(other.end_ms)
}

/// Clusters as connected components: short chains less than 10 s apart are linked.
fn clusters(short: &[Chain]) -> BTreeSet<(i64, i64, u32)> {
    let mut left: BTreeSet<usize> = (0..short.len()).collect();
    let mut found = BTreeSet::new();
    while let Some(first) = left.pop_first() {
        let mut members = vec![first];
        let mut looked_at = 0;
        while looked_at < members.len() {
            let of = short[members[looked_at]];
            let near: Vec<_> = left
                .iter()
                .copied()
                .filter(|&other| gap_ms(&of, &short[other]) < 10_000)
                .collect();
            left.retain(|place| !near.contains(place));
            members.extend(near);
            looked_at += 1;
        }
        let starts = members.iter().map(|&place| short[place].start_ms);
        let ends = members.iter().map(|&place| short[place].end_ms);
        found.insert((
            starts.min().expect("it has a member"),
            ends.max().expect("it has a member"),
            members.len() as u32,
        ));
    }
    found
}

/// From an end to a start, 40 s or more, without an active chain in between.
fn silences(chains: &[Chain]) -> BTreeSet<(i64, i64, u32)> {
    let mut found = BTreeSet::new();
    for from in chains.iter().map(|chain| chain.end_ms) {
        for to in chains.iter().map(|chain| chain.start_ms) {
            let is_busy = chains
                .iter()
                .any(|chain| chain.start_ms < to && chain.end_ms > from);
            if to - from >= 40_000 && !is_busy {
                found.insert((from, to, 0));
            }
        }
    }
    found
}

/// Splits time at every edge and checks whether an interval covers each part.
fn covered_ms(intervals: &[(i64, i64)]) -> i64 {
    let edges: BTreeSet<i64> = intervals
        .iter()
        .flat_map(|&(from, to)| [from, to])
        .collect();
    let edges: Vec<i64> = edges.into_iter().collect();
    let is_covered = |pair: &&[i64]| {
        intervals
            .iter()
            .any(|&(from, to)| from <= pair[0] && pair[1] <= to)
    };
    edges
        .windows(2)
        .filter(is_covered)
        .map(|pair| pair[1] - pair[0])
        .sum()
}

fn agrees(chains: &[Chain], with_audio: bool) {
    let rules = rules(with_audio);
    let Some(found) = phases(chains, kind_of, &rules) else {
        assert!(chains.is_empty());
        return;
    };
    let counted: Vec<Chain> = chains
        .iter()
        .filter(|chain| with_audio || kind_of(chain.file) != ContentKind::Audio)
        .copied()
        .collect();
    let (short, long): (Vec<_>, Vec<_>) = counted
        .iter()
        .partition(|chain| chain.end_ms - chain.start_ms <= 40_000);

    let of = |kind| found.phases.iter().filter(move |phase| phase.kind == kind);
    let shape = |phase: &Phase| (phase.start_ms, phase.end_ms, phase.chains);
    let shapes = |kind| -> BTreeSet<_> { of(kind).map(shape).collect() };
    assert_eq!(shapes(PhaseKind::Transient), clusters(&short));
    assert_eq!(shapes(PhaseKind::Inactive), silences(chains));
    assert_eq!(of(PhaseKind::Stable).count(), long.len());
    assert!(
        found
            .phases
            .is_sorted_by_key(|phase| (phase.start_ms, phase.kind))
    );

    for (chain, phase) in chains.iter().zip(&found.phase_of) {
        let Some(phase) = phase else {
            assert!(!with_audio && kind_of(chain.file) == ContentKind::Audio);
            continue;
        };
        let phase = &found.phases[*phase as usize];
        assert!(phase.start_ms <= chain.start_ms && chain.end_ms <= phase.end_ms);
        let is_long = chain.end_ms - chain.start_ms > 40_000;
        assert_eq!(phase.kind == PhaseKind::Stable, is_long);
    }

    let intervals = |kind: Option<PhaseKind>| -> Vec<_> {
        let phases = found.phases.iter();
        phases
            .filter(|phase| kind.is_none_or(|kind| phase.kind == kind))
            .map(|phase| (phase.start_ms, phase.end_ms))
            .collect()
    };
    assert_eq!(
        found.transient_ms,
        covered_ms(&intervals(Some(PhaseKind::Transient)))
    );
    assert_eq!(
        found.stable_ms,
        covered_ms(&intervals(Some(PhaseKind::Stable)))
    );
    assert_eq!(
        found.inactive_ms,
        covered_ms(&intervals(Some(PhaseKind::Inactive)))
    );
    assert_eq!(
        found.span_ms() - found.unphased_ms,
        covered_ms(&intervals(None))
    );
}

fn moment() -> impl Strategy<Value = i64> {
    (-3_i64..40, -1_i64..=1).prop_map(|(tens, off)| tens * 10_000 + off)
}

fn duration() -> impl Strategy<Value = i64> {
    prop_oneof![
        1 => Just(0_i64),
        3 => 1_i64..9_000,
        2 => (1_i64..12, -1_i64..=1).prop_map(|(tens, off)| tens * 10_000 + off),
    ]
}

fn session(chains_max: usize) -> impl Strategy<Value = Vec<Chain>> {
    let one = (0_u32..6, moment(), duration());
    let one = one.prop_map(|(file, start_ms, duration)| chain(file, start_ms, start_ms + duration));
    vec(one, 0..chains_max)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn phases_agree_with_their_definitions(chains in session(16), with_audio: bool) {
        agrees(&chains, with_audio);
    }
}

#[test]
fn transient_stable_and_inactive_phases_alternate() {
    let chains = [
        chain(1, 0, 2_000),
        chain(4, 1_000, 4_000),
        chain(7, 13_999, 15_000),
        chain(1, 15_000, 200_000),
        chain(0, 15_000, 210_000),
        chain(1, 250_000, 251_000),
        chain(4, 251_000, 300_000),
    ];
    let found = phases(&chains, kind_of, &PhaseRules::default()).expect("chains");
    let told: Vec<_> = found
        .phases
        .iter()
        .map(|phase| (phase.kind, phase.start_ms, phase.end_ms))
        .collect();
    assert_eq!(
        told,
        [
            (PhaseKind::Transient, 0, 15_000),
            (PhaseKind::Stable, 15_000, 200_000),
            (PhaseKind::Inactive, 210_000, 250_000),
            (PhaseKind::Transient, 250_000, 251_000),
            (PhaseKind::Stable, 251_000, 300_000),
        ]
    );
    assert!(found.starts_transient());
    assert_eq!(found.unphased_ms, 10_000, "only audio from 200 s to 210 s");
}

#[test]
fn gap_of_ten_seconds_splits_clusters() {
    let chains = [chain(1, 0, 1_000), chain(1, 11_000, 12_000)];
    let found = phases(&chains, kind_of, &PhaseRules::default()).expect("chains");
    assert_eq!(found.phases.len(), 2);
}

#[test]
fn chain_of_forty_seconds_is_short() {
    let found = phases(&[chain(1, 0, 40_000)], kind_of, &PhaseRules::default());
    assert_eq!(found.expect("a chain").phases[0].kind, PhaseKind::Transient);
    let found = phases(&[chain(1, 0, 40_001)], kind_of, &PhaseRules::default());
    assert_eq!(found.expect("a chain").phases[0].kind, PhaseKind::Stable);
}
