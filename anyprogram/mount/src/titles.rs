//! Titles in chunk files: which files of a folder are read as one.
//!
//! A program's file is read at once as a single file; meanwhile another thread looks for its title,
//! since that takes many small reads. What follows the file is then read as part of the title, and
//! so are its other files when programs open them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headlong_library::FileIdentity;

use crate::stream::{Stream, Title};

/// Files of all known titles; beyond them the least recently used title is forgotten.
const FILES_MAX: usize = 131_072;
/// Runs checked recently.
const LOOKS_MAX: usize = 4096;
/// Shortest interval between checks of a run: files may be added, and many programs may start it at
/// once.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Known titles.
#[derive(Debug, Default)]
pub(crate) struct Titles(Mutex<TitleTable>);

#[derive(Debug, Default)]
struct TitleTable {
    titles: HashMap<u64, KnownTitle>,
    /// Title and part of each file, by device and inode.
    by_file: HashMap<(u64, u64), (u64, u32)>,
    /// When each run was last checked.
    looks: HashMap<PathBuf, Instant>,
    uses: u64,
}

#[derive(Debug)]
struct KnownTitle {
    title: Arc<Title>,
    /// Files that belong to no later title.
    files: usize,
    last_use: u64,
}

impl Titles {
    /// The version of a file as a part of its title, if known.
    pub(crate) fn find(&self, identity: &FileIdentity) -> Option<Stream> {
        let mut table = self.lock();
        let (title, part) = *table.by_file.get(&(identity.dev, identity.ino))?;
        table.uses += 1;
        let now = table.uses;
        let known = table.titles.get_mut(&title)?;
        known.last_use = now;
        let stream = Stream::of(&known.title, part)?;
        (stream.identity == *identity).then_some(stream)
    }

    /// Whether a run is due for a check. The caller then performs it.
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

    /// These files are read as one title from now on.
    pub(crate) fn add(&self, title: &Arc<Title>) {
        let mut table = self.lock();
        table.uses += 1;
        let known = KnownTitle {
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
        // Notifying the disk needs no lock.
        drop(gone);
    }

    /// The number of known titles.
    pub(crate) fn count(&self) -> usize {
        self.lock().titles.len()
    }

    fn lock(&self) -> MutexGuard<'_, TitleTable> {
        // No code under the lock panics half-way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TitleTable {
    /// One of a title's files moved to another title: returns the title if that was its last.
    fn without_file_of(&mut self, title: u64) -> Option<KnownTitle> {
        let known = self.titles.get_mut(&title)?;
        known.files = known.files.saturating_sub(1);
        match known.files {
            0 => self.titles.remove(&title),
            _ => None,
        }
    }

    /// The least recently used title, if there are too many files.
    fn without_oldest(&mut self) -> Option<KnownTitle> {
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
    fn run_checks_are_limited_in_rate_and_number() {
        let titles = Titles::default();
        let run = |number: usize| PathBuf::from(format!("v{number}-/.ts"));
        assert!(titles.is_due(&run(0)));
        assert!(!titles.is_due(&run(0)), "already being checked");
        assert!((1..LOOKS_MAX).all(|number| titles.is_due(&run(number))));
        assert!(!titles.is_due(&run(LOOKS_MAX)));
    }
}
