//! `headlong completions` and `headlong manual`: files that a package installs beside the program,
//! generated from the command line definition, so that they match its flags.
//!
//! Both are for packagers, and hidden in the help. Pages are written for the verbs of this program;
//! those of `headlong-lab` are listed on the first page. headlong.toml(5) has the settings.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::Context as _;
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use headlong_http::HttpDate;

use crate::lab_delegation;
use crate::settings_page::settings_page;

/// The shell.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// bash, zsh, fish, elvish or powershell
    shell: Shell,
}

/// The destination.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ManualArgs {
    /// An existing folder; each verb gets a page `headlong-VERB.1`, the file of settings `headlong.toml.5`
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Prints the completions of one shell.
pub(crate) fn complete(completing: &CompletionsArgs, mut command: Command) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(completing.shell, &mut command, "headlong", &mut text);
    match std::io::stdout().write_all(&text) {
        // The reader has closed the pipe: not a failure.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes the pages.
pub(crate) fn write(documenting: &ManualArgs, command: Command) -> anyhow::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let date = page_date();
    write_pages(&command, "headlong", &date, &documenting.folder)?;
    let file = documenting.folder.join("headlong.toml.5");
    fs::write(&file, settings_page(&date)).with_context(|| file.display().to_string())
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// The date of the pages, as `2026-11-28`: that of the sources for packages (SOURCE_DATE_EPOCH), so
/// that the same sources give the same pages, otherwise today.
fn page_date() -> String {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let epoch = epoch.and_then(|seconds| seconds.parse().ok());
    let now = || UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs()) as i64;
    let date = HttpDate::from_unix_seconds(epoch.unwrap_or_else(now));
    let date = date.unwrap_or(HttpDate::EPOCH).to_string();
    // `Sat, 28 Nov 2026 22:00:00 GMT`
    let words: Vec<&str> = date.split(' ').collect();
    let [_, day, month, year, ..] = words[..] else {
        return String::new();
    };
    let month = MONTHS.iter().position(|name| *name == month);
    format!("{year}-{:02}-{day}", month.map_or(1, |index| index + 1))
}

/// Writes the page of a command and those of its subcommands.
fn write_pages(command: &Command, name: &str, date: &str, folder: &Path) -> anyhow::Result<()> {
    let mut page = Vec::new();
    let version = concat!("headlong ", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone())
        .source(version)
        .manual("Headlong")
        .date(date)
        .render(&mut page)?;
    let file = folder.join(format!("{name}.1"));
    fs::write(&file, page).with_context(|| file.display().to_string())?;
    for below in command.get_subcommands() {
        if !below.is_hide_set() && !is_of_lab(command, below) {
            write_pages(below, &format!("{name}-{}", below.get_name()), date, folder)?;
        }
    }
    Ok(())
}

/// Whether a verb belongs to the other program: its flags are not known here.
fn is_of_lab(above: &Command, verb: &Command) -> bool {
    let is_among = |verbs: &[(&str, &str)]| verbs.iter().any(|(name, _)| *name == verb.get_name());
    match above.get_name() {
        "disk" => is_among(&lab_delegation::DISK_VERBS),
        _ => is_among(&lab_delegation::VERBS),
    }
}
