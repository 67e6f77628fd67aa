//! Retention and eviction of a shard's memory, in virtual time.

use crate::rig::{CHUNK, HOUR_BYTES, Rig, config, fixed, range, watch};
use headlong_engine::{EngineConfig, Request, Retention, Slot};
use headlong_units::{ByteRange, Duration, KIB, MIB};

#[test]
fn prefetch_is_limited_to_share_of_memory() {
    let prefetched_for_the_last_of = |viewers: u64, retention: Retention| {
        let mut rig = Rig::new(EngineConfig {
            sizing: fixed(16 * MIB),
            retention,
            ..config(64 * MIB)
        });
        // The others watch titles that are too short to need memory.
        for viewer in 1..viewers {
            let title = rig.title(viewer, CHUNK, 2_000);
            rig.request(range(viewer, title, 0, CHUNK))
                .expect("accepted");
        }
        rig.run_for(Duration::from_secs(2));
        let title = rig.title(viewers, HOUR_BYTES, 2_000);
        rig.request(range(viewers, title, 0, CHUNK))
            .expect("accepted");
        rig.run_for(Duration::from_secs(2));
        let reads = rig.reads.iter().filter(|read| read.stream == title);
        reads.map(|read| read.length).sum::<u64>()
    };
    assert_eq!(
        prefetched_for_the_last_of(2, Retention::Popularity),
        16 * MIB
    );
    assert_eq!(
        prefetched_for_the_last_of(8, Retention::Popularity),
        12 * MIB
    );
    assert_eq!(
        prefetched_for_the_last_of(16, Retention::Popularity),
        6 * MIB
    );
    let page_cache = prefetched_for_the_last_of(16, Retention::PageCache);
    assert_eq!(page_cache, 16 * MIB, "a page cache has no shares");
}

#[test]
fn more_viewers_than_memory_are_served_completely() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        ..config(4 * MIB)
    });
    watch(&mut rig, 100, 8, Duration::from_secs(60));
    let open: Vec<_> = rig.replies.values().filter(|reply| !reply.done).collect();
    assert!(open.is_empty(), "{open:?}");
    let memory = rig.shard.memory_use();
    let total = memory.free_bytes
        + memory.filling_bytes
        + memory.sending_bytes
        + memory.unread_bytes
        + memory.read_bytes;
    assert_eq!(total, 4 * MIB);
}

#[test]
fn pieces_of_idle_chain_are_evicted_before_unread_ones() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(MIB),
        ..config(4 * MIB)
    });
    let gone = rig.title(1, HOUR_BYTES, 2_000);
    rig.request(range(1, gone, 0, 128 * KIB)).expect("accepted");
    rig.run_for(Duration::from_secs(41));
    assert_eq!(
        rig.shard.memory_use().unread_bytes,
        0,
        "the chain of a departed viewer owns pieces"
    );
    for viewer in 2..6 {
        let title = rig.title(viewer, HOUR_BYTES, 2_000);
        rig.request(range(viewer, title, 0, 128 * KIB))
            .expect("accepted");
        rig.run_for(Duration::from_millis(200));
    }
    let stats = rig.shard.stats();
    assert!(stats.wasted_bytes > 0);
    assert_eq!(stats.prefetch_evictions, 0, "{stats:?}");
}

#[test]
fn eviction_from_live_chain_is_last_resort_and_counted() {
    let small = EngineConfig {
        sizing: fixed(512 * KIB),
        ..config(MIB)
    };
    let mut rig = Rig::new(small);
    for viewer in 1..=20 {
        let title = rig.title(viewer, HOUR_BYTES, 2_000);
        rig.request(range(viewer, title, 0, 64 * KIB))
            .expect("accepted");
        rig.run_for(Duration::from_millis(100));
    }
    let open: Vec<_> = rig.replies.values().filter(|reply| !reply.done).collect();
    assert!(open.is_empty(), "{open:?}");
    let stats = rig.shard.stats();
    assert!(stats.prefetch_evictions > 0);
    assert!(stats.prefetch_eviction_time > Duration::ZERO);
}

