//! What the core of a device holds: files, memory, channels.

use std::fs::File;
use std::sync::Arc;

use headlong_device::Resources;
use headlong_engine::Failure;
use tokio::sync::mpsc;

use super::reply::Piece;
use super::source::StreamSource;
use crate::flash::Record;
use crate::raw::Lease;

/// Where a reply gets what comes for it.
#[derive(Debug, Default)]
pub(crate) struct ReplyChannel {
    /// What waits in it is bounded by the reply's send window. `None` while the reply is being made.
    pub(crate) pieces: Option<mpsc::UnboundedSender<Result<Piece, Failure>>>,
}

/// What the core of a device holds: files, memory, channels.
pub(crate) struct DiskResources;

impl Resources for DiskResources {
    type Source = Arc<dyn StreamSource>;
    type File = Arc<File>;
    type Memory = Arc<Lease>;
    type Client = ReplyChannel;
    type Record = Record;
}
