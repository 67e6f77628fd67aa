//! Standard error that is systemd's journal: it keeps a time and a level with each line by itself.

use std::fmt;
use std::os::fd::{AsFd as _, BorrowedFd};

/// How much a line matters, as the journal counts (sd-daemon(3)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Something failed.
    Error = 3,
    /// Something may fail.
    Warning = 4,
    /// What is done.
    Info = 6,
    /// For who looks for a mistake.
    Debug = 7,
}

impl fmt::Display for Priority {
    /// What a line begins with, that the journal takes off again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", *self as u8)
    }
}

/// Whether standard error is a stream of the journal (systemd.exec(5), `JOURNAL_STREAM`).
pub fn is_journal() -> bool {
    let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    is_stream(&stream, std::io::stderr().as_fd())
}

/// What a line of an error begins with on standard error.
pub fn error_prefix() -> String {
    match is_journal() {
        true => Priority::Error.to_string(),
        false => String::new(),
    }
}

/// A variable outlives a redirection, so the file counts.
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
    fn a_stream_is_told_by_device_and_inode_and_a_line_begins_with_its_priority() {
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
