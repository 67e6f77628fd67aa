//! State that a program shares with its forks: counters, files that the daemon reads ahead, and
//! whether a daemon answers.
//!
//! It lies in one shared anonymous mapping, created before the program's `main`. Forked workers
//! (nginx, Apache) share it; an executed program has its own.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use headlong_protocol::{BUCKETS, FileKey, Message, bucket};

/// An absent daemon is tried again after this time.
pub(crate) const PAUSE_MS: u64 = 1000;
/// An unresponsive daemon too; the pause doubles each time up to this limit.
const PAUSE_MS_MAX: u64 = 64_000;

/// Slots for files; on a hash collision the later file wins. With thousands of viewers collisions
/// are rare, and a file that lost its slot is reported again at its next wait.
const FILES: usize = 1 << 16;
/// A file stays of interest to the daemon for this long after its last wait, seconds: longer than
/// the daemon waits for the next request of a viewer.
const FILE_SECONDS: u64 = 60;

/// Bytes that one reader reported are not reported by others for this long, milliseconds: they are
/// so close behind that the same readahead serves them.
const REPORTED_MS: u64 = 1000;

/// The shared mapping; initially all zero.
#[derive(Debug)]
pub(crate) struct SharedState {
    looked_at: AtomicU32,
    found: AtomicU32,
    given_up: AtomicU32,
    latencies: [AtomicU32; BUCKETS],
    paused_until_ms: AtomicU64,
    /// When the daemon last answered, and the next pause if it does not; zero means the shortest.
    answered_ms: AtomicU64,
    silent_pause_ms: AtomicU64,
    walk_paused_until_ms: AtomicU64,
    /// Small files found in memory since the last report of a small file that was not.
    found_small: AtomicU32,
    /// For each hash of a file: other bits of the hash, and the second of its last wait.
    files: [AtomicU64; FILES],
    /// For each hash of a file: bytes that one call found in memory. Later opens of the file need
    /// not check again.
    resident: [RecentRange; FILES],
    /// For each hash of a file: bytes reported to the daemon. When many readers read the same bytes
    /// at once, one report suffices: the readahead serves all of them.
    told: [RecentRange; FILES],
}

/// A byte range of a file with an expiry time. A race between writers may leave a range of no file,
/// which is then a wrong hint.
#[derive(Debug)]
struct RecentRange {
    tag: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
    until_ms: AtomicU64,
}

impl RecentRange {
    const fn new() -> Self {
        Self {
            tag: AtomicU64::new(0),
            start: AtomicU64::new(0),
            end: AtomicU64::new(0),
            until_ms: AtomicU64::new(0),
        }
    }

    /// Merges the bytes with the stored range if they touch; the merged range expires with the
    /// older of the two.
    fn remember(
        &self,
        tag: u64,
        (mut start, mut end): (u64, u64),
        (now_ms, mut until_ms): (u64, u64),
    ) {
        let (known_start, known_end) = (self.start.load(Relaxed), self.end.load(Relaxed));
        let known_until_ms = self.until_ms.load(Relaxed);
        let is_same = self.tag.load(Relaxed) == tag && now_ms < known_until_ms;
        if is_same && start <= known_end && known_start <= end {
            (start, end) = (start.min(known_start), end.max(known_end));
            until_ms = until_ms.min(known_until_ms);
        }
        self.until_ms.store(0, Relaxed);
        self.tag.store(tag, Relaxed);
        self.start.store(start, Relaxed);
        self.end.store(end, Relaxed);
        self.until_ms.store(until_ms, Relaxed);
    }

    /// When the range expires, if it covers these bytes.
    fn until(&self, tag: u64, (start, end): (u64, u64), now_ms: u64) -> Option<u64> {
        let until_ms = self.until_ms.load(Relaxed);
        let is_known = now_ms < until_ms
            && self.tag.load(Relaxed) == tag
            && self.start.load(Relaxed) <= start
            && end <= self.end.load(Relaxed);
        is_known.then_some(until_ms)
    }
}

