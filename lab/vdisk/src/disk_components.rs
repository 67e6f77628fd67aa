//! The parts of a disk other than the control socket, shared with its threads.
//!
//! Invariant: fields are dropped from the inside out: file system, loop device, file.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant as WallInstant;

use serde::Serialize;

use crate::disk_file::DiskFile;
use crate::error::Error;
use crate::file_system::FileSystem;
use crate::loop_device::LoopDevice;
use crate::mount::{self, BRIEFLY, END_TIMEOUT, RELEASE_TIMEOUT};
use crate::store::StoreUsage;
use headlong_report::say;

/// Information for clients of the disk.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiskInfo {
    /// The block device.
    pub device: PathBuf,
    /// Root of its file system, if it has one.
    pub mount: Option<PathBuf>,
    /// The control socket, if there is one.
    pub control: Option<PathBuf>,
    /// Size of the disk.
    pub capacity_bytes: u64,
    /// Model time per wall time.
    pub time_scale: f64,
    /// The file system's name, if there is one.
    pub file_system: Option<String>,
    /// Whether the content existed before this disk was started.
    pub is_reopened: bool,
    /// The client's label of the content.
    pub label: String,
    /// Use of the store.
    pub usage: StoreUsage,
}

/// Everything but the control socket, whose threads share it.
pub(crate) struct DiskComponents {
    // Dropped in this order.
    pub(crate) mounted: Mutex<Option<MountedFileSystem>>,
    pub(crate) loop_device: LoopDevice,
    pub(crate) file: DiskFile,
    pub(crate) is_reopened: bool,
    pub(crate) control: Option<PathBuf>,
    /// Label of a disk without a store.
    pub(crate) label: Mutex<String>,
}

pub(crate) struct MountedFileSystem {
    kind: FileSystem,
    device: PathBuf,
    point: PathBuf,
    is_made: bool,
}

impl DiskComponents {
    fn lock_mounted(&self) -> MutexGuard<'_, Option<MountedFileSystem>> {
        self.mounted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn mount_point(&self) -> Option<PathBuf> {
        self.lock_mounted()
            .as_ref()
            .map(|mounted| mounted.point.clone())
    }

    pub(crate) fn info(&self) -> DiskInfo {
        let kind = self.lock_mounted().as_ref().map(|mounted| mounted.kind);
        let manifest = self.file.store().manifest();
        let label = || {
            self.label
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        };
        DiskInfo {
            device: self.loop_device.path().to_owned(),
            mount: self.mount_point(),
            control: self.control.clone(),
            capacity_bytes: self.file.size_bytes(),
            time_scale: self.file.counters().time_scale,
            file_system: kind.map(|kind| kind.name().to_owned()),
            is_reopened: self.is_reopened,
            label: manifest.map_or_else(label, |manifest| manifest.label),
            usage: self.file.store().usage(),
        }
    }

    /// Sets the label, in the store if there is one.
    pub(crate) fn set_label(&self, label: String) -> Result<(), Error> {
        let change = self
            .file
            .store()
            .change_manifest(|manifest| manifest.label.clone_from(&label));
        change.map_err(Error::system("writing the store"))?;
        *self.label.lock().unwrap_or_else(PoisonError::into_inner) = label;
        Ok(())
    }

    /// Writes back the kernel's cache of the file system, then brings the store into a state that
    /// can be reopened.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        if let Some(mounted) = &*self.lock_mounted() {
            mounted.sync()?;
        }
        self.file.sync_store()
    }

    pub(crate) fn remount(&self) -> Result<(), Error> {
        match &*self.lock_mounted() {
            Some(mounted) => mounted.renew(),
            None => Err(Error::Refused("no file system is mounted".to_owned())),
        }
    }
}

impl MountedFileSystem {
    pub(crate) fn new(kind: FileSystem, device: &Path, point: &Path) -> Result<Self, Error> {
        let is_made = !point.exists();
        if is_made {
            let doing = format!("making {}", point.display());
            fs::create_dir_all(point).map_err(Error::system(doing))?;
        }
        kind.mount(device, point)?;
        Ok(Self {
            kind,
            device: device.to_owned(),
            point: point.to_owned(),
            is_made,
        })
    }

    fn sync(&self) -> Result<(), Error> {
        let synced = File::open(&self.point).and_then(|root| Ok(rustix::fs::syncfs(root)?));
        synced.map_err(Error::system(format!(
            "writing out {}",
            self.point.display()
        )))
    }

    fn renew(&self) -> Result<(), Error> {
        self.sync()?;
        mount::unmount_if_free(&self.point, WallInstant::now() + RELEASE_TIMEOUT).map_err(
            Error::system(format!("unmounting {}", self.point.display())),
        )?;
        self.kind.mount(&self.device, &self.point)
    }
}

impl Drop for MountedFileSystem {
    fn drop(&mut self) {
        let end = WallInstant::now() + END_TIMEOUT;
        let mut result = mount::unmount_if_free(&self.point, WallInstant::now() + BRIEFLY);
        if result.is_err() {
            say!(
                "headlong: {} is in use; it is written out, and detached in {} s if it is still in \
                 use then",
                self.point.display(),
                END_TIMEOUT.as_secs()
            );
            // Written data must be on the disk before it is detached.
            let _ = self.sync();
            result = mount::unmount_when_free(&self.point, end);
        }
        if let Err(error) = result {
            say!("headlong: cannot unmount {}: {error}", self.point.display());
        }
        if self.is_made {
            let _ = fs::remove_dir(&self.point);
        }
    }
}
