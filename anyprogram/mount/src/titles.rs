//! Titles in chunk files: which files of a folder are read as one.
//!
//! The one idea: the file that a program reads is read at once, for itself; which title it is a part of
//! is looked at meanwhile, by another thread, as that takes many small reads. What comes after the file
//! is then read as the title's, and so are its other files when programs open them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headlong_library::Identity;

use crate::stream::{Stream, Title};

/// Files of all titles that are known; of more, the title is forgotten that was not asked for the
/// longest.
const FILES_MAX: usize = 131_072;
/// Runs that were looked at a moment ago.
const LOOKS_MAX: usize = 4096;
/// A run is not looked at more often: files may be added to it, and many may begin it at once.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Those that were met.
#[derive(Debug, Default)]
pub(crate) struct Titles(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    titles: HashMap<u64, Known>,
    /// Which part of which title a file is, by device and inode.
    by_file: HashMap<(u64, u64), (u64, u32)>,
    /// When runs were looked at last.
    looks: HashMap<PathBuf, Instant>,
    uses: u64,
}

#[derive(Debug)]
struct Known {
    title: Arc<Title>,
    /// Files that are in no later title.
    files: usize,
    last_use: u64,
}

impl Titles {
    /// The version of a file as a part of its title, if that is known.
    pub(crate) fn find(&self, identity: &Identity) -> Option<Stream> {
        let mut table = self.lock();
        let (title, part) = *table.by_file.get(&(identity.dev, identity.ino))?;
        table.uses += 1;
        let now = table.uses;
        let known = table.titles.get_mut(&title)?;
        known.last_use = now;
        let stream = Stream::of(&known.title, part)?;
        (stream.identity == *identity).then_some(stream)
    }

    /// Whether a run is to be looked at now. To be asked only by who then does.
    pub(crate) fn is_due(&self, run: &Path) -> bool {
        let now = Instant::now();
        let mut table = self.lock();
        let is_fresh = |at: &Instant| now.duration_since(*at) < LOOK_INTERVAL;
        if table.looks.get(run).is_some_and(is_fresh) {
            return false;
        }
        if table.looks.len() >= LOOKS_MAX {
            table.looks.retain(|_, at| is_fresh(at));
        }
        let has_room = table.looks.len() < LOOKS_MAX;
        if has_room {
            table.looks.insert(run.to_path_buf(), now);
        }
        has_room
    }

    /// These files are read as one from now on.
    pub(crate) fn add(&self, title: &Arc<Title>) {
        let mut table = self.lock();
        table.uses += 1;
        let known = Known {
            title: Arc::clone(title),
            files: title.parts().len(),
            last_use: table.uses,
        };
        let id = title.id.0;
        table.titles.insert(id, known);
        let mut gone = Vec::new();
        for (part, file) in (0..).zip(title.parts()) {
            let file = (file.identity.dev, file.identity.ino);
            let before = table.by_file.insert(file, (id, part));
            gone.extend(before.and_then(|(title, _)| table.without_file_of(title)));
        }
        while let Some(oldest) = table.without_oldest() {
            gone.push(oldest);
        }
        drop(table);
        // Telling the disk needs no lock of ours.
        drop(gone);
    }

    /// How many are known.
    pub(crate) fn count(&self) -> usize {
        self.lock().titles.len()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing under the lock panics half-way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// One of a title's files is in another one: the title, if that was its last.
    fn without_file_of(&mut self, title: u64) -> Option<Known> {
        let known = self.titles.get_mut(&title)?;
        known.files = known.files.saturating_sub(1);
        match known.files {
            0 => self.titles.remove(&title),
            _ => None,
        }
    }

    /// The title that was not asked for the longest, if there are too many files.
    fn without_oldest(&mut self) -> Option<Known> {
        if self.by_file.len() <= FILES_MAX || self.titles.len() < 2 {
            return None;
        }
        let by_use = self.titles.iter().min_by_key(|(_, known)| known.last_use);
        let oldest = *by_use?.0;
        self.by_file.retain(|_, (title, _)| *title != oldest);
        self.titles.remove(&oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_looked_at_once_in_a_while_and_not_more_than_so_many_of_them() {
        let titles = Titles::default();
        let run = |number: usize| PathBuf::from(format!("v{number}-/.ts"));
        assert!(titles.is_due(&run(0)));
        assert!(!titles.is_due(&run(0)), "somebody else looks at it");
        assert!((1..LOOKS_MAX).all(|number| titles.is_due(&run(number))));
        assert!(!titles.is_due(&run(LOOKS_MAX)));
    }
}
