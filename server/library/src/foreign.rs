//! Streams whose files are nobody's titles: what an edge keeps of its origin, in a hidden folder of a
//! root. The library lends them a device, names and positions, and knows nothing else of them.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

use headlong_engine::Extent;

use crate::identity::Identity;
use crate::library::Library;
use crate::raw;

impl Library {
    /// The device that a root lies on, as an index of [`Library::devices`]; `None` while the root is not
    /// open.
    pub fn device_of_root(&self, root: usize) -> Option<usize> {
        let (_, dev) = self.state.roots().get(root)?.place()?;
        let place = self.state.maker.ground.devices.known(dev)?;
        Some(place.device)
    }

    /// An id of a stream that no other has.
    pub fn new_stream_id(&self) -> u64 {
        self.state.maker.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Where an open file lies, from the start of its disk; empty where the file system does not say.
    ///
    /// # Errors
    /// If the kernel cannot be asked.
    pub fn extents(&self, file: &File) -> io::Result<Vec<Extent>> {
        let identity = Identity::of_open(file)?;
        let mut extents = raw::extents(file, identity.size, raw::FLAG_SYNC)?;
        let place = self.state.maker.ground.devices.known(identity.dev);
        for extent in &mut extents {
            let start = place.map_or(0, |place| place.start_bytes);
            extent.physical = extent.physical.saturating_add(start);
        }
        Ok(extents)
    }
}
