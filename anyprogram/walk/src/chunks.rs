//! Titles in chunk files: the numbered run that a file belongs to, in order.

use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use headlong_media::{numbered_run, run_of};
use rustix::fs::{AtFlags, FileType, OFlags, Stat, statat};

use crate::next_files::{WaitedFile, has_rights_of, list, open_at, path_of};

/// Larger files are not chunks: ten seconds at 25 Mbit/s.
const CHUNK_BYTES_MAX: i64 = 32 << 20;
/// Names handled together; a longer run is split into groups of this size.
const CHUNKS_MAX: usize = 1024;

/// A run of chunk files by name, and their folder. Listing a folder costs a read or two; inspecting
/// each file costs more, and is done on demand.
#[derive(Debug)]
pub struct Chunks {
    folder: File,
    /// The file that was asked about; the others must have its permissions.
    like: Stat,
    /// In numeric order.
    names: Vec<Vec<u8>>,
    /// Index of the file that was asked about.
    asked: usize,
}

impl Chunks {
    /// The run of an open file, if it is one of several numbered files. Nothing outside `beneath`
    /// is inspected. Blocks on the disk.
    pub fn around(file: &File, beneath: &Path) -> Option<Self> {
        let origin = WaitedFile::of(file, beneath)?;
        if !is_chunk(&origin.file, &origin.file) {
            return None;
        }
        let listed = list(&origin.opened).ok()?;
        let is_file = |kind: FileType| matches!(kind, FileType::RegularFile | FileType::Unknown);
        let files = listed.iter().filter(|entry| is_file(entry.kind));
        let run = numbered_run(origin.name(), files.map(|entry| entry.name.as_slice()));
        let index = run.iter().position(|name| *name == origin.name())?;
        // Groups are aligned, so that every file of a group yields the same names.
        let first = index / CHUNKS_MAX * CHUNKS_MAX;
        let names = run.into_iter().skip(first).take(CHUNKS_MAX);
        let names: Vec<Vec<u8>> = names.map(<[u8]>::to_vec).collect();
        (names.len() > 1).then_some(Self {
            folder: origin.opened,
            like: origin.file,
            names,
            asked: index - first,
        })
    }

    /// The number of names.
    #[expect(clippy::len_without_is_empty, reason = "a run has at least two names")]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Index of the file that was asked about.
    pub fn requested(&self) -> usize {
        self.asked
    }

    /// One of the names.
    pub fn name(&self, index: usize) -> Option<&[u8]> {
        self.names.get(index).map(Vec::as_slice)
    }

    /// Inspects a file of the run: `None` unless it is a chunk file with the same read permissions.
    pub fn inspect(&self, index: usize) -> Option<Stat> {
        let name = self.names.get(index)?;
        let stat = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        is_chunk(&stat, &self.like).then_some(stat)
    }

    /// Opens a file of the run; by now its name may refer to another file.
    ///
    /// # Errors
    /// If it does not exist or may not be read.
    pub fn open(&self, index: usize) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let name = self.names.get(index).ok_or(io::ErrorKind::NotFound)?;
        Ok(open_at(&self.folder, name, flags)?)
    }
}

/// The part common to all paths of a run, unique to it, and the number of this file; `None` if a
/// file of that path and size cannot be a chunk.
pub fn run_name(path: &Path, bytes: u64) -> Option<(PathBuf, u64)> {
    let (before, number, behind) = run_of(path.file_name()?.as_bytes())?;
    // File names contain no slash.
    let name = std::ffi::OsString::from_vec([before, b"/", behind].concat());
    let may_be = bytes.cast_signed() <= CHUNK_BYTES_MAX;
    may_be.then(|| (path.with_file_name(name), number))
}

/// The same for an open file, by its current path.
pub fn run_of_file(file: &File) -> Option<(PathBuf, u64)> {
    run_name(&path_of(file)?, file.metadata().ok()?.len())
}

fn is_chunk(stat: &Stat, like: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && (1..=CHUNK_BYTES_MAX).contains(&stat.st_size)
        && has_rights_of(stat, like, 0o444)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn renditions_of_a_folder_are_separate_runs() {
        let name = |path: &str| run_name(Path::new(path), 1000).map(|(run, _)| run);
        assert_eq!(name("a/720p-1.ts"), name("a/720p-20.ts"));
        assert_ne!(name("a/720p-1.ts"), name("a/1080p-1.ts"));
        assert_ne!(name("a/720p-1.ts"), name("b/720p-1.ts"));
        assert_eq!(name("a/film.ts"), None);
        assert_eq!(run_name(Path::new("a/1.ts"), 1 << 30), None);
    }

    #[test]
    fn run_excludes_files_with_other_permissions() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        for number in 1..=12 {
            std::fs::write(path(&format!("v{number}.ts")), b"abc").expect("written");
        }
        std::fs::write(path("a1.ts"), b"abc").expect("written");
        std::fs::write(path("v13.ts"), b"").expect("written");
        symlink("a1.ts", path("v14.ts")).expect("a link");
        std::fs::set_permissions(path("v3.ts"), std::fs::Permissions::from_mode(0o600))
            .expect("changed");
        let file = File::open(path("v10.ts")).expect("there");
        let chunks = Chunks::around(&file, Path::new("/")).expect("a run");
        let is_there = (0..chunks.len()).map(|index| chunks.inspect(index).is_some());
        // Numbers 1 to 13, in numeric order; symbolic links are not followed.
        let mut wanted = vec![true; 13];
        for number in [3, 13] {
            wanted[number - 1] = false;
        }
        assert_eq!(is_there.collect::<Vec<_>>(), wanted);
        assert_eq!(
            (chunks.requested(), chunks.name(9)),
            (9, Some(&b"v10.ts"[..]))
        );
        assert!(chunks.open(0).is_ok());
        assert!(chunks.open(13).is_err() && chunks.inspect(13).is_none());
        let alone = File::open(path("a1.ts")).expect("there");
        assert!(Chunks::around(&alone, Path::new("/")).is_none());
        assert!(Chunks::around(&file, &path("else")).is_none());
    }
}
