//! What the device's thread is told by the threads that block.

use std::fs::File;
use std::sync::Arc;

use headlong_device::{IoFailure, Opened, PartId, Read, ReadCompletion};

use super::resources::DiskResources;

/// Something that a thread has done.
pub(crate) enum Completion {
    /// A file is open, or cannot be opened.
    Opened(PartId, Result<Opened<Arc<File>>, IoFailure>),
    /// Direct reads of a file are refused.
    Refused(Read<DiskResources>),
    /// A read has ended.
    Ended(ReadCompletion),
}
