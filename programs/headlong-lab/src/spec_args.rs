//! A workload specification as arguments: its name and its overrides.

use std::path::Path;

use headlong_workload::{Specification, preset};

use crate::mistake::Mistakes;

/// A specification and its overrides.
#[derive(Debug, clap::Args)]
pub(crate) struct SpecArgs {
    /// A preset or a TOML file
    #[arg(value_name = "SPEC")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) changes: SpecOverrides,
}

/// Overrides of a specification.
#[derive(Debug, clap::Args)]
pub(crate) struct SpecOverrides {
    /// Override a key of SPEC, such as requests.size=512KiB; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

impl SpecArgs {
    /// Reads the specification, with `changes` in addition to the command line's overrides.
    pub(crate) fn read(&self, changes: &[(&str, String)]) -> anyhow::Result<Specification> {
        self.changes.read(&self.name, changes)
    }
}

/// Keys with their own options, and the prefix of errors about them.
const FLAGS: [(&str, &str); 3] = [
    ("sessions.rate", "--rate:"),
    ("sessions.length", "--length:"),
    ("sessions.count", "--sessions:"),
];

impl SpecOverrides {
    /// The overrides of `--set`, as keys and values.
    pub(crate) fn overrides(&self) -> anyhow::Result<Vec<(String, String)>> {
        let mut overrides = Vec::new();
        for set in &self.sets {
            let Some((key, value)) = set.split_once('=') else {
                let text = format!("--set {set}: has no value; write KEY=VALUE");
                return Err(Mistakes(vec![text]).into());
            };
            overrides.push((key.trim().to_string(), value.trim().to_string()));
        }
        Ok(overrides)
    }

    pub(crate) fn read(
        &self,
        name: &str,
        changes: &[(&str, String)],
    ) -> anyhow::Result<Specification> {
        let mut overrides = self.overrides()?;
        overrides.extend(
            changes
                .iter()
                .map(|(key, value)| (key.to_string(), value.clone())),
        );
        let is_file = name.contains(['/', '.']) || Path::new(name).exists();
        let read = match is_file && preset::text(name).is_none() {
            false => Specification::preset(name, &overrides),
            true => {
                let text = std::fs::read_to_string(name).map_err(|error| {
                    let presets = preset::names().chain(preset::phased_names());
                    let presets: Vec<&str> = presets.collect();
                    let presets = presets.join(", ");
                    Mistakes(vec![format!(
                        "{name}: cannot be read: {error}; name a file, or one of {presets}"
                    )])
                })?;
                Specification::read(name, &text, &overrides)
            }
        };
        read.map_err(|errors| {
            let mut text = errors.to_string();
            // Report values of options by the option's name.
            for (key, flag) in FLAGS {
                if changes.iter().any(|(changed, _)| *changed == key) {
                    text = text.replace(&format!("--set {key}:"), flag);
                }
            }
            Mistakes(text.lines().map(String::from).collect()).into()
        })
    }
}
