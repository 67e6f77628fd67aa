//! `headlong tune`: compares the kernel's settings of a disk with the advised ones, and prints a
//! udev rule that sets them.

use std::fmt::Write as _;

use serde_json::json;

use crate::error::SurveyError;
use crate::output::print;
use crate::tune::{AdviceRow, KernelTrees, Remedy, SettingVerdict, TuneFacts, advise, udev_rule};

/// Options: which device, and the output.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Nothing is changed: the command prints the settings, and a udev rule to copy if some differ from the
advice.

Examples:
  headlong tune sdb
  headlong tune /srv/videos
  headlong tune sdb --udev > /etc/udev/rules.d/99-headlong-sdb.rules")]
pub struct TuneArgs {
    /// Block device, such as sdb or /dev/md0, or a folder on one
    #[arg(value_name = "DEV")]
    device: String,
    /// Print only the udev rule, which sets the advised values at every boot
    #[arg(long)]
    udev: bool,
    /// Print everything as one JSON object
    #[arg(long)]
    json: bool,
}

/// Prints the settings of a device with the advice.
///
/// # Errors
/// If there is no such device, or the result cannot be printed.
pub fn tune(tuning: &TuneArgs) -> Result<(), SurveyError> {
    let system = KernelTrees::default();
    let facts = system.facts(&tuning.device)?;
    let name = system.name(&tuning.device)?;
    let text = if tuning.json {
        let devices: Vec<_> = facts.iter().map(as_json).collect();
        let rule = udev_rule(&name, &facts);
        let all = json!({ "device": name, "devices": devices, "udev": rule });
        format!("{all}\n")
    } else if tuning.udev {
        udev_rule(&name, &facts)
    } else {
        report(&name, &facts)
    };
    Ok(print(&text)?)
}

/// The kernel's settings of a device, by its kernel name, that differ from the advice, as text, or
/// why they are unknown; empty if there is nothing to do.
pub fn kernel_settings(device: &str) -> String {
    match KernelTrees::default().facts_by_name(device) {
        Ok(facts) => facts
            .iter()
            .map(|facts| table(facts, AdviceRow::is_off))
            .collect(),
        Err(error) => format!("{device}: the kernel's settings are unknown: {error}\n"),
    }
}

/// One line about badly set values of a device; `None` if there are none, or they are unknown.
pub fn kernel_warning(device: &str) -> Option<String> {
    warning(device, &KernelTrees::default().facts_by_name(device).ok()?)
}

fn warning(device: &str, facts: &[TuneFacts]) -> Option<String> {
    let bad = facts.iter().flat_map(|facts| {
        let rows = advise(facts).into_iter();
        let bad = rows.filter(|row| row.verdict == SettingVerdict::Bad);
        bad.map(|row| {
            let AdviceRow {
                setting,
                set,
                advised,
                ..
            } = row;
            format!("{} {setting} is {set}, better {advised}", facts.name)
        })
    });
    let bad: Vec<String> = bad.collect();
    (!bad.is_empty()).then(|| {
        let bad = bad.join("; ");
        format!("the kernel's settings reduce performance: {bad}; see `headlong tune {device}`")
    })
}

fn as_json(facts: &TuneFacts) -> serde_json::Value {
    let rows: Vec<_> = advise(facts)
        .into_iter()
        .map(|row| json!({ "row": row, "command": row.command(&facts.name) }))
        .collect();
    json!({ "facts": facts, "advice": rows })
}

/// The table of each device, and the rule to copy if it would change a setting.
fn report(name: &str, facts: &[TuneFacts]) -> String {
    let mut text: String = facts.iter().map(|facts| table(facts, |_| true)).collect();
    let mut rows = facts.iter().flat_map(advise);
    if rows.any(|row| row.is_off() && matches!(row.remedy, Some(Remedy::Write { .. }))) {
        text.push_str("\nA udev rule that sets the advised values at every boot:\n\n");
        text.push_str(&udev_rule(name, facts));
    }
    text
}

