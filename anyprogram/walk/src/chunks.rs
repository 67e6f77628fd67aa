//! Titles in chunk files: which files of its folder a file is one of, in order.

use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use headlong_media::{numbered_run, run_of};
use rustix::fs::{AtFlags, FileType, OFlags, Stat, statat};

use crate::ahead::{Origin, has_rights_of, list, open_at};

/// Larger files are no chunks: ten seconds at 25 Mbit/s.
const CHUNK_BYTES_MAX: i64 = 32 << 20;
/// Chunks that are looked at and taken together; of longer runs so many at a time.
const CHUNKS_MAX: usize = 1024;

/// A run of chunk files, and their folder.
#[derive(Debug)]
pub struct Chunks {
    folder: File,
    /// In the order of their numbers; the file that was asked about is among them.
    pub files: Vec<Chunk>,
}

/// A chunk file as it was when it was looked at.
#[derive(Debug)]
pub struct Chunk {
    /// In its folder.
    pub name: Vec<u8>,
    /// What the file system said.
    pub stat: Stat,
}

impl Chunks {
    /// The run around an open file, if it is one of several chunk files that are numbered and may be
    /// read by the same people; nothing outside `beneath` is looked at. Waits for the disk.
    pub fn around(file: &File, beneath: &Path) -> Option<Self> {
        let origin = Origin::of(file, beneath)?;
        if !is_chunk(&origin.file, &origin.file) {
            return None;
        }
        let listed = list(&origin.opened).ok()?;
        let is_file = |kind: FileType| matches!(kind, FileType::RegularFile | FileType::Unknown);
        let names = listed.iter().filter(|(_, kind)| is_file(*kind));
        let run = numbered_run(origin.name(), names.map(|(name, _)| name.as_slice()));
        let index = run.iter().position(|name| *name == origin.name())?;
        // Always the same ones, whichever of them is asked about.
        let first = index / CHUNKS_MAX * CHUNKS_MAX;
        let files = run
            .into_iter()
            .skip(first)
            .take(CHUNKS_MAX)
            .filter_map(|name| {
                let stat = statat(&origin.opened, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
                let name = name.to_vec();
                is_chunk(&stat, &origin.file).then_some(Chunk { name, stat })
            });
        let files: Vec<Chunk> = files.collect();
        let folder = origin.opened;
        (files.len() > 1).then_some(Self { folder, files })
    }

    /// Opens one of them; what has its name by now may be another file.
    ///
    /// # Errors
    /// If it is not there, or may not be read.
    pub fn open(&self, name: &[u8]) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        Ok(open_at(&self.folder, name, flags)?)
    }
}

/// What all paths of a run have in common and no other has, if a file of that path and size may be a
/// chunk.
pub fn run_name(path: &Path, bytes: u64) -> Option<PathBuf> {
    let (before, behind) = run_of(path.file_name()?.as_bytes())?;
    // No name of a file has a slash.
    let name = std::ffi::OsString::from_vec([before, b"/", behind].concat());
    let may_be = bytes.cast_signed() <= CHUNK_BYTES_MAX;
    may_be.then(|| path.with_file_name(name))
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
        let name = |path: &str| run_name(Path::new(path), 1000);
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
        let names = chunks.files.iter();
        let names: Vec<_> = names
            .map(|chunk| String::from_utf8_lossy(&chunk.name))
            .collect();
        let wanted = [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12].map(|number| format!("v{number}.ts"));
        assert_eq!(names, wanted);
        assert!(chunks.open(b"v1.ts").is_ok());
        assert!(chunks.open(b"v14.ts").is_err(), "no link is followed");
        let alone = File::open(path("a1.ts")).expect("there");
        assert!(Chunks::around(&alone, Path::new("/")).is_none());
        assert!(Chunks::around(&file, &path("else")).is_none());
    }
}
