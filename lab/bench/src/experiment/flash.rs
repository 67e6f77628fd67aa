//! The flash tier of an experiment's headlong servers: an SSD and the part of it in use.

use headlong_drive::DriveSpec;
use headlong_settings::{Document, Rows, choice, flag, size, suggestion, text};
use headlong_units::{Bytes, MIB};
use serde::Serialize;

use super::drive::{drive_spec, is_file};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_match_server() {
        for policy in POLICIES {
            let mut engine = headlong_sim::WorldSetup::default().engine;
            let set = headlong_sim::settings::set(&mut engine, "flash_policy", policy);
            assert_eq!(set, Ok(()), "{policy}");
        }
    }
}
