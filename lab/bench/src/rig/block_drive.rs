//! A block device of this machine as the drive of an experiment.
//!
//! Its titles are written once; the label of its file system says which they are, so that later
//! runs find them. Runs only read.
//!
//! Invariants: a device that something uses is never touched; content that the bench did not write
//! is erased only if the experiment says `overwrite`; the label of complete titles is set last.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use headlong_units::Duration;
use headlong_vdisk::FileSystem;
use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{UnmountFlags, unmount};
use serde_json::{Value, json};

use super::cleanup_guard::CleanupGuard;
use super::process::run;
use super::{RigError, find_program};
use crate::disk_trace::DiskPattern;

/// Label of a file system whose titles are incomplete.
const FILLING: &str = "hl-filling";
const SECTOR_BYTES: u64 = 512;

/// A block device that nothing else uses.
#[derive(Debug)]
pub(crate) struct BlockDrive {
    /// Name of the device, such as `sdb`.
    pub(crate) name: String,
    /// Where its file system is mounted while this value lives.
    point: PathBuf,
    /// Counters at the last reset, and at the beginning of the steady state.
    since: DeviceCounters,
    steady_since: DeviceCounters,
}

/// Content of a device, from its first bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeviceContent {
    /// Nothing known.
    Empty,
    /// A file system of the bench with this label.
    Titles(String),
    /// Something else.
    Foreign(String),
}

impl BlockDrive {
    /// Opens the device, unless it is no whole disk or in use. Its file system will be mounted at
    /// `point`.
    pub(crate) fn open(device: &str, point: &Path) -> Result<Self, RigError> {
        let path = fs::canonicalize(device).map_err(|error| RigError::io(device, error))?;
        let metadata = fs::metadata(&path).map_err(|error| RigError::io(device, error))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_disk = Path::new("/sys/block").join(&*name).exists();
        if !metadata.file_type().is_block_device() || !is_disk {
            return Err(RigError::Machine(format!(
                "{device} is no whole disk; name one, such as /dev/sdb (`lsblk` lists them)"
            )));
        }
        // The kernel refuses exclusive use of a disk that is mounted anywhere, or part of a volume.
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        open(&path, flags, Mode::empty()).map_err(|errno| match errno {
            rustix::io::Errno::BUSY => RigError::Machine(format!(
                "{device} is in use: it, or a part of it, is mounted or belongs to a volume; \
                 release it (`lsblk {device}` shows what uses it)"
            )),
            other => RigError::io(device, other.into()),
        })?;
        let now = DeviceCounters::read(&name)?;
        Ok(Self {
            name: name.into_owned(),
            point: point.to_path_buf(),
            since: now,
            steady_since: now,
        })
    }

