//! Direct-I/O policy: decides per program which large files bypass the kernel's page cache.
//!
//! A read of 32 KiB or more costs less without pages, and stores nothing twice; a read of 4 KiB
//! costs more, and `sendfile` and `mmap` need pages. The mount sees both the kernel's own readahead
//! and direct reads made in the program's name. A program that starts with large reads gets its
//! next file with direct I/O, and with pages again once its reads show that this was wrong.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::readlink;

/// The kernel starts readahead with less if a program reads much less at a time.
const BEGINS_LARGE_BYTES: u32 = 32 << 10;
/// Direct reads with a smaller mean size cost more than pages do.
const CALL_BYTES_MIN: u64 = 12 << 10;
/// Number of reads after which their mean size is checked.
const CALLS: u64 = 32;
/// Files that a program opens with pages before direct I/O is tried again.
const OPENS_UNTIL_TRIED: u32 = 64;
/// Programs remembered; beyond them all are forgotten.
const PROGRAMS_MAX: usize = 1024;

/// Which files are opened with pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageCacheUse {
    /// All.
    Always,
    /// All but large files of programs with large reads.
    ForSmallReads,
    /// None.
    Never,
}

/// I/O mode of one open file.
#[derive(Debug)]
pub(crate) struct FileIoMode {
    pub(crate) is_direct: bool,
    /// Path of the program's executable; `None` if unknown or irrelevant.
    program: Option<CString>,
    has_begun: AtomicBool,
    is_judged: AtomicBool,
    calls: AtomicU64,
    bytes: AtomicU64,
}

/// History of all programs.
#[derive(Debug)]
pub(crate) struct IoModePolicy {
    pages: PageCacheUse,
    maps_need_pages: AtomicBool,
    opened_without: AtomicU64,
    programs: Mutex<HashMap<CString, ProgramHistory>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgramHistory {
    ReadsMuch,
    NeedsPages { opens: u32 },
}

impl IoModePolicy {
    pub(crate) fn new(pages: PageCacheUse) -> Self {
        Self {
            pages,
            maps_need_pages: AtomicBool::new(false),
            opened_without: AtomicU64::new(0),
            programs: Mutex::default(),
        }
    }

    /// The kernel cannot map files opened with direct I/O: they are used only if the settings
    /// demand it for all files.
    pub(crate) fn maps_need_pages(&self) {
        self.maps_need_pages.store(true, Ordering::Relaxed);
    }

    /// A thread opens a file; `by_engine` says whether the engine reads it.
    pub(crate) fn opened(&self, thread: u32, by_engine: bool) -> FileIoMode {
        let is_chosen = !self.maps_need_pages.load(Ordering::Relaxed);
        let is_asked = self.pages == PageCacheUse::ForSmallReads && by_engine && is_chosen;
        // Reads the link only: this does not block on the program's file system.
        let program = is_asked.then(|| readlink(format!("/proc/{thread}/exe"), Vec::new()).ok());
        self.opened_by(program.flatten())
    }

