//! `headlong disk`: drives that are not there, and what is known about those that are.

mod control;
mod emulate;
mod layout;
mod layout_page;
mod probe;
mod probe_page;

use std::io::{ErrorKind, Write as _};
use std::path::Path;

use clap::Subcommand;

use crate::mistake::Mistakes;

/// What to do with a disk.
#[derive(Debug, Subcommand)]
pub(crate) enum DiskCommand {
    /// Make a block device that takes as long as a modelled drive
    Emulate(Box<emulate::Emulating>),
    /// Tell a running emulated disk what to do, or ask it
    Control(control::Controlling),
    /// Show where files and titles lie on their disk
    ///
    /// Shows where each title below a folder lies on its disk, how far files are torn apart, and
    /// which titles lie out of the order in which they were made. Positions are sectors of 512 bytes
    /// (LBA) from the start of the whole disk. Nothing is read but where files lie.
    Layout(layout::LayingOut),
    /// Measure a drive or a model of one, and fit a model to it
    ///
    /// Measures a drive like FreeBSD's diskinfo -t: rates at the start, in the middle and at the end
    /// of its addresses (100 reads of 1 MiB each), and the time of a read over the full, half and
    /// quarter stroke and over short steps, half a turn and the command's overhead included. Prints
    /// the figures and a model fitted to them, which other commands take as a drive.
    ///
    /// A block device, or a file on one, is read with direct I/O; it takes about a minute. A preset
    /// or a file that describes a drive is measured in virtual time, at once.
    ///
    /// With --write, and always for the model of an SSD, it also finds the block size that an SSD
    /// wants to be written in: the least from which on latencies of random writes are distributed
    /// like those of sequential ones (flashstream 3.1: Kullback-Leibler divergence below 0.1, 640
    /// writes each of 0.5 to 128 MiB). That destroys what is on a real device, and writes more than
    /// 300 GiB; --region and --writes make it less.
    Probe(probe::Probing),
}

/// Does it.
pub(crate) fn disk(command: &DiskCommand) -> anyhow::Result<()> {
    match command {
        DiskCommand::Emulate(emulating) => emulate::emulate(emulating),
        DiskCommand::Control(controlling) => control::control(controlling),
        DiskCommand::Layout(laying_out) => layout::layout(laying_out),
        DiskCommand::Probe(probing) => probe::probe(probing),
    }
}

/// A mistake of the operator's, for the exit code that is for those.
fn mistake(text: impl ToString) -> anyhow::Error {
    Mistakes(vec![text.to_string()]).into()
}

/// What is wrong with a file that is to be written later: its folder is not there.
fn check_folder(flag: &str, path: &Path) -> Option<String> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let problem = match (folder.is_dir(), path.is_dir()) {
        (true, false) => return None,
        (true, true) => "is a folder; name a file",
        (false, _) => "is in no folder that exists",
    };
    Some(format!("{flag}: {} {problem}", path.display()))
}

/// Prints a result.
fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        // Whoever reads had enough: not a failure of ours.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// The command line as it was typed, for a page that says where its figures are from.
fn command_line() -> String {
    let quoted = |word: std::ffi::OsString| {
        let word = word.to_string_lossy().into_owned();
        match word.contains(|c: char| c.is_whitespace() || "'\"\\$`&|;<>()*?".contains(c)) {
            true => format!("'{}'", word.replace('\'', "'\\''")),
            false => word,
        }
    };
    let words: Vec<String> = std::env::args_os().skip(1).map(quoted).collect();
    format!("headlong {}", words.join(" "))
}
