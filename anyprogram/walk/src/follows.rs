//! Whether the files of a numbered run are one title, or many.
//!
//! The one idea: `v-1.ts`, `v-2.ts` may be the chunks of a title, and `0001.mp4`, `0002.mp4` a thousand
//! films. Their names do not tell; what programs do does. Who reads a chunk begins the next one
//! within seconds, who watches a film begins any other, if any. So a run is taken for a title once
//! half of those of its files that were begun came soon after the one before. Of a run of which too
//! little is known, most of the others decide.
//!
//! Invariant: as many runs are remembered as may be, the latest.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A chunk lasts for two to ten seconds.
const SOON: Duration = Duration::from_secs(20);
/// So many files that were begun say what a run is: two that follow another may be chance.
const BEGUN_MIN: u32 = 4;
/// Of a longer past the half is forgotten.
const BEGUN_MAX: u32 = 64;
/// Files of a run that were begun lately.
const LATELY_MAX: usize = 64;
/// Runs that are remembered.
const RUNS_MAX: usize = 4096;

/// What is known of runs.
#[derive(Debug, Default)]
pub struct Follows(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// By what the paths of a run have in common.
    runs: HashMap<PathBuf, Run>,
    /// Of those, which are titles, and which are not.
    titles: usize,
    others: usize,
    uses: u64,
}

#[derive(Debug, Default)]
struct Run {
    begun: u32,
    followed: u32,
    /// Numbers of files, and when they were begun.
    lately: HashMap<u64, Instant>,
    last_use: u64,
}

impl Run {
    /// Whether it is a title, if enough is known.
    fn verdict(&self) -> Option<bool> {
        (self.begun >= BEGUN_MIN).then_some(2 * self.followed >= self.begun)
    }

    fn begins(&mut self, number: u64, now: Instant) {
        self.lately
            .retain(|_, at| now.saturating_duration_since(*at) <= SOON);
        // Who asks for it in parts, or after another, begins nothing.
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

impl Follows {
    /// The file of that number is read from its start. Whether its run is taken for a title now.
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

    /// Whether a run is taken for a title.
    pub fn is_title(&self, run: &Path) -> bool {
        self.lock().is_title(run)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing under the lock panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn is_title(&self, run: &Path) -> bool {
        let known = self.runs.get(run).and_then(Run::verdict);
        known.unwrap_or(self.titles > self.others)
    }

    fn count(&mut self, before: Option<bool>, after: Option<bool>) {
        let is = |verdict: Option<bool>, wanted| usize::from(verdict == Some(wanted));
        self.titles = self.titles + is(after, true) - is(before, true);
        self.others = self.others + is(after, false) - is(before, false);
    }

    /// Forgets the run that was begun the longest ago, if another one has no room.
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

    struct Library {
        follows: Follows,
        now: Instant,
    }

    impl Library {
        fn new() -> Self {
            Self {
                follows: Follows::default(),
                now: Instant::now(),
            }
        }

        /// Files are begun, so many seconds one after the other; what their run is taken for each time.
        fn begin(&mut self, run: &str, numbers: &[u64], seconds: u64) -> Vec<bool> {
            let begin = |number: &u64| {
                self.now += Duration::from_secs(seconds);
                self.follows.begins(Path::new(run), *number, self.now)
            };
            numbers.iter().map(begin).collect()
        }
    }

    #[test]
    fn files_that_are_read_one_after_the_other_are_a_title_from_the_fourth_on() {
        let mut library = Library::new();
        let seen = library.begin("v", &[7, 8, 9, 10, 11], 6);
        assert_eq!(seen, [false, false, false, true, true]);
        assert!(library.follows.is_title(Path::new("v")));
    }

    #[test]
    fn films_with_numbers_are_none_however_many_are_watched() {
        let mut library = Library::new();
        let any: Vec<u64> = (0..500).map(|step| step * 7919 % 1000).collect();
        assert!(
            library
                .begin("film", &any, 1)
                .iter()
                .all(|is_title| !is_title)
        );
        // Nor is the next film a chunk, an hour later.
        let hourly: Vec<u64> = (0..50).collect();
        assert!(
            library
                .begin("series", &hourly, 3600)
                .iter()
                .all(|is_title| !is_title)
        );
    }

    #[test]
    fn who_asks_for_a_chunk_in_parts_begins_it_once() {
        let mut library = Library::new();
        let seen = library.begin("v", &[1, 1, 1, 2, 2, 3, 3, 4], 1);
        assert_eq!(seen.iter().filter(|is_title| **is_title).count(), 1);
    }

    #[test]
    fn a_run_that_is_not_known_yet_is_what_most_are() {
        let mut library = Library::new();
        library.begin("a", &[1, 2, 3, 4], 6);
        assert_eq!(library.begin("b", &[1], 6), [true]);
        // Its own files tell otherwise.
        assert_eq!(library.begin("b", &[50, 30, 80], 6), [true, true, false]);
        library.begin("c", &[9, 3, 70, 50], 6);
        assert_eq!(library.begin("d", &[1], 6), [false]);
    }

    #[test]
    fn several_viewers_in_one_title_are_no_reason_to_doubt_it() {
        let mut library = Library::new();
        let at_once = [1, 40, 2, 41, 80, 3, 42, 81, 4, 43, 82];
        assert_eq!(library.begin("v", &at_once, 2).last(), Some(&true));
    }

    #[test]
    fn the_latest_runs_are_remembered() {
        let follows = Follows::default();
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
