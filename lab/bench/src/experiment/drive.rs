//! The drive of an experiment: a preset, and what differs from it.

use std::borrow::Cow;

use headlong_drive::{DriveSpec as Model, Firmware, QueueOrder, preset};
use headlong_settings::{Rows, choice, size, text, whole};
use headlong_units::KIB;
use serde::Serialize;

/// More, and the processors of one machine are the limit.
const COUNT_MAX: u32 = 8;

const ORDERS: [(&str, QueueOrder); 3] = [
    ("fcfs", QueueOrder::Fcfs),
    ("nearest", QueueOrder::Nearest),
    ("sweep", QueueOrder::Sweep),
];

/// The drive that is emulated; of what is `None`, the preset's own.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct DriveSpec {
    /// Name of a preset of `headlong disk`.
    pub preset: String,
    /// Capacity.
    pub size_bytes: Option<u64>,
    /// How many of them; one if `None`. Each has all titles, and each title is read from one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Requests in its own queue, the one being worked on included.
    pub queue_depth: Option<u32>,
    /// Which of them is next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueOrder>,
    /// A request that has waited so many milliseconds goes first; 0 for no such bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_wait_ms: Option<u32>,
    /// Runs of sectors in its memory; 0 for no reading ahead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_segments: Option<u32>,
    /// How long each may be, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_segment_bytes: Option<u64>,
    /// The largest request it takes, bytes; that of the kernel's block device if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_bytes_max: Option<u64>,
}

/// `[drive]`, and `[workload.NAME.drive]`.
#[rustfmt::skip]
pub(super) fn drive_rows() -> Rows<DriveSpec> {
    let mut rows = Rows::<DriveSpec>::default();
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

impl DriveSpec {
    fn firmware(&self) -> Firmware {
        Firmware {
            order: self.queue,
            depth: self.queue_depth,
            wait_ms_max: self.queue_wait_ms,
            cache_segments: self.cache_segments,
            cache_segment_bytes: self.cache_segment_bytes,
        }
    }

    /// How many there are.
    pub(crate) fn drives(&self) -> u32 {
        self.count.unwrap_or(1)
    }

    /// The drive as it is modelled.
    pub(crate) fn model(&self) -> Result<Model, String> {
        let drive = preset(&self.preset).map_err(|error| error.to_string())?;
        let drive = match self.size_bytes {
            Some(bytes) => drive.scaled_to(bytes),
            None => drive,
        };
        let drive = drive.with_firmware(&self.firmware());
        drive.check().map_err(|error| error.to_string())?;
        Ok(drive)
    }

    /// A description of it, if its firmware is not the preset's.
    pub(crate) fn description(&self) -> Option<Result<String, String>> {
        let text = || toml::to_string(&self.model()?).map_err(|error| error.to_string());
        (self.firmware() != Firmware::default()).then(text)
    }

    /// KiB of the largest request that it takes.
    pub(crate) fn request_kb_max(&self) -> Option<u32> {
        let kb = self.request_bytes_max? / KIB;
        Some(u32::try_from(kb).unwrap_or(u32::MAX))
    }

    /// The preset, or the file that [`Self::description`] was written to.
    pub(crate) fn word<'a>(&'a self, described: &'a str) -> Cow<'a, str> {
        match self.description() {
            None => Cow::Borrowed(&self.preset),
            Some(_) => Cow::Borrowed(described),
        }
    }
}

#[cfg(test)]
mod tests {
    use headlong_drive::DriveSpec as Model;

    use super::*;

    #[test]
    fn a_preset_is_named_and_other_firmware_is_described() {
        let red = DriveSpec {
            preset: "wd-red-wd10efrx".to_owned(),
            ..DriveSpec::default()
        };
        assert_eq!(red.word("drive.toml"), "wd-red-wd10efrx");
        let other = DriveSpec {
            queue: Some(QueueOrder::Sweep),
            cache_segments: Some(0),
            ..red.clone()
        };
        assert_eq!(other.word("drive.toml"), "drive.toml");
        let text = other.description().expect("described").expect("text");
        let read: Model = toml::from_str(&text).expect("a drive");
        assert_eq!(Ok(read), other.model());
        assert_ne!(other.model(), red.model());
    }
}
