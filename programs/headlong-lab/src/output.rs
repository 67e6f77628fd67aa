//! Standard output, which may be closed before all is said.

use std::io::{ErrorKind, Write as _};

/// Prints; a reader that had enough is no failure of ours.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Prints a line.
pub(crate) fn print_line(line: &str) -> anyhow::Result<()> {
    print(&format!("{line}\n"))
}
