//! Changes under the engine: files of a title that appear or are removed, and memory that is
//! reclaimed.

use crate::rig::{CHUNK, HOUR_BYTES, Rig, config, fixed, range};
use headlong_engine::{
    Admission, EngineConfig, PartSpec, ReadCommand, Refusal, Request, Slot, StreamId,
};
use headlong_units::{Duration, MIB};

fn setup() -> Rig {
    Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        ..config(64 * MIB)
    })
}

/// A file of a title, present or absent.
fn file(is_absent: bool) -> PartSpec {
    PartSpec {
        size_bytes: MIB,
        is_absent,
        ..PartSpec::default()
    }
}

/// Requests a whole file of such a title, and waits.
fn watch_file(rig: &mut Rig, title: StreamId, part: u32) {
    let request = Request {
        part,
        ..range(1, title, 0, MIB)
    };
    let id = rig.request(request).expect("accepted");
    rig.run_for(Duration::from_secs(4));
    assert!(rig.replies[&id].done, "file {part}");
}

fn files_read(rig: &Rig) -> Vec<u32> {
    let mut parts: Vec<u32> = rig.reads.iter().map(|read| read.part).collect();
    parts.sort_unstable();
    parts.dedup();
    parts
}

#[test]
fn absent_file_is_read_ahead_once_it_appears() {
    let mut rig = setup();
    let title = rig.chunked(1, &[MIB; 8], 2_000);
    rig.shard.handle_part(rig.now, title, 2, file(true));
    rig.drain();
    watch_file(&mut rig, title, 0);
    watch_file(&mut rig, title, 1);
    assert_eq!(files_read(&rig), [0, 1], "the absent file was read");
    rig.shard.handle_part(rig.now, title, 2, file(false));
    rig.drain();
    watch_file(&mut rig, title, 2);
    assert!(files_read(&rig).len() > 3, "not read ahead");
}

#[test]
fn file_of_wrong_size_or_unknown_title_is_ignored() {
    let mut rig = setup();
    let title = rig.chunked(1, &[MIB; 4], 2_000);
    let longer = PartSpec {
        size_bytes: 2 * MIB,
        ..file(true)
    };
    rig.shard.handle_part(rig.now, title, 1, longer);
    rig.shard.handle_part(rig.now, title, 9, file(true));
    rig.shard.handle_part(rig.now, StreamId(77), 0, file(true));
    rig.drain();
    watch_file(&mut rig, title, 0);
    assert!(files_read(&rig).len() > 1, "no longer read ahead");
}

#[test]
fn files_appended_later_are_read_ahead() {
    let mut rig = setup();
    let title = rig.chunked(1, &[MIB; 2], 2_000);
    watch_file(&mut rig, title, 0);
    watch_file(&mut rig, title, 1);
    assert_eq!(files_read(&rig), [0, 1], "more than the known files");
    let more = vec![file(false); 6];
    let added = rig.shard.handle_more_parts(rig.now, title, more);
    assert_eq!(added, Ok(()));
    watch_file(&mut rig, title, 2);
    assert!(files_read(&rig).len() > 3, "not read ahead");
    watch_file(&mut rig, title, 7);
    let large = PartSpec {
        size_bytes: u64::MAX / 2,
        ..file(false)
    };
    let too_many = vec![file(false), large];
    for (title, parts) in [(title, too_many), (StreamId(77), vec![file(false)])] {
        let refused = rig.shard.handle_more_parts(rig.now, title, parts);
        assert_eq!(refused, Err(Refusal::OutOfBounds));
    }
    watch_file(&mut rig, title, 6);
}

#[test]
fn lost_piece_is_read_again() {
    let mut rig = setup();
    let title = rig.title(1, HOUR_BYTES, 2_000);
    let first = rig.request(range(1, title, 0, CHUNK)).expect("accepted");
    rig.run_for(Duration::from_secs(2));
    assert!(rig.replies[&first].done);
    let slots = (64 * MIB / rig.shard.config().piece_bytes) as u32;
    // A slot beyond the last one is ignored.
    for slot in 0..=slots {
        rig.lose(Slot(slot));
    }
    assert_eq!(rig.shard.memory_use().unread_bytes, 0);
    let again = rig.request(range(2, title, 0, CHUNK)).expect("accepted");
    let next = rig
        .request(range(1, title, CHUNK, CHUNK))
        .expect("accepted");
    rig.run_for(Duration::from_secs(2));
    assert!(rig.replies[&again].done && rig.replies[&next].done);
    assert_eq!(rig.replies[&again].from_ram_bytes, 0);
}

