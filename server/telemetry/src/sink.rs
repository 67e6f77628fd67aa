//! Log targets: a file that can be rotated, a pipe, standard output, or none.

use std::fs::{File, OpenOptions};
use std::io::{self, Stdout, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// How long a write waits for a slow reader of a pipe.
const PIPE_TIME: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Target of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// No log.
    Off,
    /// Standard output.
    Stdout,
    /// Appended to this file.
    File(PathBuf),
}

/// Error of opening a log file.
#[derive(Debug, thiserror::Error)]
#[error("cannot open log {path}: {source}; {}", Self::REMEDY)]
pub struct SinkError {
    /// The file.
    pub path: PathBuf,
    /// Error of the system.
    pub source: io::Error,
}

impl SinkError {
    /// Remedy for such an error.
    pub(super) const REMEDY: &str =
        "check that its directory exists, is writable and has free space";
}

#[derive(Debug)]
pub(super) enum Sink {
    Off,
    Stdout(Stdout),
    File {
        path: PathBuf,
        /// `None` while it is a pipe without a reader, or cannot be opened.
        file: Option<File>,
        /// The reader of the pipe did not take the last lines in time.
        is_stalled: bool,
        /// The file ends with a partial line.
        is_broken: bool,
    },
}

impl Sink {
    /// Opens the target. On failure returns the error, and each write retries.
    pub(super) fn open(target: &LogTarget) -> (Self, Option<SinkError>) {
        match target {
            LogTarget::Off => (Self::Off, None),
            LogTarget::Stdout => (Self::Stdout(io::stdout()), None),
            LogTarget::File(path) => {
                let (file, error) = match open_file(path) {
                    Ok(file) => (file, None),
                    Err(error) => (None, Some(error)),
                };
                let sink = Self::File {
                    path: path.clone(),
                    file,
                    is_stalled: false,
                    is_broken: false,
                };
                (sink, error)
            }
        }
    }

    /// Path of the file, if it is one.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Retries to open a closed file; returns whether it is open now.
    pub(super) fn opens_again(&mut self) -> bool {
        match self {
            Self::File { path, file, .. } if file.is_none() => {
                *file = open_file(path).unwrap_or(None);
                file.is_some()
            }
            _ => false,
        }
    }

    pub(super) fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }

    /// Opens the path again; on failure the old file stays in use.
    pub(super) fn reopen(&mut self) -> Result<(), SinkError> {
        if let Self::File {
            path,
            file,
            is_stalled,
            is_broken,
        } = self
        {
            (*file, *is_stalled, *is_broken) = (open_file(path)?, false, false);
        }
        Ok(())
    }

    /// Writes complete lines; returns how many bytes were written, and the error if not all. A
    /// partial line on a full file system is removed, or terminated, so that no other line is
    /// appended to it.
    pub(super) fn write(&mut self, lines: &[u8]) -> (usize, io::Result<()>) {
        match self {
            Self::Off => (lines.len(), Ok(())),
            Self::Stdout(stdout) => write_all(&mut stdout.lock(), lines),
            Self::File {
                path,
                file,
                is_stalled,
                is_broken,
            } => {
                if file.is_none() {
                    // The pipe may have a reader now.
                    match open_file(path) {
                        Ok(opened) => *file = opened,
                        Err(error) => return (0, Err(error.source)),
                    }
                }
                let Some(open) = file else {
                    return (0, Err(nobody_reads(path)));
                };
                if *is_broken && open.write_all(b"\n").is_ok() {
                    *is_broken = false;
                }
                let mut to = PipeSink {
                    file: open,
                    is_stalled,
                };
                let (written, mut outcome) = write_all(&mut to, lines);
                let whole = whole_lines(&lines[..written]);
                if whole < written && outcome.is_err() {
                    *is_broken |= !take_back(open, written - whole);
                }
                let kind = outcome.as_ref().err().map(io::Error::kind);
                if kind == Some(io::ErrorKind::BrokenPipe) {
                    // The partial line was lost with the reader.
                    (*file, *is_broken) = (None, false);
                    outcome = Err(nobody_reads(path));
                }
                (whole, outcome)
            }
        }
    }
}

/// A file that may be a pipe: one write waits for a slow reader, later ones do not.
struct PipeSink<'a> {
    file: &'a mut File,
    is_stalled: &'a mut bool,
}

