//! Resources that a device core holds on behalf of its host.

/// Types of the resources that a device core holds on behalf of its host.
pub trait Resources {
    /// Access to the files of a stream.
    type Source: Clone;
    /// An open file.
    type File: Clone;
    /// Memory of a read. Dropping it releases the memory.
    type Memory;
    /// The receiver of a reply.
    type Client;
    /// A record copied for an SSD.
    type Record;
}
