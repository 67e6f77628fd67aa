//! Copies what is sent again and again to where sockets take it from without a copy.
//!
//! On a thread of its own, as a copy takes longer than a connection may hold up others. A piece that
//! is to be copied is given back to the engine only after that, so its memory stays what it is.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};

use super::reply::Piece;

/// Most pieces that wait to be copied; further ones are not, until they are sent again.
const WAITING_MAX: usize = 64;

/// The way to the thread, which ends with the last of these.
#[derive(Debug)]
pub(crate) struct Keeper(SyncSender<Piece>);

impl Keeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system has none.
    pub(crate) fn start(device: &str) -> io::Result<Self> {
        let (give, given) = sync_channel::<Piece>(WAITING_MAX);
        std::thread::Builder::new()
            .name(format!("keep-{device}"))
            .spawn(move || {
                for piece in given {
                    piece.keep();
                }
            })?;
        Ok(Self(give))
    }

    /// Has a piece copied, if there is time for it; then it is given back.
    pub(crate) fn offer(&self, piece: Piece) {
        // One that comes back is dropped.
        let _ = self.0.try_send(piece);
    }
}