    fn opened_by(&self, program: Option<CString>) -> FileIoMode {
        let reads_much = program.as_ref().is_some_and(|name| self.reads_much(name));
        let is_direct = reads_much || self.pages == PageCacheUse::Never;
        self.opened_without
            .fetch_add(is_direct.into(), Ordering::Relaxed);
        FileIoMode {
            is_direct,
            program,
            has_begun: AtomicBool::new(false),
            is_judged: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Number of files opened with direct I/O so far.
    pub(crate) fn opened_without(&self) -> u64 {
        self.opened_without.load(Ordering::Relaxed)
    }

    fn reads_much(&self, program: &CString) -> bool {
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        match programs.get_mut(program) {
            None => false,
            Some(ProgramHistory::ReadsMuch) => true,
            Some(ProgramHistory::NeedsPages { opens: 0 }) => {
                programs.remove(program);
                false
            }
            Some(ProgramHistory::NeedsPages { opens }) => {
                *opens -= 1;
                false
            }
        }
    }

    /// The kernel requests a range, for its page cache or for a direct read.
    pub(crate) fn asked(&self, manner: &FileIoMode, for_pages: bool, bytes: u32) {
        let Some(program) = &manner.program else {
            return;
        };
        let known = match (manner.is_direct, for_pages) {
            (false, true) => {
                let is_first = !manner.has_begun.swap(true, Ordering::Relaxed);
                (is_first && bytes >= BEGINS_LARGE_BYTES).then_some(ProgramHistory::ReadsMuch)
            }
            (true, true) => Some(ProgramHistory::needs_pages()),
            (true, false) => {
                let sum = manner.bytes.fetch_add(bytes.into(), Ordering::Relaxed);
                let calls = manner.calls.fetch_add(1, Ordering::Relaxed) + 1;
                let is_due = calls.is_multiple_of(CALLS);
                let are_small = (sum + u64::from(bytes)) / calls < CALL_BYTES_MIN;
                (is_due && are_small).then(ProgramHistory::needs_pages)
            }
            // The program itself opened the file with `O_DIRECT`.
            (false, false) => None,
        };
        let Some(known) = known else { return };
        if manner.is_judged.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if programs.len() >= PROGRAMS_MAX && !programs.contains_key(program) {
            programs.clear();
        }
        match known {
            // A verdict for pages is not overridden.
            ProgramHistory::ReadsMuch => {
                programs.entry(program.clone()).or_insert(known);
            }
            ProgramHistory::NeedsPages { .. } => {
                programs.insert(program.clone(), known);
            }
        }
    }
}

impl ProgramHistory {
    fn needs_pages() -> Self {
        Self::NeedsPages {
            opens: OPENS_UNTIL_TRIED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(manners: &IoModePolicy, program: &str) -> FileIoMode {
        manners.opened_by(Some(CString::new(program).expect("no NUL byte")))
    }

    fn by_habit() -> IoModePolicy {
        IoModePolicy::new(PageCacheUse::ForSmallReads)
    }

    #[test]
    fn program_with_large_first_reads_gets_direct_io() {
        let manners = by_habit();
        let first = opened(&manners, "/bin/cp");
        assert!(!first.is_direct);
        manners.asked(&first, true, 64 << 10);
        assert!(opened(&manners, "/bin/cp").is_direct);
        let small = opened(&manners, "/bin/awk");
        manners.asked(&small, true, 16 << 10);
        // Later readahead of the kernel says nothing about the program.
        manners.asked(&small, true, 64 << 10);
        assert!(!opened(&manners, "/bin/awk").is_direct);
    }

    #[test]
    fn direct_io_is_retried_after_many_opens() {
        for (for_pages, bytes) in [(false, 4096), (true, 64 << 10)] {
            let manners = by_habit();
            manners.asked(&opened(&manners, "a"), true, 64 << 10);
            let direct = opened(&manners, "a");
            assert!(direct.is_direct);
            for _ in 0..CALLS {
                manners.asked(&direct, for_pages, bytes);
            }
            for _ in 0..=OPENS_UNTIL_TRIED {
                let file = opened(&manners, "a");
                assert!(!file.is_direct);
            }
            manners.asked(&opened(&manners, "a"), true, 64 << 10);
            assert!(opened(&manners, "a").is_direct);
        }
    }

    #[test]
    fn few_small_reads_do_not_end_direct_io() {
        let manners = by_habit();
        manners.asked(&opened(&manners, "a"), true, 64 << 10);
        let direct = opened(&manners, "a");
        for call in 0..10 * CALLS {
            let bytes = if call % 4 == 0 { 4096 } else { 128 << 10 };
            manners.asked(&direct, false, bytes);
        }
        assert!(opened(&manners, "a").is_direct);
    }

    #[test]
    fn fixed_setting_ignores_programs() {
        for (pages, is_direct) in [(PageCacheUse::Always, false), (PageCacheUse::Never, true)] {
            let manners = IoModePolicy::new(pages);
            for _ in 0..3 {
                let file = manners.opened(std::process::id(), true);
                assert_eq!(file.is_direct, is_direct);
                manners.asked(&file, true, 64 << 10);
            }
            let without = if is_direct { 3 } else { 0 };
            assert_eq!(manners.opened_without(), without);
            assert!(manners.programs.lock().expect("lock").is_empty());
        }
    }

    #[test]
    fn files_have_pages_where_mmap_needs_them() {
        for (pages, is_direct) in [
            (PageCacheUse::ForSmallReads, false),
            (PageCacheUse::Never, true),
        ] {
            let manners = IoModePolicy::new(pages);
            manners.maps_need_pages();
            for _ in 0..3 {
                let file = manners.opened(std::process::id(), true);
                assert_eq!(file.is_direct, is_direct);
                manners.asked(&file, true, 64 << 10);
            }
        }
    }

    #[test]
    fn program_is_identified_only_for_engine_reads() {
        let manners = by_habit();
        assert!(manners.opened(std::process::id(), true).program.is_some());
        assert!(manners.opened(std::process::id(), false).program.is_none());
        assert!(manners.opened(0, true).program.is_none());
    }

    #[test]
    fn remembered_programs_are_limited() {
        let manners = by_habit();
        for number in 0..PROGRAMS_MAX + 10 {
            let file = opened(&manners, &number.to_string());
            manners.asked(&file, true, 64 << 10);
        }
        let programs = manners.programs.lock().expect("lock");
        assert!(programs.len() <= PROGRAMS_MAX);
    }
}
