use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::*;

const PIECE: usize = 128 << 10;
const PLACES: usize = BLOCK_BYTES / PIECE;

fn hot(slots: u32, blocks: usize, ghosts_max: usize) -> SendfileCache {
    let hot = SendfileCache::new(slots, PIECE, SendfileCacheSize { blocks, ghosts_max })
        .expect("memory files");
    // As if all of the cache had been sent often enough.
    hot.credit.store(u64::MAX / 2, Ordering::Relaxed);
    hot
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
    (listener.accept().expect("accepts").0, client)
}

/// Sends as many bytes of the copy as the socket accepts in one call.
fn send(hot: &SendfileCache, kept: &CopyGuard, socket: &TcpStream) -> io::Result<usize> {
    let mut offset = hot.offset(kept);
    let sent = rustix::fs::sendfile(socket, hot.file(), Some(&mut offset), PIECE)?;
    Ok(sent)
}

/// Received bytes of a reader that reads only after the block was emptied and refilled.
fn read_after_refilling(skips_holes: bool) -> Vec<u8> {
    let hot = hot(2, 1, 1);
    hot.skips_holes.store(skips_holes, Ordering::Relaxed);
    let (server, mut client) = pair();
    hot.copy_slot(Slot(0), None, &[1; PIECE]);
    let kept = hot.lookup(Slot(0)).expect("kept");
    let sent = send(&hot, &kept, &server).expect("sends");
    drop(kept);
    hot.forget(Slot(0));
    for _ in 0..2 * PLACES - 1 {
        hot.copy_slot(Slot(1), None, &[2; PIECE]);
        assert!(hot.has(Slot(1)));
        hot.forget(Slot(1));
    }
    let mut got = vec![0; sent];
    client.read_exact(&mut got).expect("sent");
    got
}

#[test]
fn bytes_in_flight_do_not_change_when_their_place_is_refilled() {
    let got = read_after_refilling(false);
    assert!(!got.is_empty() && got.iter().all(|byte| *byte == 1));
}

/// Shows that the holes are necessary: without them the test above, and the one with many readers,
/// would fail.
#[test]
fn bytes_in_flight_change_without_holes() {
    let got = read_after_refilling(true);
    assert!(
        got.contains(&2),
        "the kernel copies: holes are not needed any more"
    );
}

#[test]
fn bytes_held_by_sockets_are_bounded() {
    let hot = hot(2, 1, 1);
    let fill = || {
        for _ in 0..PLACES {
            hot.copy_slot(Slot(0), None, &[1; PIECE]);
            hot.forget(Slot(0));
        }
        hot.copy_slot(Slot(1), None, &[1; PIECE]);
        let kept = hot.lookup(Slot(1));
        hot.forget(Slot(1));
        kept.map(|kept| kept.pin())
    };
    let first = fill().expect("the block was empty");
    // The first place after the hole was taken above.
    let second = {
        for _ in 0..PLACES {
            hot.copy_slot(Slot(0), None, &[1; PIECE]);
            hot.forget(Slot(0));
        }
        hot.copy_slot(Slot(1), None, &[1; PIECE]);
        hot.lookup(Slot(1)).map(|kept| kept.pin())
    };
    let second = second.expect("one ghost is allowed");
    hot.forget(Slot(1));
    assert!(!first.is_same(&second));
    for _ in 0..PLACES {
        hot.copy_slot(Slot(0), None, &[1; PIECE]);
        hot.forget(Slot(0));
    }
    hot.copy_slot(Slot(0), None, &[1; PIECE]);
    assert!(!hot.has(Slot(0)), "two ghosts are not allowed");
    drop((first, second));
    hot.copy_slot(Slot(0), None, &[1; PIECE]);
    assert!(hot.has(Slot(0)));
}

#[test]
fn used_block_stays_and_block_with_reader_is_not_emptied() {
    let hot = hot(64, 3, 1);
    let keep = |slot| {
        hot.copy_slot(Slot(slot), None, &[3; PIECE]);
        hot.has(Slot(slot))
    };
    assert!((0..48).all(keep));
    for _ in 0..8 {
        hot.lookup(Slot(3)).expect("kept");
    }
    let looked_at = hot.lookup(Slot(20)).expect("kept");
    assert!((48..51).all(|slot| !keep(slot)), "no block can be emptied");
    assert!(!hot.has(Slot(20)), "no new reader may see the copy");
    let mut there = [0; 2];
    let read = rustix::io::pread(hot.file(), &mut there, hot.offset(&looked_at));
    assert_eq!((read, there), (Ok(2), [3; 2]));
    drop(looked_at);
    assert!(keep(52), "a block without readers can be emptied");
    assert!(hot.has(Slot(3)) && hot.has(Slot(15)), "used blocks stay");
}

