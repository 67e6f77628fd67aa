//! The joiner agrees with a literal implementation of the rules on many small adversarial logs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use headlong_chains::{Chain, ChainRules, GapRule, Joiner, LinkRule, NO_CHAIN, Request, chains};
use proptest::collection::vec;
use proptest::prelude::*;

const VARIANTS: [(GapRule, LinkRule); 4] = [
    (GapRule::Received, LinkRule::OneToOne),
    (GapRule::Received, LinkRule::Component),
    (GapRule::Idle, LinkRule::OneToOne),
    (GapRule::Idle, LinkRule::Component),
];

fn rules(gap: GapRule, link: LinkRule) -> ChainRules {
    ChainRules {
        gap,
        link,
        ..ChainRules::default()
    }
}

/// Sort key of a chain table.
fn row(chain: &Chain) -> (u32, i64, u32, u64, Reverse<u64>) {
    (
        chain.session,
        chain.start_ms,
        chain.file,
        chain.start,
        Reverse(chain.length),
    )
}

fn agrees(requests: &[Request], joiner: &mut Joiner, rules: &ChainRules) {
    let mut found = Vec::new();
    let mut chain_of = Vec::new();
    joiner.join_with_places(requests, &mut found, &mut chain_of);
    assert!(found.is_sorted_by_key(row), "{found:#?}");

    let mut lines = vec![BTreeSet::new(); found.len()];
    for (request, &chain) in requests.iter().zip(&chain_of) {
        assert_eq!(chain == NO_CHAIN, request.sent_bytes == 0);
        if chain != NO_CHAIN {
            lines[chain as usize].insert(request.line);
        }
    }
    let by_lines: BTreeMap<_, _> = lines.into_iter().zip(found.iter().copied()).collect();
    let expected: BTreeMap<_, _> = crate::naive::chains(requests, rules)
        .into_iter()
        .map(|(chain, lines)| (lines, chain))
        .collect();
    assert_eq!(by_lines, expected, "{rules:?}");

    let mut plain = Vec::new();
    joiner.join(requests, &mut plain);
    assert_eq!(plain, found);
}

fn all_variants_agree(requests: &[Request]) {
    for (gap, link) in VARIANTS {
        let rules = rules(gap, link);
        agrees(requests, &mut Joiner::new(rules), &rules);
    }
}

/// Times just within and just beyond 40 s of each other, and ties within one second.
fn moment() -> impl Strategy<Value = i64> {
    let near = prop_oneof![Just(0_i64), Just(0), -1_i64..=1, -1500_i64..1500];
    (-2_i64..6, near).prop_map(|(forties, near)| forties * 40_000 + near)
}

fn service() -> impl Strategy<Value = i64> {
    prop_oneof![
        3 => Just(0_i64),
        3 => 0_i64..2000,
        1 => Just(40_000_i64),
        1 => 39_000_i64..130_000,
    ]
}

/// On few byte positions, so that requests touch, overlap and repeat; some are one byte off.
fn request(positions: u64) -> impl Strategy<Value = Request> {
    let place = (
        0..positions,
        prop_oneof![9 => Just(0_u64), 1 => Just(1_u64)],
    );
    let size = prop_oneof![1 => Just(0_u64), 9 => Just(10_u64), 3 => Just(20_u64), 1 => 1_u64..40];
    let asked = prop_oneof![3 => Just(Some(0_u64)), 1 => Just(Some(15)), 2 => Just(None)];
    (0_u32..2, 0_u32..2, place, size, asked, moment(), service()).prop_map(
        |(session, file, (position, off), sent_bytes, asked, received_ms, service_ms)| Request {
            line: 0,
            session,
            file,
            received_ms,
            completed_ms: received_ms + service_ms,
            offset: position * 10 + off,
            asked_bytes: asked.map(|more| sent_bytes + more),
            sent_bytes,
            disk: (position % 3) as u16,
            device: 0,
        },
    )
}

