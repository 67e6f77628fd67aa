//! Output of results, and checks of output files.

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

/// The problem with an output file that is written later: its folder does not exist.
pub fn check_folder(flag: &str, path: &Path) -> Option<String> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let problem = match (folder.is_dir(), path.is_dir()) {
        (true, false) => return None,
        (true, true) => "is a folder; name a file",
        (false, _) => "is in a folder that does not exist",
    };
    Some(format!("{flag}: {} {problem}", path.display()))
}

/// Prints a result.
///
/// # Errors
/// If standard output cannot be written to.
pub fn print(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        // The reader has closed the pipe: not a failure.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// The command line as typed, for a page that names the source of its figures.
pub(crate) fn command_line() -> String {
    headlong_report::command_line(std::env::args_os().skip(1))
}
