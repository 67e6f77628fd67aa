//! A disk that takes as long as a drive would: a FUSE file system with one file, behind which a
//! drive model decides when each request is answered.
//!
//! One request is in service at a time; the others queue, as with a single arm. All times are
//! divided by a compression factor, so that a slow drive need not make a slow test; the trace is
//! in model time. With the timing off (as at first, for filling) it answers at once.
//!
//! Deliberately absent: zones, an on-drive cache, a command queue that reorders.

mod actuator;
mod fault;
mod file_system;
mod model;
mod trace;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fuser::{BackgroundSession, Config, MountOption, Session};
use rustix::mount::{UnmountFlags, unmount};

pub use actuator::Counters;
pub use model::{Drive, DriveModel, Rotation};
pub use trace::{Record, Run, Trace};

use crate::scratch::Scratch;
use actuator::Actuator;
use fault::Faults;
use file_system::{FILE_NAME, OneFile};

/// How long a guard waits for the kernel to let go before it says so and goes on.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// The disk. Dropping it answers whatever is still queued with errors, unmounts, and waits for its
/// threads.
pub struct SlowDisk {
    // Fields drop after `drop` has unmounted; the directory goes last.
    actuator: Arc<Actuator>,
    session: Option<BackgroundSession>,
    arm: Option<JoinHandle<()>>,
    mount_point: PathBuf,
    size_bytes: u64,
    scratch: Scratch,
}

impl SlowDisk {
    /// Whether this machine and user can have one; else what is missing.
    pub fn available() -> Result<(), String> {
        if !rustix::process::geteuid().is_root() {
            return Err("mounting an emulated disk needs root".to_owned());
        }
        for device in ["/dev/fuse", "/dev/loop-control"] {
            File::options()
                .read(true)
                .write(true)
                .open(device)
                .map_err(|error| format!("{device} cannot be opened: {error}"))?;
        }
        for program in ["losetup", "mkfs.ext4"] {
            crate::block_device::find_program(program)?;
        }
        Ok(())
    }

    /// True if tests on slow disks can run. If they cannot, says why on standard error; under
    /// `CI=true` that is a failure, because there nobody reads what was skipped.
    pub fn available_or_skip(test: &str) -> bool {
        match Self::available() {
            Ok(()) => true,
            Err(reason) if std::env::var("CI").as_deref() == Ok("true") => {
                panic!("{test} cannot run in CI: {reason}")
            }
            Err(reason) => {
                eprintln!("skipped: {test}: {reason}");
                false
            }
        }
    }

    /// Makes and mounts a disk of `size_bytes` zeroes (a multiple of 4096), timing off. Its
    /// content lives in a sparse file under the directory for temporary files. `compression`
    /// divides all times of the model; 1.0 is real time.
    pub fn new(size_bytes: u64, model: DriveModel, compression: f64) -> io::Result<Self> {
        let scratch = Scratch::new("disk")?;
        let mount_point = scratch.directory("fuse")?;
        let backing = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(scratch.path().join("content"))?;
        backing.set_len(size_bytes)?;
        let model = DriveModel {
            capacity_bytes: size_bytes,
            ..model
        };
        let actuator = Arc::new(Actuator::new(backing, model, compression));

        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("headlong-slow-disk".into()),
            MountOption::NoAtime,
        ];
        let file_system = OneFile {
            actuator: Arc::clone(&actuator),
            size_bytes,
        };
        let session = Session::new(file_system, &mount_point, &config)?.spawn()?;
        let mut disk = Self {
            actuator: Arc::clone(&actuator),
            session: Some(session),
            arm: None,
            mount_point,
            size_bytes,
            scratch,
        };
        let arm = std::thread::Builder::new().name("slow-disk".into());
        disk.arm = Some(arm.spawn(move || actuator.run())?);
        Ok(disk)
    }

    /// The one file.
    pub fn path(&self) -> PathBuf {
        self.mount_point.join(FILE_NAME)
    }

    /// Its size.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The directory in which it keeps its own things; others may use other names in it.
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }

    /// From now on requests take as long as the model says (true), or no time (false).
    pub fn switch_timing(&self, timed: bool) {
        self.actuator.switch_timing(timed);
    }

    /// Reads that touch `range` fail with EIO, for ever.
    pub fn fail_reads(&self, range: Range<u64>) {
        self.actuator
            .with_faults(|faults: &mut Faults| faults.add_error(range, false));
    }

    /// The next read that touches `range` fails with EIO.
    pub fn fail_read_once(&self, range: Range<u64>) {
        self.actuator
            .with_faults(|faults| faults.add_error(range, true));
    }

    /// Nothing is answered for so long (wall time), or until [`SlowDisk::release`] if `None`.
    pub fn hang(&self, length: Option<Duration>) {
        self.actuator.with_faults(|faults| faults.hang(length));
    }

    /// Ends a hang.
    pub fn release(&self) {
        self.actuator.with_faults(Faults::release);
    }

    /// Requests take `factor` times as long as the model says.
    pub fn slow_down(&self, factor: f64) {
        self.actuator.with_faults(|faults| faults.slow_down(factor));
    }

    /// Every request fails with EIO, as when the cable is pulled.
    pub fn vanish(&self) {
        self.actuator.with_faults(Faults::vanish);
    }

    /// All faults end.
    pub fn heal(&self) {
        self.actuator.with_faults(Faults::heal);
    }

    /// Totals since the disk was made.
    pub fn counters(&self) -> Counters {
        self.actuator.counters()
    }

    /// Bytes of the requests that wait or are in service now.
    pub fn outstanding_bytes(&self) -> u64 {
        self.actuator.outstanding_bytes()
    }

    /// Model time since the disk was made: the clock of the trace.
    pub fn now(&self) -> Duration {
        self.actuator.now()
    }

    /// Requests answered so far.
    pub fn trace(&self) -> Trace {
        Trace::new(self.actuator.records())
    }

    /// Empties the trace.
    pub fn forget_trace(&self) {
        self.actuator.forget_records();
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        self.actuator.close();
        let end = Instant::now() + RELEASE_TIMEOUT;
        // Detaching always succeeds at once, even if somebody still holds the file; then the
        // session ends when they let go.
        if let Err(error) = unmount_when_free(&self.mount_point, end) {
            eprintln!(
                "testkit: cannot unmount {}: {error}",
                self.mount_point.display()
            );
        }
        if let Some(session) = self.session.take() {
            while !session.guard.is_finished() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            if session.guard.is_finished() {
                let _ = session.umount_and_join();
            } else {
                eprintln!("testkit: {} is still held open", self.mount_point.display());
            }
        }
        if let Some(arm) = self.arm.take() {
            let _ = arm.join();
        }
    }
}

/// Unmounts, giving those who still hold it until `end`; then detaches it from the tree anyway.
pub(crate) fn unmount_when_free(point: &Path, end: Instant) -> io::Result<()> {
    loop {
        match unmount(point, UnmountFlags::empty()) {
            Err(rustix::io::Errno::BUSY) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(rustix::io::Errno::BUSY) => {
                return Ok(unmount(point, UnmountFlags::DETACH)?);
            }
            // Already gone.
            Err(rustix::io::Errno::INVAL) => return Ok(()),
            result => return Ok(result?),
        }
    }
}
