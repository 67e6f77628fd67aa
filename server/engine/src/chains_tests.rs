use super::*;
use crate::chain_matching::ProxyTolerance;

const GAP: Duration = Duration::from_secs(40);
const READER: (ReaderIdentity, StreamId) = (ReaderIdentity::Named(ViewerId(1)), StreamId(1));

fn begin(chains: &mut Chains, start: u64, end: u64) -> ChainId {
    let (id, _) = chains.begin(Instant::ZERO, READER, start, false);
    chains.get_mut(id).expect("just begun").end = end;
    id
}

fn find(chains: &Chains, start: u64, end: u64) -> Option<(ChainId, Option<ChainId>)> {
    chains.find(
        Instant::ZERO,
        (GAP, ProxyTolerance::default()),
        READER,
        ByteRange::new(start, end),
    )
}

#[test]
fn request_touching_either_end_belongs_to_chain() {
    let mut chains = Chains::default();
    let id = begin(&mut chains, 100, 200);
    assert_eq!(find(&chains, 200, 300), Some((id, None)));
    assert_eq!(find(&chains, 50, 100), Some((id, None)));
    assert_eq!(find(&chains, 150, 180), Some((id, None)), "a reread");
    assert_eq!(find(&chains, 201, 300), None);
    assert_eq!(find(&chains, 10, 99), None);
}

#[test]
fn parallel_requests_in_prefetched_range_belong_to_chain() {
    let mut chains = Chains::default();
    let id = begin(&mut chains, 0, 100);
    chains.get_mut(id).expect("live").fetched_end = 1000;
    assert_eq!(find(&chains, 700, 800), Some((id, None)));
}

#[test]
fn request_between_two_chains_joins_them() {
    let mut chains = Chains::default();
    let first = begin(&mut chains, 0, 100);
    let second = begin(&mut chains, 200, 300);
    assert_eq!(find(&chains, 100, 200), Some((first, Some(second))));
}

#[test]
fn chains_of_a_single_request_make_room_before_those_of_viewers() {
    let mut chains = Chains::default();
    let at = |second| Instant::ZERO + Duration::from_secs(second);
    let ids = [0, 1000, 2000].map(|start| begin(&mut chains, start, start + 100));
    let [viewer, sampled, sampled_later] = ids;
    let request = |chains: &mut Chains, second, id, number| {
        chains.begin_request(at(second), id, RequestId(number), None);
        chains.end_request(at(second), id, RequestId(number));
    };
    request(&mut chains, 1, viewer, 1);
    request(&mut chains, 2, viewer, 2);
    request(&mut chains, 3, sampled, 3);
    request(&mut chains, 4, sampled_later, 4);
    for expected in [sampled, sampled_later, viewer] {
        let ending = chains.least_needed();
        assert_eq!(ending, Some(expected));
        chains.end(expected);
        chains.check_invariants();
    }
    assert_eq!(chains.least_needed(), None);
}

#[test]
fn chain_ends_forty_seconds_after_last_request() {
    let mut chains = Chains::default();
    let id = begin(&mut chains, 0, 100);
    let at = |second| Instant::ZERO + Duration::from_secs(second);
    chains.begin_request(at(5), id, RequestId(1), None);
    assert_eq!(chains.least_needed(), None);
    assert_eq!(chains.poll_expired(at(100), GAP), None);
    chains.end_request(at(30), id, RequestId(1));
    chains.check_invariants();
    assert_eq!(chains.poll_expired(at(41), GAP), None);
    assert!(
        chains
            .find(
                at(70),
                (GAP, ProxyTolerance::default()),
                READER,
                ByteRange::new(100, 200)
            )
            .is_some()
    );
    assert!(
        chains
            .find(
                at(71),
                (GAP, ProxyTolerance::default()),
                READER,
                ByteRange::new(100, 200)
            )
            .is_none()
    );
    assert_eq!(chains.poll_expired(at(71), GAP), Some(id));
}

#[test]
fn finds_nearest_reader_behind() {
    let mut chains = Chains::default();
    let (near, _) = chains.begin(
        Instant::ZERO,
        (ReaderIdentity::Named(ViewerId(1)), StreamId(1)),
        500,
        false,
    );
    chains.begin(
        Instant::ZERO,
        (ReaderIdentity::Named(ViewerId(2)), StreamId(1)),
        100,
        false,
    );
    chains.begin(
        Instant::ZERO,
        (ReaderIdentity::Named(ViewerId(3)), StreamId(1)),
        900,
        false,
    );
    let behind = chains
        .nearest_behind(StreamId(1), 700)
        .expect("two are behind");
    assert_eq!(behind.viewer, ViewerId(1));
    chains.move_to(near, 800);
    let behind = chains
        .nearest_behind(StreamId(1), 700)
        .expect("one is behind");
    assert_eq!(behind.viewer, ViewerId(2));
    assert!(chains.nearest_behind(StreamId(2), 700).is_none());
}

#[test]
fn viewer_has_bounded_number_of_chains_on_stream() {
    let mut chains = Chains::default();
    let first = begin(&mut chains, 0, 1);
    for jump in 1..CHAINS_PER_VIEWER as u64 {
        begin(&mut chains, jump << 40, 1);
    }
    let (_, surplus) = chains.begin(Instant::ZERO, READER, 1 << 50, false);
    assert_eq!(surplus, Some(first));
}
