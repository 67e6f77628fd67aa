//! Which large files are read past the kernel's page cache: by what their program did before.
//!
//! The one idea: a read of 32 KiB or more costs less without pages, and nothing lies in memory twice;
//! one of 4 KiB costs more, and `sendfile` and `mmap` need pages. The kernel asks for what it puts into
//! pages by itself, and for what a program reads past them in that program's name, so both are seen. A
//! program that begins with large reads has its next file opened without pages, and again with them
//! once it is seen that this was a mistake.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::readlink;

/// The kernel begins to read ahead of a program with less, if that reads much less at a time.
const BEGINS_LARGE_BYTES: u32 = 32 << 10;
/// Reads past the page cache that are smaller in the mean cost more than pages do.
const CALL_BYTES_MIN: u64 = 12 << 10;
/// Reads after which it is judged whether they are large.
const CALLS: u64 = 32;
/// Files that a program for which pages are better opens until that is tried once more.
const OPENS_UNTIL_TRIED: u32 = 64;
/// Programs that are remembered; beyond them all are forgotten.
const PROGRAMS_MAX: usize = 1024;

/// Which files are opened with pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// All.
    Always,
    /// All but large ones of programs that read much at a time.
    ForSmallReads,
    /// None.
    Never,
}

/// How one opening of a file is read.
#[derive(Debug)]
pub(crate) struct Manner {
    pub(crate) is_direct: bool,
    /// The program's file; `None` if it is not known, or makes no difference.
    program: Option<CString>,
    has_begun: AtomicBool,
    is_judged: AtomicBool,
    calls: AtomicU64,
    bytes: AtomicU64,
}

/// What all programs did.
#[derive(Debug)]
pub(crate) struct Manners {
    pages: Pages,
    maps_need_pages: AtomicBool,
    opened_without: AtomicU64,
    programs: Mutex<HashMap<CString, Known>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    ReadsMuch,
    NeedsPages { opens: u32 },
}

impl Manners {
    pub(crate) fn new(pages: Pages) -> Self {
        Self {
            pages,
            maps_need_pages: AtomicBool::new(false),
            opened_without: AtomicU64::new(0),
            programs: Mutex::default(),
        }
    }

    /// The kernel cannot map a file that is open without pages: none is opened so unless all are.
    pub(crate) fn maps_need_pages(&self) {
        self.maps_need_pages.store(true, Ordering::Relaxed);
    }

    /// A thread opens a file, of which the engine reads or not.
    pub(crate) fn opened(&self, thread: u32, by_engine: bool) -> Manner {
        let is_chosen = !self.maps_need_pages.load(Ordering::Relaxed);
        let is_asked = self.pages == Pages::ForSmallReads && by_engine && is_chosen;
        // A name and no file: nothing of the program's file system is waited for.
        let program = is_asked.then(|| readlink(format!("/proc/{thread}/exe"), Vec::new()).ok());
        self.opened_by(program.flatten())
    }

