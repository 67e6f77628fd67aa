//! The same settings at every start of the machine: a rule for udev.

use std::fmt::Write as _;

use super::advice::{Remedy, advise};
use super::facts::Facts;

/// A file of rules that gives each of these devices what is advised and keeps what is good.
pub fn udev_rule(device: &str, facts: &[Facts]) -> String {
    let mut rules = format!(
        "# /etc/udev/rules.d/99-headlong-{device}.rules, made by `headlong tune {device} --udev`.\n\
         # Then: udevadm control --reload && udevadm trigger --action=change --subsystem-match=block\n"
    );
    for facts in facts {
        let values = advise(facts).into_iter().filter_map(|row| row.remedy);
        // Read-ahead is the last: other limits of the queue set it to its default.
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
                None => ", known by its name only, which may change",
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
    use crate::tune::facts::tests::Tree;

    #[test]
    fn a_rule_knows_the_drive_by_its_own_number_and_sets_read_ahead_last() {
        let tree = Tree::new();
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
    fn a_drive_that_names_itself_strangely_is_known_by_its_kernel_name() {
        let tree = Tree::new();
        tree.disk("sdz", &[("device/wwid", "x\", RUN+=\"/bin/sh")]);
        let rule = udev_rule("sdz", &tree.system().facts("sdz").expect("there"));
        assert!(
            rule.contains("KERNEL==\"sdz\"") && !rule.contains("RUN"),
            "{rule}"
        );
    }
}
