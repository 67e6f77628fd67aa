//! Persistent store: its manifest, its lock, and its consistency.
//!
//! Invariants: `store.json` says clean only while the files beside it are one consistent disk; it
//! changes before the first change after that. Every file but the literals is replaced atomically.
//! Only one process has a store open.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::extents::ExtentMap;
use super::table;
use crate::error::Error;

const FORMAT: u32 = 1;
const MANIFEST: &str = "store.json";
const TABLE: &str = "extents.bin";
const LOCK: &str = "lock";
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);
/// Interval of retries.
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// Content of `store.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreManifest {
    format: u32,
    /// The drive it was made for: name of a preset or of a file.
    pub drive: String,
    /// Size of the disk.
    pub capacity_bytes: u64,
    /// The file system on it; `None` until one has been made.
    pub file_system: Option<String>,
    /// Whether the store was closed, or synced and not changed since.
    pub is_clean: bool,
    /// The client's label, for example what the disk was filled with.
    pub label: String,
}

#[derive(Debug)]
pub(super) struct PersistentStore {
    directory: PathBuf,
    manifest: Mutex<StoreManifest>,
    is_clean: AtomicBool,
    _lock: File,
}

impl PersistentStore {
    /// Opens the store in `directory`; creates an empty one if there is none, or with `force_new`.
    /// Returns `Some` extents of an existing store.
    pub(super) fn open(
        directory: &Path,
        drive: &str,
        capacity_bytes: u64,
        force_new: bool,
    ) -> Result<(Self, Option<ExtentMap>), Error> {
        let fail = |problem: String| Error::store(directory, problem);
        let io = |error: io::Error| fail(error.to_string());
        fs::create_dir_all(directory).map_err(io)?;
        let lock = lock(directory)?;
        if force_new {
            erase(directory).map_err(io)?;
        }
        let old = StoreManifest::read(directory)?;
        let (manifest, extents) = match old {
            Some(manifest) => {
                manifest.check(directory, capacity_bytes)?;
                let bytes = fs::read(directory.join(TABLE)).map_err(io)?;
                let extents = table::decode(&bytes, capacity_bytes).map_err(|problem| {
                    fail(format!(
                        "{TABLE}: {problem}; create a new store with --force-new"
                    ))
                })?;
                (manifest, Some(extents))
            }
            None => {
                check_empty(directory)?;
                let manifest = StoreManifest {
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

    pub(super) fn manifest(&self) -> StoreManifest {
        self.lock_manifest().clone()
    }

    fn lock_manifest(&self) -> MutexGuard<'_, StoreManifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the store unclean. Call it before every change, under the lock of the data.
    pub(super) fn soil(&self) -> io::Result<()> {
        if !self.is_clean.load(Ordering::Acquire) {
            return Ok(());
        }
        self.change(|manifest| manifest.is_clean = false)?;
        self.is_clean.store(false, Ordering::Release);
        Ok(())
    }

    /// Changes the manifest, durably.
    pub(super) fn change(&self, change: impl FnOnce(&mut StoreManifest)) -> io::Result<()> {
        let mut manifest = self.lock_manifest();
        let mut next = manifest.clone();
        change(&mut next);
        next.write(&self.directory)?;
        *manifest = next;
        Ok(())
    }

    /// Writes the table and marks the store clean; the literals must be durable, and nothing may
    /// change meanwhile.
    pub(super) fn save(&self, extents: &ExtentMap) -> io::Result<()> {
        replace(&self.directory, TABLE, &table::encode(extents))?;
        self.change(|manifest| manifest.is_clean = true)?;
        self.is_clean.store(true, Ordering::Release);
        Ok(())
    }
}

impl StoreManifest {
    /// Reads the manifest of a directory, if there is one.
    pub fn read(directory: &Path) -> Result<Option<Self>, Error> {
        let path = directory.join(MANIFEST);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| Error::store(directory, error.to_string()))?,
        };
        let manifest = serde_json::from_slice(&text).map_err(|error| {
            let problem = format!("{MANIFEST}: {error}; create a new store with --force-new");
            Error::store(directory, problem)
        })?;
        Ok(Some(manifest))
    }

    fn check(&self, directory: &Path, capacity_bytes: u64) -> Result<(), Error> {
        let problem = if self.format != FORMAT {
            format!(
                "its format is {}, supported is {FORMAT}; create a new store with --force-new",
                self.format
            )
        } else if self.capacity_bytes != capacity_bytes {
            format!(
                "it is a disk of {} bytes, not of {capacity_bytes}; give --size {}, another \
                 directory, or --force-new",
                self.capacity_bytes, self.capacity_bytes
            )
        } else if !self.is_clean {
            "it was not closed, so its content cannot be trusted; create a new store with \
             --force-new, and fill it again"
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

/// Replaces a file atomically and durably.
fn replace(directory: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let next = directory.join(format!("{name}.next"));
    let mut file = File::create(&next)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&next, directory.join(name))?;
    File::open(directory)?.sync_all()
}

/// Retries for a moment: a process being spawned by a program inherits its files until it calls
/// exec, and with them the lock of a store that was closed meanwhile.
fn lock(directory: &Path) -> Result<File, Error> {
    let path = directory.join(LOCK);
    let file = File::create(&path).map_err(|error| Error::store(directory, error.to_string()))?;
    let until = Instant::now() + LOCK_TIMEOUT;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < until => sleep(LOCK_INTERVAL),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let problem = "another emulated disk has it open; stop that disk first".to_owned();
                return Err(Error::store(directory, problem));
            }
            Err(error) => return Err(Error::store(directory, error.to_string())),
        }
    }
}

fn is_ours(name: &str) -> bool {
    [MANIFEST, TABLE].contains(&name) || name.starts_with("literals-") || name.ends_with(".next")
}

/// Removes only the files of a store.
fn erase(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_ours) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// A new store needs an empty directory, so that it does not mix with other files.
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
