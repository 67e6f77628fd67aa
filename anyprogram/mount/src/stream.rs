//! One version of a file, as the engine of its disk reads it: a single file, or a part of a title
//! in chunk files.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use headlong_engine::{Extent, PartSpec, StreamId, StreamSpec};
use headlong_library::{BlockMap, FileIdentity};
use headlong_storage::{Device, StreamSource};
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl, open};

use crate::attributes::attributes;
use crate::tree::{Tree, path_of};

/// The unit that the engine reads. When dropped, its bytes leave memory.
#[derive(Debug)]
pub(crate) struct Title {
    pub(crate) id: StreamId,
    pub(crate) device: Device,
    source: Arc<TitleSource>,
}

/// One version of a file.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) title: Arc<Title>,
    /// Index of the file within the title.
    pub(crate) part: u32,
    pub(crate) identity: FileIdentity,
}

impl Title {
    pub(crate) fn new(device: Device, source: TitleSource) -> Self {
        Self {
            id: source.id,
            device,
            source: Arc::new(source),
        }
    }

    /// Whether it consists of a single file.
    pub(crate) fn is_alone(&self) -> bool {
        self.source.parts.len() == 1
    }

    /// Its files.
    pub(crate) fn parts(&self) -> &[TitlePart] {
        &self.source.parts
    }

    /// The source of its bytes.
    pub(crate) fn source(&self) -> Arc<dyn StreamSource> {
        Arc::<TitleSource>::clone(&self.source)
    }
}

impl Drop for Title {
    fn drop(&mut self) {
        self.device.stream_removed(self.id, false);
    }
}

impl Stream {
    /// The stream of a title's file; `None` if there is no such part.
    pub(crate) fn of(title: &Arc<Title>, part: u32) -> Option<Self> {
        let identity = title.source.parts.get(part as usize)?.identity;
        Some(Self {
            title: Arc::clone(title),
            part,
            identity,
        })
    }

    /// A program has the file open: it is read through that descriptor, whatever its name means by
    /// now.
    pub(crate) fn opened(&self, file: &Arc<File>) {
        if let Some(part) = self.title.source.parts.get(self.part as usize) {
            let mut open = part.open.lock().unwrap_or_else(PoisonError::into_inner);
            *open = Arc::downgrade(file);
        }
    }
}

/// Source of a title's bytes.
#[derive(Debug)]
pub(crate) struct TitleSource {
    pub(crate) id: StreamId,
    pub(crate) tree: Arc<Tree>,
    pub(crate) places: Arc<BlockMap>,
    pub(crate) parts: Vec<TitlePart>,
}

/// One version of a file: read through a program's descriptor, otherwise by name.
#[derive(Debug)]
pub(crate) struct TitlePart {
    pub(crate) identity: FileIdentity,
    pub(crate) path: PathBuf,
    /// Its extents, if they were read.
    extents: Option<Vec<Extent>>,
    /// A program's open file, while it is open.
    open: Mutex<Weak<File>>,
}

impl TitlePart {
    /// A file whose extents are read later.
    pub(crate) fn new(identity: FileIdentity, path: PathBuf) -> Self {
        Self {
            identity,
            path,
            extents: None,
            open: Mutex::default(),
        }
    }

    /// Reads its extents; `None` if its name now refers to another version. Blocks on its disk.
    pub(crate) fn looked_at(mut self, tree: &Tree, places: &BlockMap) -> Option<Self> {
        let file = tree.open_file(&self.path).ok()?;
        if !is_version(&file, &self.identity) {
            return None;
        }
        // A file system that reports no extents has no physical order.
        let place = places.of(&file);
        self.extents = Some(place.map_or_else(|_| Vec::new(), |place| place.extents));
        Some(self)
    }

    fn open_again(&self, tree: &Tree, flags: OFlags) -> rustix::io::Result<File> {
        let open_now = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let program = open_now.upgrade();
        drop(open_now);
        let Some(program) = program else {
            let file = tree.open_file(&self.path)?;
            let set = fcntl_getfl(&file)?;
            fcntl_setfl(&file, set | flags)?;
            return Ok(file);
        };
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
        open(path_of(&program), flags, Mode::empty()).map(File::from)
    }
}

fn is_version(file: &File, identity: &FileIdentity) -> bool {
    attributes(file).is_ok_and(|now| now.identity.has_bytes_of(identity))
}

impl TitleSource {
    fn part(&self, part: u32) -> io::Result<&TitlePart> {
        let part = self.parts.get(part as usize);
        part.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn describe(&self, part: &TitlePart) -> PartSpec {
        // A file that cannot be opened has no known extents; its reader gets the error.
        let look = || {
            let file = part.open_again(&self.tree, OFlags::empty());
            let place = file
                .map_err(io::Error::from)
                .and_then(|file| self.places.of(&file));
            place.map_or_else(|_| Vec::new(), |place| place.extents)
        };
        PartSpec {
            size_bytes: part.identity.size,
            extents: part.extents.clone().unwrap_or_else(look),
            flash_key: None,
            is_absent: false,
        }
    }
}

impl StreamSource for TitleSource {
    fn spec(&self) -> StreamSpec {
        let parts = self.parts.iter();
        StreamSpec {
            id: self.id,
            parts: parts.map(|part| self.describe(part)).collect(),
            bit_rate: None,
        }
    }

    fn file_name(&self, part: u32) -> String {
        let part = self.part(part);
        part.map_or_else(|_| String::new(), |part| part.path.display().to_string())
    }

    fn open(&self, part: u32, direct: bool) -> io::Result<File> {
        let flags = match direct {
            true => OFlags::DIRECT,
            false => OFlags::empty(),
        };
        Ok(self.part(part)?.open_again(&self.tree, flags)?)
    }

    fn unchanged(&self, part: u32, file: &File) -> bool {
        self.part(part)
            .is_ok_and(|part| is_version(file, &part.identity))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn source(folder: &tempfile::TempDir, open: Weak<File>) -> TitleSource {
        let tree = Arc::new(Tree::open(folder.path()).expect("opened"));
        let path = PathBuf::from("a");
        let mut part = TitlePart::new(tree.attributes(&path).expect("there").identity, path);
        part.open = Mutex::new(open);
        TitleSource {
            id: StreamId(1),
            places: Arc::new(BlockMap::beneath(folder.path())),
            tree,
            parts: vec![part],
        }
    }

    #[test]
    fn unlinked_file_is_readable_while_open() {
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
        let error = source.open(0, false).expect_err("no longer open");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(source.spec().parts[0].extents.is_empty());
    }

    #[test]
    fn replaced_file_is_another_version() {
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
        let part = TitlePart::new(source.parts[0].identity, path);
        assert!(part.looked_at(&source.tree, &source.places).is_none());
        assert!(source.open(1, false).is_err(), "no such part");
    }
}