impl SharedState {
    /// An empty one.
    pub(crate) const fn new() -> Self {
        Self {
            looked_at: AtomicU32::new(0),
            found: AtomicU32::new(0),
            given_up: AtomicU32::new(0),
            latencies: [const { AtomicU32::new(0) }; BUCKETS],
            paused_until_ms: AtomicU64::new(0),
            answered_ms: AtomicU64::new(0),
            silent_pause_ms: AtomicU64::new(0),
            walk_paused_until_ms: AtomicU64::new(0),
            found_small: AtomicU32::new(0),
            files: [const { AtomicU64::new(0) }; FILES],
            resident: [const { RecentRange::new() }; FILES],
            told: [const { RecentRange::new() }; FILES],
        }
    }

    /// Counts an intercepted call.
    pub(crate) fn count(&self, was_resident: bool) {
        self.looked_at.fetch_add(1, Relaxed);
        if was_resident {
            self.found.fetch_add(1, Relaxed);
        }
    }

    /// A wait that began at `begun_ms` has timed out. If the daemon has answered no request since,
    /// requests pause for a while.
    pub(crate) fn give_up(&self, begun_ms: u64, now_ms: u64) {
        self.given_up.fetch_add(1, Relaxed);
        // All waits that began with this one time out at about the same time.
        if self.answered_ms.load(Relaxed) >= begun_ms || self.is_paused(now_ms) {
            return;
        }
        let pause_ms = self.silent_pause_ms.load(Relaxed).max(PAUSE_MS);
        let next_ms = pause_ms.saturating_mul(2).min(PAUSE_MS_MAX);
        self.silent_pause_ms.store(next_ms, Relaxed);
        self.pause_for(now_ms, pause_ms);
    }

    /// Records an answer of the daemon.
    pub(crate) fn answered(&self, now_ms: u64) {
        self.answered_ms.store(now_ms, Relaxed);
        self.silent_pause_ms.store(0, Relaxed);
    }

