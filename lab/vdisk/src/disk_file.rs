//! A file with the size and the timing of a disk: a FUSE file system that holds nothing else.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as WallInstant};

use fuser::{BackgroundSession, Config, MountOption, Session};
use headlong_drive::{Drive, SECTOR_BYTES};
use headlong_units::Instant;

use crate::actuator::Actuator;
use crate::counters::Counters;
use crate::error::Error;
use crate::fault::Fault;
use crate::fuse::{FILE_NAME, SingleFileSystem};
use crate::mount;
use crate::scratch::Scratch;
use crate::store::{ContentStore, PAGE_BYTES};
use crate::trace::{TraceFile, TraceRecord};
use headlong_report::say;

/// Timeout for the kernel to release the file, after its users above have ended.
const FILE_RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// The drive and its content.
#[derive(Debug)]
pub struct FileOptions {
    /// The model; the file has its size, rounded down to a multiple of 4096 bytes.
    pub drive: Box<dyn Drive>,
    /// Limit on requests in the drive; `None` for the drive's own.
    pub queue_depth: Option<usize>,
    /// Drive time per wall time.
    pub time_scale: f64,
    /// Store of the content; `None` if it is not kept.
    pub store: Option<StoreOptions>,
}

/// Store of the content.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// A directory for the store only.
    pub directory: PathBuf,
    /// Name of the drive, recorded in the store.
    pub drive: String,
    /// Discard an existing store.
    pub force_new: bool,
}

/// The disk as a file. Dropping it fails outstanding requests with errors, unmounts, waits for its
/// threads and closes its store.
pub struct DiskFile {
    actuator: Arc<Actuator>,
    session: Option<BackgroundSession>,
    arm: Option<JoinHandle<()>>,
    trace: Mutex<Option<TraceFile>>,
    mount_point: PathBuf,
    size_bytes: u64,
    // Dropped last.
    scratch: Scratch,
}

impl DiskFile {
    /// Mounts a disk file with the timing off.
    ///
    /// # Errors
    /// If the store cannot be used, or mounting fails.
    pub fn start(options: FileOptions) -> Result<Self, Error> {
        let sectors = options.drive.capacity_sectors();
        let size_bytes =
            sectors.saturating_mul(SECTOR_BYTES) / PAGE_BYTES as u64 * PAGE_BYTES as u64;
        let scratch = Scratch::new("disk").map_err(Error::system("a directory for the disk"))?;
        let mount_point = scratch
            .directory("fuse")
            .map_err(Error::system("a directory for the disk"))?;
        let store = match &options.store {
            Some(keep) => {
                ContentStore::open(&keep.directory, &keep.drive, size_bytes, keep.force_new)?
            }
            None => ContentStore::temporary(scratch.path(), size_bytes),
        };
        let actuator = Arc::new(Actuator::new(
            Arc::new(store),
            options.drive,
            options.queue_depth,
            options.time_scale,
        ));
        let session = mount_file(&actuator, size_bytes, &mount_point)
            .map_err(Error::system("mounting the disk's file (FUSE)"))?;
        let mut disk = Self {
            actuator: Arc::clone(&actuator),
            session: Some(session),
            arm: None,
            trace: Mutex::new(None),
            mount_point,
            size_bytes,
            scratch,
        };
        let arm = std::thread::Builder::new().name("disk-arm".into());
        let arm = arm.spawn(move || actuator.run());
        disk.arm = Some(arm.map_err(Error::system("a thread for the disk"))?);
        Ok(disk)
    }

    /// Path of the file.
    pub fn path(&self) -> PathBuf {
        self.mount_point.join(FILE_NAME)
    }

