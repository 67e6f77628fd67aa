//! Titles in chunk files: which files of its folder a file is one of, in order.

use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use headlong_media::{numbered_run, run_of};
use rustix::fs::{AtFlags, FileType, OFlags, Stat, statat};

use crate::ahead::{Origin, has_rights_of, list, open_at, path_of};

/// Larger files are no chunks: ten seconds at 25 Mbit/s.
const CHUNK_BYTES_MAX: i64 = 32 << 20;
/// Names that are taken together; of longer runs so many at a time.
const CHUNKS_MAX: usize = 1024;

/// A run of chunk files by their names, and their folder. To list a folder costs
/// a read or two; what each file is costs more, and is looked at when it is wanted.
#[derive(Debug)]
pub struct Chunks {
    folder: File,
    /// The one that was asked about, which the others are like.
    like: Stat,
    /// In the order of their numbers.
    names: Vec<Vec<u8>>,
    /// Which of them that is.
    asked: usize,
}

impl Chunks {
    /// The run that an open file is in, if it is one of several that are numbered. Nothing outside
    /// `beneath` is looked at. Waits for the disk.
    pub fn around(file: &File, beneath: &Path) -> Option<Self> {
        let origin = Origin::of(file, beneath)?;
        if !is_chunk(&origin.file, &origin.file) {
            return None;
        }
        let listed = list(&origin.opened).ok()?;
        let is_file = |kind: FileType| matches!(kind, FileType::RegularFile | FileType::Unknown);
        let files = listed.iter().filter(|entry| is_file(entry.kind));
        let run = numbered_run(origin.name(), files.map(|entry| entry.name.as_slice()));
        let index = run.iter().position(|name| *name == origin.name())?;
        // Always the same ones, whichever of them is asked about.
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

    /// How many names there are.
    #[expect(clippy::len_without_is_empty, reason = "there are two at least")]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Which of them is that of the file that was asked about.
    pub fn asked(&self) -> usize {
        self.asked
    }

    /// One of the names.
    pub fn name(&self, index: usize) -> Option<&[u8]> {
        self.names.get(index).map(Vec::as_slice)
    }

    /// What has one of the names now, if that is a chunk file which the same people may read.
    pub fn look(&self, index: usize) -> Option<Stat> {
        let name = self.names.get(index)?;
        let stat = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        is_chunk(&stat, &self.like).then_some(stat)
    }

    /// Opens one of them; what has its name by now may be another file.
    ///
    /// # Errors
    /// If it is not there, or may not be read.
    pub fn open(&self, index: usize) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let name = self.names.get(index).ok_or(io::ErrorKind::NotFound)?;
        Ok(open_at(&self.folder, name, flags)?)
    }
}

/// What all paths of a run have in common and no other has, and the number of this one, if a file of
/// that path and size may be a chunk.
pub fn run_name(path: &Path, bytes: u64) -> Option<(PathBuf, u64)> {
    let (before, number, behind) = run_of(path.file_name()?.as_bytes())?;
    // No name of a file has a slash.
    let name = std::ffi::OsString::from_vec([before, b"/", behind].concat());
    let may_be = bytes.cast_signed() <= CHUNK_BYTES_MAX;
    may_be.then(|| (path.with_file_name(name), number))
}

/// The same of an open file, by the path that it has now.
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
    fn renditions_of_a_folder_are_runs_of_their_own() {
        let name = |path: &str| run_name(Path::new(path), 1000).map(|(run, _)| run);
        assert_eq!(name("a/720p-1.ts"), name("a/720p-20.ts"));
        assert_ne!(name("a/720p-1.ts"), name("a/1080p-1.ts"));
        assert_ne!(name("a/720p-1.ts"), name("b/720p-1.ts"));
        assert_eq!(name("a/film.ts"), None);
        assert_eq!(run_name(Path::new("a/1.ts"), 1 << 30), None);
    }

    #[test]
    fn the_run_around_a_chunk_has_what_the_same_people_may_read() {
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
        let is_there = (0..chunks.len()).map(|index| chunks.look(index).is_some());
        // From 1 to 13, in the order of the numbers; no link is followed.
        let mut wanted = vec![true; 13];
        for number in [3, 13] {
            wanted[number - 1] = false;
        }
        assert_eq!(is_there.collect::<Vec<_>>(), wanted);
        assert_eq!((chunks.asked(), chunks.name(9)), (9, Some(&b"v10.ts"[..])));
        assert!(chunks.open(0).is_ok());
        assert!(chunks.open(13).is_err() && chunks.look(13).is_none());
        let alone = File::open(path("a1.ts")).expect("there");
        assert!(Chunks::around(&alone, Path::new("/")).is_none());
        assert!(Chunks::around(&file, &path("else")).is_none());
    }
}