#[test]
fn slot_being_sent_or_filled_is_not_lost() {
    let mut rig = setup();
    rig.socket_time = Duration::from_secs(1);
    let title = rig.title(1, HOUR_BYTES, 2_000);
    let id = rig.request(range(1, title, 0, CHUNK)).expect("accepted");
    let slots = (64 * MIB / rig.shard.config().piece_bytes) as u32;
    // During the read, and while a socket holds the piece.
    for _ in 0..20 {
        for slot in 0..slots {
            rig.lose(Slot(slot));
        }
        rig.run_for(Duration::from_millis(10));
    }
    rig.run_for(Duration::from_secs(5));
    assert!(rig.replies[&id].done);
    assert_eq!(rig.replies[&id].received_bytes, CHUNK);
}

#[test]
fn sent_piece_lingers_for_its_time_in_a_quarter_of_memory() {
    for (stays, again) in [(10, 0), (0, 1)] {
        let engine = EngineConfig {
            sizing: fixed(MIB),
            sent_stays: Duration::from_secs(stays),
            ..config(8 * MIB)
        };
        let mut rig = Rig::new(engine);
        let titles = [1, 2].map(|id| rig.title(id, HOUR_BYTES, 2_000));
        let watch = |rig: &mut Rig, viewer: u64, title: usize, at: u64, length: u64| {
            let request = range(viewer, titles[title], at * MIB, length);
            let id = rig.request(request).expect("accepted");
            rig.run_for(Duration::from_millis(500));
            assert!(rig.replies[&id].done, "{viewer}");
        };
        let read_again = |rig: &mut Rig| {
            let before = rig.reads.len();
            watch(rig, 1, 0, 0, MIB);
            let reads = rig.reads[before..].iter();
            let first = |read: &&ReadCommand| read.stream == titles[0] && read.offset < MIB;
            reads.filter(first).count()
        };
        assert_eq!(read_again(&mut rig), 1);
        // More bytes than memory holds are read for other viewers.
        for viewer in 2..10 {
            watch(&mut rig, viewer, 1, viewer * 50, 64 << 10);
        }
        assert_eq!(read_again(&mut rig), again, "{stays} s");
        for viewer in 10..20 {
            watch(&mut rig, viewer, 1, viewer * 40, MIB);
        }
        assert_eq!(read_again(&mut rig), 1, "a quarter of memory is two pieces");
    }
}

#[test]
fn sent_piece_lingers_until_rest_of_reply_arrives() {
    let engine = EngineConfig {
        sizing: fixed(MIB),
        sent_stays: Duration::from_secs(1),
        outstanding_reads_max: 64,
        admission: Admission::Accept,
        ..config(16 * MIB)
    };
    let mut rig = Rig::new(engine);
    let titles = [1, 2].map(|id| rig.title(id, HOUR_BYTES, 2_000));
    let first = |rig: &Rig| {
        let reads = rig.reads.iter();
        let first = |read: &&ReadCommand| read.stream == titles[0] && read.offset < MIB;
        reads.filter(first).count()
    };
    let begin = range(1, titles[0], 0, MIB);
    rig.request(begin).expect("accepted");
    rig.run_for(Duration::from_millis(500));
    rig.device.hangs = true;
    let whole = rig
        .request(range(1, titles[0], 0, 2 * MIB))
        .expect("accepted");
    rig.run_for(Duration::from_secs(3));
    // As many bytes as memory holds are read ahead for other viewers.
    for viewer in 2..18 {
        let other = range(viewer, titles[1], viewer * 5 * MIB, 4096);
        rig.request(other).expect("accepted");
    }
    rig.device.hangs = false;
    while !rig.replies[&whole].done {
        rig.run_for(Duration::from_millis(10));
    }
    rig.request(begin).expect("accepted");
    rig.run_for(Duration::from_millis(500));
    assert_eq!(first(&rig), 1, "the piece left memory");
}
