//! Experiments by name, with some keys changed: `headlong simulate EXPERIMENT --set KEY=VALUE`.

use std::path::Path;

use headlong_settings::{Document, Mistakes, Value, ValueLocation, suggestion};
use headlong_workload::preset;

use super::Experiment;
use super::drive::is_file;

/// The experiment that is shipped for each preset of a workload.
const PRESET: &str = include_str!("preset.toml");
/// Keys of a table `[workload.NAME]`; all others belong to its specification.
const OF_WORKLOADS: [&str; 5] = ["preset", "rate", "chunk", "drive", "set"];

/// A key that an option of the command line changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyChange {
    /// The option, for mistakes: `--set`.
    pub option: &'static str,
    /// The key, or one that stands for several ([`Experiment::named`]).
    pub key: String,
    /// Its value.
    pub value: String,
}

impl Experiment {
    /// The experiment shipped for a preset of a workload, or that of a file, with changed keys.
    ///
    /// `server.KEY` stands for KEY in the configuration of every headlong server, `workload.KEY`
    /// for KEY of every workload or, if it has no such key, of its specification. If a server or a
    /// workload has the name KEY, the key is its own.
    ///
    /// # Errors
    /// All mistakes in the file and in the changes.
    pub fn named(name: &str, is_quick: bool, changes: &[KeyChange]) -> Result<Self, Mistakes> {
        let is_preset = preset::names().any(|known| known == name);
        let text = match is_preset {
            true => Ok(PRESET.replace("WORKLOAD", name)),
            false => std::fs::read_to_string(name),
        };
        let text = text.map_err(|error| {
            let text = match is_file(name) {
                true => format!("cannot be read: {error}"),
                false => format!(
                    "is neither a preset nor the name of a file, FILE.toml; {}",
                    suggestion(name, preset::names())
                ),
            };
            Mistakes::at(&ValueLocation::File(name.to_owned()), [text])
        })?;
        let file = Path::new(name);
        let experiment = Self::of_text(file, &text, is_quick, changes)?;
        experiment.check_workloads(file)?;
        Ok(experiment)
    }
}

/// Sets the changed keys.
pub(super) fn change(document: &mut Document, text: &str, changes: &[KeyChange]) {
    // Errors in the text are those of the document.
    let table: toml::Table = text.parse().unwrap_or_default();
    for KeyChange { option, key, value } in changes {
        for full in full_keys(&table, key) {
            document.set(&format!("{option} {key}"), &full, Value::of_word(value));
        }
    }
}

/// The keys that `key` stands for.
fn full_keys(experiment: &toml::Table, key: &str) -> Vec<String> {
    let (family, rest) = key.split_once('.').unwrap_or((key, ""));
    let first = rest.split('.').next().unwrap_or_default();
    let named = experiment.get(family).and_then(toml::Value::as_table);
    let Some(named) = named.filter(|named| !rest.is_empty() && !named.contains_key(first)) else {
        return vec![key.to_owned()];
    };
    let names = named.iter();
    match family {
        "server" => {
            let kind = |server: &toml::Value| server.get("kind")?.as_str().map(str::to_owned);
            let headlong = names.filter(|(_, server)| kind(server).as_deref() == Some("headlong"));
            let full = |(name, _)| format!("server.{name}.config.{rest}");
            headlong.map(full).collect()
        }
        "workload" if OF_WORKLOADS.contains(&first) => {
            let full = names.map(|(name, _)| format!("workload.{name}.{rest}"));
            let files = (rest == "preset").then(|| "files.catalogue".to_owned());
            full.chain(files).collect()
        }
        "workload" if rest == "catalogue.chunk" => vec!["files.chunk".to_owned()],
        "workload" => vec![format!("files.set.{rest}")],
        _ => vec![key.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use headlong_units::Duration;

    use super::*;

    fn changed(changes: &[(&str, &str)]) -> Result<Experiment, Mistakes> {
        let change = |(key, value): &(&str, &str)| KeyChange {
            option: "--set",
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        };
        let changes: Vec<_> = changes.iter().map(change).collect();
        Experiment::named("youtube-sd", false, &changes)
    }

    #[test]
    fn changed_keys_reach_servers_and_workloads() {
        let experiment = changed(&[
            ("server.prefetch", "auto"),
            ("server.sweep", "2s"),
            ("server.nginx.workers", "4"),
            ("workload.rate", "7MiB/s"),
            ("workload.preset", "youtube-hd"),
            ("workload.title.sd.count", "100"),
            ("phases.ramp_up", "225s"),
        ]);
        let experiment = experiment.expect("right");
        let server = &experiment.servers["headlong"];
        assert_eq!(server.engine, [("sweep".to_owned(), "2s".to_owned())]);
        let cell = experiment
            .cell(Some("headlong"), None)
            .expect("one workload");
        assert_eq!(cell.rate_start(), 7.0 * 1_048_576.0);
        assert_eq!(cell.workload.preset, "youtube-hd");
        let titles = cell.files.catalogue().expect("right").titles.len();
        assert_eq!(titles, 8100);
        assert_eq!(experiment.phases.ramp_up, Duration::from_secs(225));
        assert_eq!(experiment.cells().len(), 1, "the others are for --server");
    }

    #[test]
    fn every_wrong_key_is_reported_with_nearest_name() {
        let wrong = changed(&[
            ("server.prefech", "auto"),
            ("drive.que", "nearest"),
            ("drive.preset", "wd-red-wd10efr"),
            ("workload.sessions.resum_time", "1s"),
            ("phases.measured", "0s"),
            ("simulation.restart_at", "2h"),
        ]);
        let told = wrong.expect_err("mistakes").to_string();
        for part in [
            "--set server.prefech: server.headlong.config.prefech: unknown key; did you mean \
             `prefetch`",
            "did you mean `drive.queue`",
            "did you mean `wd-red-wd10efrx`",
            "resume_time",
            "--set phases.measured: ",
            "--set simulation.restart_at: is 2h",
        ] {
            assert!(told.contains(part), "{part} is missing in: {told}");
        }
    }

    #[test]
    fn misspelled_preset_is_told_the_nearest() {
        let told = |name| {
            let named = Experiment::named(name, false, &[]);
            named.expect_err("unknown").to_string()
        };
        assert_eq!(
            told("yuotube-sd"),
            "yuotube-sd: is neither a preset nor the name of a file, FILE.toml; did you mean \
             `youtube-sd`?"
        );
        assert!(told("x/yuotube-sd.toml").contains("x/yuotube-sd.toml: cannot be read: "));
    }
}
