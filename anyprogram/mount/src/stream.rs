//! One version of a file, as the engine of its disk knows it.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use headlong_engine::{PartSpec, StreamId, StreamSpec};
use headlong_library::{Identity, Places};
use headlong_serve::disk::{Device, StreamSource};
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl, open};

use crate::attributes::attributes;
use crate::tree::{Tree, path_of};

/// One version of a file. Once nobody has it, its bytes leave memory.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    pub(crate) identity: Identity,
    pub(crate) device: Device,
    source: Arc<FileSource>,
}

impl Stream {
    pub(crate) fn new(device: Device, source: FileSource) -> Self {
        Self {
            id: source.id,
            identity: source.identity,
            device,
            source: Arc::new(source),
        }
    }

    /// A program has the file open: it is read there, whatever its name means by now.
    pub(crate) fn opened(&self, file: &Arc<File>) {
        let open = self.source.open.lock();
        *open.unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(file);
    }

    /// Where its bytes are read.
    pub(crate) fn source(&self) -> Arc<dyn StreamSource> {
        Arc::<FileSource>::clone(&self.source)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.device.stream_gone(self.id, false);
    }
}

/// Where the bytes of a version are read: where a program has it open, else by name.
#[derive(Debug)]
pub(crate) struct FileSource {
    pub(crate) id: StreamId,
    pub(crate) identity: Identity,
    pub(crate) tree: Arc<Tree>,
    pub(crate) path: PathBuf,
    pub(crate) places: Arc<Places>,
    /// What a program has open, as long as it does.
    pub(crate) open: Mutex<Weak<File>>,
}

impl FileSource {
    fn open_again(&self, flags: OFlags) -> rustix::io::Result<File> {
        let open_now = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let program = open_now.upgrade();
        drop(open_now);
        let Some(program) = program else {
            let file = self.tree.open_file(&self.path)?;
            let set = fcntl_getfl(&file)?;
            fcntl_setfl(&file, set | flags)?;
            return Ok(file);
        };
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
        open(path_of(&program), flags, Mode::empty()).map(File::from)
    }
}

impl StreamSource for FileSource {
    fn spec(&self) -> StreamSpec {
        // A file that cannot be opened now has no known place; whoever reads it meets the error.
        let file = self.open_again(OFlags::empty()).map_err(io::Error::from);
        let place = file.and_then(|file| self.places.of(&file));
        StreamSpec {
            id: self.id,
            parts: vec![PartSpec {
                size_bytes: self.identity.size,
                extents: place.map_or_else(|_| Vec::new(), |place| place.extents),
                flash_key: None,
                is_absent: false,
            }],
            bit_rate: None,
        }
    }

    fn file_name(&self, _part: u32) -> String {
        self.path.display().to_string()
    }

    fn open(&self, _part: u32, direct: bool) -> io::Result<File> {
        let flags = match direct {
            true => OFlags::DIRECT,
            false => OFlags::empty(),
        };
        Ok(self.open_again(flags)?)
    }

    fn unchanged(&self, _part: u32, file: &File) -> bool {
        attributes(file).is_ok_and(|now| now.identity.has_bytes_of(&self.identity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    fn source(folder: &tempfile::TempDir, open: Weak<File>) -> FileSource {
        let tree = Arc::new(Tree::open(folder.path()).expect("opened"));
        let path = PathBuf::from("a");
        FileSource {
            id: StreamId(1),
            identity: tree.attributes(&path).expect("there").identity,
            places: Arc::new(Places::beneath(folder.path())),
            tree,
            path,
            open: Mutex::new(open),
        }
    }

    #[test]
    fn an_unlinked_file_is_read_while_a_program_has_it_open_and_not_after_that() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, "text").expect("written");
        let program = Arc::new(File::open(&path).expect("there"));
        let source = source(&folder, Arc::downgrade(&program));
        std::fs::remove_file(&path).expect("removed");
        let mut file = source.open(0, false).expect("open somewhere");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("read");
        assert_eq!(text, "text");
        assert!(source.unchanged(0, &file));
        assert_eq!(source.spec().parts[0].size_bytes, 4);
        drop(program);
        let error = source.open(0, false).expect_err("it is gone");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(source.spec().parts[0].extents.is_empty());
    }

    #[test]
    fn another_file_of_that_name_is_not_the_version() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, "text").expect("written");
        let source = source(&folder, Weak::new());
        let file = source.open(0, false).expect("by name");
        assert!(source.unchanged(0, &file));
        std::fs::write(folder.path().join("b"), "else").expect("written");
        std::fs::rename(folder.path().join("b"), &path).expect("moved");
        let file = source.open(0, false).expect("by name");
        assert!(!source.unchanged(0, &file));
    }
}
