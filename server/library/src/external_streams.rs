//! External streams, whose files belong to no title: an edge's cache of its origin, in a hidden
//! folder of a root. The library provides device, ids and positions for them, and keeps no other
//! state.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

use headlong_engine::Extent;

use crate::identity::FileIdentity;
use crate::library::Library;
use crate::raw;

impl Library {
    /// The device of a root, as an index of [`Library::devices`]; `None` while the root is not
    /// open.
    pub fn device_of_root(&self, root: usize) -> Option<usize> {
        let (_, dev) = self.state.roots().get(root)?.place()?;
        let place = self.state.maker.ground.devices.location(dev)?;
        Some(place.device)
    }

    /// A new unique stream id.
    pub fn new_stream_id(&self) -> u64 {
        self.state.maker.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Location of an open file, from the start of its disk; empty if the file system does not
    /// report it.
    ///
    /// # Errors
    /// If the kernel query fails.
    pub fn extents(&self, file: &File) -> io::Result<Vec<Extent>> {
        let identity = FileIdentity::of_open(file)?;
        let mut extents = raw::extents(file, identity.size, raw::FLAG_SYNC)?;
        let place = self.state.maker.ground.devices.location(identity.dev);
        for extent in &mut extents {
            let start = place.map_or(0, |place| place.start_bytes);
            extent.physical = extent.physical.saturating_add(start);
        }
        Ok(extents)
    }
}