    /// Records the duration of a call whose bytes were not in memory, including its wait.
    pub(crate) fn record(&self, nanoseconds: u64) {
        if let Some(count) = self.latencies.get(bucket(nanoseconds)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Moves the counters into a message.
    pub(crate) fn take_counters(&self, message: &mut Message) {
        message.looked_at = self.looked_at.swap(0, Relaxed);
        message.resident = self.found.swap(0, Relaxed);
        message.given_up = self.given_up.swap(0, Relaxed);
        for (count, own) in message.latencies.iter_mut().zip(&self.latencies) {
            // Most are zero, and reading is cheaper than writing.
            if own.load(Relaxed) > 0 {
                *count = own.swap(0, Relaxed);
            }
        }
    }

    /// Takes back the counters of a message that could not be sent.
    pub(crate) fn put_back(&self, message: &Message) {
        self.looked_at.fetch_add(message.looked_at, Relaxed);
        self.found.fetch_add(message.resident, Relaxed);
        self.given_up.fetch_add(message.given_up, Relaxed);
        for (count, own) in message.latencies.iter().zip(&self.latencies) {
            own.fetch_add(*count, Relaxed);
        }
    }

    /// Whether any counter is non-zero.
    pub(crate) fn has_counters(&self) -> bool {
        self.looked_at.load(Relaxed) > 0
    }

    /// The daemon is absent: pauses requests.
    pub(crate) fn pause(&self, now_ms: u64) {
        self.pause_for(now_ms, PAUSE_MS);
    }

    fn pause_for(&self, now_ms: u64, pause_ms: u64) {
        self.paused_until_ms
            .store(now_ms.saturating_add(pause_ms), Relaxed);
    }

    /// Whether requests are paused because the daemon was absent or unresponsive.
    pub(crate) fn is_paused(&self, now_ms: u64) -> bool {
        now_ms < self.paused_until_ms.load(Relaxed)
    }

    /// Counts a small file found in memory.
    pub(crate) fn find_small(&self) {
        self.found_small.fetch_add(1, Relaxed);
    }

    /// Takes the number of small files found in memory since the last call.
    pub(crate) fn take_found_small(&self) -> u64 {
        self.found_small.swap(0, Relaxed).into()
    }

    /// The daemon had nothing to read ahead: pauses reports of small files.
    pub(crate) fn pause_walk(&self, until_ms: u64) {
        self.walk_paused_until_ms.store(until_ms, Relaxed);
    }

    /// Whether reports of small files are paused.
    pub(crate) fn is_walk_paused(&self, now_ms: u64) -> bool {
        now_ms < self.walk_paused_until_ms.load(Relaxed)
    }

    /// The daemon reads this file ahead for the program.
    pub(crate) fn remember_file(&self, file: FileKey, now_ms: u64) {
        let (index, tag) = place(file);
        if let Some(slot) = self.files.get(index) {
            slot.store(tag | seconds(now_ms), Relaxed);
        }
    }

    /// Whether the daemon reads this file ahead for the program, or recently did.
    pub(crate) fn knows_file(&self, file: FileKey, now_ms: u64) -> bool {
        let (index, tag) = place(file);
        let slot = self.files.get(index).map_or(0, |slot| slot.load(Relaxed));
        let since = seconds(now_ms).saturating_sub(slot & SECONDS);
        slot & !SECONDS == tag && since < FILE_SECONDS
    }

    /// These bytes of a file are in memory until the expiry time.
    pub(crate) fn remember_resident(&self, file: FileKey, bytes: (u64, u64), times: (u64, u64)) {
        let (index, tag) = place(file);
        if let Some(range) = self.resident.get(index) {
            range.remember(tag, bytes, times);
        }
    }

    /// Until when these bytes of a file are assumed to be in memory; `None` if unknown.
    pub(crate) fn resident_until(
        &self,
        file: FileKey,
        bytes: (u64, u64),
        now_ms: u64,
    ) -> Option<u64> {
        let (index, tag) = place(file);
        self.resident.get(index)?.until(tag, bytes, now_ms)
    }

    /// These bytes of a file were reported to the daemon.
    pub(crate) fn remember_told(&self, file: FileKey, bytes: (u64, u64), now_ms: u64) {
        let (index, tag) = place(file);
        if let Some(range) = self.told.get(index) {
            range.remember(tag, bytes, (now_ms, now_ms.saturating_add(REPORTED_MS)));
        }
    }

    /// Whether any reader reported them recently.
    pub(crate) fn is_told(&self, file: FileKey, bytes: (u64, u64), now_ms: u64) -> bool {
        let (index, tag) = place(file);
        let range = self.told.get(index);
        range.is_some_and(|range| range.until(tag, bytes, now_ms).is_some())
    }
}

/// The lower half of an entry holds the time.
const SECONDS: u64 = 0xffff_ffff;

fn seconds(now_ms: u64) -> u64 {
    (now_ms / 1000) & SECONDS
}

/// Index of a file's slot, and the remaining bits of its hash, never zero.
fn place(file: FileKey) -> (usize, u64) {
    // The finalizer of splitmix64, in which every input bit affects every output bit.
    let mut hash = file.ino ^ file.dev.rotate_left(32);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    ((hash as usize) % FILES, (hash & !SECONDS) | (1 << 63))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_protocol::MessageKind;

    #[test]
    fn file_is_known_until_it_expires() {
        static MEMORY: SharedState = SharedState::new();
        let memory = &MEMORY;
        let file = |ino| FileKey { dev: 1, ino };
        memory.remember_file(file(2), 5_000_000);
        assert!(memory.knows_file(file(2), 5_030_000));
        assert!(!memory.knows_file(file(2), 5_060_000));
        assert!((3..1000).all(|ino| !memory.knows_file(file(ino), 5_000_000)));
    }

    #[test]
    fn thousands_of_files_are_known_at_once() {
        static MEMORY: SharedState = SharedState::new();
        let files = || (0..3000).map(|ino| FileKey { dev: 1, ino });
        files().for_each(|file| MEMORY.remember_file(file, 5000));
        let known = files().filter(|file| MEMORY.knows_file(*file, 6000));
        let known = known.count();
        assert!(known > 2850, "{known}");
    }

    #[test]
    fn unsent_counters_are_restored() {
        static MEMORY: SharedState = SharedState::new();
        let memory = &MEMORY;
        memory.count(true);
        memory.count(false);
        memory.record(3_000);
        let mut message = Message::new(MessageKind::Count, FileKey::default(), 0, 0);
        memory.take_counters(&mut message);
        assert_eq!((message.looked_at, message.resident), (2, 1));
        assert_eq!(message.latencies.iter().sum::<u32>(), 1);
        assert!(!memory.has_counters());
        memory.put_back(&message);
        let mut again = Message::new(MessageKind::Count, FileKey::default(), 0, 0);
        memory.take_counters(&mut again);
        assert_eq!(again, message);
    }

    #[test]
    fn resident_range_is_shared_until_it_expires() {
        static MEMORY: SharedState = SharedState::new();
        let memory = &MEMORY;
        let file = |ino| FileKey { dev: 1, ino };
        assert_eq!(memory.resident_until(file(0), (0, 0), 0), None);
        memory.remember_resident(file(2), (100, 200), (0, 50));
        assert_eq!(memory.resident_until(file(2), (100, 200), 49), Some(50));
        assert_eq!(memory.resident_until(file(2), (100, 200), 50), None);
        assert_eq!(memory.resident_until(file(2), (99, 200), 49), None);
        assert_eq!(memory.resident_until(file(2), (100, 201), 49), None);
        memory.remember_resident(file(2), (200, 300), (10, 60));
        assert_eq!(memory.resident_until(file(2), (120, 280), 20), Some(50));
        memory.remember_resident(file(2), (400, 500), (20, 70));
        assert_eq!(memory.resident_until(file(2), (120, 280), 20), None);
        memory.remember_resident(file(2), (300, 400), (90, 99));
        assert_eq!(
            memory.resident_until(file(2), (400, 500), 91),
            None,
            "expired"
        );
        let others = (3..20_000).filter_map(|ino| memory.resident_until(file(ino), (300, 400), 92));
        assert_eq!(others.count(), 0);
    }

    #[test]
    fn reported_range_suppresses_other_reports_for_a_second() {
        static MEMORY: SharedState = SharedState::new();
        let memory = &MEMORY;
        let file = |ino| FileKey { dev: 1, ino };
        memory.remember_told(file(2), (0, 100), 0);
        memory.remember_told(file(2), (100, 200), 900);
        assert!(memory.is_told(file(2), (50, 200), REPORTED_MS - 1));
        assert!(
            !memory.is_told(file(2), (50, 201), REPORTED_MS - 1),
            "beyond the range"
        );
        assert!(!memory.is_told(file(3), (50, 200), REPORTED_MS - 1));
        assert!(!memory.is_told(file(2), (50, 200), REPORTED_MS), "expired");
    }

    #[test]
    fn pause_doubles_until_daemon_answers() {
        static MEMORY: SharedState = SharedState::new();
        let memory = &MEMORY;
        let mut now = 5000;
        // Requests resume as soon as the pause ends.
        let mut pause = || {
            let begun = now;
            now += 10_000;
            // All other waits time out at about the same time.
            (0..50).for_each(|waited| memory.give_up(begun + waited, now + waited));
            let ends = (now..).step_by(1000).find(|at| !memory.is_paused(*at));
            let pause = ends.expect("it ends") - now;
            now += pause;
            pause
        };
        let pauses = [(); 8].map(|()| pause() / 1000);
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 64]);
        memory.answered(now);
        let begun = now + 1;
        memory.give_up(begun, begun + 10_000);
        assert!(memory.is_paused(begun + 10_999) && !memory.is_paused(begun + 11_000));
    }

    #[test]
    fn timeout_does_not_pause_if_others_were_answered() {
        static MEMORY: SharedState = SharedState::new();
        let memory = &MEMORY;
        memory.answered(7000);
        memory.give_up(6000, 16_000);
        assert!(!memory.is_paused(16_000), "other requests were answered");
        memory.give_up(7001, 17_001);
        assert!(memory.is_paused(17_001), "no answer since");
    }

    #[test]
    fn pause_ends_after_its_time() {
        static MEMORY: SharedState = SharedState::new();
        let memory = &MEMORY;
        assert!(!memory.is_paused(10));
        memory.pause(10);
        assert!(memory.is_paused(10 + PAUSE_MS - 1) && !memory.is_paused(10 + PAUSE_MS));
    }
}
