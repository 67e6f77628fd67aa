//! The complete disk: its file, a loop device on it, a file system on that, and a control socket.
//!
//! Invariant: parts are removed from the inside out (control, file system, loop device, file),
//! however the disk ends; if the process is killed, a guardian does it (see [`crate::scratch`]).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::control::{ControlServer, StopSignal};
use crate::disk_components::{DiskComponents, DiskInfo, MountedFileSystem};
use crate::disk_file::{self, DiskFile, FileOptions};
use crate::error::Error;
use crate::file_system::FileSystem;
use crate::loop_device::{LoopDevice, QueueSettings};
use crate::mount::find_program;
use crate::round_trip;
use headlong_report::say;

/// Options of a disk.
#[derive(Debug)]
pub struct DiskOptions {
    /// The drive and its content.
    pub file: FileOptions,
    /// The file system to make, unless the store has one; `None` for a bare device.
    pub file_system: Option<FileSystem>,
    /// Number of files that it must hold (ext4; the others need no such setting).
    pub inodes: Option<u64>,
    /// Mount point; `None` for a directory of the disk's own.
    pub mount: Option<PathBuf>,
    /// Settings of the block device.
    pub queue: QueueSettings,
    /// Place of the control socket, if any.
    pub control: Option<ControlSocket>,
    /// Set to request a stop, possibly before the start.
    pub stop: StopSignal,
}

/// Place of the control socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlSocket {
    /// In the disk's own directory.
    Own,
    /// At this path.
    At(PathBuf),
}

/// A mounted file system on a block device with the timing of a drive.
pub struct VirtualDisk {
    control: Option<ControlServer>,
    /// `None` once it has ended.
    parts: Option<Arc<DiskComponents>>,
    stop: StopSignal,
}

impl VirtualDisk {
    /// Prerequisites that this machine or user lacks; empty if there are none.
    pub fn missing(file_system: Option<FileSystem>) -> Vec<String> {
        let mut missing = disk_file::missing();
        missing.extend(disk_file::missing_device("/dev/loop-control", "loop"));
        let programs = [
            find_program("losetup", "util-linux"),
            find_program("bash", "bash"),
        ];
        missing.extend(programs.into_iter().filter_map(Result::err));
        missing.extend(file_system.and_then(|kind| kind.program().err()));
        missing
    }

    /// Creates the disk, its file system and its mount; the timing is off.
    ///
    /// # Errors
    /// If a prerequisite is missing (all are named), the store cannot be used, or the system
    /// refuses an operation; then nothing is left.
    pub fn start(options: DiskOptions) -> Result<Self, Error> {
        let missing = Self::missing(options.file_system);
        if !missing.is_empty() {
            return Err(Error::Missing(missing));
        }
        let file = DiskFile::start(options.file)?;
        let loop_device = LoopDevice::attach(&file.path(), &options.queue)?;
        let journey = round_trip::measured(loop_device.path());
        file.set_journey(journey.map_err(Error::system("reading the new block device"))?);
        let is_reopened = file.store().manifest().is_some_and(|store| store.is_clean);
        if let Some(kind) = options.file_system {
            make_file_system(&file, &loop_device, kind, options.inodes)?;
        }
        let point = options
            .mount
            .unwrap_or_else(|| file.directory().join("root"));
        let mounted = options
            .file_system
            .map(|kind| MountedFileSystem::new(kind, loop_device.path(), &point));
        let control = options.control.map(|place| match place {
            ControlSocket::Own => file.directory().join("control"),
            ControlSocket::At(path) => path,
        });
        let parts = Arc::new(DiskComponents {
            mounted: Mutex::new(mounted.transpose()?),
            loop_device,
            file,
            is_reopened,
            control: control.clone(),
            label: Mutex::default(),
        });
        // From here on a client that only reads leaves the store clean, even if killed.
        parts.sync()?;
        let mut disk = Self {
            control: None,
            parts: Some(Arc::clone(&parts)),
            stop: options.stop,
        };
        if let Some(path) = control {
            disk.control = Some(ControlServer::start(&path, parts, disk.stop.clone())?);
        }
        Ok(disk)
    }

    fn parts(&self) -> &DiskComponents {
        self.parts.as_ref().expect("a running disk")
    }

    /// Its file: timing, faults, counters, trace.
    pub fn file(&self) -> &DiskFile {
        &self.parts().file
    }

    /// The block device's node, `/dev/loopN`.
    pub fn device(&self) -> &Path {
        self.parts().loop_device.path()
    }

    /// Kernel name of the device, `loopN`.
    pub fn device_name(&self) -> String {
        self.parts().loop_device.name()
    }

    /// Root of the mounted file system, if there is one.
    pub fn mount(&self) -> Option<PathBuf> {
        self.parts().mount_point()
    }

    /// Everything that a client needs to know.
    pub fn info(&self) -> DiskInfo {
        self.parts().info()
    }

    /// Writes all data out and remounts the file system, so that nothing of it is cached.
    ///
    /// # Errors
    /// If it is in use.
    pub fn remount(&self) -> Result<(), Error> {
        self.parts().remount()
    }

    /// Waits for a request to stop, by the signal or by the control command.
    pub fn wait_for_stop(&self) {
        self.stop.wait();
    }

    /// Ends the disk, as dropping it does.
    ///
    /// # Errors
    /// If its store cannot be reopened.
    pub fn close(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(parts) = self.parts.take() else {
            return Ok(());
        };
        // A hanging disk would block the unmounting; without the timing the rest is quick.
        parts.file.clear_faults();
        parts.file.switch_timing(false);
        // The control threads hold the other references; they have ended now.
        self.control = None;
        let Some(parts) = Arc::into_inner(parts) else {
            return Err(Error::Refused(
                "a control connection is still open".to_owned(),
            ));
        };
        drop(parts.mounted);
        drop(parts.loop_device);
        parts.file.close()
    }
}

impl Drop for VirtualDisk {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            say!("headlong: {error}");
        }
    }
}

fn make_file_system(
    file: &DiskFile,
    device: &LoopDevice,
    kind: FileSystem,
    inodes: Option<u64>,
) -> Result<(), Error> {
    let store = file.store();
    let old = store.manifest().and_then(|manifest| manifest.file_system);
    match old {
        Some(old) if old == kind.name() => return Ok(()),
        Some(old) => {
            let text = format!("the store holds {old}, not {kind}: choose {old} or a new store");
            return Err(Error::Refused(text));
        }
        None => {}
    }
    kind.make(device.path(), file.size_bytes(), inodes)?;
    let name = kind.name().to_owned();
    let change = store.change_manifest(|manifest| manifest.file_system = Some(name));
    change.map_err(Error::system("writing the store"))
}
