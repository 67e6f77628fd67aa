//! Where lines go: a file that can be rotated under us, standard output, or nowhere.

use std::fs::{File, OpenOptions};
use std::io::{self, Stdout, Write};
use std::path::{Path, PathBuf};

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

#[derive(Debug)]
pub(super) enum Sink {
    Off,
    Stdout(Stdout),
    File {
        path: PathBuf,
        file: File,
        /// It ends in half a line.
        is_broken: bool,
    },
}

impl Sink {
    pub(super) fn open(target: &LogTarget) -> Result<Self, SinkError> {
        Ok(match target {
            LogTarget::Off => Self::Off,
            LogTarget::Stdout => Self::Stdout(io::stdout()),
            LogTarget::File(path) => Self::File {
                path: path.clone(),
                file: open_file(path)?,
                is_broken: false,
            },
        })
    }

    pub(super) fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }

    /// Opens the file's path again; the old file stays in use if that fails.
    pub(super) fn reopen(&mut self) -> Result<(), SinkError> {
        if let Self::File {
            path,
            file,
            is_broken,
        } = self
        {
            (*file, *is_broken) = (open_file(path)?, false);
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
                file, is_broken, ..
            } => {
                if *is_broken && file.write_all(b"\n").is_ok() {
                    *is_broken = false;
                }
                let (written, outcome) = write_all(file, lines);
                let whole = whole_lines(&lines[..written]);
                if whole < written && outcome.is_err() {
                    *is_broken |= !take_back(file, written - whole);
                }
                (whole, outcome)
            }
        }
    }
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

fn open_file(path: &Path) -> Result<File, SinkError> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|source| SinkError {
        path: path.to_owned(),
        source,
    })
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
        let mut sink = Sink::open(&LogTarget::File(path.clone())).expect("opens");
        sink.write(b"one\ntw").1.expect("written");
        let Sink::File { file, .. } = &sink else {
            panic!("a file");
        };
        assert!(take_back(file, 2));
        sink.write(b"three\n").1.expect("written");
        assert_eq!(std::fs::read(path).expect("there"), b"one\nthree\n");
    }

    #[test]
    fn a_full_file_system_says_how_much_of_the_lines_is_there() {
        let path = PathBuf::from("/dev/full");
        let mut sink = Sink::open(&LogTarget::File(path)).expect("opens");
        let (written, outcome) = sink.write(b"one\ntwo\n");
        assert_eq!(written, 0);
        outcome.expect_err("no room");
    }
}
