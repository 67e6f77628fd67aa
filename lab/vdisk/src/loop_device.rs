//! A loop device over the disk's file: a block device with the kernel's own scheduler and limits.
//!
//! It reads its file directly, so that no page cache hides reads from the drive. The kernel takes it
//! for flash and gives it large read-ahead; both are set to what a drive of its kind has.
//!
//! A node that is detached keeps what it was told, for whoever has it next. So all settings are put
//! back first, before any is made, and once more before it is given up.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::mount::find_program;
use headlong_report::say;

/// What the kernel gives every drive unless it is told otherwise.
const READ_AHEAD_KB: u32 = 128;

/// What a loop device has that was never told anything; besides, its largest request is the largest
/// that it takes. `bdi` is for who bounds what waits in memory to be written (`headlong bench`);
/// `max_ratio` puts `max_bytes` back, too.
const UNTOLD: [(&str, &str); 3] = [
    ("bdi/strict_limit", "0"),
    ("bdi/max_ratio", "100"),
    ("queue/scheduler", "none"),
];

/// Settings of the block device's queue, as in `/sys/block/*/queue`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueSettings {
    /// `none`, `mq-deadline`, `bfq`, `kyber`; `None` for the kernel's choice.
    pub scheduler: Option<String>,
    /// Read-ahead of the page cache; `None` for 128, as drives have it.
    pub read_ahead_kb: Option<u32>,
    /// Largest request; `None` for the kernel's choice.
    pub max_sectors_kb: Option<u32>,
    /// Whether the kernel is told that it turns.
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

    /// losetup does not fail when the kernel refuses direct I/O; everything measured would be
    /// wrong.
    fn check_direct_io(&self) -> Result<(), Error> {
        match self.read("loop/dio")?.as_str() {
            "1" => Ok(()),
            other => Err(Error::Refused(format!(
                "{} is {other}: the loop device would read through the page cache",
                self.setting("loop/dio").display()
            ))),
        }
    }

    /// Puts back whatever somebody told it before.
    fn put_back(&self) -> Result<(), Error> {
        for (name, value) in UNTOLD {
            // Older kernels have not all of them.
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
                let text = format!("no scheduler `{scheduler}` here; there are: {known}");
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
        // The last: writing any other setting sets it back.
        let wanted = settings.read_ahead_kb.unwrap_or(READ_AHEAD_KB).to_string();
        self.set("queue/read_ahead_kb", &wanted)?;
        let found = self.read("queue/read_ahead_kb")?;
        if found != wanted {
            let text = format!("the kernel made {found} of read_ahead_kb {wanted}");
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
        // While it is still ours. Whoever has it next and is not us would have what we set.
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
    fn what_a_device_was_told_before_does_not_stay() {
        let missing = VirtualDisk::missing(None);
        if !missing.is_empty() {
            let test = "what_a_device_was_told_before_does_not_stay";
            return headlong_testkit::skip(test, &missing.join("; "));
        }
        let drive = headlong_drive::preset("wd-red-wd10efrx").expect("there is such a drive");
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
        // As the bench does with an SSD for a cache; kernels before 6.2 have neither.
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
