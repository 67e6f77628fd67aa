//! State of each descriptor, indexed by its number.
//!
//! All of it is a hint: a descriptor may be closed and reopened in ways that are not intercepted,
//! and threads may update an entry concurrently. A wrong hint costs one check too many or too few;
//! the program's data never depends on it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use headlong_protocol::FileKey;

/// Descriptors with higher numbers are ignored.
const DESCRIPTORS_MAX: usize = 65_536;

/// How calls on a descriptor are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DescriptorClass {
    /// Not classified yet.
    Unknown,
    /// Not classified yet; one small call was passed through.
    PassedOnce,
    /// Ignored: a socket, a pipe, a small file, or one open for writing.
    LeftAlone,
    /// A regular file open for reading only.
    LookedAt,
}

/// One descriptor.
#[derive(Debug)]
pub(crate) struct Descriptor {
    class: AtomicU8,
    dev: AtomicU64,
    ino: AtomicU64,
    size: AtomicU64,
    /// Range of the last call.
    last_start: AtomicU64,
    last_end: AtomicU64,
    /// Bytes found in memory, and when that expires.
    resident_start: AtomicU64,
    resident_end: AtomicU64,
    resident_until_ms: AtomicU64,
    /// End of the bytes reported to the daemon, plus one; zero if none were.
    told_end: AtomicU64,
}

static ENTRIES: [Descriptor; DESCRIPTORS_MAX] = [const { Descriptor::new() }; DESCRIPTORS_MAX];

/// The entry of a descriptor; `None` if it is ignored.
pub(crate) fn entry(fd: i32) -> Option<&'static Descriptor> {
    ENTRIES.get(usize::try_from(fd).ok()?)
}

/// Descriptors from `first` to `last` may refer to other files from now on.
pub(crate) fn forget_range(first: u32, last: u32) {
    let last = (last as usize).min(DESCRIPTORS_MAX - 1);
    let range = ENTRIES.get(first as usize..=last).unwrap_or_default();
    // Reading is cheaper than writing: most entries are untouched and need no memory of their own.
    let known = range
        .iter()
        .filter(|entry| entry.class() != DescriptorClass::Unknown);
    known.for_each(Descriptor::forget);
}

impl Descriptor {
    const fn new() -> Self {
        Self {
            class: AtomicU8::new(0),
            dev: AtomicU64::new(0),
            ino: AtomicU64::new(0),
            size: AtomicU64::new(0),
            last_start: AtomicU64::new(0),
            last_end: AtomicU64::new(0),
            resident_start: AtomicU64::new(0),
            resident_end: AtomicU64::new(0),
            resident_until_ms: AtomicU64::new(0),
            told_end: AtomicU64::new(0),
        }
    }

    pub(crate) fn class(&self) -> DescriptorClass {
        match self.class.load(Relaxed) {
            1 => DescriptorClass::LeftAlone,
            2 => DescriptorClass::LookedAt,
            3 => DescriptorClass::PassedOnce,
            _ => DescriptorClass::Unknown,
        }
    }

    /// The descriptor may refer to another file from now on.
    pub(crate) fn forget(&self) {
        self.class.store(0, Relaxed);
    }

    /// One small call was passed through without classifying the descriptor.
    pub(crate) fn pass_once(&self) {
        self.class.store(3, Relaxed);
    }

    /// The descriptor is ignored.
    pub(crate) fn leave_alone(&self) {
        self.class.store(1, Relaxed);
    }

    /// The descriptor refers to this file.
    pub(crate) fn look_at(&self, file: FileKey, size: u64) {
        self.dev.store(file.dev, Relaxed);
        self.ino.store(file.ino, Relaxed);
        self.size.store(size, Relaxed);
        for zero in [&self.resident_until_ms, &self.told_end, &self.last_start] {
            zero.store(0, Relaxed);
        }
        // No call has read yet, so no call is sequential to it.
        self.last_end.store(u64::MAX, Relaxed);
        self.last_start.store(u64::MAX, Relaxed);
        self.class.store(2, Relaxed);
    }

