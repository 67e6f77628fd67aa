//! Standard error connected to systemd's journal, which stores a time and a level with each line.

use std::fmt;
use std::os::fd::{AsFd as _, BorrowedFd};

/// The priority of a line in the journal (sd-daemon(3)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// An operation failed.
    Error = 3,
    /// An operation may fail.
    Warning = 4,
    /// Normal operation.
    Info = 6,
    /// Details for troubleshooting.
    Debug = 7,
}

impl fmt::Display for Priority {
    /// The prefix of a line, which the journal removes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", *self as u8)
    }
}

/// Whether standard error is a stream of the journal (systemd.exec(5), `JOURNAL_STREAM`).
pub fn is_journal() -> bool {
    let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    is_stream(&stream, std::io::stderr().as_fd())
}

/// The prefix of an error message on standard error.
pub fn error_prefix() -> String {
    match is_journal() {
        true => Priority::Error.to_string(),
        false => String::new(),
    }
}

/// The variable remains set after a redirection, so the file is compared.
fn is_stream(stream: &str, file: BorrowedFd<'_>) -> bool {
    let Ok(status) = rustix::fs::fstat(file) else {
        return false;
    };
    stream == format!("{}:{}", status.st_dev, status.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_detected_and_lines_have_a_priority_prefix() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let status = rustix::fs::fstat(&writer).expect("its status");
        let stream = format!("{}:{}", status.st_dev, status.st_ino);
        assert!(is_stream(&stream, writer.as_fd()));
        for other in ["", ":", "8", &format!("{stream}0")] {
            assert!(!is_stream(other, reader.as_fd()), "{other}");
        }
        assert_eq!(format!("{}failed", Priority::Error), "<3>failed");
    }
}
