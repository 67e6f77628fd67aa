//! What a device core holds on behalf of its host.

/// The types of what a device core holds for its host.
pub trait Resources {
    /// The way to the files of a stream.
    type Source: Clone;
    /// An open file.
    type File: Clone;
    /// Memory that is read into. It is free for other uses once this is dropped.
    type Memory;
    /// The receiver of a reply.
    type Client;
    /// The copy of a record that is collected for an SSD.
    type Record;
}