    pub(crate) fn file(&self) -> FileKey {
        FileKey {
            dev: self.dev.load(Relaxed),
            ino: self.ino.load(Relaxed),
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size.load(Relaxed)
    }

    /// Whether a call for `start..end` continues the last one; it becomes the last one. A call may
    /// return less than requested, so the next may start inside it.
    pub(crate) fn goes_on(&self, start: u64, end: u64) -> bool {
        let last_start = self.last_start.swap(start, Relaxed);
        let last_end = self.last_end.swap(end, Relaxed);
        last_start < start && start <= last_end && last_end != u64::MAX
    }

    /// End of the last call.
    pub(crate) fn last_end(&self) -> u64 {
        self.last_end.load(Relaxed)
    }

    /// Whether these bytes were recently found in memory.
    pub(crate) fn is_resident(&self, start: u64, end: u64, now_ms: u64) -> bool {
        self.resident_start.load(Relaxed) <= start
            && end <= self.resident_end.load(Relaxed)
            && now_ms < self.resident_until_ms.load(Relaxed)
    }

    /// End of the bytes from `start` that were recently found in memory.
    pub(crate) fn resident_to(&self, start: u64, now_ms: u64) -> Option<u64> {
        let end = self.resident_end.load(Relaxed);
        (start < end && self.is_resident(start, end, now_ms)).then_some(end)
    }

    /// These bytes are in memory until the expiry time.
    pub(crate) fn remember_resident(&self, start: u64, end: u64, until_ms: u64) {
        self.resident_until_ms.store(0, Relaxed);
        self.resident_start.store(start, Relaxed);
        self.resident_end.store(end, Relaxed);
        self.resident_until_ms.store(until_ms, Relaxed);
    }

    /// End of the bytes reported to the daemon through this descriptor.
    pub(crate) fn reported_end(&self) -> Option<u64> {
        self.told_end.load(Relaxed).checked_sub(1)
    }

    /// Bytes up to here were reported to the daemon.
    pub(crate) fn set_reported_end(&self, end: u64) {
        self.told_end.store(end.saturating_add(1), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_call_starts_inside_or_after_the_last() {
        let entry = Descriptor::new();
        entry.look_at(FileKey::default(), 1 << 30);
        assert!(!entry.goes_on(0, 100));
        assert!(entry.goes_on(40, 140), "partial call");
        assert!(entry.goes_on(140, 150));
        assert!(!entry.goes_on(140, 150), "repeated");
        assert!(!entry.goes_on(900, 950));
        assert!(!entry.goes_on(10, 20));
    }

    #[test]
    fn resident_range_expires_and_is_cleared_for_a_new_file() {
        let entry = Descriptor::new();
        entry.look_at(FileKey::default(), 1 << 30);
        entry.remember_resident(100, 200, 50);
        assert!(entry.is_resident(100, 200, 49));
        assert!(!entry.is_resident(100, 200, 50));
        assert!(!entry.is_resident(100, 201, 49));
        entry.look_at(FileKey { dev: 0, ino: 5 }, 1 << 30);
        assert!(!entry.is_resident(100, 200, 49));
    }

    #[test]
    fn range_of_descriptors_is_forgotten_with_any_bounds() {
        let entry = entry(60_001).expect("in the table");
        entry.leave_alone();
        forget_range(60_002, u32::MAX);
        assert_eq!(entry.class(), DescriptorClass::LeftAlone);
        forget_range(9, 3);
        forget_range(u32::MAX, u32::MAX);
        forget_range(60_001, u32::MAX);
        assert_eq!(entry.class(), DescriptorClass::Unknown);
        assert!(super::entry(-1).is_none() && super::entry(i32::MAX).is_none());
    }
}
