//! The drive of an experiment, the SSD of its flash tier, and a third-party cache on that SSD.

use std::borrow::Cow;

use headlong_drive::{DriveSpec, Firmware, QueueOrder, named_drive};
use headlong_settings::{Document, Rows, choice, flag, size, suggestion, text, whole};
use headlong_units::{Bytes, KIB, MIB};
use serde::Serialize;

/// With more drives, the processors of one machine become the limit.
const COUNT_MAX: u32 = 8;

const ORDERS: [(&str, QueueOrder); 3] = [
    ("fcfs", QueueOrder::Fcfs),
    ("nearest", QueueOrder::Nearest),
    ("sweep", QueueOrder::Sweep),
];

/// The drive, emulated unless a block device is named; a field that is `None` keeps the preset's
/// value.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ExperimentDrive {
    /// Name of a preset of `headlong disk`, or a file that describes a drive: of a block device,
    /// its model in virtual time.
    pub preset: String,
    /// A block device of this machine, such as `/dev/sdb`, in place of an emulated drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Whether the content of that device may be erased.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub overwrite: bool,
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
pub(super) fn drive_rows() -> Rows<ExperimentDrive> {
    let mut rows = Rows::<ExperimentDrive>::default();
    rows.add("preset", text(), |d| &mut d.preset, "");
    rows.add("device", text().optional(), |d| &mut d.device, "");
    rows.add("overwrite", flag(), |d| &mut d.overwrite, "");
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
/// probe -o`, else a preset or a drawn drive.
///
/// # Errors
/// If there is no such drive or file, or the file is wrong.
pub fn drive_spec(name: &str) -> Result<DriveSpec, String> {
    if !name.ends_with(".toml") {
        return named_drive(name).map_err(|error| error.to_string());
    }
    let wrong = |error: &dyn std::fmt::Display| format!("{name}: {error}");
    let text = std::fs::read_to_string(name).map_err(|error| wrong(&error))?;
    let spec: DriveSpec = toml::from_str(&text).map_err(|error| wrong(&error))?;
    spec.check().map_err(|error| wrong(&error))?;
    Ok(spec)
}

impl ExperimentDrive {
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

const POLICIES: [&str; 4] = ["lru", "lfu-mean", "lfu-median", "adaptive"];

/// An SSD between memory and the drive, in the state of a long running tier or empty.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlashTier {
    /// Name of a preset of `headlong disk`, or a file that describes an SSD.
    pub preset: String,
    /// Bytes in use; all of it if `None`.
    pub size_bytes: Option<u64>,
    /// Bytes of a block: the write size at which the SSD is fast.
    pub block_bytes: u64,
    /// Whether it starts with the content that earlier viewers would have read most.
    pub is_warm: bool,
    /// `flash_policy` of servers that do not set their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<&'static str>,
    /// `flash_write_per_day` of servers that do not set their own, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_per_day_bytes: Option<u64>,
}

impl Default for FlashTier {
    fn default() -> Self {
        Self {
            preset: String::new(),
            size_bytes: None,
            block_bytes: 16 * MIB,
            is_warm: false,
            policy: None,
            write_per_day_bytes: None,
        }
    }
}

fn rows() -> Rows<FlashTier> {
    let mut rows = Rows::<FlashTier>::default();
    rows.add("preset", text(), |f| &mut f.preset, "");
    let bytes = size().at_least(MIB).optional();
    rows.add("size", bytes, |f| &mut f.size_bytes, "");
    let block = size().at_least(MIB);
    rows.add("block", block, |f| &mut f.block_bytes, "");
    rows.add("warm", flag(), |f| &mut f.is_warm, "");
    let policy = choice(&POLICIES.map(|name| (name, name))).optional();
    rows.add("policy", policy, |f| &mut f.policy, "");
    let budget = size().optional();
    rows.add("write_per_day", budget, |f| &mut f.write_per_day_bytes, "");
    rows
}

/// `[flash]`, if present.
pub(super) fn flash(document: &mut Document) -> Option<FlashTier> {
    if !document.is_written("flash") {
        return None;
    }
    let mut tier = FlashTier::default();
    rows().read(document, "flash", &mut tier);
    let key = "flash.preset";
    let all = headlong_drive::presets().iter();
    let ssds = all.filter(|preset| matches!(preset.spec(), DriveSpec::SolidState(_)));
    let ssds: Vec<&str> = ssds.map(|preset| preset.name).collect();
    if tier.preset.is_empty() {
        document.wrong_too(key, format!("is missing; write one of {}", ssds.join(", ")));
    } else if !is_file(&tier.preset) && !ssds.contains(&tier.preset.as_str()) {
        let hint = suggestion(&tier.preset, ssds.iter().copied());
        document.wrong(key, format!("`{}` is not an SSD; {hint}", tier.preset));
    } else if let (Ok(model), Some(bytes)) = (tier.model(), tier.size_bytes)
        && bytes > model.capacity_bytes()
    {
        let most = Bytes(model.capacity_bytes());
        let text = format!("is more than {} has; write {most} or less", tier.preset);
        document.wrong("flash.size", text);
    }
    Some(tier)
}

impl FlashTier {
    /// Adds the tier's keys to the server's configuration, except those already set.
    pub(crate) fn add_keys(&self, table: &mut toml::Table) {
        let policy = self.policy.map(toml::Value::from);
        let budget = self.write_per_day_bytes.map(Bytes);
        let budget = budget.map(|bytes| toml::Value::from(bytes.to_string()));
        for (key, value) in [("flash_policy", policy), ("flash_write_per_day", budget)] {
            if let Some(value) = value {
                table.entry(key).or_insert(value);
            }
        }
    }

    /// The model of the SSD.
    pub(crate) fn model(&self) -> Result<DriveSpec, String> {
        match drive_spec(&self.preset)? {
            ssd @ DriveSpec::SolidState(_) => Ok(ssd),
            other => Err(format!("{} is a hard disk; use an SSD", other.name())),
        }
    }
}

/// The cache program and its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// The program.
    pub kind: CacheKind,
    /// nginx's `slice`: titles are requested and cached in parts of this size; whole if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_bytes: Option<u64>,
}

