//! Where lines go: a file that can be rotated under us, standard output, or nowhere.

use std::fs::{File, OpenOptions};
use std::io::{self, Stdout, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// How long a reader of a pipe that reads slowly is waited for.
const PIPE_TIME: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Where a log is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// Nowhere.
    Off,
    /// Standard output.
    Stdout,
    /// To the end of this file.
    File(PathBuf),
}

/// A log file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the log {path}: {source}; check that its folder exists and can be written to")]
pub struct SinkError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl SinkError {
    /// What to do about it.
    pub(super) const REMEDY: &str = "check that its folder exists and can be written to";
}

#[derive(Debug)]
pub(super) enum Sink {
    Off,
    Stdout(Stdout),
    File {
        path: PathBuf,
        /// Nothing while it is a pipe that nobody reads.
        file: Option<File>,
        /// Whoever reads the pipe did not take the last lines in time.
        is_stalled: bool,
        /// It ends in half a line.
        is_broken: bool,
    },
}

impl Sink {
    /// Opens it, and says why that failed; then each write tries again.
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

    /// The file's path; of standard output, none.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Tries a file that is not open again; whether it is open now.
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

    /// Opens the file's path again; the old file stays in use if that fails.
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

    /// Writes whole lines: how many bytes of them are there now, and why not all. Half a line that
    /// a full file system let through is taken back, or ended, so that nothing is glued to it.
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
                    // A reader may have come.
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
                let mut to = Patient {
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
                    // Half a line went with who read it.
                    (*file, *is_broken) = (None, false);
                    outcome = Err(nobody_reads(path));
                }
                (whole, outcome)
            }
        }
    }
}

/// A file that may be a pipe: its reader gets some time, but not again and again.
struct Patient<'a> {
    file: &'a mut File,
    is_stalled: &'a mut bool,
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut outcome = self.file.write(bytes);
        let is_full = |outcome: &io::Result<usize>| {
            let error = outcome.as_ref().err();
            error.is_some_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        if is_full(&outcome) && !*self.is_stalled {
            let mut polled = [PollFd::new(&*self.file, PollFlags::OUT)];
            // Whatever comes of it, the next write tells.
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
    let text = format!("nobody reads the pipe {}", path.display());
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

/// Bytes up to the end of the last whole line.
fn whole_lines(bytes: &[u8]) -> usize {
    let end = bytes.iter().rposition(|byte| *byte == b'\n');
    end.map_or(0, |end| end + 1)
}

/// Cuts so many bytes off the end; whether that worked.
fn take_back(file: &File, bytes: usize) -> bool {
    let length = file.metadata().map(|metadata| metadata.len());
    let cut = length.and_then(|length| file.set_len(length.saturating_sub(bytes as u64)));
    cut.is_ok()
}

/// Never waits; nothing if it is a pipe that nobody reads.
fn open_file(path: &Path) -> Result<Option<File>, SinkError> {
    let opened = OpenOptions::new()
        .append(true)
        .create(true)
        // Who watched what is nobody else's business.
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
    fn half_a_line_is_never_left_behind() {
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
    fn a_pipe_is_never_waited_for_and_a_reader_who_comes_later_gets_lines() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        use std::io::Read as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
        let target = LogTarget::File(path.clone());
        let mut sink = Sink::open(&target).0;
        let (written, outcome) = sink.write(b"lost\n");
        let error = outcome.expect_err("nobody reads").to_string();
        assert!(
            written == 0 && error.contains("nobody reads the pipe"),
            "{error}"
        );
        sink.reopen().expect("nor does this wait");

        let mut options = OpenOptions::new();
        options.read(true);
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let mut reader = options.open(&path).expect("a reader");
        sink.write(b"one\n").1.expect("read");
        let mut bytes = [0; 64];
        assert_eq!(reader.read(&mut bytes).expect("read"), 4);
        assert_eq!(&bytes[..4], b"one\n");
        // More than a pipe holds: what fits is there, whole lines count, the rest is told.
        let many = b"some line\n".repeat(20_000);
        let (written, outcome) = sink.write(&many);
        outcome.expect_err("it is full");
        assert!(written > 0 && written < many.len() && written % 10 == 0);
        drop(reader);
        let (written, outcome) = sink.write(b"lost\n");
        outcome.expect_err("nobody reads any more");
        assert_eq!(written, 0);
        let mut reader = options.open(&path).expect("another reader");
        sink.write(b"two\n").1.expect("read");
        assert_eq!(reader.read(&mut bytes).expect("read"), 4);
        assert_eq!(&bytes[..4], b"two\n");
    }

    #[test]
    fn a_full_file_system_says_how_much_of_the_lines_is_there() {
        let path = PathBuf::from("/dev/full");
        let mut sink = Sink::open(&LogTarget::File(path)).0;
        let (written, outcome) = sink.write(b"one\ntwo\n");
        assert_eq!(written, 0);
        outcome.expect_err("no room");
    }
}
