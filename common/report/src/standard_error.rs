//! The command line as it can be typed again, and standard error: it may be full or closed, where
//! `eprintln!` would panic and so lose the work done so far, or connected to systemd's journal, which
//! stores a time and a level with each line.

use std::ffi::OsStr;
use std::fmt::{self, Arguments};
use std::io::Write;
use std::os::fd::{AsFd as _, BorrowedFd};

/// Writes a line to standard error. A line that cannot be written is lost, without further effect.
pub fn say_line(line: Arguments<'_>) {
    say_to(&mut std::io::stderr().lock(), line);
}

fn say_to(place: &mut dyn Write, line: Arguments<'_>) {
    // There is nowhere left to report the error.
    let _ = writeln!(place, "{line}");
}

/// Writes a line to standard error with the syntax of `eprintln!`, ignoring errors.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {
        $crate::say_line(::core::format_args!($($words)*))
    };
}

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

/// The command line of `headlong` with these arguments, quoted for a shell.
pub fn command_line<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> String {
    let mut line = "headlong".to_owned();
    for word in words {
        line.push(' ');
        line.push_str(&shell_word(word));
    }
    line
}

/// A word quoted for a shell. A word of plain characters is not quoted, as in `--set name=value`;
/// text that is not Unicode is replaced as far as necessary.
pub fn shell_word(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    match (is_plain(&word), shlex::try_quote(&word)) {
        (false, Ok(quoted)) => quoted.into_owned(),
        // A word with a zero byte cannot be typed.
        _ => word.into_owned(),
    }
}

fn is_plain(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+".contains(c);
    word.chars().all(is_plain) && !word.is_empty() && !word.starts_with('=')
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    #[test]
    fn a_failed_write_has_no_further_effect() {
        let full = OpenOptions::new().write(true).open("/dev/full");
        say_to(&mut full.expect("every Linux has it"), format_args!("lost"));
        let mut heard = Vec::new();
        say_to(&mut heard, format_args!("{} of {}", 1, 2));
        assert_eq!(heard, b"1 of 2\n");
    }

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

    #[test]
    fn a_printed_command_can_be_typed_again() {
        let words = [
            "reproduce",
            "--scenario",
            "HD, 8 GB, Red",
            "it's",
            "",
            "a=b",
        ];
        let line = command_line(words);
        let expected = "headlong reproduce --scenario 'HD, 8 GB, Red' \"it's\" '' a=b";
        assert_eq!(line, expected);
    }

    proptest::proptest! {
        #[test]
        fn a_shell_reads_what_was_typed(
            words in proptest::collection::vec("[ -~äß\n\t]{0,12}", 0..6),
        ) {
            let read = shlex::split(&command_line(&words)).expect("whole words");
            proptest::prop_assert_eq!(&read[1..], &words[..]);
        }
    }
}
