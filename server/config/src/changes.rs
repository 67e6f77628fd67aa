//! Differences between two configurations, by setting name.

use std::collections::{BTreeMap, BTreeSet};

use headlong_edge::PullRule;
use headlong_settings::Rows;

use crate::keys::{device_rows, rows};
use crate::path_rule::{PathRule, Site};
use crate::settings::{Config, DeviceOverride};
use crate::sites::site_rows;

/// Settings that differ, as `key = value` with the new value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Settings that a reload applies.
    pub taken: Vec<String>,
    /// Settings that need a restart.
    pub needs_restart: Vec<String>,
}

impl Changes {
    /// Compares `old` with `new`.
    pub fn between(old: &Config, new: &Config) -> Self {
        let mut changes = Self::default();
        // What follows from `memory` is no change of its own.
        let mut own = new.clone();
        if [old, new]
            .iter()
            .all(|config| config.derives_connections_max())
        {
            own.limits.connections_max = old.limits.connections_max;
        }
        changes.add(&rows(), "", old, &own);
        let devices: BTreeSet<_> = old.device.keys().chain(new.device.keys()).collect();
        let unset = DeviceOverride::default();
        for name in devices {
            let of = |config: &Config| config.device.get(name).unwrap_or(&unset).clone();
            let table = format!("device.{name}.");
            changes.add(&device_rows(), &table, &of(old), &of(new));
        }
        let pulls: BTreeSet<_> = old.pull.keys().chain(new.pull.keys()).collect();
        for prefix in pulls {
            // Addresses are no setting of the table.
            let of = |config: &Config| {
                let rule = config.pull.get(prefix)?.clone();
                Some(PullRule {
                    own_addresses: Vec::new(),
                    ..rule
                })
            };
            if of(old) != of(new) {
                let text = match prefix.strip_prefix("//") {
                    Some(of_site) => {
                        format!("[pull] of the site at {of_site:?}, as the file has it")
                    }
                    None => format!("[pull.{prefix:?}] as the file has it"),
                };
                changes.needs_restart.push(text);
            }
        }
        changes.add_rules("", &old.path, &new.path);
        let sites: BTreeSet<_> = old.site.keys().chain(new.site.keys()).collect();
        let none = Site::default();
        for name in sites {
            let of = |config: &Config| config.site.get(name).unwrap_or(&none).clone();
            let (old, new) = (of(old), of(new));
            changes.add(&site_rows(), &format!("site.{name}."), &old, &new);
            changes.add_rules(&format!("site.{name:?}."), &old.path, &new.path);
        }
        changes
    }

    /// Adds rules of paths, without their values: secrets must not be logged.
    fn add_rules(
        &mut self,
        site: &str,
        old: &BTreeMap<String, PathRule>,
        new: &BTreeMap<String, PathRule>,
    ) {
        let prefixes: BTreeSet<_> = old.keys().chain(new.keys()).collect();
        let none = PathRule::default();
        for prefix in prefixes {
            let table = format!("[{site}path.{prefix:?}]");
            let (old, new) = (old.get(prefix), new.get(prefix));
            let (before, now) = (old.unwrap_or(&none), new.unwrap_or(&none));
            if before.alias != now.alias {
                self.needs_restart.push(format!("alias in {table}"));
            }
            let rest = |rule: &PathRule| PathRule {
                alias: Vec::new(),
                ..rule.clone()
            };
            if old.map(rest) != new.map(rest) {
                self.taken.push(format!("{table} as the file has it"));
            }
        }
    }

    fn add<T: Clone + 'static>(&mut self, rows: &Rows<T>, table: &str, old: &T, new: &T) {
        let (mut old, mut new) = (old.clone(), new.clone());
        for row in rows.iter() {
            let now = row.value(&mut new);
            if row.value(&mut old) == now {
                continue;
            }
            let value = match now.is_empty() {
                true => "not set".to_owned(),
                false => now,
            };
            let list = match row.needs_restart {
                true => &mut self.needs_restart,
                false => &mut self.taken,
            };
            list.push(format!("{table}{} = {value}", row.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_listed_by_whether_a_reload_applies_them() {
        let old = Config::default();
        let mut new = old.clone();
        assert_eq!(Changes::between(&old, &new), Changes::default());
        new.cache_control = "no-cache".to_owned();
        new.limits.connections_max += 1;
        let rule = new.path.entry("/films/".to_owned()).or_default();
        rule.keys = vec!["a secret".to_owned()];
        let changes = Changes::between(&old, &new);
        let path = "[path.\"/films/\"] as the file has it";
        assert_eq!(changes.taken, ["cache_control = \"no-cache\"", path]);
        let connections = format!("limits.connections_max = {}", new.limits.connections_max);
        assert_eq!(changes.needs_restart, [connections]);

        let by_memory = |bytes: u64| {
            let mut config = old.clone();
            config.engine.memory_bytes = bytes;
            config.limits.connections_max = config.connections_max_by_memory();
            config
        };
        let (small, large) = (by_memory(256 << 20), by_memory(1 << 30));
        assert_ne!(small.limits.connections_max, large.limits.connections_max);
        let changes = Changes::between(&small, &large).needs_restart;
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert!(changes[0].starts_with("memory = "), "{changes:?}");
    }
}
