//! What is remembered of each descriptor, by its number.
//!
//! Everything here is a hint: a descriptor may be closed and opened again in ways that are not
//! seen, and threads may change an entry at once. Who uses a wrong hint looks once too often or
//! once too little, and the program reads what it reads.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use headlong_protocol::FileKey;

/// Descriptors with higher numbers are left alone.
const DESCRIPTORS_MAX: usize = 65_536;

/// Whether a descriptor is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Nobody has asked yet.
    Unknown,
    /// Nobody has asked yet, and one small call was let through.
    PassedOnce,
    /// It is not: a socket, a pipe, a small file, one that is written.
    LeftAlone,
    /// A regular file that is only read.
    LookedAt,
}

/// One descriptor.
#[derive(Debug)]
pub(crate) struct Entry {
    class: AtomicU8,
    dev: AtomicU64,
    ino: AtomicU64,
    size: AtomicU64,
    /// The last call's range.
    last_start: AtomicU64,
    last_end: AtomicU64,
    /// Bytes that were in memory, and until when that is believed.
    resident_start: AtomicU64,
    resident_end: AtomicU64,
    resident_until_ms: AtomicU64,
    /// End of what the reception was told of, plus one; zero if of nothing.
    told_end: AtomicU64,
}

static ENTRIES: [Entry; DESCRIPTORS_MAX] = [const { Entry::new() }; DESCRIPTORS_MAX];

/// The entry of a descriptor; `None` if it is left alone.
pub(crate) fn entry(fd: i32) -> Option<&'static Entry> {
    ENTRIES.get(usize::try_from(fd).ok()?)
}

/// Every descriptor from `first` to `last` may be another from now on.
pub(crate) fn forget_range(first: u32, last: u32) {
    let last = (last as usize).min(DESCRIPTORS_MAX - 1);
    let range = ENTRIES.get(first as usize..=last).unwrap_or_default();
    // Reading is cheaper: most are untouched, and stay without memory of their own.
    let known = range.iter().filter(|entry| entry.class() != Class::Unknown);
    known.for_each(Entry::forget);
}

impl Entry {
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

    pub(crate) fn class(&self) -> Class {
        match self.class.load(Relaxed) {
            1 => Class::LeftAlone,
            2 => Class::LookedAt,
            3 => Class::PassedOnce,
            _ => Class::Unknown,
        }
    }

    /// The descriptor may be another from now on.
    pub(crate) fn forget(&self) {
        self.class.store(0, Relaxed);
    }

    /// A small call was let through without a look at what the descriptor is.
    pub(crate) fn pass_once(&self) {
        self.class.store(3, Relaxed);
    }

    /// The descriptor is not looked at.
    pub(crate) fn leave_alone(&self) {
        self.class.store(1, Relaxed);
    }

    /// The descriptor is of this file.
    pub(crate) fn look_at(&self, file: FileKey, size: u64) {
        self.dev.store(file.dev, Relaxed);
        self.ino.store(file.ino, Relaxed);
        self.size.store(size, Relaxed);
        for zero in [&self.resident_until_ms, &self.told_end, &self.last_start] {
            zero.store(0, Relaxed);
        }
        // Nothing was read: no call goes on from here.
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

    /// Whether a call for `start..end` goes on where the last one was; it is the last one now. A
    /// call may do less than it says, so the next may begin inside it.
    pub(crate) fn goes_on(&self, start: u64, end: u64) -> bool {
        let last_start = self.last_start.swap(start, Relaxed);
        let last_end = self.last_end.swap(end, Relaxed);
        last_start < start && start <= last_end && last_end != u64::MAX
    }

    /// End of the last call.
    pub(crate) fn last_end(&self) -> u64 {
        self.last_end.load(Relaxed)
    }

    /// Whether these bytes were in memory a moment ago.
    pub(crate) fn is_resident(&self, start: u64, end: u64, now_ms: u64) -> bool {
        self.resident_start.load(Relaxed) <= start
            && end <= self.resident_end.load(Relaxed)
            && now_ms < self.resident_until_ms.load(Relaxed)
    }

    /// From here on, bytes up to this one were in memory a moment ago.
    pub(crate) fn resident_to(&self, start: u64, now_ms: u64) -> Option<u64> {
        let end = self.resident_end.load(Relaxed);
        (start < end && self.is_resident(start, end, now_ms)).then_some(end)
    }

    /// These bytes are in memory, and will be for a moment.
    pub(crate) fn remember_resident(&self, start: u64, end: u64, until_ms: u64) {
        self.resident_until_ms.store(0, Relaxed);
        self.resident_start.store(start, Relaxed);
        self.resident_end.store(end, Relaxed);
        self.resident_until_ms.store(until_ms, Relaxed);
    }

    /// End of what the reception was told of through this descriptor.
    pub(crate) fn told_end(&self) -> Option<u64> {
        self.told_end.load(Relaxed).checked_sub(1)
    }

    /// The reception was told of bytes up to here.
    pub(crate) fn tell(&self, end: u64) {
        self.told_end.store(end.saturating_add(1), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_goes_on_where_the_last_one_was_or_inside_it() {
        let entry = Entry::new();
        entry.look_at(FileKey::default(), 1 << 30);
        assert!(!entry.goes_on(0, 100));
        assert!(entry.goes_on(40, 140), "half of it was done");
        assert!(entry.goes_on(140, 150));
        assert!(!entry.goes_on(140, 150), "again");
        assert!(!entry.goes_on(900, 950));
        assert!(!entry.goes_on(10, 20));
    }

    #[test]
    fn what_was_in_memory_is_believed_for_a_moment_and_only_of_this_file() {
        let entry = Entry::new();
        entry.look_at(FileKey::default(), 1 << 30);
        entry.remember_resident(100, 200, 50);
        assert!(entry.is_resident(100, 200, 49));
        assert!(!entry.is_resident(100, 200, 50));
        assert!(!entry.is_resident(100, 201, 49));
        entry.look_at(FileKey { dev: 0, ino: 5 }, 1 << 30);
        assert!(!entry.is_resident(100, 200, 49));
    }

    #[test]
    fn a_range_of_descriptors_is_forgotten_whatever_its_ends() {
        let entry = entry(60_001).expect("in the table");
        entry.leave_alone();
        forget_range(60_002, u32::MAX);
        assert_eq!(entry.class(), Class::LeftAlone);
        forget_range(9, 3);
        forget_range(u32::MAX, u32::MAX);
        forget_range(60_001, u32::MAX);
        assert_eq!(entry.class(), Class::Unknown);
        assert!(super::entry(-1).is_none() && super::entry(i32::MAX).is_none());
    }
}
