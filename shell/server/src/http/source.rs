//! Streams of the library, as the disks want to see them.

use std::fs::File;
use std::io;
use std::sync::Arc;

use headlong_engine::StreamSpec;
use headlong_library::{StreamFiles, is_changed};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::disk::StreamSource;

/// One stream in one version.
#[derive(Debug)]
pub struct LibrarySource(pub Arc<StreamFiles>);

impl StreamSource for LibrarySource {
    fn spec(&self) -> StreamSpec {
        self.0.spec()
    }

    fn open(&self, part: u32, direct: bool) -> io::Result<File> {
        let file = self.0.open(part).map_err(|error| {
            // Another version is no fault of the device.
            if is_changed(&error) { io::Error::from(Errno::STALE) } else { error }
        })?;
        if direct {
            let flags = fcntl_getfl(&file)?;
            fcntl_setfl(&file, flags | OFlags::DIRECT)?;
        }
        Ok(file)
    }

    fn unchanged(&self, part: u32, file: &File) -> bool {
        self.0.unchanged(part, file)
    }
}