/// Reads frames (a number, then a piece in which each word is that number) with pauses and returns
/// the number of words read; some readers disconnect within a frame.
fn read_frames(mut client: TcpStream, pause: Duration, leaves_after: Option<usize>) -> u64 {
    let mut words = 0;
    let mut head = [0; 8];
    let mut part = vec![0; 16 << 10];
    let mut parts = 0;
    while client.read_exact(&mut head).is_ok() {
        for _ in 0..PIECE / part.len() {
            if client.read_exact(&mut part).is_err() {
                return words;
            }
            let is_right = part.chunks_exact(8).all(|word| word == head);
            assert!(is_right, "bytes changed in flight");
            words += part.len() as u64 / 8;
            parts += 1;
            if leaves_after == Some(parts) {
                // Unread data makes the kernel send a reset.
                return words;
            }
            std::thread::sleep(pause);
        }
    }
    words
}

#[test]
fn readers_of_any_speed_get_correct_bytes_under_constant_reuse() {
    const SLOTS: u32 = 48;
    const REFILLS: u64 = if cfg!(debug_assertions) {
        3_000
    } else {
        100_000
    };
    let hot = hot(SLOTS, 8, 8);
    let numbers = Mutex::new(vec![0_u64; SLOTS as usize]);
    let is_over = AtomicBool::new(false);
    let refilled = std::thread::scope(|scope| {
        let paces = [0, 50, 500, 3_000, 0, 200].map(Duration::from_micros);
        let mut readers = Vec::new();
        for (number, pace) in paces.into_iter().enumerate() {
            let leaves_after = (number >= 4).then_some(5 + 16 * number);
            let (mut server, client) = pair();
            readers.push(scope.spawn(move || read_frames(client, pace, leaves_after)));
            let (hot, numbers, is_over) = (&hot, &numbers, &is_over);
            scope.spawn(move || {
                let mut slot = number as u32;
                while !is_over.load(Ordering::Relaxed) {
                    slot = (slot + 7) % SLOTS;
                    let known = numbers.lock().expect("no panic");
                    let (value, kept) = (known[slot as usize], hot.lookup(Slot(slot)));
                    drop(known);
                    let Some(kept) = kept else { continue };
                    if server.write_all(&value.to_ne_bytes()).is_err() {
                        return;
                    }
                    let (mut offset, end) = (hot.offset(&kept), hot.offset(&kept) + PIECE as u64);
                    while offset < end {
                        let left = (end - offset) as usize;
                        let sent =
                            rustix::fs::sendfile(&server, hot.file(), Some(&mut offset), left);
                        if sent.is_err() {
                            return;
                        }
                    }
                }
                let _ = server.shutdown(Shutdown::Write);
            });
        }
        let mut refilled = 0;
        for value in 1..=REFILLS {
            let slot = Slot((value % u64::from(SLOTS)) as u32);
            let bytes = value.to_ne_bytes().repeat(PIECE / 8);
            let mut known = numbers.lock().expect("no panic");
            hot.forget(slot);
            known[slot.0 as usize] = value;
            hot.copy_slot(slot, None, &bytes);
            refilled += u64::from(hot.has(slot));
        }
        is_over.store(true, Ordering::Relaxed);
        let words: u64 = readers.into_iter().map(|r| r.join().expect("right")).sum();
        assert!(words > 0);
        refilled
    });
    assert!(
        refilled > 8 * PLACES as u64,
        "{refilled} blocks emptied: too few"
    );
}

#[test]
fn usage_reports_filled_live_and_held_bytes() {
    let (server, client) = pair();
    let hot = hot(2, 1, 1);
    let block = BLOCK_BYTES as u64;
    let empty = SendfileCacheUse {
        budget_bytes: 2 * block,
        ..SendfileCacheUse::default()
    };
    assert_eq!(hot.usage(), empty);
    hot.copy_slot(Slot(0), None, &[1; PIECE]);
    let kept = hot.lookup(Slot(0)).expect("kept");
    let filled = SendfileCacheUse {
        filled_bytes: block,
        live_bytes: PIECE as u64,
        ..empty
    };
    assert_eq!(hot.usage(), filled);
    let pinned = kept.pin();
    send(&hot, &kept, &server).expect("sends");
    drop(kept);
    hot.forget(Slot(0));
    for _ in 0..PLACES {
        hot.copy_slot(Slot(1), None, &[2; PIECE]);
        hot.forget(Slot(1));
    }
    assert_eq!(hot.usage().held_bytes, block, "the socket may hold it");
    drop((pinned, client));
    assert_eq!(hot.usage().held_bytes, 0);
}
