//! Opening a file.

use headlong_engine::StreamId;

/// A file: one part of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId {
    /// The stream.
    pub stream: StreamId,
    /// Index of the file in the stream.
    pub part: u32,
}

/// A file to be opened; answered by [`crate::DeviceCore::handle_opened`].
#[derive(Debug, Clone)]
pub struct OpenJob<S> {
    /// Which file.
    pub id: PartId,
    /// The stream's source.
    pub source: S,
    /// Whether its reads are to bypass the page cache.
    pub is_direct: bool,
}

/// A file that was opened.
#[derive(Debug, Clone)]
pub struct Opened<F> {
    /// The open file.
    pub file: F,
    /// Whether it is the version that the stream was registered with.
    pub is_current: bool,
}
