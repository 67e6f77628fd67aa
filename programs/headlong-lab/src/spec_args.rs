//! A workload specification as arguments: its name and its overrides.

use std::path::Path;

use headlong_workload::phased::PhasedSpecification;
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
                return Err(Mistakes::of(text).into());
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
        read_specification(name, &overrides).map_err(|Mistakes(mut lines)| {
            // Report values of options by the option's name.
            for (key, flag) in FLAGS {
                if changes.iter().any(|(changed, _)| *changed == key) {
                    for line in &mut lines {
                        *line = line.replace(&format!("--set {key}:"), flag);
                    }
                }
            }
            Mistakes(lines).into()
        })
    }

    /// The same, scaled to `sessions` if it is a workload of phases.
    pub(crate) fn read_scaled(
        &self,
        name: &str,
        changes: &[(&str, String)],
        sessions: Option<u64>,
    ) -> anyhow::Result<Specification> {
        let specification = self.read(name, changes)?;
        match sessions {
            None => Ok(specification),
            Some(count) if specification.phases.is_some() => Ok(specification.scaled(count)),
            Some(count) => Err(not_of_phases(name, count).into()),
        }
    }
}

/// Reads a preset or a file, with overrides of its keys.
pub(crate) fn read_specification(
    name: &str,
    overrides: &[(String, String)],
) -> Result<Specification, Mistakes> {
    let read = match is_file(name) {
        false => Specification::preset(name, overrides),
        true => Specification::read(name, &file_text(name)?, overrides),
    };
    read.map_err(|errors| Mistakes(errors.to_string().lines().map(String::from).collect()))
}

/// The mistake of scaling another workload.
pub(crate) fn not_of_phases(name: &str, count: u64) -> Mistakes {
    let remedy = format!("write --set sessions.count={count}");
    let told = format!("--sessions: {name} is not a workload of phases; {remedy}");
    Mistakes::of(told)
}

/// Whether a name is that of a file rather than of a preset.
fn is_file(name: &str) -> bool {
    let is_path = name.contains(['/', '.']) || Path::new(name).exists();
    is_path && preset::text(name).is_none()
}

fn file_text(name: &str) -> Result<String, Mistakes> {
    std::fs::read_to_string(name).map_err(|error| {
        let presets: Vec<&str> = preset::names().collect();
        let presets = presets.join(", ");
        Mistakes::of(format!(
            "{name}: cannot be read: {error}; name a file, or one of {presets}"
        ))
    })
}

/// Whether a specification is of phases; mistakes are those of its reader.
pub(crate) fn is_of_phases(name: &str) -> bool {
    let text = match preset::text(name) {
        Some(text) => Some(text.to_owned()),
        None => file_text(name).ok(),
    };
    text.is_some_and(|text| PhasedSpecification::is_meant(&text))
}