/// Supported caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    /// nginx with `proxy_cache`.
    Nginx,
    /// Apache Traffic Server.
    TrafficServer,
    /// Varnish with a file store.
    Varnish,
    /// No cache in front: the titles lie on a ZFS pool, and the SSD is the pool's cache (L2ARC).
    Zfs,
}

impl CacheKind {
    /// Its name in an experiment.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::TrafficServer => "trafficserver",
            Self::Varnish => "varnish",
            Self::Zfs => "zfs",
        }
    }
}

const KINDS: [(&str, CacheKind); 4] = [
    (CacheKind::Nginx.name(), CacheKind::Nginx),
    (CacheKind::TrafficServer.name(), CacheKind::TrafficServer),
    (CacheKind::Varnish.name(), CacheKind::Varnish),
    (CacheKind::Zfs.name(), CacheKind::Zfs),
];

/// `cache = { kind = ... }` of a server, if present and valid.
pub(super) fn cache(document: &mut Document, table: &str) -> Option<Cache> {
    if !document.is_written(table) {
        return None;
    }
    let kind = format!("{table}.kind");
    let slice = format!("{table}.slice");
    let found = document.get(&kind, &choice(&KINDS));
    let slice_bytes = document.get(&slice, &size().at_least(KIB));
    if !document.is_written(&kind) {
        let text = "is missing; write nginx, trafficserver, varnish or zfs";
        document.wrong_too(&kind, text);
    }
    if slice_bytes.is_some() && found.is_some_and(|kind| kind != CacheKind::Nginx) {
        document.wrong(&slice, "is for nginx: the others have no such setting");
    }
    found.map(|kind| Cache { kind, slice_bytes })
}

#[cfg(test)]
mod tests {
    use headlong_drive::DriveSpec;

    use super::*;

    #[test]
    fn changed_firmware_is_written_as_description() {
        let red = ExperimentDrive {
            preset: "wd-red-wd10efrx".to_owned(),
            ..ExperimentDrive::default()
        };
        assert_eq!(red.word("drive.toml"), "wd-red-wd10efrx");
        let other = ExperimentDrive {
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

    #[test]
    fn policies_match_server() {
        for policy in POLICIES {
            let mut engine = headlong_sim::WorldSetup::default().engine;
            let set = headlong_sim::settings::set(&mut engine, "flash_policy", policy);
            assert_eq!(set, Ok(()), "{policy}");
        }
    }
}