    fn path(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    /// What it contains.
    pub(crate) fn content(&self) -> Result<DeviceContent, RigError> {
        let program = find_program("blkid").unwrap_or_else(|| "blkid".into());
        let output = Command::new(&program)
            .args(["--probe", "--output", "export"])
            .arg(self.path())
            .output()
            .map_err(|error| RigError::io(program.display(), error))?;
        match output.status.code() {
            Some(0) => Ok(content(&String::from_utf8_lossy(&output.stdout))),
            Some(2) => Ok(DeviceContent::Empty),
            _ => Err(RigError::Failed {
                what: format!("blkid {}", self.path().display()),
                words: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            }),
        }
    }

    /// Makes an empty file system, and mounts it to be filled.
    pub(crate) fn format(
        &self,
        guard: &CleanupGuard,
        file_system: &str,
        inodes: u64,
    ) -> Result<(), RigError> {
        let made: FileSystem = file_system.parse().map_err(RigError::Machine)?;
        let bytes = sectors(&self.name)? * SECTOR_BYTES;
        made.make(&self.path(), bytes, Some(inodes))
            .map_err(|error| RigError::Machine(error.to_string()))?;
        self.set_label(guard, file_system, FILLING)?;
        self.mount(guard, file_system, "noatime")
    }

    /// Unmounts a filled file system, and labels it as complete.
    pub(crate) fn complete(
        &self,
        guard: &CleanupGuard,
        file_system: &str,
        label: &str,
    ) -> Result<(), RigError> {
        self.unmount(guard)?;
        self.set_label(guard, file_system, label)
    }

    /// Mounts the titles, read only.
    pub(crate) fn mount_titles(
        &self,
        guard: &CleanupGuard,
        file_system: &str,
    ) -> Result<(), RigError> {
        let options = match file_system {
            "xfs" => "ro,noatime,norecovery",
            _ => "ro,noatime",
        };
        self.mount(guard, file_system, options)
    }

    fn mount(
        &self,
        guard: &CleanupGuard,
        file_system: &str,
        options: &str,
    ) -> Result<(), RigError> {
        let (path, point) = (self.path(), &self.point);
        let [path, point] = [&path, point].map(|path| path.display().to_string());
        run(
            guard,
            &["mount", "-t", file_system, "-o", options, &path, &point],
        )
    }

    fn unmount(&self, guard: &CleanupGuard) -> Result<(), RigError> {
        run(guard, &["umount", &self.point.display().to_string()])
    }

    fn set_label(
        &self,
        guard: &CleanupGuard,
        file_system: &str,
        label: &str,
    ) -> Result<(), RigError> {
        let path = self.path().display().to_string();
        match file_system {
            "xfs" => run(guard, &["xfs_admin", "-L", label, &path]),
            _ => run(guard, &["e2label", &path, label]),
        }
    }

    /// Resets the counters.
    pub(crate) fn reset_counters(&mut self) -> Result<(), RigError> {
        self.since = DeviceCounters::read(&self.name)?;
        self.steady_since = self.since;
        Ok(())
    }

    /// Notes the beginning of the steady state.
    pub(crate) fn begin_steady(&mut self) -> Result<(), RigError> {
        self.steady_since = DeviceCounters::read(&self.name)?;
        Ok(())
    }

    /// Its counters since the last reset, with the names of an emulated drive. The kernel counts no
    /// seeks.
    pub(crate) fn counters(&self) -> Result<Value, RigError> {
        let now = DeviceCounters::read(&self.name)?;
        let model = fs::read_to_string(format!("/sys/block/{}/device/model", self.name));
        Ok(json!({
            "device": self.name,
            "model": model.map(|model| model.trim().to_owned()).ok(),
            "size_bytes": sectors(&self.name)? * SECTOR_BYTES,
            "counters": now.since(&self.since),
        }))
    }

    /// Requests in the steady state; their addresses are not recorded.
    pub(crate) fn pattern(&self) -> Result<DiskPattern, RigError> {
        let now = DeviceCounters::read(&self.name)?;
        let from = &self.steady_since;
        let seconds = now.at.duration_since(from.at).as_secs_f64();
        let busy = Duration(now.busy_ms.saturating_sub(from.busy_ms) * 1_000_000);
        Ok(DiskPattern {
            requests: now.requests.saturating_sub(from.requests),
            bytes: now.bytes.saturating_sub(from.bytes),
            seconds,
            busy_share: (seconds > 0.0).then(|| (busy.as_secs_f64() / seconds).min(1.0)),
            ..DiskPattern::default()
        })
    }
}

impl Drop for BlockDrive {
    fn drop(&mut self) {
        // A failed run may still have readers; the mount goes as soon as they have ended.
        let _ = unmount(&self.point, UnmountFlags::DETACH);
    }
}

/// From the output of `blkid --probe --output export`.
fn content(told: &str) -> DeviceContent {
    let value = |name: &str| {
        let mut lines = told.lines().filter_map(|line| line.split_once('='));
        lines.find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    let label = value("LABEL").filter(|label| *label == FILLING || is_of_titles(label));
    match (label, value("TYPE"), value("PTTYPE")) {
        (Some(label), Some(_), _) => DeviceContent::Titles(label.to_owned()),
        (None, Some(kind), _) => DeviceContent::Foreign(format!("a file system or volume, {kind}")),
        (_, None, Some(kind)) => DeviceContent::Foreign(format!("a partition table, {kind}")),
        (_, None, None) => DeviceContent::Foreign("data of an unknown kind".to_owned()),
    }
}

/// Label of complete titles, from a hash of what they are; short enough for every file system.
pub(crate) fn titles_label(hash: u32) -> String {
    format!("hl-{hash:08x}")
}

fn is_of_titles(label: &str) -> bool {
    let hash = label.strip_prefix("hl-");
    hash.is_some_and(|hash| hash.len() == 8 && u32::from_str_radix(hash, 16).is_ok())
}

impl DeviceContent {
    /// Whether titles with this label are there; an error if something else may not be erased.
    pub(crate) fn has(&self, label: &str, device: &str, overwrite: bool) -> Result<bool, RigError> {
        let what = match self {
            Self::Titles(found) if found == label => return Ok(true),
            Self::Empty => return Ok(false),
            Self::Titles(found) if found == FILLING => return Ok(false),
            Self::Titles(_) => "titles of another experiment",
            Self::Foreign(what) => what,
        };
        match overwrite {
            true => Ok(false),
            false => Err(RigError::Machine(format!(
                "{device} contains {what}; to erase it, write `overwrite = true` in [drive]"
            ))),
        }
    }
}

/// Counters of the kernel (`Documentation/block/stat.rst`), and when they were read.
#[derive(Debug, Clone, Copy)]
struct DeviceCounters {
    at: Instant,
    requests: u64,
    bytes: u64,
    /// Sum of the requests' times.
    response_ms: u64,
    /// Time with at least one request.
    busy_ms: u64,
    writes: u64,
}

impl DeviceCounters {
    fn read(name: &str) -> Result<Self, RigError> {
        let path = format!("/sys/block/{name}/stat");
        let text = fs::read_to_string(&path).map_err(|error| RigError::io(&path, error))?;
        Self::of(&text).ok_or_else(|| {
            let text = io::Error::other(format!("unexpected content `{}`", text.trim()));
            RigError::io(&path, text)
        })
    }

    fn of(text: &str) -> Option<Self> {
        let fields = text.split_whitespace().map(str::parse);
        let fields: Vec<u64> = fields.collect::<Result<_, _>>().ok()?;
        Some(Self {
            at: Instant::now(),
            requests: *fields.first()?,
            bytes: fields.get(2)? * SECTOR_BYTES,
            response_ms: *fields.get(3)?,
            writes: *fields.get(4)?,
            busy_ms: *fields.get(9)?,
        })
    }

    fn since(&self, from: &Self) -> Value {
        const NS: u64 = 1_000_000;
        let elapsed = self.at.duration_since(from.at).as_nanos();
        json!({
            "time_scale": 1.0,
            "elapsed_ns": u64::try_from(elapsed).unwrap_or(u64::MAX),
            "busy_ns": (self.busy_ms.saturating_sub(from.busy_ms)) * NS,
            "reads": {
                "requests": self.requests.saturating_sub(from.requests),
                "bytes": self.bytes.saturating_sub(from.bytes),
                "response_ns": (self.response_ms.saturating_sub(from.response_ms)) * NS,
            },
            "writes": { "requests": self.writes.saturating_sub(from.writes) },
        })
    }
}

/// Size in sectors of 512 bytes.
fn sectors(name: &str) -> Result<u64, RigError> {
    let path = format!("/sys/block/{name}/size");
    let text = fs::read_to_string(&path).map_err(|error| RigError::io(&path, error))?;
    Ok(text.trim().parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_titles_and_nothing_known_may_be_replaced() {
        let ours = titles_label(1);
        let may = |content: &DeviceContent| content.has(&ours, "/dev/sdb", false).ok();
        let titles = |label: &str| content(&format!("LABEL={label}\nUUID=1\nTYPE=ext4\n"));
        assert_eq!(may(&titles(&ours)), Some(true));
        assert_eq!(may(&titles(FILLING)), Some(false));
        assert_eq!(may(&DeviceContent::Empty), Some(false));
        let foreign = [
            titles(&titles_label(2)),
            titles("hl-films"),
            content("TYPE=crypto_LUKS\n"),
            content("PTTYPE=gpt\n"),
            content("USAGE=other\n"),
        ];
        for content in foreign {
            let error = content.has(&ours, "/dev/sdb", false).expect_err("refused");
            assert!(error.to_string().contains("overwrite = true"), "{error}");
            assert_eq!(content.has(&ours, "/dev/sdb", true).ok(), Some(false));
        }
    }

    #[test]
    fn file_that_is_no_disk_is_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().display().to_string();
        let error = BlockDrive::open(&path, Path::new("/nowhere")).expect_err("no disk");
        assert!(error.to_string().contains("is no whole disk"), "{error}");
    }

    #[test]
    fn counters_are_differences() {
        let before = DeviceCounters::of("10 0 80 5 1 0 8 1 0 100 6").expect("counters");
        let after = DeviceCounters::of("30 0 240 25 1 0 8 1 0 160 26 0 0 0 0 0 0");
        let told = after.expect("counters").since(&before);
        assert_eq!(told["reads"]["bytes"], 160 * 512);
        assert_eq!(told["reads"]["requests"], 20);
        assert_eq!(told["busy_ns"], 60_000_000);
        assert!(DeviceCounters::of("1 2 three").is_none());
    }
}
