//! Completions that blocking threads post to the device thread.

use std::fs::File;
use std::sync::Arc;

use headlong_device::{IoFailure, Opened, PartId, Read, ReadCompletion};

use super::resources::DiskResources;

/// A completed operation.
pub(crate) enum Completion {
    /// An open has completed.
    Opened(PartId, Result<Opened<Arc<File>>, IoFailure>),
    /// Direct reads of the file are refused.
    Refused(Read<DiskResources>),
    /// A read has completed.
    Ended(ReadCompletion),
}
