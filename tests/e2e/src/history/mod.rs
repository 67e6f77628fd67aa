//! The history of a file, against which replies are verified afterwards.
//!
//! Each call that changes a file is one step from a *state* to the next, recorded with the times
//! before and after it. A reply is correct if its bytes, length and tag belong to a state that
//! existed between the start of the request, minus the time for which a look-up stays valid, and
//! the end of the reply.

mod run;
mod window;

pub use run::{BELIEVED, Run, Seen, histories, run};
pub use window::{Window, is_of_any};

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use headlong_testkit::{Seed, pattern};

/// Longest write of one call.
const WRITE_BYTES_MAX: u64 = 64 << 10;
/// Longest title.
pub const SIZE_MAX: u64 = 300_000;

/// Content of a file between two calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// File number; a file that replaces another one has another number.
    pub file: u64,
    /// Bytes.
    pub size: u64,
    /// Modification time, as the file system reports it.
    pub mtime_ns: i128,
    /// Ends of runs of bytes, and the pattern of each run.
    stretches: Vec<(u64, u64)>,
}

impl Content {
    #[cfg(test)]
    fn of(file: u64, mtime_ns: i128, stretches: &[(u64, u64)]) -> Self {
        Self {
            file,
            size: stretches.last().map_or(0, |(end, _)| *end),
            mtime_ns,
            stretches: stretches.to_vec(),
        }
    }

    /// Its bytes in a range, up to its end.
    pub fn bytes(&self, range: Range<u64>) -> Vec<u8> {
        let mut found = Vec::new();
        let mut at = range.start;
        for &(end, number) in &self.stretches {
            let end = end.min(range.end);
            if at < end {
                found.extend(pattern::bytes(number, at..end));
                at = end;
            }
        }
        found
    }

    /// Whether all these bytes are its own; most other contents differ in the first bytes.
    fn has(&self, offset: u64, bytes: &[u8]) -> bool {
        let mut at = 0;
        for &(end, number) in &self.stretches {
            let length = (end.saturating_sub(offset) as usize).min(bytes.len());
            let Some(part) = bytes.get(at..length).filter(|part| !part.is_empty()) else {
                continue;
            };
            let place = offset + at as u64;
            let few = &part[..part.len().min(16)];
            let is_it = |bytes| pattern::verify(number, place, bytes).is_ok();
            if !(is_it(few) && is_it(part)) {
                return false;
            }
            at = length;
        }
        at == bytes.len()
    }

    fn written(&self, range: &Range<u64>, number: u64) -> Vec<(u64, u64)> {
        let mut stretches = self.truncated(range.start);
        stretches.push((range.end, number));
        stretches.extend(self.stretches.iter().filter(|(end, _)| *end > range.end));
        stretches
    }

    fn truncated(&self, size: u64) -> Vec<(u64, u64)> {
        let mut start = 0;
        let mut kept = Vec::new();
        for &(end, number) in &self.stretches {
            if start < size {
                kept.push((end.min(size), number));
            }
            start = end;
        }
        kept
    }
}

/// A state, and its lifetime: from before the call that created it until after the call that ended
/// it.
#[derive(Debug, Clone)]
pub struct State {
    /// Time before the first call.
    pub from: Instant,
    /// Time after the second call, if there was one.
    pub until: Option<Instant>,
    /// `None`: the file did not exist.
    pub content: Option<Content>,
}

impl State {
    fn was_there(&self, since: Instant, until: Instant) -> bool {
        self.from <= until && self.until.is_none_or(|end| end >= since)
    }
}

/// One title with all its states. A writer holds the lock during a change, so that a reader that
/// verifies a reply sees all calls that began before.
#[derive(Debug)]
pub struct History {
    path: PathBuf,
    /// Whether files are overwritten in place; otherwise only names are created and removed.
    is_in_place: bool,
    states: Mutex<Vec<State>>,
}

impl History {
    /// For a file that does not exist yet; says whether it will be written in place.
    pub fn new(path: PathBuf, is_in_place: bool) -> Self {
        let absent = State {
            from: Instant::now(),
            until: None,
            content: None,
        };
        Self {
            path,
            is_in_place,
            states: Mutex::new(vec![absent]),
        }
    }

    fn states(&self) -> MutexGuard<'_, Vec<State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All states so far.
    pub fn all(&self) -> Vec<State> {
        self.states().clone()
    }

    /// Number of the current file.
    pub fn file(&self) -> Option<u64> {
        let states = self.states();
        Some(states.last()?.content.as_ref()?.file)
    }

