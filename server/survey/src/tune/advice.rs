//! Advice on the settings of a disk: facts in, advice out.
//!
//! Headlong uses direct I/O, in long reads that it orders itself, several outstanding at once. The
//! kernel should pass them on unchanged: in few requests, enough of them, not reordered for
//! fairness between programs.

use headlong_engine::EngineConfig;
use serde::Serialize;

use super::facts::{MountFacts, TuneFacts};

/// Requests of at least this size are optimal, KiB (docs/lab/results.md, "Drives that differ in
/// their firmware").
const REQUEST_KB_ENOUGH: u64 = 1024;
/// Advised size if requests are smaller: the default of newer kernels, KiB.
const REQUEST_KB: u64 = 4096;
/// Supported by SATA drives with every kernel.
const QUEUE_DEPTH: u64 = 31;
/// Two requests for each of eight outstanding reads.
const QUEUE_DEPTH_ENOUGH: u64 = 16;
/// Cost of a setting without a measurement.
const NOT_MEASURED: &str = "not measured";

/// Quality of the present value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingVerdict {
    /// As advised, or without effect.
    Good,
    /// Slightly worse than advised.
    Minor,
    /// Reduces performance.
    Bad,
    /// Not reported by the kernel.
    Unknown,
}

/// How to change a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// A value for a file below the device's folder in `/sys`.
    Write {
        /// The file, such as `queue/scheduler`.
        file: &'static str,
        /// The advised value, or the present one if that is good.
        value: String,
    },
    /// A command for the operator: it affects more than this device.
    ByHand(String),
}

/// Advice on one setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AdviceRow {
    /// The kernel's name of the setting.
    pub setting: &'static str,
    /// The present value.
    pub set: String,
    /// The advised value.
    pub advised: String,
    /// The comparison.
    pub verdict: SettingVerdict,
    /// The reason, in a sentence.
    pub why: &'static str,
    /// The cost of another value, if it was measured.
    pub cost: &'static str,
    /// How to change it; `None` if it has no effect or cannot be changed.
    pub remedy: Option<Remedy>,
}

/// The advice for one device, a row for each setting that the kernel reports.
pub fn advise(facts: &TuneFacts) -> Vec<AdviceRow> {
    let rows: Vec<Option<AdviceRow>> = match facts.members.is_empty() {
        true => vec![
            Some(rotational(facts)),
            scheduler(facts),
            max_sectors(facts),
            nr_requests(facts),
            queue_depth(facts),
            read_ahead(facts),
            write_cache(facts),
            numa(facts),
        ],
        // Requests go to the members, each with its own queue.
        false => vec![max_sectors(facts), read_ahead(facts)],
    };
    let mounts = facts.mounts.iter().map(|mounted| Some(mount(mounted)));
    let rows = rows.into_iter().chain(mounts).chain([huge_pages(facts)]);
    rows.flatten().collect()
}

/// Commands of remedies.
impl AdviceRow {
    /// The shell command that changes it, for the device of this name.
    pub fn command(&self, device: &str) -> Option<String> {
        match self.remedy.as_ref()? {
            Remedy::Write { file, value } => {
                Some(format!("echo {value} > /sys/block/{device}/{file}"))
            }
            Remedy::ByHand(command) => Some(command.clone()),
        }
    }

    /// Whether it should be changed.
    pub fn is_off(&self) -> bool {
        matches!(self.verdict, SettingVerdict::Minor | SettingVerdict::Bad)
    }
}

fn write(file: &'static str, value: impl ToString) -> Option<Remedy> {
    let value = value.to_string();
    Some(Remedy::Write { file, value })
}

fn rotational(facts: &TuneFacts) -> AdviceRow {
    let (set, verdict) = match facts.rotational {
        Some(true) => ("1", SettingVerdict::Good),
        Some(false) => ("0", SettingVerdict::Good),
        None => ("unknown", SettingVerdict::Unknown),
    };
    AdviceRow {
        setting: "rotational",
        set: set.to_owned(),
        advised: "as the drive is".to_owned(),
        verdict,
        why: "1 gives long reads in the order of the disk, 0 many at once; if it is wrong, as behind \
              some RAID controllers, set `rotational` in [device.NAME]",
        cost: NOT_MEASURED,
        remedy: None,
    }
}

