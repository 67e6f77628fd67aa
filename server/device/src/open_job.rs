//! Opening a file.

use headlong_engine::StreamId;

/// A file: one part of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId {
    /// The stream.
    pub stream: StreamId,
    /// Index of the part in the stream.
    pub part: u32,
}

/// A file to open; completed by [`crate::DeviceCore::handle_opened`].
#[derive(Debug, Clone)]
pub struct OpenJob<S> {
    /// The file.
    pub id: PartId,
    /// The stream's source.
    pub source: S,
    /// Whether to open it for direct I/O.
    pub is_direct: bool,
}

/// An open file whose location is to be looked up; completed by
/// [`crate::DeviceCore::handle_location`].
#[derive(Debug, Clone)]
pub struct LookupJob<S, F> {
    /// The file.
    pub id: PartId,
    /// The stream's source.
    pub source: S,
    /// The open file.
    pub file: F,
}

/// An opened file.
#[derive(Debug, Clone)]
pub struct OpenedFile<F> {
    /// The open file.
    pub file: F,
    /// Whether it has the version that the stream was registered with.
    pub is_current: bool,
}
