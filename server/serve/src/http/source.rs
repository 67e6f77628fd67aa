//! Streams of the library as sources for the engine.

use std::fs::File;
use std::io;
use std::sync::Arc;

use headlong_engine::{Extent, StreamSpec};
use headlong_library::{StreamFiles, is_changed};
use headlong_units::BitRate;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use headlong_storage::StreamSource;

/// One version of a stream.
#[derive(Debug)]
pub struct LibrarySource {
    /// The files of the stream.
    pub files: Arc<StreamFiles>,
    /// Whether O_DIRECT may be used; otherwise opening with it fails as on a file system that does
    /// not support it.
    pub direct: bool,
}

impl StreamSource for LibrarySource {
    fn spec(&self) -> StreamSpec {
        self.files.spec()
    }

    fn describe(&self, opened: &mut dyn FnMut(u32, File)) -> StreamSpec {
        self.files.describe(opened)
    }

    fn lasting_name(&self) -> Option<u64> {
        Some(self.files.lasting_name())
    }

    fn file_name(&self, part: u32) -> String {
        let file = self.files.parts.get(part as usize);
        file.map_or_else(String::new, |file| self.files.path_of(file))
    }

    fn open(&self, part: u32, direct: bool) -> io::Result<File> {
        if direct && !self.direct {
            return Err(Errno::INVAL.into());
        }
        let file = self.files.open(part).map_err(|error| {
            // A changed version is not an error of the device.
            if is_changed(&error) {
                io::Error::from(Errno::STALE)
            } else {
                error
            }
        })?;
        if direct {
            let flags = fcntl_getfl(&file)?;
            fcntl_setfl(&file, flags | OFlags::DIRECT)?;
        }
        Ok(file)
    }

    fn locate(&self, part: u32, file: &File) -> Option<Vec<Extent>> {
        self.files.locate(part, file)
    }

    fn allows_direct(&self) -> bool {
        self.direct
    }

    fn wants(&self, part: u32) -> Option<u64> {
        self.files.wants(part)
    }

    fn learn(&self, part: u32, offset: u64, bytes: &[u8]) -> Option<BitRate> {
        self.files.learn(part, offset, bytes)
    }

    fn unchanged(&self, part: u32, file: &File) -> bool {
        self.files.unchanged(part, file)
    }
}
