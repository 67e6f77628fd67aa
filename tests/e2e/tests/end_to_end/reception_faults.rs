//! A reception with files that are on no disk, or without free descriptors: its answers, and the
//! effects on other clients.

use std::fs::File;
use std::time::{Duration, Instant};

use headlong_e2e_tests::eventually;
use headlong_e2e_tests::preload::protocol_client::{
    ASK, GO_ON, LEAVE_ALONE, READY, answer, asked, connected, say,
};
use headlong_e2e_tests::preload::{Reception, cool};
use headlong_testkit::server::processor_time;
use headlong_testkit::{Scratch, pattern};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

const SIZE: u64 = 1_000_001;

#[test]
fn files_without_disk_are_ignored_and_use_no_memory() {
    let scratch = Scratch::new("reception-faults").expect("a folder");
    let socket = scratch.path().join("socket");
    let reception = Reception::start(&socket);
    let memory = memfd_create("test", MemfdFlags::CLOEXEC).expect("made");
    ftruncate(&memory, SIZE).expect("grown");
    assert_eq!(asked(&socket, &memory), Some(LEAVE_ALONE));
    let status = reception.status();
    assert_eq!(status["devices"], serde_json::json!([]), "{status}");
}

#[test]
fn reception_out_of_descriptors_does_not_block_or_spin() {
    const DESCRIPTORS: u64 = 64;
    let scratch = Scratch::new("reception-faults").expect("a folder");
    let (socket, film) = (scratch.path().join("socket"), scratch.path().join("film"));
    let reception = Reception::start(&socket);
    pattern::write_file(&film, 1, SIZE).expect("written");
    let id = i32::try_from(reception.id()).ok().and_then(Pid::from_raw);
    let id = id.expect("an id");
    let limit = Rlimit {
        current: Some(DESCRIPTORS),
        maximum: Some(DESCRIPTORS),
    };
    prlimit(Some(id), Resource::Nofile, limit).expect("limited");
    let file = File::open(&film).expect("there");
    let without_room = || {
        let first = connected(&socket);
        // More files than it may open; it keeps each open for a second.
        let silent: Vec<_> = (0..3 * DESCRIPTORS).map(|_| connected(&socket)).collect();
        std::thread::sleep(Duration::from_millis(50));
        say(&first, ASK, &file);
        let answer = answer(&first);
        assert_ne!(
            answer,
            Some(LEAVE_ALONE),
            "the library would never ask again"
        );
        (answer, silent)
    };
    let is_full = |(answer, _): &(Option<u16>, _)| *answer == Some(GO_ON);
    let (_, silent) = eventually("an answer for lack of descriptors", without_room, is_full);
    let (begun, worked) = (Instant::now(), processor_time(reception.id()));
    std::thread::sleep(Duration::from_millis(800));
    let worked = processor_time(reception.id()).saturating_sub(worked);
    assert!(worked * 2 < begun.elapsed(), "{worked:?}");
    drop(silent);
    cool(&film);
    let helped = || asked(&socket, &file);
    eventually("a ready answer", helped, |answer| *answer == Some(READY));
}
