use super::maps::{NumberMaps, divide, drop_repeated};
use super::*;
use crate::spill::{SpilledBytes, StoredBytes};

fn request(session: u32, file: u32, received_ms: i64, line: u64) -> Request {
    Request {
        line,
        session,
        file,
        received_ms,
        completed_ms: received_ms + 10,
        offset: 0,
        asked_bytes: None,
        sent_bytes: 1,
        disk: 0,
        device: 0,
    }
}

#[test]
fn idle_time_and_title_end_sessions_of_viewers_only() {
    let maps = NumberMaps {
        sessions_named: 1,
        titles: vec![0, 0, 1],
        idle_ms: 100,
        ..NumberMaps::default()
    };
    let mut requests = vec![
        request(0, 0, 0, 1),
        request(0, 2, 9000, 2),
        request(1, 0, 0, 3),
        request(1, 1, 110, 4),
        request(1, 2, 120, 5),
        request(1, 0, 221, 6),
        request(2, 0, 0, 7),
    ];
    let mut found = Vec::new();
    divide(&mut requests, &maps, |request, key, number| {
        found.push((request.line, key, number));
    });
    found.sort_unstable();
    assert_eq!(
        found,
        [
            (1, 0, 0),
            (2, 0, 0),
            (3, 1, 0),
            (4, 1, 0),
            (5, 1, 2),
            (6, 1, 1),
            (7, 2, 0)
        ]
    );
}

#[test]
fn duplicates_of_another_log_are_removed() {
    let other = 1 << record::SOURCE_SHIFT;
    let mut requests = vec![
        request(0, 0, 0, 1),
        request(0, 0, 0, 2),
        request(0, 0, 0, other | 1),
        request(0, 0, 5, other | 2),
    ];
    let mut told = Vec::new();
    drop_repeated(&mut requests, |request| told.push(request.line));
    let mut left: Vec<u64> = requests.iter().map(|request| request.line).collect();
    left.sort_unstable();
    assert_eq!(left, [1, 2, other | 2]);
    assert_eq!(told, [other | 1]);
}

#[test]
fn unit_that_cannot_be_loaded_ends_the_wait_of_others() {
    let damaged = StoredBytes::Memory(vec![255; 3]);
    let chunks = Chunks::of_file(SpilledBytes::default(), [(1, damaged)]);
    let parts = Partitions::new(chunks, NumberMaps::settled_already(), 1 << 20);
    let ended = AtomicUsize::new(0);
    let give_up = || {
        ended.fetch_add(1, Relaxed);
    };
    let outcome = parts.each_awaited(1, |_, _| (), give_up);
    assert!(matches!(outcome, Err(PartitionsError::Damaged)));
    assert_eq!(ended.into_inner(), 1);
}
