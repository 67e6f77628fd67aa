//! The drive of an experiment: a preset and its overrides.

use std::borrow::Cow;

use headlong_drive::{DriveSpec, Firmware, QueueOrder, preset};
use headlong_settings::{Rows, choice, size, text, whole};
use headlong_units::KIB;
use serde::Serialize;

/// With more drives, the processors of one machine become the limit.
const COUNT_MAX: u32 = 8;

const ORDERS: [(&str, QueueOrder); 3] = [
    ("fcfs", QueueOrder::Fcfs),
    ("nearest", QueueOrder::Nearest),
    ("sweep", QueueOrder::Sweep),
];

/// The emulated drive; a field that is `None` keeps the preset's value.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct EmulatedDriveSpec {
    /// Name of a preset of `headlong disk`, or a file that describes a drive.
    pub preset: String,
    /// Capacity.
    pub size_bytes: Option<u64>,
    /// Number of drives; one if `None`. Each holds all titles; each title is read from one of
    /// them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Depth of its own queue, including the request in service.
    pub queue_depth: Option<u32>,
    /// Scheduling order of that queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueOrder>,
    /// A request that has waited this many milliseconds goes first; 0 for no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_wait_ms: Option<u32>,
    /// Number of cache segments; 0 disables readahead in the drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_segments: Option<u32>,
    /// Largest size of a segment, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_segment_bytes: Option<u64>,
    /// Largest request accepted, bytes; that of the kernel's block device if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_bytes_max: Option<u64>,
}

/// `[drive]`, and `[workload.NAME.drive]`.
#[rustfmt::skip]
pub(super) fn drive_rows() -> Rows<EmulatedDriveSpec> {
    let mut rows = Rows::<EmulatedDriveSpec>::default();
    rows.add("preset", text(), |d| &mut d.preset, "");
    rows.add("size", size().optional(), |d| &mut d.size_bytes, "");
    rows.add("count", whole().between(1, COUNT_MAX).optional(), |d| &mut d.count, "");
    let depth = whole().at_least(1).optional();
    rows.add("queue_depth", depth, |d| &mut d.queue_depth, "");
    rows.add("queue", choice(&ORDERS).optional(), |d| &mut d.queue, "");
    let wait = whole().at_least(0).optional();
    rows.add("queue_wait_ms", wait, |d| &mut d.queue_wait_ms, "");
    let segments = whole().at_least(0).optional();
    rows.add("cache_segments", segments, |d| &mut d.cache_segments, "");
    rows.add("cache_segment", size().optional(), |d| &mut d.cache_segment_bytes, "");
    let request = size().at_least(4 * KIB).optional();
    rows.add("request_max", request, |d| &mut d.request_bytes_max, "");
    rows
}

/// Whether a workload or a drive of this name is a file, and not a preset.
pub(crate) fn is_file(name: &str) -> bool {
    name.contains(['/', '.'])
}

/// The drive named by `name`: a file if it ends in `.toml`, such as those written by `headlong disk
/// probe -o`, else a preset.
///
/// # Errors
/// If there is no such preset or file, or the file is wrong.
pub fn drive_spec(name: &str) -> Result<DriveSpec, String> {
    if !name.ends_with(".toml") {
        return preset(name).map_err(|error| error.to_string());
    }
    let wrong = |error: &dyn std::fmt::Display| format!("{name}: {error}");
    let text = std::fs::read_to_string(name).map_err(|error| wrong(&error))?;
    let spec: DriveSpec = toml::from_str(&text).map_err(|error| wrong(&error))?;
    spec.check().map_err(|error| wrong(&error))?;
    Ok(spec)
}

impl EmulatedDriveSpec {
    fn firmware(&self) -> Firmware {
        Firmware {
            order: self.queue,
            depth: self.queue_depth,
            wait_ms_max: self.queue_wait_ms,
            cache_segments: self.cache_segments,
            cache_segment_bytes: self.cache_segment_bytes,
        }
    }

    /// Number of drives.
    pub(crate) fn drives(&self) -> u32 {
        self.count.unwrap_or(1)
    }

    /// The model of the drive.
    pub(crate) fn model(&self) -> Result<DriveSpec, String> {
        let drive = drive_spec(&self.preset)?;
        let drive = match self.size_bytes {
            Some(bytes) => drive.scaled_to(bytes),
            None => drive,
        };
        let drive = drive.with_firmware(&self.firmware());
        drive.check().map_err(|error| error.to_string())?;
        Ok(drive)
    }

    /// A drive description, if its firmware settings differ from the preset's.
    pub(crate) fn description(&self) -> Option<Result<String, String>> {
        let text = || toml::to_string(&self.model()?).map_err(|error| error.to_string());
        (self.firmware() != Firmware::default()).then(text)
    }

    /// Largest request accepted, in KiB.
    pub(crate) fn request_kb_max(&self) -> Option<u32> {
        let kb = self.request_bytes_max? / KIB;
        Some(u32::try_from(kb).unwrap_or(u32::MAX))
    }

    /// The preset's name, or the path of the file with [`Self::description`].
    pub(crate) fn word<'a>(&'a self, described: &'a str) -> Cow<'a, str> {
        match self.description() {
            None => Cow::Borrowed(&self.preset),
            Some(_) => Cow::Borrowed(described),
        }
    }
}

#[cfg(test)]
mod tests {
    use headlong_drive::DriveSpec;

    use super::*;

    #[test]
    fn changed_firmware_is_written_as_description() {
        let red = EmulatedDriveSpec {
            preset: "wd-red-wd10efrx".to_owned(),
            ..EmulatedDriveSpec::default()
        };
        assert_eq!(red.word("drive.toml"), "wd-red-wd10efrx");
        let other = EmulatedDriveSpec {
            queue: Some(QueueOrder::Sweep),
            cache_segments: Some(0),
            ..red.clone()
        };
        assert_eq!(other.word("drive.toml"), "drive.toml");
        let text = other.description().expect("described").expect("text");
        let read: DriveSpec = toml::from_str(&text).expect("a drive");
        assert_eq!(Ok(read), other.model());
        assert_ne!(other.model(), red.model());
    }
}
