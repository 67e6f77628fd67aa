//! Store of filled drives: a catalogue takes minutes to write and does not change.
//!
//! A drive's folder has a label, written last, that describes its content. A folder without a label
//! was left by an interrupted fill, and is filled again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::RigError;
use headlong_workload::TitleForm;

use crate::experiment::{ExperimentDrive, FileSet};

const LABEL: &str = "label.json";

/// Description of a drive's content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StoreLabel {
    /// Preset of the drive; empty if the experiment gives its size, which is then all that the
    /// content depends on.
    drive: String,
    size_bytes: Option<u64>,
    catalogue: String,
    /// Hash of the specification, if it is a file: it may be edited.
    catalogue_hash: u64,
    set: Vec<(String, String)>,
    chunk_bytes: Option<u64>,
    /// Omitted if false, for compatibility with labels written before this option existed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    segment_files: bool,
    file_system: String,
}

impl StoreLabel {
    fn of(drive: &str, size_bytes: Option<u64>, files: &FileSet) -> Self {
        let specification = fs::read_to_string(&files.catalogue).unwrap_or_default();
        Self {
            drive: drive.to_owned(),
            size_bytes,
            catalogue: files.catalogue.clone(),
            catalogue_hash: hash(specification.as_bytes()),
            set: files.set.clone(),
            chunk_bytes: files.form.chunk_bytes(),
            segment_files: files.form == TitleForm::Segments,
            file_system: files.file_system.clone(),
        }
    }

    fn short_hash(&self) -> u32 {
        hash(serde_json::to_string(self).unwrap_or_default().as_bytes()) as u32
    }
}

/// Hash of what `files` contain, whichever drive they are on.
pub(crate) fn titles_hash(files: &FileSet) -> u32 {
    StoreLabel::of("", None, files).short_hash()
}

/// A drive's folder; locked while this value lives.
#[derive(Debug)]
pub(crate) struct DriveStore {
    folder: PathBuf,
    label: StoreLabel,
    _lock: File,
}

impl DriveStore {
    /// Opens the folder below `root` for this drive and these files; `number` selects one of
    /// several identical drives.
    pub(crate) fn open(
        root: &Path,
        drive: &ExperimentDrive,
        files: &FileSet,
        number: u32,
    ) -> Result<Self, RigError> {
        let (preset, kind) = match drive.size_bytes {
            Some(bytes) => ("", format!("{}GB", bytes / 1_000_000_000)),
            None => (drive.preset.as_str(), drive.preset.clone()),
        };
        let label = StoreLabel::of(preset, drive.size_bytes, files);
        let catalogue = Path::new(&files.catalogue).file_stem().unwrap_or_default();
        let catalogue = catalogue.to_string_lossy();
        let which = match number {
            0 => String::new(),
            number => format!("-{}", number + 1),
        };
        let name = format!("{kind}-{catalogue}-{:08x}{which}", label.short_hash());
        let folder = root.join(name);
        let fail = |error| RigError::io(folder.display(), error);
        fs::create_dir_all(&folder).map_err(fail)?;
        let lock = File::create(folder.join("lock")).map_err(fail)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(RigError::StoreInUse(folder.display().to_string()));
        }
        let store = Self {
            folder,
            label,
            _lock: lock,
        };
        if !store.is_filled() {
            store.clear()?;
        }
        Ok(store)
    }

    /// Folder with the drive's content.
    pub(crate) fn disk(&self) -> PathBuf {
        self.folder.join("disk")
    }

    /// Whether the label matches the requested content.
    pub(crate) fn is_filled(&self) -> bool {
        let text = fs::read_to_string(self.folder.join(LABEL)).unwrap_or_default();
        serde_json::from_str::<StoreLabel>(&text).is_ok_and(|label| label == self.label)
    }

    /// Writes the label; the content must be durable by then.
    pub(crate) fn set_filled(&self) -> Result<(), RigError> {
        let text = serde_json::to_string_pretty(&self.label).unwrap_or_default();
        let new = self.folder.join("label.new");
        let written =
            fs::write(&new, text).and_then(|()| fs::rename(&new, self.folder.join(LABEL)));
        written.map_err(|error| RigError::io(self.folder.display(), error))
    }

    fn clear(&self) -> Result<(), RigError> {
        match fs::remove_dir_all(self.disk()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(RigError::io(self.disk().display(), error))
            }
            _ => Ok(()),
        }
    }
}

/// FNV-1a: identifies content, without security.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive() -> ExperimentDrive {
        ExperimentDrive {
            preset: "wd-red".into(),
            size_bytes: Some(1 << 30),
            ..ExperimentDrive::default()
        }
    }

    fn files(seed: u64) -> FileSet {
        FileSet {
            catalogue: "youtube-sd".into(),
            set: vec![("catalogue.seed".into(), seed.to_string())],
            form: TitleForm::Whole,
            file_system: "ext4".into(),
        }
    }

    #[test]
    fn interrupted_fill_starts_again() {
        let root = tempfile::tempdir().expect("a folder");
        let store = DriveStore::open(root.path(), &drive(), &files(1), 0).expect("a store");
        fs::create_dir(store.disk()).expect("a folder");
        fs::write(store.disk().join("half"), "x").expect("a file");
        assert!(!store.is_filled());
        drop(store);
        let store = DriveStore::open(root.path(), &drive(), &files(1), 0).expect("a store");
        assert!(!store.disk().exists());
        fs::create_dir(store.disk()).expect("a folder");
        store.set_filled().expect("a label");
        drop(store);
        let store = DriveStore::open(root.path(), &drive(), &files(1), 0).expect("a store");
        assert!(store.is_filled() && store.disk().exists());
    }

    #[test]
    fn separates_folders_and_locks_each() {
        let root = tempfile::tempdir().expect("a folder");
        let store = DriveStore::open(root.path(), &drive(), &files(1), 0).expect("a store");
        let other = DriveStore::open(root.path(), &drive(), &files(2), 0).expect("a store");
        assert_ne!(store.disk(), other.disk());
        let again = DriveStore::open(root.path(), &drive(), &files(1), 0);
        assert!(matches!(again, Err(RigError::StoreInUse(_))));
        let second = DriveStore::open(root.path(), &drive(), &files(1), 1).expect("a second drive");
        assert_ne!(store.disk(), second.disk());
    }
}