/// The settings of a device that are `wanted`: present and advised values, the reason, and for those
/// that differ the command. Empty if none is wanted.
fn table(facts: &TuneFacts, wanted: fn(&AdviceRow) -> bool) -> String {
    let kind = match (facts.members.as_slice(), facts.rotational) {
        ([], Some(true)) => {
            "rotating by the kernel's flag; `headlong disk probe` measures it".to_owned()
        }
        ([], Some(false)) => "flash by the kernel's flag".to_owned(),
        ([], None) => "assumed to be a rotating disk".to_owned(),
        (members, _) => format!("made of {}", members.join(", ")),
    };
    let mut text = format!("{}: {kind}\n", facts.name);
    let mut rows = advise(facts);
    rows.retain(wanted);
    if rows.is_empty() {
        return String::new();
    }
    let width = |of: fn(&AdviceRow) -> &str| {
        let widths = rows.iter().map(|row| of(row).chars().count());
        widths.max().unwrap_or(0)
    };
    let (names, sets) = (width(|row| row.setting), width(|row| &row.set));
    for row in &rows {
        let mark = match row.verdict {
            SettingVerdict::Good => ' ',
            SettingVerdict::Minor => '-',
            SettingVerdict::Bad => '!',
            SettingVerdict::Unknown => '?',
        };
        let AdviceRow {
            setting,
            set,
            advised,
            why,
            cost,
            ..
        } = row;
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            text,
            "{mark} {setting:names$}  {set:sets$}  advised: {advised}\n    {why}. Cost: {cost}."
        );
        if let Some(command) = row.command(&facts.name).filter(|_| row.is_off()) {
            let _ = writeln!(text, "    {command}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> TuneFacts {
        TuneFacts {
            name: "sdz".into(),
            rotational: Some(true),
            scheduler: Some("bfq".into()),
            schedulers: vec!["mq-deadline".into(), "bfq".into()],
            max_sectors_kb: Some(1280),
            ..TuneFacts::default()
        }
    }

    #[test]
    fn warning_names_bad_settings_and_the_command() {
        let line = warning("sdz", &[disk()]).expect("a warning");
        assert_eq!(
            line,
            "the kernel's settings reduce performance: sdz scheduler is bfq, better mq-deadline; \
             see `headlong tune sdz`"
        );
        let good = TuneFacts {
            scheduler: Some("none".into()),
            ..disk()
        };
        assert_eq!(warning("sdz", &[good]), None);
    }

    #[test]
    fn table_has_command_only_below_differing_settings() {
        let text = table(&disk(), |_| true);
        let commands: Vec<&str> = text.lines().filter(|line| line.contains("echo")).collect();
        assert_eq!(
            commands,
            ["    echo mq-deadline > /sys/block/sdz/queue/scheduler"]
        );
        assert!(
            text.starts_with("sdz: rotating by the kernel's flag; "),
            "{text}"
        );
        assert!(text.contains("\n  rotational "), "{text}");
        assert!(text.contains("\n! scheduler       bfq "), "{text}");
    }

    #[test]
    fn report_has_rule_only_if_it_changes_a_setting() {
        let text = report("sdz", &[disk()]);
        assert!(
            text.contains("\n# /etc/udev/rules.d/99-headlong-sdz.rules")
                && text.contains("ATTR{queue/scheduler}=\"mq-deadline\""),
            "{text}"
        );
        let good = TuneFacts {
            scheduler: Some("none".into()),
            // Not a setting of the device.
            huge_pages: Some("never".into()),
            ..disk()
        };
        let whole = table(&good, |_| true);
        assert_eq!(report("sdz", std::slice::from_ref(&good)), whole);
    }

    #[test]
    fn table_of_differing_settings_is_empty_without_any() {
        let text = table(&disk(), AdviceRow::is_off);
        assert!(
            text.contains("! scheduler") && !text.contains("rotational "),
            "{text}"
        );
        assert_eq!(table(&TuneFacts::default(), |_| false), "");
    }
}
