//! The verbs of `headlong-lab`: passed on to that program, as git and cargo do with theirs.
//!
//! So every verb is written `headlong VERB`, and an operator needs only this program.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use headlong_disk::Measurements;
use headlong_report::say;

/// The other program.
const PROGRAM: &str = "headlong-lab";

/// Its verbs, each with its text in `headlong --help`.
pub(crate) const VERBS: [(&str, &str); 7] = [
    (
        "workload",
        "Make workloads: catalogues, sessions, and the files they watch",
    ),
    ("load", "Play viewers against any HTTP server"),
    (
        "simulate",
        "Run the server's engine, viewers and a drive in virtual time",
    ),
    (
        "bench",
        "Run experiments: servers, emulated drives, viewers",
    ),
    (
        "capacity",
        "Answer how many viewers a machine bears, from a request log",
    ),
    ("reproduce", "Make the figures of published papers again"),
    ("trace", "Read request logs: reports, chains, tables"),
];

/// Its verbs below `disk`; the others belong to this program.
pub(crate) const DISK_VERBS: [(&str, &str); 3] = [
    (
        "emulate",
        "Make a block device that takes as long as a modelled drive",
    ),
    (
        "control",
        "Tell a running emulated disk what to do, or ask it",
    ),
    ("fit", "Fit a model to what `disk probe` measured"),
];

/// Whether the command line (without the program's name) is for the other program.
pub(crate) fn is_for_lab(words: &[OsString]) -> bool {
    let is_one_of = |verbs: &[(&str, &str)], word: Option<&OsString>| {
        word.is_some_and(|word| verbs.iter().any(|(verb, _)| word == OsStr::new(verb)))
    };
    let words = match words {
        [first, rest @ ..] if first == OsStr::new("help") => rest,
        words => words,
    };
    match words {
        [disk, below @ ..] if disk == OsStr::new("disk") => {
            // `disk help emulate` is help, too.
            let is_help = below.first().is_some_and(|word| word == OsStr::new("help"));
            is_one_of(&DISK_VERBS, below.get(usize::from(is_help)))
        }
        words => is_one_of(&VERBS, words.first()),
    }
}

/// Replaces this process by the other program. Returns only if that fails, with the reason and the
/// remedy.
pub(crate) fn become_lab(words: &[OsString]) -> anyhow::Error {
    let Some(path) = find() else {
        let verb = words.iter().find(|word| *word != OsStr::new("help"));
        let verb = verb.map_or_else(String::new, |word| word.to_string_lossy().into_owned());
        return anyhow::anyhow!(
            "`headlong {verb}` is part of {PROGRAM}, which is neither beside this program nor in PATH; \
             `make build` builds both, or `cargo build --release --package {PROGRAM}` it alone"
        );
    };
    let error = Command::new(&path).args(words).exec();
    anyhow::anyhow!("{} cannot be started: {error}", path.display())
}

/// A model of a disk fitted to measurements, made by the other program; logs the reason if there is
/// none.
pub(crate) fn fit(name: &str, measured: &Measurements) -> Option<String> {
    let why = match find() {
        None => format!("{PROGRAM} is neither beside this program nor in PATH"),
        Some(path) => match fit_by(&path, name, measured) {
            Ok(output) if output.status.success() => return String::from_utf8(output.stdout).ok(),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_string(),
            Err(error) => format!("{}: {error}", path.display()),
        },
    };
    say!("headlong: no model was fitted: {why}");
    None
}

fn fit_by(path: &Path, name: &str, measured: &Measurements) -> io::Result<Output> {
    let mut child = Command::new(path)
        // A name may begin with a dash.
        .args(["disk", "fit", "--", name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(input) = child.stdin.take() {
        serde_json::to_writer(input, measured)?;
    }
    child.wait_with_output()
}

/// Looks in the directory of this program, then in the path.
fn find() -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(Path::to_path_buf);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = beside.into_iter().chain(std::env::split_paths(&path));
    let mut files = folders.map(|folder| folder.join(PROGRAM));
    files.find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_of_the_other_program_are_recognised() {
        let is_handed_over = |line: &str| {
            let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
            is_for_lab(&words)
        };
        for line in [
            "bench run x.toml",
            "help trace",
            "disk emulate",
            "help disk control",
            "disk help fit",
        ] {
            assert!(is_handed_over(line), "{line}");
        }
        for line in [
            "",
            "serve",
            "help",
            "disk",
            "disk probe emulate",
            "disk probe /dev/sda",
            "help disk",
        ] {
            assert!(!is_handed_over(line), "{line}");
        }
    }
}
