//! A udev rule that applies the same settings at every boot.

use std::fmt::Write as _;

use super::advice::{Remedy, advise};
use super::facts::TuneFacts;

/// A rules file that applies the advised values to each of these devices, and pins good ones.
pub fn udev_rule(device: &str, facts: &[TuneFacts]) -> String {
    let mut rules = format!(
        "# /etc/udev/rules.d/99-headlong-{device}.rules, made by `headlong tune {device} --udev`.\n\
         # Then: udevadm control --reload && udevadm trigger --action=change --subsystem-match=block\n"
    );
    for facts in facts {
        let values = advise(facts).into_iter().filter_map(|row| row.remedy);
        // Readahead is last: other limits of the queue reset it to its default.
        let mut values: Vec<(&str, String)> = values
            .filter_map(|remedy| match remedy {
                Remedy::Write { file, value } => Some((file, value)),
                Remedy::ByHand(_) => None,
            })
            .collect();
        values.sort_by_key(|(file, _)| *file == "queue/read_ahead_kb");
        let which = match &facts.identity {
            Some((attribute, value)) => format!("{attribute}==\"{value}\""),
            None => format!("KERNEL==\"{}\"", facts.name),
        };
        // Writing to a String cannot fail.
        let _ = write!(
            rules,
            "\n# {}{}\nACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", {which}",
            facts.name,
            match facts.identity {
                Some(_) => "",
                None => ", identified by its name only, which may change",
            }
        );
        for (file, value) in values {
            let _ = write!(rules, ", \\\n  ATTR{{{file}}}=\"{value}\"");
        }
        rules.push('\n');
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::facts::tests::FakeKernelTrees;

    #[test]
    fn rule_identifies_drive_by_wwid_and_sets_readahead_last() {
        let tree = FakeKernelTrees::new();
        tree.disk("sdz", &[("queue/scheduler", "none mq-deadline [bfq]")]);
        tree.put("sdz", "device/wwid", "naa.50014ee2b1234567");
        let facts = tree.system().facts("sdz").expect("there");
        let rule = udev_rule("sdz", &facts);
        assert!(
            rule.contains("ATTRS{wwid}==\"naa.50014ee2b1234567\""),
            "{rule}"
        );
        let at = |text: &str| rule.find(text).unwrap_or_else(|| panic!("{text}: {rule}"));
        let scheduler = at("ATTR{queue/scheduler}=\"mq-deadline\"");
        let limit = at("ATTR{queue/max_sectors_kb}=\"1280\"");
        assert!(scheduler < limit && limit < at("ATTR{queue/read_ahead_kb}=\"128\"\n"));
    }

    #[test]
    fn drive_with_unsafe_id_is_identified_by_kernel_name() {
        let tree = FakeKernelTrees::new();
        tree.disk("sdz", &[("device/wwid", "x\", RUN+=\"/bin/sh")]);
        let rule = udev_rule("sdz", &tree.system().facts("sdz").expect("there"));
        assert!(
            rule.contains("KERNEL==\"sdz\"") && !rule.contains("RUN"),
            "{rule}"
        );
    }
}