fn scheduler(facts: &TuneFacts) -> Option<AdviceRow> {
    let set = facts.scheduler.clone()?;
    let (best, good): (_, &[&str]) = match facts.rotational {
        Some(false) => ("none", &["none", "mq-deadline", "kyber"]),
        _ => ("mq-deadline", &["none", "mq-deadline"]),
    };
    let is_good = good.contains(&set.as_str());
    let offered = |name: &&str| facts.schedulers.iter().any(|one| one == name);
    let best = Some(best).filter(offered).unwrap_or("none");
    let advised = if is_good { set.as_str() } else { best };
    Some(AdviceRow {
        setting: "scheduler",
        advised: advised.to_owned(),
        verdict: if is_good {
            SettingVerdict::Good
        } else {
            SettingVerdict::Bad
        },
        why: "reads are already ordered; bfq and kyber delay them for fairness to other \
              programs",
        cost: NOT_MEASURED,
        remedy: write("queue/scheduler", advised),
        set,
    })
}

fn max_sectors(facts: &TuneFacts) -> Option<AdviceRow> {
    let set = facts.max_sectors_kb?;
    let most = facts.max_hw_sectors_kb.unwrap_or(set);
    let is_good = set >= REQUEST_KB_ENOUGH.min(most);
    let advised = if is_good { set } else { REQUEST_KB.min(most) };
    Some(AdviceRow {
        setting: "max_sectors_kb",
        set: format!("{set} (the device takes {most})"),
        advised: match is_good {
            true => set.to_string(),
            false => advised.to_string(),
        },
        verdict: if is_good {
            SettingVerdict::Good
        } else {
            SettingVerdict::Minor
        },
        why: "a long read is split into requests of this size, and a drive may serve others \
              between them",
        // docs/lab/results.md, "Drives that differ in their firmware" and "The kernel's read-ahead".
        cost: "on a modelled disk none: SD 92 to 94 MiB/s with 128 KiB to 4 MiB; nginx alone with \
               read-ahead of 1 MiB: 64 MB/s with 512 KiB, 68 with 1280",
        remedy: write("queue/max_sectors_kb", advised),
    })
}

fn nr_requests(facts: &TuneFacts) -> Option<AdviceRow> {
    let set = facts.nr_requests?;
    let request_kb = facts.max_sectors_kb.unwrap_or(REQUEST_KB_ENOUGH).max(1);
    let outstanding_kb = EngineConfig::default().outstanding_bytes_max / 1024;
    let needed = outstanding_kb.div_ceil(request_kb);
    // Without a scheduler there are as many as the device takes at once.
    let is_good = set >= needed || facts.scheduler.as_deref() == Some("none");
    let advised = if is_good { set } else { needed };
    Some(AdviceRow {
        setting: "nr_requests",
        set: set.to_string(),
        advised: advised.to_string(),
        verdict: if is_good {
            SettingVerdict::Good
        } else {
            SettingVerdict::Minor
        },
        why: "with fewer requests than the outstanding reads are split into, reads wait before the \
              scheduler sees them",
        cost: NOT_MEASURED,
        remedy: write("queue/nr_requests", advised),
    })
}

fn queue_depth(facts: &TuneFacts) -> Option<AdviceRow> {
    let set = facts.queue_depth?;
    let is_good = set >= QUEUE_DEPTH_ENOUGH;
    let advised = if is_good { set } else { QUEUE_DEPTH };
    Some(AdviceRow {
        setting: "queue_depth",
        set: set.to_string(),
        advised: advised.to_string(),
        verdict: if is_good {
            SettingVerdict::Good
        } else {
            SettingVerdict::Bad
        },
        why: "with few commands at a time the drive cannot choose among waiting reads; USB disks \
              often take one",
        cost: "on a modelled disk, SD: 96 MiB/s with 32, 69 with 4 or 1",
        // Not in the udev rule: the drive may take fewer commands.
        remedy: Some(Remedy::ByHand(format!(
            "echo {advised} > /sys/block/{}/device/queue_depth",
            facts.name
        ))),
    })
}