fn numbered(mut requests: Vec<Request>) -> Vec<Request> {
    for (request, line) in requests.iter_mut().zip(1..) {
        request.line = line;
    }
    requests
}

/// A log whose requests are not in order of their lines.
fn log(requests: impl Strategy<Value = Vec<Request>>) -> impl Strategy<Value = Vec<Request>> {
    requests.prop_map(numbered).prop_shuffle()
}

/// A viewer that reads sequentially on parallel connections, and sometimes reads again.
fn reading() -> impl Strategy<Value = Vec<Request>> {
    let step = (0_u64..100, 0_i64..1500, service(), any::<bool>());
    log(vec(step, 1..60).prop_map(|steps| {
        let mut offset = 0_u64;
        let mut now_ms = 0;
        let mut requests = Vec::new();
        for (chance, apart_ms, service_ms, is_open) in steps {
            now_ms += if chance == 0 { 40_001 } else { apart_ms };
            offset = match chance {
                1..6 => offset.saturating_sub(30),
                6..8 => 0,
                _ => offset,
            };
            requests.push(Request {
                line: 0,
                session: 7,
                file: 9,
                // Known to the second only, so that neighbours arrive in any order.
                received_ms: now_ms / 1000 * 1000 + 1000 - service_ms % 1000,
                completed_ms: now_ms / 1000 * 1000 + 1000 + service_ms,
                offset,
                asked_bytes: (!is_open).then_some(10),
                sent_bytes: if chance < 10 { 5 } else { 10 },
                disk: 0,
                device: 0,
            });
            // A retry starts at the same byte.
            offset += if (10..15).contains(&chance) {
                0
            } else {
                requests[requests.len() - 1].sent_bytes
            };
        }
        requests
    }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_on_few_bytes_join_by_the_rules(requests in log(vec(request(4), 0..24))) {
        all_variants_agree(&requests);
    }

    #[test]
    fn requests_on_many_bytes_join_by_the_rules(requests in log(vec(request(30), 0..40))) {
        all_variants_agree(&requests);
    }

    #[test]
    fn sequential_reads_join_by_the_rules(requests in reading()) {
        all_variants_agree(&requests);
    }

    #[test]
    fn order_of_requests_does_not_matter(
        (requests, shuffled) in log(vec(request(6), 0..24)).prop_flat_map(|requests| {
            (Just(requests.clone()), Just(requests).prop_shuffle())
        })
    ) {
        let chains_of = |requests: &[Request]| {
            let mut out = Vec::new();
            chains(requests, &ChainRules::default(), &mut out);
            out
        };
        prop_assert_eq!(chains_of(&requests), chains_of(&shuffled));
    }
}

/// Many requests at the same bytes in one group, with a reused joiner.
#[test]
fn many_retries_join_by_the_rules() {
    let requests: Vec<Request> = (0..400_u64)
        .map(|line| {
            let mixed = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let received_ms = (mixed % 97 * 5000) as i64;
            Request {
                line,
                session: 1,
                file: 1,
                received_ms,
                completed_ms: received_ms + (mixed % 13 * 7000) as i64,
                offset: mixed % 2 * 10,
                asked_bytes: Some(10),
                sent_bytes: 10,
                disk: 0,
                device: 0,
            }
        })
        .collect();
    for (gap, link) in VARIANTS {
        let rules = rules(gap, link);
        let mut joiner = Joiner::new(rules);
        agrees(&requests, &mut joiner, &rules);
        agrees(&requests[..50], &mut joiner, &rules);
        agrees(&[], &mut joiner, &rules);
    }
}

fn plain(line: u64, received_ms: i64, offset: u64, sent_bytes: u64) -> Request {
    Request {
        line,
        session: 1,
        file: 1,
        received_ms,
        completed_ms: received_ms + 1000,
        offset,
        asked_bytes: Some(sent_bytes),
        sent_bytes,
        disk: 0,
        device: 0,
    }
}

fn shapes(requests: &[Request], rules: &ChainRules) -> Vec<(u64, u64, u32)> {
    let mut out = Vec::new();
    chains(requests, rules, &mut out);
    out.iter()
        .map(|chain| (chain.start, chain.length, chain.requests))
        .collect()
}

#[test]
fn gap_of_forty_seconds_joins_and_more_does_not() {
    let default = ChainRules::default();
    let within = [plain(1, 0, 0, 10), plain(2, 40_000, 10, 10)];
    assert_eq!(shapes(&within, &default), [(0, 20, 2)]);
    let without = [plain(1, 0, 0, 10), plain(2, 40_001, 10, 10)];
    assert_eq!(shapes(&without, &default), [(0, 10, 1), (10, 10, 1)]);
    let idle = rules(GapRule::Idle, LinkRule::OneToOne);
    assert_eq!(shapes(&without, &idle), [(0, 20, 2)]);
    let backwards = [plain(1, 40_000, 0, 10), plain(2, 0, 10, 10)];
    assert_eq!(shapes(&backwards, &default), [(0, 20, 2)]);
}

#[test]
fn retry_is_a_separate_chain_unless_components_join() {
    let requests = [
        plain(1, 0, 0, 10),
        plain(2, 1000, 10, 10),
        plain(3, 2000, 10, 10),
    ];
    assert_eq!(
        shapes(&requests, &ChainRules::default()),
        [(0, 20, 2), (10, 10, 1)]
    );
    let component = rules(GapRule::Received, LinkRule::Component);
    assert_eq!(shapes(&requests, &component), [(0, 20, 3)]);
}

#[test]
fn content_read_again_is_another_chain() {
    let mut requests: Vec<_> = (0..5)
        .map(|i| plain(i, i as i64 * 8000, i * 10, 10))
        .collect();
    requests.extend((0..5).map(|i| plain(5 + i, 12_000 + i as i64 * 8000, i * 10, 10)));
    assert_eq!(
        shapes(&requests, &ChainRules::default()),
        [(0, 50, 5), (0, 50, 5)]
    );
}

#[test]
fn aborted_request_ends_with_its_sent_bytes() {
    let mut aborted = plain(1, 0, 0, 10);
    aborted.asked_bytes = Some(20);
    let requests = [aborted, plain(2, 1000, 10, 10), plain(3, 1000, 20, 10)];
    assert_eq!(shapes(&requests, &ChainRules::default()), [(0, 30, 3)]);
}

#[test]
fn one_byte_of_overlap_or_gap_splits_chains() {
    let overlap = [plain(1, 0, 0, 11), plain(2, 1000, 10, 10)];
    assert_eq!(
        shapes(&overlap, &ChainRules::default()),
        [(0, 11, 1), (10, 10, 1)]
    );
    let hole = [plain(1, 0, 0, 9), plain(2, 1000, 10, 10)];
    assert_eq!(
        shapes(&hole, &ChainRules::default()),
        [(0, 9, 1), (10, 10, 1)]
    );
}

#[test]
fn chain_type_is_that_of_its_lowest_offset() {
    let mut open = plain(2, 0, 10, 10);
    open.asked_bytes = None;
    let mut out = Vec::new();
    chains(
        &[plain(1, 1000, 0, 10), open],
        &ChainRules::default(),
        &mut out,
    );
    assert_eq!((out[0].is_open, out[0].is_mixed), (false, true));
}

#[test]
fn extreme_times_and_offsets_do_not_panic() {
    let mut requests = vec![
        plain(1, 0, u64::MAX, 10),
        plain(2, 0, u64::MAX - 10, u64::MAX),
    ];
    for (line, moment) in [(3, i64::MIN), (4, i64::MAX)] {
        let mut request = plain(line, 0, line * 10, 10);
        request.received_ms = moment;
        request.completed_ms = moment;
        requests.push(request);
    }
    for (gap, link) in VARIANTS {
        let mut out = Vec::new();
        chains(&requests, &rules(gap, link), &mut out);
        assert_eq!(out.len(), 3, "the first request has an impossible offset");
    }
}
