//! A loop device on the disk's file: a block device with the kernel's own scheduler and limits.
//!
//! It reads its file directly, so that no page cache hides reads from the drive. The kernel treats
//! it as flash and gives it a large readahead; both are set to the values of a drive of its kind.
//!
//! A detached device keeps its settings for its next user. So all settings are reset before any is
//! changed, and again before the device is detached.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::mount::find_program;
use headlong_report::say;

/// The kernel's default for drives.
const READ_AHEAD_KB: u32 = 128;

/// Settings of a fresh loop device; in addition, its largest request is the largest possible. `bdi`
/// is for clients that limit dirty memory (`headlong bench`); resetting `max_ratio` resets
/// `max_bytes` as well.
const DEFAULT_SETTINGS: [(&str, &str); 3] = [
    ("bdi/strict_limit", "0"),
    ("bdi/max_ratio", "100"),
    ("queue/scheduler", "none"),
];

/// Settings of the block device's queue, as in `/sys/block/*/queue`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueSettings {
    /// `none`, `mq-deadline`, `bfq`, `kyber`; `None` for the kernel's choice.
    pub scheduler: Option<String>,
    /// Readahead of the page cache; `None` for 128, the default of drives.
    pub read_ahead_kb: Option<u32>,
    /// Largest request; `None` for the kernel's choice.
    pub max_sectors_kb: Option<u32>,
    /// Whether the device is declared rotational.
    pub is_rotational: bool,
}

#[derive(Debug)]
pub(crate) struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    pub(crate) fn attach(file: &Path, settings: &QueueSettings) -> Result<Self, Error> {
        let losetup = find_program("losetup", "util-linux")
            .map_err(|missing| Error::Missing(vec![missing]))?;
        let doing = || format!("losetup {}", file.display());
        let output = Command::new(losetup)
            .args(["--find", "--show", "--direct-io=on"])
            .arg(file)
            .output()
            .map_err(Error::system(doing()))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::system(doing())(io::Error::other(text)));
        }
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let device = Self { path };
        device.check_direct_io()?;
        device.apply(settings)?;
        Ok(device)
    }

    /// The device's node, `/dev/loopN`.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Kernel name of the device, `loopN`.
    pub(crate) fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    fn setting(&self, name: &str) -> PathBuf {
        Path::new("/sys/block").join(self.name()).join(name)
    }

    fn read(&self, name: &str) -> Result<String, Error> {
        let path = self.setting(name);
        let text = fs::read_to_string(&path).map_err(Error::system(path.display().to_string()))?;
        Ok(text.trim().to_owned())
    }

    /// losetup does not fail when the kernel refuses direct I/O; all measurements would be wrong.
    fn check_direct_io(&self) -> Result<(), Error> {
        match self.read("loop/dio")?.as_str() {
            "1" => Ok(()),
            other => Err(Error::Refused(format!(
                "{} is {other}: the loop device would read through the page cache",
                self.setting("loop/dio").display()
            ))),
        }
    }

    /// Resets all settings to their defaults.
    fn put_back(&self) -> Result<(), Error> {
        for (name, value) in DEFAULT_SETTINGS {
            // Older kernels lack some of them.
            if self.setting(name).exists() {
                self.set(name, value)?;
            }
        }
        let most = self.read("queue/max_hw_sectors_kb")?;
        self.set("queue/max_sectors_kb", &most)
    }

    fn apply(&self, settings: &QueueSettings) -> Result<(), Error> {
        self.put_back()?;
        let is_rotational = u8::from(settings.is_rotational).to_string();
        self.set("queue/rotational", &is_rotational)?;
        if let Some(scheduler) = &settings.scheduler {
            let known = self.read("queue/scheduler")?;
            self.set("queue/scheduler", scheduler).map_err(|_| {
                let text = format!("unknown scheduler `{scheduler}`; there are: {known}");
                Error::Invalid(vec![text])
            })?;
        }
        if let Some(max_sectors_kb) = settings.max_sectors_kb {
            let most = self.read("queue/max_hw_sectors_kb")?;
            self.set("queue/max_sectors_kb", &max_sectors_kb.to_string())
                .map_err(|_| {
                    Error::Invalid(vec![format!(
                        "max_sectors_kb {max_sectors_kb} is not possible: a loop device takes 4 to \
                         {most}"
                    )])
                })?;
        }
        // Last, because writing any other setting resets it.
        let wanted = settings.read_ahead_kb.unwrap_or(READ_AHEAD_KB).to_string();
        self.set("queue/read_ahead_kb", &wanted)?;
        let found = self.read("queue/read_ahead_kb")?;
        if found != wanted {
            let text = format!("the kernel changed read_ahead_kb to {found} instead of {wanted}");
            return Err(Error::Refused(text));
        }
        Ok(())
    }

    fn set(&self, name: &str, value: &str) -> Result<(), Error> {
        let path = self.setting(name);
        let doing = format!("{value} > {}", path.display());
        fs::write(&path, value).map_err(Error::system(doing))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // Reset while still attached; otherwise its next user would inherit the settings.
        if let Err(error) = self.put_back() {
            say!("headlong: {}: {error}", self.path.display());
        }
        let detach = |program| {
            Command::new(program)
                .arg("--detach")
                .arg(&self.path)
                .output()
        };
        match find_program("losetup", "util-linux").map(detach) {
            Ok(Ok(output)) if output.status.success() => {}
            other => say!("headlong: cannot detach {}: {other:?}", self.path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DiskFile, FileOptions, VirtualDisk};

    #[test]
    fn settings_of_earlier_use_are_reset() {
        let missing = VirtualDisk::missing(None);
        if !missing.is_empty() {
            let test = "settings_of_earlier_use_are_reset";
            return headlong_testkit::skip(test, &missing.join("; "));
        }
        let drive = headlong_drive::preset("wd-red-wd10efrx").expect("a preset");
        let file = DiskFile::start(FileOptions {
            drive: drive.scaled_to(64 << 20).build(),
            queue_depth: None,
            time_scale: 1.0,
            store: None,
        });
        let file = file.expect("a file");
        let told = QueueSettings {
            scheduler: Some("mq-deadline".to_owned()),
            read_ahead_kb: Some(512),
            max_sectors_kb: Some(128),
            is_rotational: true,
        };
        let device = LoopDevice::attach(&file.path(), &told).expect("a loop device");
        let read = |name| device.read(name).expect("a setting");
        assert!(read("queue/scheduler").contains("[mq-deadline]"));
        assert_eq!(read("queue/max_sectors_kb"), "128");
        // As the bench does with an SSD used as a cache; kernels before 6.2 have neither.
        let has_bound = device.setting("bdi/max_bytes").exists();
        if has_bound {
            device.set("bdi/strict_limit", "1").expect("a setting");
            device.set("bdi/max_bytes", "20000000").expect("a setting");
            assert_eq!(read("bdi/strict_limit"), "1");
        }

        let untold = QueueSettings::default();
        device.apply(&untold).expect("settings");
        assert!(read("queue/scheduler").contains("[none]"));
        assert_eq!(
            read("queue/max_sectors_kb"),
            read("queue/max_hw_sectors_kb")
        );
        assert_eq!(read("queue/read_ahead_kb"), "128");
        assert_eq!(read("bdi/max_ratio"), "100");
        if has_bound {
            assert_eq!(read("bdi/strict_limit"), "0");
        }
    }
}
