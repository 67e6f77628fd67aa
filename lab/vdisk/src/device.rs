//! The whole disk: its file, a loop device over it, a file system on that, and a socket to control
//! it by.
//!
//! Invariant: the inner goes before the outer (control, file system, loop device, file), in whatever
//! way the disk ends; if the process is killed, a guardian does the same (see [`crate::scratch`]).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::control::{ControlServer, StopSignal};
use crate::disk_file::{self, DiskFile, FileOptions};
use crate::error::Error;
use crate::file_system::FileSystem;
use crate::journey;
use crate::loop_device::{LoopDevice, QueueSettings};
use crate::mount::find_program;
use crate::parts::{Info, Mounted, Parts};
use headlong_report::say;

/// What disk to make.
#[derive(Debug)]
pub struct Options {
    /// The drive and what it holds.
    pub file: FileOptions,
    /// What is made on it, unless its store has one already; `None` for a bare device.
    pub file_system: Option<FileSystem>,
    /// How many files it must take (ext4; the others need not know).
    pub inodes: Option<u64>,
    /// Where it is mounted; `None` for a directory of the disk's own.
    pub mount: Option<PathBuf>,
    /// Settings of the block device.
    pub queue: QueueSettings,
    /// Where it listens for commands, if anywhere.
    pub control: Option<ControlPlace>,
    /// Set when somebody wants it to stop; may be set before it is started.
    pub stop: StopSignal,
}

/// Where the control socket is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlPlace {
    /// In the disk's own directory.
    Own,
    /// Here.
    At(PathBuf),
}

/// A mounted file system on a block device that takes as long as a drive.
pub struct VirtualDisk {
    control: Option<ControlServer>,
    /// There until it ends.
    parts: Option<Arc<Parts>>,
    stop: StopSignal,
}

impl VirtualDisk {
    /// What this machine or user lacks for such a disk; nothing if all is there.
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

    /// Makes the disk, its file system and its mount; the timing is off.
    ///
    /// # Errors
    /// If the machine lacks something (all of it is named), the store cannot be used, or the system
    /// refuses something; then nothing is left.
    pub fn start(options: Options) -> Result<Self, Error> {
        let missing = Self::missing(options.file_system);
        if !missing.is_empty() {
            return Err(Error::Missing(missing));
        }
        let file = DiskFile::start(options.file)?;
        let loop_device = LoopDevice::attach(&file.path(), &options.queue)?;
        let journey = journey::measured(loop_device.path());
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
            .map(|kind| Mounted::new(kind, loop_device.path(), &point));
        let control = options.control.map(|place| match place {
            ControlPlace::Own => file.directory().join("control"),
            ControlPlace::At(path) => path,
        });
        let parts = Arc::new(Parts {
            mounted: Mutex::new(mounted.transpose()?),
            loop_device,
            file,
            is_reopened,
            control: control.clone(),
            label: Mutex::default(),
        });
        // From here on a user who only reads leaves the store clean, even if killed.
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

    fn parts(&self) -> &Parts {
        self.parts.as_ref().expect("taken only by its end")
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

    /// All there is to know to use it.
    pub fn info(&self) -> Info {
        self.parts().info()
    }

    /// Writes everything out and mounts the file system anew: nothing of it is cached then.
    ///
    /// # Errors
    /// If somebody uses it.
    pub fn remount(&self) -> Result<(), Error> {
        self.parts().remount()
    }

    /// Waits until somebody asks the disk to stop, by its signal or by the control command.
    pub fn wait_for_stop(&self) {
        self.stop.wait();
    }

    /// Ends it, as dropping it does.
    ///
    /// # Errors
    /// If its store is not one that can be opened again.
    pub fn close(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(parts) = self.parts.take() else {
            return Ok(());
        };
        // A hanging disk would hold the unmounting for ever; without the timing the rest is quick.
        parts.file.clear_faults();
        parts.file.switch_timing(false);
        // Its threads are ended, so what follows is the last of the parts.
        self.control = None;
        let Some(parts) = Arc::into_inner(parts) else {
            return Err(Error::Refused(
                "a control connection does not end".to_owned(),
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
            let text = format!("the store holds {old}, not {kind}: ask for {old}, or start anew");
            return Err(Error::Refused(text));
        }
        None => {}
    }
    kind.make(device.path(), file.size_bytes(), inodes)?;
    let name = kind.name().to_owned();
    let change = store.change_manifest(|manifest| manifest.file_system = Some(name));
    change.map_err(Error::system("writing the store"))
}
