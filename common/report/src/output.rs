//! Output files: written completely or not at all, and never replacing something that is not a
//! regular file.
//!
//! The type of the target decides. For a regular file, or if nothing exists yet, the result is
//! written to a file without a name, which gets the name when it is complete. A device, a pipe or a
//! socket is written to directly, like with `>` in a shell. Symbolic links are followed, so that a
//! link remains a link.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};

/// Maximum number of links followed, the same as in the kernel.
const LINKS_MAX: usize = 40;

/// An output file that appears when it is complete. If it is dropped before, the existing file
/// remains unchanged.
#[derive(Debug)]
pub struct Output {
    file: File,
    place: OutputTarget,
}

#[derive(Debug)]
enum OutputTarget {
    /// The target itself is open.
    Direct,
    /// The file has no name yet; a process that is killed leaves nothing behind.
    Unnamed { target: PathBuf },
    /// The file system does not support files without a name.
    Beside {
        target: PathBuf,
        part: TemporaryName,
    },
}

/// A temporary name that is removed unless it was renamed to the target.
#[derive(Debug)]
struct TemporaryName(PathBuf);

impl Drop for TemporaryName {
    fn drop(&mut self) {
        // After the rename it no longer exists.
        let _ = fs::remove_file(&self.0);
    }
}

impl Output {
    /// Opens an output, so that a folder without write permission is detected before the work and
    /// not after it.
    ///
    /// # Errors
    /// If nothing can be written there.
    pub fn begin(path: &Path) -> io::Result<Self> {
        let target = followed(path)?;
        let kind = match fs::symlink_metadata(&target) {
            Ok(found) => Some(found.file_type()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        match kind {
            Some(kind) if kind.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            // A remaining link is a link of a process, such as /dev/stdout.
            Some(kind) if !kind.is_file() => Ok(Self {
                file: OpenOptions::new().append(true).open(&target)?,
                place: OutputTarget::Direct,
            }),
            _ => Self::waiting(target),
        }
    }

    fn waiting(target: PathBuf) -> io::Result<Self> {
        let mode = Mode::from_raw_mode(0o666);
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        if target.file_name().is_none() {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        if let Ok(file) = openat(CWD, folder(&target), flags, mode) {
            let file = File::from(file);
            return Ok(Self {
                file,
                place: OutputTarget::Unnamed { target },
            });
        }
        let part = part_name(&target);
        Ok(Self {
            file: File::create_new(&part)?,
            place: OutputTarget::Beside {
                target,
                part: TemporaryName(part),
            },
        })
    }

    /// The file to write to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The folder that will contain it, unless the target is not a regular file.
    pub fn folder(&self) -> Option<&Path> {
        match &self.place {
            OutputTarget::Direct => None,
            OutputTarget::Unnamed { target } | OutputTarget::Beside { target, .. } => {
                Some(folder(target))
            }
        }
    }

    /// Gives the complete file its name.
    ///
    /// # Errors
    /// If that fails; the existing file then remains unchanged.
    pub fn finish(self) -> io::Result<()> {
        match self.place {
            OutputTarget::Direct => Ok(()),
            OutputTarget::Beside { target, part } => fs::rename(&part.0, target),
            OutputTarget::Unnamed { target } => {
                use std::os::fd::AsRawFd as _;
                let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                let part = TemporaryName(part_name(&target));
                // A link cannot replace a file, but a rename can.
                linkat(CWD, own, CWD, &part.0, AtFlags::SYMLINK_FOLLOW)?;
                fs::rename(&part.0, target)
            }
        }
    }
}

/// Writes a result that is in memory.
///
/// # Errors
/// If that fails.
pub fn write_output(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let output = Output::begin(path)?;
    output.file().write_all(bytes)?;
    output.finish()
}

/// An output that is the same file as an input.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} is the same file as {}, which is read; nothing was written: choose another name",
    output.display(),
    input.display()
)]
pub struct OutputIsInput {
    output: PathBuf,
    input: PathBuf,
}

/// Rejects an output that is also an input: writing it would destroy the input. `-` stands for
/// standard input among the inputs, and for no file among the outputs.
///
/// # Errors
/// The first such output.
pub fn outputs_are_no_inputs<'a>(
    outputs: impl IntoIterator<Item = &'a Path>,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<(), OutputIsInput> {
    let inputs: Vec<_> = inputs
        .into_iter()
        .filter_map(|input| Some((input, identity(input)?)))
        .collect();
    for output in outputs {
        let own = match output == Path::new("-") {
            true => None,
            false => identity(output),
        };
        let same = inputs.iter().find(|(_, input)| Some(*input) == own);
        if let Some((input, _)) = same {
            return Err(OutputIsInput {
                output: output.to_path_buf(),
                input: input.to_path_buf(),
            });
        }
    }
    Ok(())
}

/// The identity of a regular file: a device can be both read and written.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let path = match path == Path::new("-") {
        true => Path::new("/dev/stdin"),
        false => path,
    };
    let found = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some((found.dev(), found.ino()))
}

/// The target of links. The links of a process (`/dev/stdout`) stand for an open file, which may
/// differ from the file that the name would open, so they are not followed.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let Ok(next) = fs::read_link(&path) else {
            return Ok(path);
        };
        let folder = folder(&path);
        if fs::canonicalize(folder).is_ok_and(|folder| folder.starts_with("/proc")) {
            return Ok(path);
        }
        path = folder.join(next);
    }
    Err(io::Error::other("too many symbolic links"))
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn part_name(target: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    target.with_file_name(name)
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
