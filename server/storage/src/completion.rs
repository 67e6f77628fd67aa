//! Completions that blocking threads post to the device thread.

use std::fs::File;
use std::sync::Arc;

use headlong_device::{FileRead, IoFailure, OpenedFile, PartId, ReadCompletion};
use headlong_engine::Extent;

use super::resources::DiskResources;

/// A completed operation.
pub(crate) enum Completion {
    /// An open has completed.
    Opened(PartId, Result<OpenedFile<Arc<File>>, IoFailure>),
    /// The location of a file was looked up.
    Located(PartId, Option<Vec<Extent>>),
    /// Direct reads of the file are refused.
    Refused(FileRead<DiskResources>),
    /// A read has completed.
    Ended(ReadCompletion),
}