fn read_ahead(facts: &TuneFacts) -> Option<AdviceRow> {
    let set = facts.read_ahead_kb?;
    Some(AdviceRow {
        setting: "read_ahead_kb",
        set: set.to_string(),
        advised: "any".to_owned(),
        verdict: SettingVerdict::Good,
        why: "Headlong bypasses the page cache; it affects programs that do not, such as nginx",
        cost: "nothing; nginx alone: SD 21.5 MiB/s with 128, 48.2 with 512; HD 17.9 with 128, 48.6 \
               with 1024",
        remedy: write("queue/read_ahead_kb", set),
    })
}

fn write_cache(facts: &TuneFacts) -> Option<AdviceRow> {
    Some(AdviceRow {
        setting: "write_cache",
        set: facts.write_cache.clone()?,
        advised: "any".to_owned(),
        verdict: SettingVerdict::Good,
        why: "serving only reads; do not write `write through` here, it makes the kernel stop \
              flushing and loses data when the power fails",
        cost: "nothing",
        remedy: None,
    })
}

fn numa(facts: &TuneFacts) -> Option<AdviceRow> {
    let numa = facts.numa.filter(|numa| numa.nodes > 1)?;
    let node = numa.node;
    Some(AdviceRow {
        setting: "NUMA node",
        set: format!("{node} of {}", numa.nodes),
        advised: format!("processors of node {node}"),
        verdict: if numa.is_near {
            SettingVerdict::Good
        } else {
            SettingVerdict::Minor
        },
        why: "data crosses between nodes if no processor of the disk's own node serves",
        cost: NOT_MEASURED,
        remedy: Some(Remedy::ByHand(format!(
            "numactl --cpunodebind={node} --preferred={node} headlong serve ..."
        ))),
    })
}

fn mount(mounted: &MountFacts) -> AdviceRow {
    let has = |name: &str| mounted.options.split(',').any(|option| option == name);
    let verdict = match () {
        () if has("noatime") || has("ro") => SettingVerdict::Good,
        () if has("relatime") => SettingVerdict::Minor,
        () => SettingVerdict::Bad,
    };
    let point = mounted.point.display();
    AdviceRow {
        setting: "mount options",
        set: format!("{} on {point}", mounted.options),
        advised: "noatime".to_owned(),
        verdict,
        why: "otherwise reading writes: relatime once a day for each file, strictatime at every read",
        cost: NOT_MEASURED,
        remedy: Some(Remedy::ByHand(format!(
            "mount -o remount,noatime '{point}'    # and noatime in /etc/fstab"
        ))),
    }
}

