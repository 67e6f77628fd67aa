//! Resources of a device core in the server: files, memory, channels.

use std::fs::File;
use std::sync::Arc;

use headlong_device::Resources;
use headlong_engine::Failure;
use headlong_kernel::raw::Lease;
use tokio::sync::mpsc;

use super::reply::Piece;
use super::source::StreamSource;
use crate::flash::RecordBuffer;

/// The channel to a reply.
#[derive(Debug, Default)]
pub(crate) struct ReplyChannel {
    /// Bounded by the reply's send window. `None` while the reply is being created.
    pub(crate) pieces: Option<mpsc::UnboundedSender<Result<Piece, Failure>>>,
}

/// Resources of a device core in the server: files, memory, channels.
pub(crate) struct DiskResources;

impl Resources for DiskResources {
    type Source = Arc<dyn StreamSource>;
    type File = Arc<File>;
    type Memory = Arc<Lease>;
    type Client = ReplyChannel;
    type Record = RecordBuffer;
}