    fn opened_by(&self, program: Option<CString>) -> Manner {
        let reads_much = program.as_ref().is_some_and(|name| self.reads_much(name));
        let is_direct = reads_much || self.pages == Pages::Never;
        self.opened_without
            .fetch_add(is_direct.into(), Ordering::Relaxed);
        Manner {
            is_direct,
            program,
            has_begun: AtomicBool::new(false),
            is_judged: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Files that were opened without pages so far.
    pub(crate) fn opened_without(&self) -> u64 {
        self.opened_without.load(Ordering::Relaxed)
    }

    fn reads_much(&self, program: &CString) -> bool {
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        match programs.get_mut(program) {
            None => false,
            Some(Known::ReadsMuch) => true,
            Some(Known::NeedsPages { opens: 0 }) => {
                programs.remove(program);
                false
            }
            Some(Known::NeedsPages { opens }) => {
                *opens -= 1;
                false
            }
        }
    }

    /// The kernel asks for so much, for its pages or not.
    pub(crate) fn asked(&self, manner: &Manner, for_pages: bool, bytes: u32) {
        let Some(program) = &manner.program else {
            return;
        };
        let known = match (manner.is_direct, for_pages) {
            (false, true) => {
                let is_first = !manner.has_begun.swap(true, Ordering::Relaxed);
                (is_first && bytes >= BEGINS_LARGE_BYTES).then_some(Known::ReadsMuch)
            }
            (true, true) => Some(Known::needs_pages()),
            (true, false) => {
                let sum = manner.bytes.fetch_add(bytes.into(), Ordering::Relaxed);
                let calls = manner.calls.fetch_add(1, Ordering::Relaxed) + 1;
                let is_due = calls.is_multiple_of(CALLS);
                let are_small = (sum + u64::from(bytes)) / calls < CALL_BYTES_MIN;
                (is_due && are_small).then(Known::needs_pages)
            }
            // It asked the kernel for that itself (`O_DIRECT`).
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
            // What is known against it stands.
            Known::ReadsMuch => {
                programs.entry(program.clone()).or_insert(known);
            }
            Known::NeedsPages { .. } => {
                programs.insert(program.clone(), known);
            }
        }
    }
}

impl Known {
    fn needs_pages() -> Self {
        Self::NeedsPages {
            opens: OPENS_UNTIL_TRIED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(manners: &Manners, program: &str) -> Manner {
        manners.opened_by(Some(CString::new(program).expect("no zero in it")))
    }

    fn by_habit() -> Manners {
        Manners::new(Pages::ForSmallReads)
    }

    #[test]
    fn who_begins_with_large_reads_has_the_next_file_without_pages_and_others_have_not() {
        let manners = by_habit();
        let first = opened(&manners, "/bin/cp");
        assert!(!first.is_direct);
        manners.asked(&first, true, 64 << 10);
        assert!(opened(&manners, "/bin/cp").is_direct);
        let small = opened(&manners, "/bin/awk");
        manners.asked(&small, true, 16 << 10);
        // What the kernel reads ahead later says nothing of the program.
        manners.asked(&small, true, 64 << 10);
        assert!(!opened(&manners, "/bin/awk").is_direct);
    }

    #[test]
    fn who_reads_little_or_needs_pages_after_all_has_them_and_is_tried_again_much_later() {
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
    fn large_reads_go_on_past_the_page_cache_with_a_few_small_ones_among_them() {
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
    fn with_pages_always_or_never_programs_make_no_difference() {
        for (pages, is_direct) in [(Pages::Always, false), (Pages::Never, true)] {
            let manners = Manners::new(pages);
            for _ in 0..3 {
                let file = manners.opened(std::process::id(), true);
                assert_eq!(file.is_direct, is_direct);
                manners.asked(&file, true, 64 << 10);
            }
            let without = if is_direct { 3 } else { 0 };
            assert_eq!(manners.opened_without(), without);
            assert!(manners.programs.lock().expect("whole").is_empty());
        }
    }

    #[test]
    fn where_maps_need_pages_all_files_have_them_unless_none_is_to() {
        for (pages, is_direct) in [(Pages::ForSmallReads, false), (Pages::Never, true)] {
            let manners = Manners::new(pages);
            manners.maps_need_pages();
            for _ in 0..3 {
                let file = manners.opened(std::process::id(), true);
                assert_eq!(file.is_direct, is_direct);
                manners.asked(&file, true, 64 << 10);
            }
        }
    }

    #[test]
    fn a_program_is_known_by_its_file_and_only_if_the_engine_reads() {
        let manners = by_habit();
        assert!(manners.opened(std::process::id(), true).program.is_some());
        assert!(manners.opened(std::process::id(), false).program.is_none());
        assert!(manners.opened(0, true).program.is_none());
    }

    #[test]
    fn no_more_programs_are_remembered_than_may_be() {
        let manners = by_habit();
        for number in 0..PROGRAMS_MAX + 10 {
            let file = opened(&manners, &number.to_string());
            manners.asked(&file, true, 64 << 10);
        }
        let programs = manners.programs.lock().expect("whole");
        assert!(programs.len() <= PROGRAMS_MAX);
    }
}
