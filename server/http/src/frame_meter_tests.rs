use std::vec::Vec;

use headlong_units::Duration;
use proptest::prelude::*;

use super::*;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

fn at(milliseconds: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(milliseconds)
}

/// How many of these frames a new connection may send at one time; `None` for a hundred thousand or
/// more.
fn allowed(frames: &[Vec<u8>]) -> Option<usize> {
    let mut meter = FrameMeter::new(at(0));
    (0..100_000).find(|n| {
        meter.handle_received(at(0), &frames[n % frames.len()]);
        meter.is_exhausted()
    })
}

#[test]
fn control_frames_without_work_exhaust_the_meter() {
    let window = |size: u32| [&[0, 4][..], &size.to_be_bytes()].concat();
    let floods = [
        (frame(0, 0, 1, &[]), 1500),
        (frame(2, 0, 1, &[0; 5]), 2100),
        (frame(3, 0, 1, &[0; 4]), 100),
        (frame(4, 0, 0, &window(0)), 110),
        (frame(4, 1, 0, &[]), 2100),
        (frame(6, 0, 0, &[0; 8]), 600),
        (frame(8, 0, 0, &[0, 0, 0, 1]), 2100),
        (frame(9, 0, 1, &[]), 2100),
        (frame(0xfe, 0, 1, &[]), 2100),
        (frame(0xfe, 0, 1, &[0; 16_384]), 40),
    ];
    for (flood, most) in floods {
        let count = allowed(std::slice::from_ref(&flood));
        assert!(
            count.is_some_and(|count| count < most),
            "{count:?} of {:?}",
            &flood[..9]
        );
    }
    let rapid: Vec<_> = (0..5_000)
        .flat_map(|n| {
            [
                frame(1, 5, 2 * n + 1, b"head"),
                frame(3, 0, 2 * n + 1, &[0; 4]),
            ]
        })
        .collect();
    assert!(allowed(&rapid).is_some_and(|count| count < 1_000));
}

#[test]
fn real_clients_are_never_exhausted() {
    let mut meter = FrameMeter::new(at(0));
    // Firefox begins with settings, a window update and six priority frames.
    meter.handle_received(at(0), &frame(4, 0, 0, &[0; 18]));
    meter.handle_received(at(0), &frame(8, 0, 0, &[0; 4]));
    for stream in 3..9 {
        meter.handle_received(at(0), &frame(2, 0, stream, &[0; 5]));
    }
    // A download by a client that updates both windows for each DATA frame of 1 KiB.
    meter.handle_received(at(1), &frame(1, 5, 15, b"head"));
    for _ in 0..1_000_000 {
        meter.handle_delivered(1024 + 9);
        meter.handle_received(at(1), &frame(8, 0, 0, &[0; 4]));
        meter.handle_received(at(1), &frame(8, 0, 15, &[0; 4]));
    }
    // A player that seeks all the time and receives one frame of each reply.
    for n in 0..10_000 {
        meter.handle_received(at(2), &frame(1, 5, 17 + 2 * n, b"head"));
        meter.handle_delivered(16_384);
        meter.handle_received(at(2), &frame(3, 0, 17 + 2 * n, &[0; 4]));
    }
    // An idle connection with a ping each second in both directions.
    for second in 1..100_000 {
        meter.handle_received(at(second * 1000), &frame(6, 0, 0, &[0; 8]));
        meter.handle_received(at(second * 1000), &frame(6, 1, 0, &[0; 8]));
    }
    assert!(!meter.is_exhausted());
}

#[test]
fn exhausted_meter_stays_exhausted() {
    let mut meter = FrameMeter::new(at(0));
    meter.handle_received(at(0), &frame(4, 0, 0, &[]).repeat(1_000));
    meter.handle_delivered(1 << 40);
    meter.handle_received(at(1 << 30), &frame(6, 0, 0, &[0; 8]));
    assert!(meter.is_exhausted());
}

#[test]
fn incomplete_frames_and_blocks_report_their_start() {
    let mut meter = FrameMeter::new(at(5));
    assert_eq!(meter.incomplete_since(), Some(at(5)), "settings are due");
    meter.handle_received(at(6), &frame(4, 0, 0, &[]));
    assert_eq!(meter.incomplete_since(), None);
    let head = frame(1, 1, 1, b"block");
    let (some, more) = head.split_at(3);
    meter.handle_received(at(7), some);
    assert_eq!(meter.incomplete_since(), Some(at(7)));
    meter.handle_received(at(8), more);
    assert_eq!(
        meter.incomplete_since(),
        Some(at(7)),
        "END_HEADERS is missing"
    );
    meter.handle_received(at(9), &frame(9, 0, 1, b"more"));
    assert_eq!(meter.incomplete_since(), Some(at(7)));
    meter.handle_received(at(10), &frame(9, 4, 1, b"end"));
    assert_eq!(meter.incomplete_since(), None);
}

proptest! {
    #[test]
    fn split_of_reads_does_not_matter(
        frames in prop::collection::vec((0..12_u8, 0..8_u8, 0..9_u32, 0..300_usize), 0..60),
        cuts in prop::collection::vec(1..64_usize, 1..20),
    ) {
        let frames = frames.into_iter();
        let frames = frames.map(|(kind, flags, stream, length)| {
            frame(kind, flags, stream, &std::vec![7; length])
        });
        let bytes: Vec<u8> = frames.flatten().collect();
        let (mut whole, mut cut) = (FrameMeter::new(at(0)), FrameMeter::new(at(0)));
        let count = whole.handle_received(at(0), &bytes);
        let (mut left, mut counted) = (&bytes[..], 0);
        for length in cuts.iter().cycle() {
            if left.is_empty() {
                break;
            }
            let (now, later) = left.split_at((*length).min(left.len()));
            counted += cut.handle_received(at(0), now);
            left = later;
        }
        prop_assert_eq!(count, counted);
        prop_assert_eq!(whole.credit, cut.credit);
        prop_assert_eq!(whole.incomplete_since(), cut.incomplete_since());
        prop_assert_eq!(whole.is_exhausted(), cut.is_exhausted());
    }
}