    /// Its size.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The directory of its own files; callers may use other names in it.
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }

    /// Its content.
    pub fn store(&self) -> &ContentStore {
        self.actuator.store()
    }

    /// Sets the round-trip time between a client and the drive, which is not drive time.
    pub(crate) fn set_journey(&self, journey: Duration) {
        self.actuator.set_journey(journey);
    }

    /// Switches the timing of the model on or off.
    pub fn switch_timing(&self, is_timed: bool) {
        self.actuator.switch_timing(is_timed);
    }

    /// Injects a fault.
    pub fn add_fault(&self, fault: Fault) {
        self.actuator.add_fault(fault);
    }

    /// Reads that touch `bytes` fail with EIO; only the first such read, if `once`.
    pub fn fail_reads(&self, bytes: Range<u64>, once: bool) {
        self.add_fault(Fault::Error { bytes, once });
    }

    /// Ends a hang.
    pub fn release(&self) {
        self.actuator.release();
    }

    /// Ends all faults.
    pub fn clear_faults(&self) {
        self.actuator.clear_faults();
    }

    /// Counters since the last reset.
    pub fn counters(&self) -> Counters {
        self.actuator.counters()
    }

    /// Resets all counters.
    pub fn reset_counters(&self) {
        self.actuator.reset_counters();
    }

    /// Resets the lateness of answers; the other counters continue.
    pub fn reset_lateness(&self) {
        self.actuator.reset_lateness();
    }

    /// Bytes of the requests that are queued or in service.
    pub fn outstanding_bytes(&self) -> u64 {
        self.actuator.outstanding_bytes()
    }

    /// Model time since the disk was created: the clock of the trace.
    pub fn now(&self) -> Instant {
        self.actuator.now()
    }

    /// Starts to record every request in memory, with an empty record; or stops.
    pub fn keep_records(&self, keep: bool) {
        self.actuator.keep_records(keep);
    }

    /// The recorded requests, in order of answers.
    pub fn records(&self) -> Vec<TraceRecord> {
        self.actuator.records()
    }

    /// Starts to write a line for every request to `path`, replacing an existing file.
    ///
    /// # Errors
    /// If a trace is active, or the file cannot be created.
    pub fn start_trace(&self, path: &Path) -> Result<(), Error> {
        let mut trace = self.lock_trace();
        if let Some(trace) = &*trace {
            let place = trace.path().display();
            let text = format!("a trace to {place} is active; stop it first");
            return Err(Error::Refused(text));
        }
        let doing = format!("trace {}", path.display());
        let file = TraceFile::start(path).map_err(Error::system(doing))?;
        self.actuator.trace_to(Some(file.sender()));
        *trace = Some(file);
        Ok(())
    }

    /// Ends the trace; returns the number of requests in it.
    ///
    /// # Errors
    /// If there is none, or it could not be written.
    pub fn stop_trace(&self) -> Result<u64, Error> {
        let mut trace = self.lock_trace();
        let Some(trace) = trace.take() else {
            return Err(Error::Refused("no trace is active".to_owned()));
        };
        self.actuator.trace_to(None);
        let doing = format!("trace {}", trace.path().display());
        trace.finish().map_err(Error::system(doing))
    }

    /// Brings the store into a state that can be reopened.
    ///
    /// # Errors
    /// If it cannot be written, or data written to the disk was lost.
    pub fn sync_store(&self) -> Result<(), Error> {
        if self.store().manifest().is_some() && self.actuator.is_incomplete() {
            let text = "some data written to the disk was refused or could not be stored, so its \
                        store is left as it is: not clean, if it has changed since it was";
            return Err(Error::Refused(text.to_owned()));
        }
        let doing = "writing the store";
        self.store().sync().map_err(Error::system(doing))
    }

    /// Ends the disk, as dropping it does.
    ///
    /// # Errors
    /// If its store cannot be reopened, or its trace is incomplete.
    pub fn close(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        // Only once.
        let Some(session) = self.session.take() else {
            return Ok(());
        };
        self.actuator.close();
        self.unmount(session);
        if let Some(arm) = self.arm.take() {
            let _ = arm.join();
        }
        let is_tracing = self.lock_trace().is_some();
        let traced = if is_tracing { self.stop_trace() } else { Ok(0) };
        self.sync_store().and(traced).map(|_| ())
    }

    fn unmount(&self, session: BackgroundSession) {
        let end = WallInstant::now() + FILE_RELEASE_TIMEOUT;
        let point = self.mount_point.display();
        if let Err(error) = mount::unmount_when_free(&self.mount_point, end) {
            say!("headlong: cannot unmount {point}: {error}");
        }
        // A detached file system ends when its last user releases it.
        while !session.guard.is_finished() && WallInstant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        if session.guard.is_finished() {
            let _ = session.umount_and_join();
        } else {
            // The user knows the disk by another name: that of the mount or of the device.
            say!("headlong: the disk is still in use; its users get errors from now on");
        }
    }

    fn lock_trace(&self) -> MutexGuard<'_, Option<TraceFile>> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            say!("headlong: {error}");
        }
    }
}

fn mount_file(
    actuator: &Arc<Actuator>,
    size_bytes: u64,
    mount_point: &Path,
) -> io::Result<BackgroundSession> {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("headlong-disk".into()),
        MountOption::NoAtime,
    ];
    // Two threads would change the order of requests, on which the drive's behaviour depends.
    config.n_threads = Some(1);
    let file_system = SingleFileSystem {
        actuator: Arc::clone(actuator),
        size_bytes,
    };
    Session::new(file_system, mount_point, &config)?.spawn()
}

/// Prerequisites of a disk file that this machine or user lacks; empty if there are none.
pub(crate) fn missing() -> Vec<String> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("mounting needs root: run it with sudo".to_owned());
    }
    missing.extend(missing_device("/dev/fuse", "fuse"));
    missing
}

/// The problem with a kernel device that `module` provides, if any.
pub(crate) fn missing_device(path: &str, module: &str) -> Option<String> {
    match File::options().read(true).write(true).open(path) {
        Ok(_) => None,
        // Only root can tell whether it works.
        Err(error)
            if error.kind() == io::ErrorKind::PermissionDenied
                && !rustix::process::geteuid().is_root() =>
        {
            None
        }
        Err(error) => Some(format!(
            "{path} cannot be opened ({error}): load the kernel module with `modprobe {module}`, or \
             give the container this device"
        )),
    }
}
