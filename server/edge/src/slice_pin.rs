//! A slice that is in use and must not be evicted.

use std::sync::Arc;

use super::version::Version;

/// Prevents the eviction of a slice until it is dropped.
#[derive(Debug)]
pub struct SlicePin {
    version: Arc<Version>,
    index: u32,
    /// Whether it had to be fetched.
    pub is_miss: bool,
}

impl SlicePin {
    pub(super) fn new(version: &Arc<Version>, index: u32, is_miss: bool) -> Self {
        Self {
            version: Arc::clone(version),
            index,
            is_miss,
        }
    }
}

impl Drop for SlicePin {
    fn drop(&mut self) {
        let mut table = self.version.table();
        if let Some(count) = table.pins.get_mut(&self.index) {
            *count -= 1;
            if *count == 0 {
                table.pins.remove(&self.index);
            }
        }
    }
}
