//! The verbs of `headlong-lab`: they are handed to that program, as git and cargo do with theirs.
//!
//! So every verb is written `headlong VERB`, and who only serves needs only this program.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The other program.
const PROGRAM: &str = "headlong-lab";

/// Its verbs, each with what `headlong --help` says of it.
pub(crate) const VERBS: [(&str, &str); 7] = [
    ("disk", "Emulate, measure and look at disks"),
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
    ("reproduce", "Make the figures of published papers again"),
    ("trace", "Read request logs: reports, chains, tables"),
];

/// Whether the command line (without the program's name) is for the other program.
pub(crate) fn is_for_lab(words: &[OsString]) -> bool {
    let is_verb = |word: &OsString| VERBS.iter().any(|(verb, _)| word == OsStr::new(verb));
    match words {
        [first, second, ..] if first == OsStr::new("help") => is_verb(second),
        [first, ..] => is_verb(first),
        [] => false,
    }
}

/// Becomes the other program. Returns only if that fails, with the reason and the remedy.
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

/// Beside this program, else in the path.
fn find() -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(Path::to_path_buf);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = beside.into_iter().chain(std::env::split_paths(&path));
    let mut files = folders.map(|folder| folder.join(PROGRAM));
    files.find(|file| file.is_file())
}
