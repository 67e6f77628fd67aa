//! Copier thread of the sendfile cache. Copying takes longer than a connection may be delayed, so
//! it has its own thread. The engine gets the piece back only after the copy, so that the source
//! does not change meanwhile.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};

use super::reply::Piece;

/// Upper limit of pieces in the queue. Further pieces are skipped until they are sent again.
const WAITING_MAX: usize = 64;

/// Handle of the thread, which ends when the last handle is dropped.
#[derive(Debug)]
pub(crate) struct Copier(SyncSender<Piece>);

impl Copier {
    /// Starts the thread.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start(device: &str) -> io::Result<Self> {
        let (give, given) = sync_channel::<Piece>(WAITING_MAX);
        std::thread::Builder::new()
            .name(format!("keep-{device}"))
            .spawn(move || {
                for piece in given {
                    piece.copy_to_cache();
                }
            })?;
        Ok(Self(give))
    }

    /// Queues a piece for copying, if there is room. The piece is returned to the engine either
    /// way.
    pub(crate) fn offer(&self, piece: Piece) {
        // A rejected piece is dropped here.
        let _ = self.0.try_send(piece);
    }
}
