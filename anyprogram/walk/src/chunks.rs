//! Titles in chunk files: which files of its folder follow a file, in order.

use std::fs::File;
use std::io;
use std::path::Path;

use headlong_media::numbered_run;
use rustix::fs::{AtFlags, FileType, OFlags, Stat, statat};

use crate::ahead::{Origin, has_rights_of, list, open_at};

/// Larger files are no chunks: ten seconds at 25 Mbit/s.
const CHUNK_BYTES_MAX: i64 = 32 << 20;
/// Names that are kept of longer runs.
const CHUNKS_MAX: usize = 1024;

/// A run of chunk files from one of them on, by their names, and their folder. To list a folder costs
/// a read or two; what each file is costs more, and is looked at when it is wanted.
#[derive(Debug)]
pub struct Chunks {
    folder: File,
    /// The one that was asked about, which the others are like.
    like: Stat,
    /// In the order of their numbers.
    names: Vec<Vec<u8>>,
}

impl Chunks {
    /// The run that an open file begins, if others follow it by number. Nothing outside `beneath` is
    /// looked at. Waits for the disk.
    pub fn from(file: &File, beneath: &Path) -> Option<Self> {
        let origin = Origin::of(file, beneath)?;
        if !is_chunk(&origin.file, &origin.file) {
            return None;
        }
        let listed = list(&origin.opened).ok()?;
        let is_file = |kind: FileType| matches!(kind, FileType::RegularFile | FileType::Unknown);
        let files = listed.iter().filter(|entry| is_file(entry.kind));
        let run = numbered_run(origin.name(), files.map(|entry| entry.name.as_slice()));
        let from_it = run.into_iter().skip_while(|name| *name != origin.name());
        let names: Vec<Vec<u8>> = from_it.take(CHUNKS_MAX).map(<[u8]>::to_vec).collect();
        (names.len() > 1).then_some(Self {
            folder: origin.opened,
            like: origin.file,
            names,
        })
    }

    /// How many names there are; the first is that of the file that was asked about.
    #[expect(clippy::len_without_is_empty, reason = "there are two at least")]
    pub fn len(&self) -> usize {
        self.names.len()
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
        let file = File::open(path("v2.ts")).expect("there");
        let chunks = Chunks::from(&file, Path::new("/")).expect("a run");
        let is_there = (0..chunks.len()).map(|index| chunks.look(index).is_some());
        // From 2 to 13, in the order of the numbers; no link is followed.
        let mut wanted = vec![true; 12];
        for number in [3, 13] {
            wanted[number - 2] = false;
        }
        assert_eq!(is_there.collect::<Vec<_>>(), wanted);
        assert!(chunks.open(0).is_ok());
        assert!(chunks.open(12).is_err() && chunks.look(12).is_none());
        let alone = File::open(path("a1.ts")).expect("there");
        assert!(Chunks::from(&alone, Path::new("/")).is_none());
        assert!(Chunks::from(&file, &path("else")).is_none());
    }
}
