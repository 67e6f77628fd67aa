//! `headlong completions` and `headlong manual`: what a package installs beside the program, made
//! of the command line itself, so that it cannot tell of a flag that is not there.
//!
//! Both are for who builds packages, and not in the help. Pages are written for the verbs of this
//! program; those of `headlong-lab` are named on the first page.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args;
use crate::lab;

/// For which shell.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Completing {
    /// bash, zsh, fish, elvish or powershell
    shell: Shell,
}

/// Where to.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Documenting {
    /// A folder that is there; each verb gets a page `headlong-VERB.1`
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Prints the completions of one shell.
pub(crate) fn complete(completing: &Completing) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(
        completing.shell,
        &mut args::command(),
        "headlong",
        &mut text,
    );
    match std::io::stdout().write_all(&text) {
        // Whoever reads had enough: not a failure of ours.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes the pages.
pub(crate) fn write(documenting: &Documenting) -> anyhow::Result<()> {
    let mut command = args::command().disable_help_subcommand(true);
    command.build();
    write_pages(&command, "headlong", &documenting.folder)
}

/// The page of a command and those of the commands below it.
fn write_pages(command: &Command, name: &str, folder: &Path) -> anyhow::Result<()> {
    let mut page = Vec::new();
    let version = concat!("headlong ", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone())
        .source(version)
        .manual("Headlong")
        .render(&mut page)?;
    let file = folder.join(format!("{name}.1"));
    fs::write(&file, page).with_context(|| file.display().to_string())?;
    for below in command.get_subcommands() {
        if !below.is_hide_set() && !is_of_lab(command, below) {
            write_pages(below, &format!("{name}-{}", below.get_name()), folder)?;
        }
    }
    Ok(())
}

/// Whether a verb is of the other program: its flags are not known here.
fn is_of_lab(above: &Command, verb: &Command) -> bool {
    let is_among = |verbs: &[(&str, &str)]| verbs.iter().any(|(name, _)| *name == verb.get_name());
    match above.get_name() {
        "disk" => is_among(&lab::DISK_VERBS),
        _ => is_among(&lab::VERBS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_of_this_program_has_a_page_and_others_have_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let to = folder.path().to_owned();
        write(&Documenting { folder: to }).expect("written");
        let files = fs::read_dir(folder.path()).expect("a folder");
        let names = files.map(|file| file.expect("an entry").file_name());
        let mut names: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
        names.sort();
        assert_eq!(
            names,
            [
                "headlong-check.1",
                "headlong-disk-layout.1",
                "headlong-disk-probe.1",
                "headlong-disk.1",
                "headlong-reception.1",
                "headlong-run.1",
                "headlong-serve.1",
                "headlong-top.1",
                "headlong-tune.1",
                "headlong.1",
            ]
        );
        let page = |name: &str| fs::read_to_string(folder.path().join(name)).expect("a page");
        let serve = page("headlong-serve.1");
        assert!(serve.contains("headlong\\-serve") && serve.contains("\\-\\-listen"));
        let first = page("headlong.1");
        assert!(first.contains("Play viewers against any HTTP server"));
        assert!(!first.contains("completions"), "{first}");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let folder = PathBuf::from("/nonexistent/pages");
        let error = write(&Documenting { folder }).expect_err("no folder");
        assert!(error.to_string().contains("/nonexistent/pages"), "{error}");
    }
}