    /// Changes it in a random way.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn change(&self, seed: &mut Seed) -> io::Result<()> {
        let now = self.states().last().and_then(|last| last.content.clone());
        let Some(now) = now else {
            return match self.is_in_place && seed.below(2) > 0 {
                false => self.replace(seed),
                true => self.create(seed),
            };
        };
        let way = match (seed.below(10), self.is_in_place) {
            (0..8, false) => 0,
            (way, _) => way,
        };
        match way {
            0..3 => self.replace(seed),
            3..6 => self.overwrite(seed, &now, 0..now.size),
            6 => {
                // Truncate to a random length and write on from there.
                let size = seed.below(now.size + 1);
                self.step(|| {
                    self.open()?.set_len(size)?;
                    self.content(now.file, now.truncated(size))
                })?;
                let size = seed_size(seed);
                self.append(seed, size)
            }
            7 => {
                let size = now.size + seed.below(WRITE_BYTES_MAX);
                self.append(seed, size)
            }
            8 if self.is_in_place => {
                let start = seed.below(now.size + 1);
                let end = (start + seed.below(WRITE_BYTES_MAX)).min(now.size);
                self.overwrite(seed, &now, start..end)
            }
            _ => self.step(|| fs::remove_file(&self.path).map(|()| None)),
        }
    }

    /// Replaces it by another file, as `mv` does.
    pub fn replace(&self, seed: &mut Seed) -> io::Result<()> {
        let beside = self.path.with_extension("new");
        let (number, size) = (seed.next_u64(), seed_size(seed));
        fs::write(&beside, pattern::bytes(number, 0..size))?;
        self.step(|| {
            fs::rename(&beside, &self.path)?;
            self.content(number, vec![(size, number)])
        })
    }

    fn create(&self, seed: &mut Seed) -> io::Result<()> {
        let number = seed.next_u64();
        self.step(|| {
            File::create_new(&self.path)?;
            self.content(number, Vec::new())
        })?;
        let size = seed_size(seed);
        self.append(seed, size)
    }

    /// Writes other bytes over a range, in one call or several.
    fn overwrite(&self, seed: &mut Seed, now: &Content, range: Range<u64>) -> io::Result<()> {
        let number = seed.next_u64();
        let file = self.open()?;
        let mut now = now.clone();
        let mut at = range.start;
        while at < range.end {
            let end = (at + 1 + seed.below(WRITE_BYTES_MAX)).min(range.end);
            self.step(|| {
                file.write_all_at(&pattern::bytes(number, at..end), at)?;
                let found = self.content(now.file, now.written(&(at..end), number))?;
                now = found.clone().expect("the file exists");
                Ok(found)
            })?;
            at = end;
        }
        Ok(())
    }

    /// Appends until it has a length.
    fn append(&self, seed: &mut Seed, size: u64) -> io::Result<()> {
        let now = self.states().last().and_then(|last| last.content.clone());
        match now {
            Some(now) if now.size < size.min(SIZE_MAX) => {
                let range = now.size..size.min(SIZE_MAX);
                self.overwrite(seed, &now, range)
            }
            _ => Ok(()),
        }
    }

    fn open(&self) -> io::Result<File> {
        File::options().write(true).open(&self.path)
    }

    fn content(&self, file: u64, stretches: Vec<(u64, u64)>) -> io::Result<Option<Content>> {
        let found = fs::metadata(&self.path)?;
        let size = stretches.last().map_or(0, |(end, _)| *end);
        assert_eq!(found.len(), size, "there is no other writer");
        Ok(Some(Content {
            file,
            size,
            mtime_ns: i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec()),
            stretches,
        }))
    }

    fn step(&self, call: impl FnOnce() -> io::Result<Option<Content>>) -> io::Result<()> {
        let mut states = self.states();
        let from = Instant::now();
        let content = call()?;
        if let Some(last) = states.last_mut() {
            last.until = Some(Instant::now());
        }
        states.push(State {
            from,
            until: None,
            content,
        });
        Ok(())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn seed_size(seed: &mut Seed) -> u64 {
    // Few different lengths: a difference in length would be too easy to detect.
    [4096, 70_000, 131_072, SIZE_MAX][seed.below(4) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(stretches: &[(u64, u64)]) -> Content {
        Content::of(1, 7, stretches)
    }

    #[test]
    fn overwritten_or_truncated_content_differs() {
        let first = content(&[(1000, 1)]);
        let second = content(&first.written(&(300..500), 2));
        assert_eq!(second.stretches, [(300, 1), (500, 2), (1000, 1)]);
        let third = content(&second.written(&(400..1200), 3));
        assert_eq!(third.stretches, [(300, 1), (400, 2), (1200, 3)]);
        assert_eq!(
            content(&third.truncated(350)).stretches,
            [(300, 1), (350, 2)]
        );
        let bytes = third.bytes(250..450);
        pattern::verify(1, 250, &bytes[..50]).expect("pattern 1");
        pattern::verify(2, 300, &bytes[50..150]).expect("pattern 2");
        pattern::verify(3, 400, &bytes[150..]).expect("pattern 3");
    }
}