#[test]
fn pieces_for_next_viewer_behind_are_retained() {
    let reread = |retention| {
        let small = EngineConfig {
            sizing: fixed(MIB),
            retention,
            ..config(32 * MIB)
        };
        let mut rig = Rig::new(small);
        let hot = rig.title(1, HOUR_BYTES, 2_000);
        for chunk in 0..80u64 {
            rig.request(range(1, hot, chunk * CHUNK, CHUNK))
                .expect("accepted");
            if chunk >= 8 {
                rig.request(range(2, hot, (chunk - 8) * CHUNK, CHUNK))
                    .expect("accepted");
            }
            // Other viewers of other titles fill the rest of memory with pieces that they have
            // read.
            for viewer in 3..10 {
                let title = rig.title(viewer, HOUR_BYTES, 2_000);
                rig.request(range(viewer, title, chunk * CHUNK, CHUNK))
                    .expect("accepted");
            }
            rig.run_for(Duration::from_secs(2));
        }
        rig.shard.stats().bytes_reused
    };
    let (lru, popularity) = (reread(Retention::Lru), reread(Retention::Popularity));
    assert!(popularity > lru, "popularity {popularity}, lru {lru}");
    assert!(
        popularity >= 30 * CHUNK,
        "the second viewer hits what the first read: {popularity}"
    );
}

#[test]
fn piece_used_without_request_is_retained() {
    let reads_of_the_first = |is_used: bool| {
        let mut rig = Rig::new(EngineConfig {
            sizing: fixed(CHUNK),
            ..config(16 * MIB)
        });
        let first = rig.title(1, CHUNK, 2_000);
        let is_whole = |rig: &Rig| {
            let around = rig.shard.in_memory_around(first, 0, CHUNK - 1);
            around.is_some_and(|around| around.range == ByteRange::new(0, CHUNK))
        };
        assert!(!is_whole(&rig), "in memory without a request");
        rig.request(range(1, first, 0, CHUNK)).expect("accepted");
        rig.run_for(Duration::from_secs(60));
        assert!(is_whole(&rig));
        let slots: Vec<Slot> = (0..CHUNK.div_ceil(rig.shard.config().piece_bytes) as u32)
            .map(Slot)
            .collect();
        // Other viewers fill the memory twice.
        for viewer in 2..2 + 32 * MIB / CHUNK {
            let title = rig.title(viewer, CHUNK, 2_000);
            rig.request(range(viewer, title, 0, CHUNK))
                .expect("accepted");
            rig.run_for(Duration::from_secs(60));
            if is_used {
                rig.use_slots(&slots);
            }
        }
        let is_here = is_whole(&rig);
        rig.request(range(1, first, 0, CHUNK)).expect("accepted");
        rig.run_for(Duration::from_secs(1));
        let reads = rig.reads.iter().filter(|read| read.stream == first);
        (reads.count(), is_here)
    };
    assert_eq!(reads_of_the_first(false), (2, false));
    assert_eq!(reads_of_the_first(true), (1, true));
}

#[test]
fn range_in_memory_ends_at_first_missing_piece() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(MIB),
        ..config(16 * MIB)
    });
    let title = rig.chunked(1, &[CHUNK, HOUR_BYTES], 2_000);
    let from = 3 * MIB;
    let request = Request {
        part: 1,
        ..range(1, title, from, 128 * KIB)
    };
    rig.request(request).expect("accepted");
    rig.run_for(Duration::from_secs(1));
    let around = rig.shard.in_memory_around(title, 1, from + 70 * KIB);
    let around = around.expect("it was read");
    assert_eq!(around.part_starts, [0, CHUNK]);
    assert_eq!(around.stream_bytes, CHUNK + HOUR_BYTES);
    assert_eq!(around.range.start, CHUNK + from);
    assert!(around.range.len() >= MIB);
    for (part, offset) in [(0, 0), (1, from - 1), (1, HOUR_BYTES), (2, 0)] {
        assert_eq!(rig.shard.in_memory_around(title, part, offset), None);
    }
}

/// How many pieces of a title are read more than once although a second viewer is a little behind
/// the first. Each requests `length` bytes at a time.
fn read_again(length: u64) -> usize {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(MIB),
        // Bytes ahead of a viewer are not kept for it, as on a busy device.
        ahead_horizon: Duration::ZERO,
        ..config(48 * MIB)
    });
    let hot = rig.title(1, HOUR_BYTES, 2_000);
    // Viewers of other titles send four times as many requests, and fill the rest of memory with
    // pieces that they have read.
    for step in 0..160u64 {
        let chunk = step / 4;
        if step % 4 == 0 {
            rig.request(range(1, hot, chunk * length, length))
                .expect("accepted");
        }
        if step % 4 == 0 && chunk >= 8 {
            rig.request(range(2, hot, (chunk - 8) * length, length))
                .expect("accepted");
        }
        for viewer in 3..40 {
            let title = rig.title(viewer, HOUR_BYTES, 2_000);
            rig.request(range(viewer, title, step * CHUNK, CHUNK))
                .expect("accepted");
        }
        rig.run_for(Duration::from_secs(3));
    }
    let piece = rig.shard.config().piece_bytes;
    let of_hot = rig.reads.iter().filter(|read| read.stream == hot);
    let mut pieces: Vec<u64> = of_hot
        .flat_map(|read| (read.offset / piece)..(read.offset + read.length).div_ceil(piece))
        .collect();
    let all = pieces.len();
    pieces.sort_unstable();
    pieces.dedup();
    all - pieces.len()
}

