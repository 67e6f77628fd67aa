//! A shard whose process is replaced: memory is returned, replies are unaffected.

use crate::rig::{CHUNK, HOUR_BYTES, Rig, config, fixed, range, watch};
use headlong_engine::{EngineConfig, Request, Retention};
use headlong_units::{Duration, MIB};

/// Viewers have watched for a while, and memory is full of read and prefetched pieces.
fn busy(retention: Retention) -> Rig {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(2 * MIB),
        retention,
        ..config(64 * MIB)
    });
    watch(&mut rig, 20, 12, Duration::from_secs(60));
    rig
}

fn kept_bytes(rig: &Rig) -> u64 {
    let memory = rig.shard.memory_use();
    memory.unread_bytes + memory.read_bytes
}

#[test]
fn memory_without_running_reply_is_returned_in_steps() {
    for retention in [Retention::Popularity, Retention::PageCache] {
        let mut rig = busy(retention);
        let used = kept_bytes(&rig) / rig.shard.config().piece_bytes;
        assert!(used > 100, "{used} slots in use");
        let chains = rig.shard.saved_chains(usize::MAX);
        rig.shard.handle_retiring(rig.now, true);
        rig.drain();
        assert!(rig.shard.is_vacating());
        assert!((1..=64).contains(&rig.vacated.len()), "one step");
        let known = rig.shard.saved_chains(usize::MAX);
        assert_eq!(known, chains, "the position of a viewer was lost");
        rig.run_for(Duration::from_secs(10));
        assert!(!rig.shard.is_vacating());
        assert!(rig.vacated.len() as u64 >= used);
        assert_eq!(kept_bytes(&rig), 0);
    }
}

#[test]
fn replies_complete_and_leave_no_memory_behind() {
    for retention in [Retention::Popularity, Retention::PageCache] {
        let mut rig = busy(retention);
        let title = rig.title(99, HOUR_BYTES, 2_000);
        let running = rig
            .request(range(99, title, 0, 20 * MIB))
            .expect("accepted");
        rig.run_for(Duration::from_millis(200));
        assert!(!rig.is_over(running), "the reply has ended already");
        rig.shard.handle_retiring(rig.now, true);
        rig.drain();
        // A keep-alive connection may send one more request.
        let last = rig.request(range(98, title, 0, CHUNK)).expect("accepted");
        rig.run_for(Duration::from_secs(300));
        assert!(rig.replies[&running].done && rig.replies[&last].done);
        assert_eq!(kept_bytes(&rig), 0, "{:?}", rig.shard.memory_use());
    }
}

#[test]
fn pieces_are_retained_again_after_cancelled_retirement() {
    let mut rig = busy(Retention::Popularity);
    rig.shard.handle_retiring(rig.now, true);
    rig.drain();
    rig.run_for(Duration::from_secs(10));
    rig.shard.handle_retiring(rig.now, false);
    rig.drain();
    rig.vacated.clear();
    watch(&mut rig, 20, 4, Duration::from_secs(30));
    assert!(kept_bytes(&rig) > 0);
    assert_eq!(rig.vacated, []);
}

#[test]
fn replaced_process_reads_at_most_one_more_request() {
    let mut rig = busy(Retention::Popularity);
    rig.shard.handle_retiring(rig.now, true);
    rig.shard.handle_replaced(rig.now);
    rig.drain();
    let title = rig.title(99, HOUR_BYTES, 2_000);
    let read_for = |rig: &mut Rig, request: Request| {
        let before = rig.reads.len();
        rig.request(request).expect("accepted");
        rig.run_for(Duration::from_secs(5));
        let reads = rig.reads[before..].iter();
        reads.map(|read| read.length).sum::<u64>()
    };
    let piece = rig.shard.config().piece_bytes;
    let of_range = read_for(&mut rig, range(99, title, 0, CHUNK));
    assert_eq!(of_range, CHUNK.next_multiple_of(piece));
    let long = Request {
        open_ended: true,
        ..range(98, title, 64 * MIB, 20 * MIB)
    };
    let of_long = read_for(&mut rig, long);
    assert!(
        of_long >= 2 * MIB,
        "{of_long}: a long reply is read ahead as before"
    );
}
