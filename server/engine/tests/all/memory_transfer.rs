//! Memory is moved from one process to the next: viewers continue without a read.

use crate::rig::{CHUNK, HOUR_BYTES, Rig, config, fixed, range};
use headlong_engine::{EngineConfig, PieceBytes, StreamId, TransferPiece};
use headlong_units::{Duration, MIB};

const VIEWERS: u64 = 6;
const TITLE: StreamId = StreamId(1);

fn rig() -> Rig {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        ..config(64 * MIB)
    });
    for viewer in 1..=VIEWERS {
        rig.title(viewer, HOUR_BYTES, 2_000);
    }
    rig
}

/// Viewers that each read five chunks of a title of their own.
fn before() -> Rig {
    let mut rig = rig();
    for chunk in 0..5 {
        for viewer in 1..=VIEWERS {
            let request = range(viewer, StreamId(viewer), chunk * CHUNK, CHUNK);
            rig.request(request).expect("accepted");
        }
        rig.run_for(Duration::from_secs(2));
    }
    rig
}

/// The next process, which knows the positions of viewers.
fn after(before: &Rig) -> Rig {
    let mut rig = rig();
    for chain in before.shard.saved_chains(usize::MAX) {
        assert!(rig.shard.restore_chain(rig.now, chain.stream, chain));
    }
    rig
}

fn goes_on(rig: &mut Rig) -> usize {
    for viewer in 1..=VIEWERS {
        let request = range(viewer, StreamId(viewer), 5 * CHUNK, CHUNK);
        let id = rig.request(request).expect("accepted");
        assert!(rig.replies.contains_key(&id));
    }
    rig.run_for(Duration::from_millis(500));
    rig.reads.len()
}

#[test]
fn viewers_continue_without_reads_and_old_memory_is_freed() {
    let mut old = before();
    let mut new = after(&old);
    let pieces = old.shard.handle_pass_on(old.now);
    assert!(pieces.len() > 50, "{}", pieces.len());
    assert_eq!(old.vacated, [], "vacated before the transfer");
    for piece in &pieces {
        assert!(new.give(piece.stream, piece.bytes), "{piece:?}");
        old.shard.handle_passed_on(old.now, &[piece.slot]);
        old.drain();
    }
    let gone: Vec<_> = pieces.iter().map(|piece| piece.slot).collect();
    assert_eq!(old.vacated, gone, "not all returned to the system");
    assert_eq!(goes_on(&mut new), 0, "pieces were read again");
    assert_eq!(new.shard.stats().chains, 0, "a viewer was not recognised");
    assert!(
        goes_on(&mut after(&old)) > 0,
        "no reads without the transfer"
    );
}

#[test]
fn pieces_of_running_replies_stay_and_others_are_not_reused() {
    let mut old = before();
    let running = old
        .request(range(99, TITLE, 0, 20 * MIB))
        .expect("accepted");
    old.run_for(Duration::from_millis(100));
    assert!(!old.is_over(running));
    let pieces = old.shard.handle_pass_on(old.now);
    old.shard.handle_retiring(old.now, true);
    old.shard.handle_replaced(old.now);
    old.drain();
    // Only now does the other process have them: the rig checks that no slot is read into
    // meanwhile.
    old.run_for(Duration::from_secs(1));
    for piece in pieces {
        old.shard.handle_passed_on(old.now, &[piece.slot]);
        old.drain();
    }
    old.run_for(Duration::from_secs(60));
    assert!(old.replies[&running].done);
    let memory = old.shard.memory_use();
    assert_eq!(memory.free_bytes, 64 * MIB, "{memory:?}");
}

#[test]
fn soonest_needed_pieces_are_passed_on_first() {
    let mut old = before();
    let pieces = old.shard.handle_pass_on(old.now);
    let is_ahead = |piece: &TransferPiece| piece.bytes.offset >= 5 * CHUNK;
    let ahead = pieces.iter().take_while(|piece| is_ahead(piece));
    let ahead = ahead.count();
    assert!(ahead > 10 && ahead < pieces.len(), "{ahead}");
    assert!(!pieces[ahead..].iter().any(is_ahead));
    let nearest = pieces[..ahead].iter().map(|piece| piece.bytes.offset);
    assert!(nearest.is_sorted(), "all viewers read at one pace");
}

#[test]
fn arriving_piece_wakes_replies_that_wait_for_a_read() {
    let mut old = before();
    let mut new = after(&old);
    new.device.hangs = true;
    let request = range(1, TITLE, 5 * CHUNK, CHUNK);
    let other = range(2, StreamId(2), 5 * CHUNK, CHUNK);
    // The first is being read, the second is queued.
    for request in [other, request] {
        new.request(request).expect("accepted");
    }
    for piece in old.shard.handle_pass_on(old.now) {
        new.give(piece.stream, piece.bytes);
    }
    new.run_for(Duration::from_secs(1));
    let done = new.replies.values().filter(|reply| reply.done).count();
    assert!(done >= 1, "{done}");
}

#[test]
fn useless_piece_leaves_its_slot_free() {
    let mut old = before();
    let mut new = after(&old);
    let TransferPiece { stream, bytes, .. } = old.shard.handle_pass_on(old.now)[0];
    let free = |rig: &Rig| rig.shard.memory_use().free_bytes;
    assert!(new.give(stream, bytes));
    let left = free(&new);
    assert!(!new.give(stream, bytes), "accepted twice");
    let PieceBytes { length, offset, .. } = bytes;
    for wrong in [
        PieceBytes {
            length: length - 1,
            ..bytes
        },
        PieceBytes {
            offset: offset + 1,
            ..bytes
        },
        PieceBytes {
            offset: HOUR_BYTES * 2,
            ..bytes
        },
        PieceBytes { part: 1, ..bytes },
    ] {
        assert!(!new.give(stream, wrong), "{wrong:?}");
    }
    assert!(
        !new.give(StreamId(1_000), bytes),
        "accepted for an unknown stream"
    );
    let slot = new.shard.handle_reserve(new.now).expect("there is room");
    assert!(free(&new) < left);
    new.shard.handle_not_received(new.now, slot);
    new.drain();
    assert_eq!(free(&new), left);
}

#[test]
fn nothing_is_evicted_for_reserved_slots() {
    let mut rig = before();
    let in_use = |rig: &Rig| {
        let memory = rig.shard.memory_use();
        memory.unread_bytes + memory.read_bytes + memory.sending_bytes
    };
    let before = in_use(&rig);
    let mut reserved = Vec::new();
    while let Some(slot) = rig.shard.handle_reserve(rig.now) {
        rig.drain();
        reserved.push(slot);
    }
    assert_eq!(in_use(&rig), before);
    assert_eq!(rig.shard.memory_use().free_bytes, 0);
    for slot in reserved {
        rig.shard.handle_not_received(rig.now, slot);
        rig.drain();
    }
}
