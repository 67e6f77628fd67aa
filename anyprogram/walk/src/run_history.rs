//! Decides whether the files of a numbered run are one title or many.
//!
//! `v-1.ts`, `v-2.ts` may be the chunks of a title, and `0001.mp4`, `0002.mp4` a thousand films.
//! Names do not tell them apart; access patterns do: a reader of a chunk starts the next one within
//! seconds, a viewer of a film starts an arbitrary other one, if any. A run counts as a title once
//! at least half of its started files followed their predecessor within [`SOON`]. A run with too
//! little history gets the verdict of the majority of the others.
//!
//! Invariant: at most [`RUNS_MAX`] runs are remembered, the most recently used.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A chunk lasts for two to ten seconds.
const SOON: Duration = Duration::from_secs(20);
/// Started files needed for a verdict: fewer could follow each other by chance.
const BEGUN_MIN: u32 = 4;
/// With a longer history, half of it is forgotten.
const BEGUN_MAX: u32 = 64;
/// Recently started files remembered for each run.
const LATELY_MAX: usize = 64;
/// Runs remembered.
const RUNS_MAX: usize = 4096;

/// History of runs.
#[derive(Debug, Default)]
pub struct RunHistory(Mutex<RunTable>);

#[derive(Debug, Default)]
struct RunTable {
    /// Keyed by the common part of a run's paths.
    runs: HashMap<PathBuf, RunUse>,
    /// Numbers of runs with each verdict: titles, and separate files.
    titles: usize,
    others: usize,
    uses: u64,
}

#[derive(Debug, Default)]
struct RunUse {
    begun: u32,
    followed: u32,
    /// Numbers of files, and when they were started.
    lately: HashMap<u64, Instant>,
    last_use: u64,
}

impl RunUse {
    /// Whether it is a title, if the history suffices.
    fn verdict(&self) -> Option<bool> {
        (self.begun >= BEGUN_MIN).then_some(2 * self.followed >= self.begun)
    }

    fn begins(&mut self, number: u64, now: Instant) {
        self.lately
            .retain(|_, at| now.saturating_duration_since(*at) <= SOON);
        // A repeated request for a file does not start it again.
        if self.lately.contains_key(&number) || self.lately.len() >= LATELY_MAX {
            return;
        }
        let before = number.checked_sub(1);
        let follows = before.is_some_and(|before| self.lately.contains_key(&before));
        self.lately.insert(number, now);
        if self.begun >= BEGUN_MAX {
            (self.begun, self.followed) = (self.begun / 2, self.followed / 2);
        }
        self.begun += 1;
        self.followed += u32::from(follows);
    }
}

impl RunHistory {
    /// Records that the file of that number is read from its start. Returns whether its run now
    /// counts as a title.
    pub fn begins(&self, run: &Path, number: u64, now: Instant) -> bool {
        let mut table = self.lock();
        table.make_room(run);
        table.uses += 1;
        let uses = table.uses;
        let known = table.runs.entry(run.to_path_buf()).or_default();
        let before = known.verdict();
        known.begins(number, now);
        known.last_use = uses;
        let after = known.verdict();
        table.count(before, after);
        table.is_title(run)
    }

    /// Whether a run counts as a title.
    pub fn is_title(&self, run: &Path) -> bool {
        self.lock().is_title(run)
    }

    fn lock(&self) -> MutexGuard<'_, RunTable> {
        // No code under the lock panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunTable {
    fn is_title(&self, run: &Path) -> bool {
        let known = self.runs.get(run).and_then(RunUse::verdict);
        known.unwrap_or(self.titles > self.others)
    }

    fn count(&mut self, before: Option<bool>, after: Option<bool>) {
        let is = |verdict: Option<bool>, wanted| usize::from(verdict == Some(wanted));
        self.titles = self.titles + is(after, true) - is(before, true);
        self.others = self.others + is(after, false) - is(before, false);
    }

    /// Evicts the least recently used run if the table is full.
    fn make_room(&mut self, run: &Path) {
        if self.runs.len() < RUNS_MAX || self.runs.contains_key(run) {
            return;
        }
        let oldest = self.runs.iter().min_by_key(|(_, known)| known.last_use);
        let Some(oldest) = oldest.map(|(run, _)| run.clone()) else {
            return;
        };
        if let Some(gone) = self.runs.remove(&oldest) {
            self.count(gone.verdict(), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct LibraryFixture {
        follows: RunHistory,
        now: Instant,
    }

    impl LibraryFixture {
        fn new() -> Self {
            Self {
                follows: RunHistory::default(),
                now: Instant::now(),
            }
        }

        /// Starts files at intervals of `seconds`; returns the verdict on their run after each.
        fn begin(&mut self, run: &str, numbers: &[u64], seconds: u64) -> Vec<bool> {
            let begin = |number: &u64| {
                self.now += Duration::from_secs(seconds);
                self.follows.begins(Path::new(run), *number, self.now)
            };
            numbers.iter().map(begin).collect()
        }
    }

    #[test]
    fn consecutive_files_are_a_title_from_the_fourth_on() {
        let mut library = LibraryFixture::new();
        let seen = library.begin("v", &[7, 8, 9, 10, 11], 6);
        assert_eq!(seen, [false, false, false, true, true]);
        assert!(library.follows.is_title(Path::new("v")));
    }

    #[test]
    fn numbered_films_are_not_a_title() {
        let mut library = LibraryFixture::new();
        let any: Vec<u64> = (0..500).map(|step| step * 7919 % 1000).collect();
        assert!(
            library
                .begin("film", &any, 1)
                .iter()
                .all(|is_title| !is_title)
        );
        // An hour later, the next film is not a chunk either.
        let hourly: Vec<u64> = (0..50).collect();
        assert!(
            library
                .begin("series", &hourly, 3600)
                .iter()
                .all(|is_title| !is_title)
        );
    }

    #[test]
    fn partial_requests_start_a_chunk_once() {
        let mut library = LibraryFixture::new();
        let seen = library.begin("v", &[1, 1, 1, 2, 2, 3, 3, 4], 1);
        assert_eq!(seen.iter().filter(|is_title| **is_title).count(), 1);
    }

    #[test]
    fn unknown_run_gets_the_verdict_of_the_majority() {
        let mut library = LibraryFixture::new();
        library.begin("a", &[1, 2, 3, 4], 6);
        assert_eq!(library.begin("b", &[1], 6), [true]);
        // Its own files show otherwise.
        assert_eq!(library.begin("b", &[50, 30, 80], 6), [true, true, false]);
        library.begin("c", &[9, 3, 70, 50], 6);
        assert_eq!(library.begin("d", &[1], 6), [false]);
    }

    #[test]
    fn several_viewers_do_not_change_the_verdict() {
        let mut library = LibraryFixture::new();
        let at_once = [1, 40, 2, 41, 80, 3, 42, 81, 4, 43, 82];
        assert_eq!(library.begin("v", &at_once, 2).last(), Some(&true));
    }

    #[test]
    fn most_recently_used_runs_are_remembered() {
        let follows = RunHistory::default();
        let now = Instant::now();
        for run in 0..RUNS_MAX + 10 {
            let run = PathBuf::from(format!("{run}"));
            (0..5).for_each(|number| {
                follows.begins(&run, number, now);
            });
        }
        let table = follows.lock();
        assert_eq!(
            (table.runs.len(), table.titles, table.others),
            (RUNS_MAX, RUNS_MAX, 0)
        );
    }
}
