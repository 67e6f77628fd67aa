//! A store that outlives its process: whose it is, whether it is whole, and when that is written.
//!
//! Invariants: `store.json` says clean only while the files beside it are one consistent disk; it
//! says otherwise before the first change after that. Every file but the literals is replaced as a
//! whole. Only one process has a store.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::extents::Extents;
use super::table;
use crate::error::Error;

const FORMAT: u32 = 1;
const MANIFEST: &str = "store.json";
const TABLE: &str = "extents.bin";
const LOCK: &str = "lock";
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);
/// Between two tries.
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// What `store.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    format: u32,
    /// The drive it was made for, by its preset's name or its file.
    pub drive: String,
    /// Size of the disk.
    pub capacity_bytes: u64,
    /// The file system on it; `None` until one was made.
    pub file_system: Option<String>,
    /// Whether the store was closed, or synced and not changed since.
    pub is_clean: bool,
    /// Whatever its user wanted to remember, such as what the disk was filled with.
    pub label: String,
}

#[derive(Debug)]
pub(super) struct Keeper {
    directory: PathBuf,
    manifest: Mutex<Manifest>,
    is_clean: AtomicBool,
    _lock: File,
}

impl Keeper {
    /// Opens the store in `directory`, or makes an empty one if there is none, or if `force_new`.
    /// `Some` extents were there before.
    pub(super) fn open(
        directory: &Path,
        drive: &str,
        capacity_bytes: u64,
        force_new: bool,
    ) -> Result<(Self, Option<Extents>), Error> {
        let fail = |problem: String| Error::store(directory, problem);
        let io = |error: io::Error| fail(error.to_string());
        fs::create_dir_all(directory).map_err(io)?;
        let lock = lock(directory)?;
        if force_new {
            erase(directory).map_err(io)?;
        }
        let old = Manifest::read(directory)?;
        let (manifest, extents) = match old {
            Some(manifest) => {
                manifest.check(directory, capacity_bytes)?;
                let bytes = fs::read(directory.join(TABLE)).map_err(io)?;
                let extents = table::decode(&bytes, capacity_bytes).map_err(|problem| {
                    fail(format!("{TABLE}: {problem}; start anew with --force-new"))
                })?;
                (manifest, Some(extents))
            }
            None => {
                check_empty(directory)?;
                let manifest = Manifest {
                    format: FORMAT,
                    drive: drive.to_owned(),
                    capacity_bytes,
                    file_system: None,
                    is_clean: false,
                    label: String::new(),
                };
                manifest.write(directory).map_err(io)?;
                (manifest, None)
            }
        };
        let keeper = Self {
            directory: directory.to_owned(),
            is_clean: AtomicBool::new(manifest.is_clean),
            manifest: Mutex::new(manifest),
            _lock: lock,
        };
        Ok((keeper, extents))
    }

    pub(super) fn manifest(&self) -> Manifest {
        self.lock_manifest().clone()
    }

    fn lock_manifest(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called before every change, under the lock of what changes.
    pub(super) fn soil(&self) -> io::Result<()> {
        if !self.is_clean.load(Ordering::Acquire) {
            return Ok(());
        }
        self.change(|manifest| manifest.is_clean = false)?;
        self.is_clean.store(false, Ordering::Release);
        Ok(())
    }

    /// Changes the manifest, on the medium too.
    pub(super) fn change(&self, change: impl FnOnce(&mut Manifest)) -> io::Result<()> {
        let mut manifest = self.lock_manifest();
        let mut next = manifest.clone();
        change(&mut next);
        next.write(&self.directory)?;
        *manifest = next;
        Ok(())
    }

    /// Writes the table and says clean; the literals are on the medium already, and nothing changes
    /// meanwhile.
    pub(super) fn save(&self, extents: &Extents) -> io::Result<()> {
        replace(&self.directory, TABLE, &table::encode(extents))?;
        self.change(|manifest| manifest.is_clean = true)?;
        self.is_clean.store(true, Ordering::Release);
        Ok(())
    }
}

impl Manifest {
    /// What the directory's says, if there is one.
    pub fn read(directory: &Path) -> Result<Option<Self>, Error> {
        let path = directory.join(MANIFEST);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| Error::store(directory, error.to_string()))?,
        };
        let manifest = serde_json::from_slice(&text).map_err(|error| {
            let problem = format!("{MANIFEST}: {error}; start anew with --force-new");
            Error::store(directory, problem)
        })?;
        Ok(Some(manifest))
    }

    fn check(&self, directory: &Path, capacity_bytes: u64) -> Result<(), Error> {
        let problem = if self.format != FORMAT {
            format!(
                "it is of format {}, and this program knows {FORMAT}; start anew with --force-new",
                self.format
            )
        } else if self.capacity_bytes != capacity_bytes {
            format!(
                "it is a disk of {} bytes and not of {capacity_bytes}; give --size {}, another \
                 directory, or --force-new",
                self.capacity_bytes, self.capacity_bytes
            )
        } else if !self.is_clean {
            "it was not closed, so its content cannot be trusted; start anew with --force-new, and \
             fill it again"
                .to_owned()
        } else {
            return Ok(());
        };
        Err(Error::store(directory, problem))
    }

    fn write(&self, directory: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        replace(directory, MANIFEST, &text)
    }
}

/// Writes a file so that it is there as a whole or as it was.
fn replace(directory: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let next = directory.join(format!("{name}.next"));
    let mut file = File::create(&next)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&next, directory.join(name))?;
    File::open(directory)?.sync_all()
}

/// Tries for a moment: a process that a program starts holds the files of that program until it has
/// become another, and with them the lock of a store that was closed meanwhile.
fn lock(directory: &Path) -> Result<File, Error> {
    let path = directory.join(LOCK);
    let file = File::create(&path).map_err(|error| Error::store(directory, error.to_string()))?;
    let until = Instant::now() + LOCK_TIMEOUT;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < until => sleep(LOCK_INTERVAL),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let problem = "another emulated disk has it open; stop that one first".to_owned();
                return Err(Error::store(directory, problem));
            }
            Err(error) => return Err(Error::store(directory, error.to_string())),
        }
    }
}

fn is_ours(name: &str) -> bool {
    [MANIFEST, TABLE].contains(&name) || name.starts_with("literals-") || name.ends_with(".next")
}

/// Removes a store's files and nothing else.
fn erase(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_ours) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// A new store is made in an empty directory: nobody's files get mixed up with it.
fn check_empty(directory: &Path) -> Result<(), Error> {
    let entries =
        fs::read_dir(directory).map_err(|error| Error::store(directory, error.to_string()))?;
    let other = entries.flatten().find(|entry| entry.file_name() != LOCK);
    match other {
        None => Ok(()),
        Some(entry) => {
            let name = entry.file_name().to_string_lossy().into_owned();
            let problem = format!("it holds `{name}` but no store; give an empty or new directory");
            Err(Error::store(directory, problem))
        }
    }
}
