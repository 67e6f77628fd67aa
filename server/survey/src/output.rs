//! Where results go, and from which command they are.

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

/// What is wrong with a file that is to be written later: its folder is not there.
pub fn check_folder(flag: &str, path: &Path) -> Option<String> {
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
///
/// # Errors
/// If standard output cannot be written to.
pub fn print(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        // Whoever reads had enough: not a failure of ours.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// The command line as it was typed, for a page that says where its figures are from.
pub(crate) fn command_line() -> String {
    headlong_report::command_line(std::env::args_os().skip(1))
}