impl Write for PipeSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut outcome = self.file.write(bytes);
        let is_full = |outcome: &io::Result<usize>| {
            let error = outcome.as_ref().err();
            error.is_some_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        if is_full(&outcome) && !*self.is_stalled {
            let mut polled = [PollFd::new(&*self.file, PollFlags::OUT)];
            // The next write reports any error.
            let _ = poll(&mut polled, Some(&PIPE_TIME));
            outcome = self.file.write(bytes);
        }
        *self.is_stalled = is_full(&outcome);
        outcome
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn nobody_reads(path: &Path) -> io::Error {
    let text = format!("pipe {} has no reader", path.display());
    io::Error::new(io::ErrorKind::BrokenPipe, text)
}

fn write_all(to: &mut impl Write, lines: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < lines.len() {
        match to.write(&lines[written..]) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(bytes) => written += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, to.flush())
}

/// Number of bytes up to the end of the last complete line.
fn whole_lines(bytes: &[u8]) -> usize {
    let end = bytes.iter().rposition(|byte| *byte == b'\n');
    end.map_or(0, |end| end + 1)
}

/// Removes the last `bytes` bytes; returns whether that succeeded.
fn take_back(file: &File, bytes: usize) -> bool {
    let length = file.metadata().map(|metadata| metadata.len());
    let cut = length.and_then(|length| file.set_len(length.saturating_sub(bytes as u64)));
    cut.is_ok()
}

/// Opens without blocking; `None` for a pipe without a reader.
fn open_file(path: &Path) -> Result<Option<File>, SinkError> {
    let opened = OpenOptions::new()
        .append(true)
        .create(true)
        // Viewing habits are private.
        .mode(0o640)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path);
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Ok(None),
        Err(source) => Err(SinkError {
            path: path.to_owned(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_line_is_removed() {
        assert_eq!(whole_lines(b"a\nbc\nd"), 5);
        assert_eq!(whole_lines(b"abc"), 0);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut sink = Sink::open(&LogTarget::File(path.clone())).0;
        sink.write(b"one\ntw").1.expect("written");
        let Sink::File {
            file: Some(file), ..
        } = &sink
        else {
            panic!("a file");
        };
        assert!(take_back(file, 2));
        sink.write(b"three\n").1.expect("written");
        assert_eq!(std::fs::read(path).expect("there"), b"one\nthree\n");
    }

    #[test]
    fn unread_pipe_does_not_block_and_later_reader_gets_lines() {
        use std::io::Read as _;

        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
        let target = LogTarget::File(path.clone());
        let mut sink = Sink::open(&target).0;
        let (written, outcome) = sink.write(b"lost\n");
        let error = outcome.expect_err("no reader").to_string();
        assert!(written == 0 && error.contains("has no reader"), "{error}");
        sink.reopen().expect("reopened without blocking");

        let mut options = OpenOptions::new();
        options.read(true);
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let mut reader = options.open(&path).expect("a reader");
        sink.write(b"one\n").1.expect("read");
        let mut bytes = [0; 64];
        assert_eq!(reader.read(&mut bytes).expect("read"), 4);
        assert_eq!(&bytes[..4], b"one\n");
        // More than the capacity of a pipe: only complete lines count as written.
        let many = b"some line\n".repeat(20_000);
        let (written, outcome) = sink.write(&many);
        outcome.expect_err("it is full");
        assert!(written > 0 && written < many.len() && written % 10 == 0);
        drop(reader);
        let (written, outcome) = sink.write(b"lost\n");
        outcome.expect_err("the reader is closed");
        assert_eq!(written, 0);
        let mut reader = options.open(&path).expect("another reader");
        sink.write(b"two\n").1.expect("read");
        assert_eq!(reader.read(&mut bytes).expect("read"), 4);
        assert_eq!(&bytes[..4], b"two\n");
    }

    #[test]
    fn write_to_full_file_system_returns_written_bytes() {
        let path = PathBuf::from("/dev/full");
        let mut sink = Sink::open(&LogTarget::File(path)).0;
        let (written, outcome) = sink.write(b"one\ntwo\n");
        assert_eq!(written, 0);
        outcome.expect_err("no room");
    }
}