#[test]
fn partly_sent_piece_is_retained_like_a_whole_one() {
    // Pieces evicted before the second viewer arrived are read again in any case.
    let whole = read_again(CHUNK);
    for length in [CHUNK - 12 * KIB, CHUNK - 1] {
        let part = read_again(length);
        assert!(part <= whole, "{part} pieces, {whole} with whole ones");
    }
}

#[test]
fn rest_of_partly_sent_piece_is_not_counted_as_reused() {
    let mut rig = Rig::new(config(32 * MIB));
    let title = rig.title(1, HOUR_BYTES, 2_000);
    for chunk in 0..8 {
        let length = 100 * KIB;
        rig.request(range(1, title, chunk * length, length))
            .expect("accepted");
        rig.run_for(Duration::from_secs(1));
    }
    assert_eq!(rig.shard.stats().bytes_reused, 0);
    rig.request(range(2, title, 0, 100 * KIB))
        .expect("accepted");
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.shard.stats().bytes_reused, 100 * KIB);
}

#[test]
fn page_cache_evicts_prefetches_that_are_otherwise_kept() {
    let run = |retention| {
        let config = EngineConfig {
            sizing: fixed(4 * MIB),
            retention,
            ..config(32 * MIB)
        };
        let mut rig = Rig::new(config);
        // Twelve viewers of 4 MiB prefetches in 32 MiB: more than a cache without shares can hold.
        for chunk in 0..16u64 {
            for viewer in 0..12 {
                let title = rig.title(viewer, HOUR_BYTES, 2_000);
                rig.request(range(viewer, title, chunk * CHUNK, CHUNK))
                    .expect("accepted");
            }
            rig.run_for(Duration::from_secs(10));
        }
        rig.shard.stats()
    };
    let (kept, cached) = (run(Retention::Popularity), run(Retention::PageCache));
    assert!(
        kept.prefetch_evicted_bytes < kept.bytes_read / 25,
        "{kept:?}"
    );
    assert!(
        cached.prefetch_evicted_bytes > cached.bytes_read / 10,
        "{cached:?}"
    );
    assert!(cached.bytes_read > kept.bytes_read);
    assert_eq!(
        cached.bytes_sent, kept.bytes_sent,
        "a viewer was not served"
    );
}

#[test]
fn pieces_for_departed_viewer_are_evicted_first() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(MIB),
        ..config(16 * MIB)
    });
    let titles = [1, 2].map(|id| rig.title(id, HOUR_BYTES, 2_000));
    let follow = |rig: &mut Rig, title: usize, bytes: u64| {
        let (ahead, behind) = (title as u64 * 2 + 1, title as u64 * 2 + 2);
        rig.request(range(behind, titles[title], 0, CHUNK))
            .expect("accepted");
        for at in (0..bytes).step_by(CHUNK as usize) {
            rig.request(range(ahead, titles[title], at, CHUNK))
                .expect("accepted");
            rig.run_for(Duration::from_millis(500));
        }
    };
    follow(&mut rig, 0, 8 * MIB);
    rig.run_for(Duration::from_secs(200));
    assert_eq!(rig.shard.chain_count(), 0, "a viewer has not left");
    follow(&mut rig, 1, 12 * MIB);
    // A viewer behind hits the pieces that the one ahead has read.
    let before = rig.reads.len();
    for at in (CHUNK..11 * MIB).step_by(CHUNK as usize) {
        rig.request(range(4, titles[1], at, CHUNK))
            .expect("accepted");
        rig.run_for(Duration::from_millis(500));
    }
    let again = rig.reads[before..].iter();
    assert!(
        again.clone().all(|read| read.offset >= 11 * MIB),
        "{again:?}"
    );
}
