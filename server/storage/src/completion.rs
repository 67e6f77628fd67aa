//! Completions that blocking threads post to the device thread.

use std::fs::File;
use std::sync::Arc;

use headlong_device::{FileRead, IoFailure, OpenedFile, PartId, ReadCompletion};

use super::resources::DiskResources;

/// A completed operation.
pub(crate) enum Completion {
    /// An open has completed.
    Opened(PartId, Result<OpenedFile<Arc<File>>, IoFailure>),
    /// Direct reads of the file are refused.
    Refused(FileRead<DiskResources>),
    /// A read has completed.
    Ended(ReadCompletion),
}
