//! All paths that are filled from origins, and which of them a request's is below.

use std::io::ErrorKind;
use std::sync::Arc;

use headlong_library::Library;

use super::counters::{PullCounts, Purged};
use super::titles::Pull;
use crate::config::Config;
use crate::disk::Device;

/// All paths that are filled from origins.
#[derive(Debug, Default)]
pub struct Pulls(Vec<Arc<Pull>>);

impl Pulls {
    /// Takes over what was kept before, and drops what is of no use. May wait for disks. `is_heir`: the
    /// process that has it now is about to end.
    ///
    /// # Errors
    /// What keeps a path from being filled.
    pub fn open(config: &Config, library: &Library, is_heir: bool) -> Result<Self, String> {
        let folders = config.folders();
        let mut pulls = Vec::new();
        for (prefix, rule) in &config.pull {
            let root = folders.iter().position(|folder| *folder == rule.folder);
            let folder = rule.folder.display();
            let pull = Pull::open(
                prefix,
                rule,
                (library, root.unwrap_or(0)),
                (config.time_scale(), is_heir),
            );
            let pull = pull.map_err(|error| {
                let remedy = match error.kind() {
                    ErrorKind::PermissionDenied => "; let the server's user write there",
                    ErrorKind::ReadOnlyFilesystem => {
                        "; for a unit of systemd, ReadWritePaths= lets it"
                    }
                    _ => "",
                };
                format!("pull.{prefix}: {folder} cannot keep titles: {error}{remedy}")
            })?;
            pulls.push(Arc::new(pull));
        }
        // The longest prefix that fits comes first.
        pulls.sort_by_key(|pull: &Arc<Pull>| std::cmp::Reverse(pull.prefix.len()));
        Ok(Self(pulls))
    }

    /// The devices are there.
    pub fn attach(&self, devices: &[Device]) {
        for pull in &self.0 {
            let index = pull.device_index();
            if let Some(device) = index.and_then(|index| devices.get(index)) {
                let _ = pull.device.set(device.clone());
            }
        }
    }

    /// Which path a request's is below, and the rest of it.
    pub fn of<'a>(&self, path: &'a str) -> Option<(&Arc<Pull>, &'a str)> {
        self.0.iter().find_map(|pull| {
            let rest = path.strip_prefix(&pull.prefix[1..])?;
            (!rest.is_empty()).then_some((pull, rest))
        })
    }

    /// What was counted.
    pub fn counts(&self) -> Vec<PullCounts> {
        self.0.iter().map(|pull| pull.counts()).collect()
    }

    /// Takes away titles by their whole path, or all below a prefix; each from the root, with a slash.
    pub fn purge(&self, path: &str, is_prefix: bool) -> Purged {
        let mut all = Purged::default();
        for pull in &self.0 {
            let gone = pull.purge(|title| {
                let whole = format!("{}{title}", pull.prefix);
                if is_prefix {
                    whole.starts_with(path)
                } else {
                    whole == path
                }
            });
            all.titles += gone.titles;
            all.bytes += gone.bytes;
        }
        all
    }
}