fn huge_pages(facts: &TuneFacts) -> Option<AdviceRow> {
    let set = facts.huge_pages.clone()?;
    Some(AdviceRow {
        setting: "huge pages",
        advised: "madvise".to_owned(),
        verdict: match set.as_str() {
            "never" => SettingVerdict::Minor,
            _ => SettingVerdict::Good,
        },
        why: "memory for titles uses pages of 2 MiB, so that the kernel pins few for each read",
        cost: NOT_MEASURED,
        remedy: Some(Remedy::ByHand(
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled".to_owned(),
        )),
        set,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> TuneFacts {
        TuneFacts {
            name: "sdz".into(),
            rotational: Some(true),
            scheduler: Some("mq-deadline".into()),
            schedulers: ["none", "mq-deadline", "kyber", "bfq"]
                .map(Into::into)
                .to_vec(),
            max_sectors_kb: Some(1280),
            max_hw_sectors_kb: Some(32767),
            nr_requests: Some(64),
            queue_depth: Some(32),
            read_ahead_kb: Some(128),
            write_cache: Some("write back".into()),
            mounts: vec![mounted("rw,noatime")],
            huge_pages: Some("madvise".into()),
            ..TuneFacts::default()
        }
    }

    fn mounted(options: &str) -> MountFacts {
        MountFacts {
            point: "/srv/videos".into(),
            options: options.into(),
        }
    }

    /// The settings that differ: name, advised value, verdict, and the command.
    fn off(facts: &TuneFacts) -> Vec<(&'static str, String, SettingVerdict, String)> {
        let rows = advise(facts).into_iter().filter(AdviceRow::is_off);
        let told = rows.map(|row| {
            let command = row.command("sdz").unwrap_or_default();
            (row.setting, row.advised, row.verdict, command)
        });
        told.collect()
    }

    #[test]
    fn disk_with_usual_settings_needs_no_change() {
        assert_eq!(off(&disk()), []);
        let settings: Vec<&str> = advise(&disk()).iter().map(|row| row.setting).collect();
        let all = "rotational scheduler max_sectors_kb nr_requests queue_depth read_ahead_kb \
                   write_cache mount options huge pages";
        assert_eq!(settings.join(" "), all);
    }

    #[test]
    fn costly_settings_are_listed_with_their_commands() {
        let facts = TuneFacts {
            scheduler: Some("bfq".into()),
            max_sectors_kb: Some(128),
            queue_depth: Some(1),
            mounts: vec![mounted("rw,relatime"), mounted("rw"), mounted("ro")],
            numa: Some(NumaPlacement {
                node: 1,
                nodes: 2,
                is_near: false,
            }),
            huge_pages: Some("never".into()),
            ..disk()
        };
        let found = off(&facts);
        let short: Vec<_> = found
            .iter()
            .map(|(setting, advised, verdict, _)| (*setting, advised.as_str(), *verdict))
            .collect();
        assert_eq!(
            short,
            [
                ("scheduler", "mq-deadline", SettingVerdict::Bad),
                ("max_sectors_kb", "4096", SettingVerdict::Minor),
                // 24 MiB in requests of 128 KiB.
                ("nr_requests", "192", SettingVerdict::Minor),
                ("queue_depth", "31", SettingVerdict::Bad),
                ("NUMA node", "processors of node 1", SettingVerdict::Minor),
                ("mount options", "noatime", SettingVerdict::Minor),
                ("mount options", "noatime", SettingVerdict::Bad),
                ("huge pages", "madvise", SettingVerdict::Minor),
            ]
        );
        assert_eq!(
            found[0].3,
            "echo mq-deadline > /sys/block/sdz/queue/scheduler"
        );
        assert!(
            found[5]
                .3
                .starts_with("mount -o remount,noatime '/srv/videos'")
        );
    }

    #[test]
    fn request_size_is_not_advised_beyond_device_limit() {
        let facts = |set| TuneFacts {
            max_sectors_kb: Some(set),
            max_hw_sectors_kb: Some(512),
            ..disk()
        };
        assert_eq!(off(&facts(512)), []);
        assert_eq!(off(&facts(256))[0].1, "512");
    }

    #[test]
    fn flash_keeps_kyber_and_gets_none_instead_of_bfq() {
        let facts = |scheduler: &str| TuneFacts {
            rotational: Some(false),
            scheduler: Some(scheduler.into()),
            ..disk()
        };
        assert_eq!(off(&facts("kyber")), []);
        assert_eq!(off(&facts("bfq"))[0].1, "none");
    }

    #[test]
    fn unavailable_scheduler_is_not_advised() {
        let facts = TuneFacts {
            scheduler: Some("bfq".into()),
            schedulers: vec!["none".into(), "bfq".into()],
            ..disk()
        };
        assert_eq!(off(&facts)[0].1, "none");
    }

    #[test]
    fn stacked_device_is_judged_by_its_own_limits() {
        let facts = TuneFacts {
            members: vec!["sdy".into(), "sdz".into()],
            scheduler: Some("bfq".into()),
            max_sectors_kb: Some(128),
            ..disk()
        };
        let settings: Vec<&str> = off(&facts).iter().map(|(setting, ..)| *setting).collect();
        assert_eq!(settings, ["max_sectors_kb"]);
    }

    #[test]
    fn unknown_settings_get_no_advice() {
        let rows = advise(&TuneFacts::default());
        assert_eq!(rows.len(), 1);
        assert_eq!(
            (rows[0].setting, rows[0].verdict),
            ("rotational", SettingVerdict::Unknown)
        );
    }

    use super::super::facts::NumaPlacement;
}
