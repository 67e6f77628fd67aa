//! A reply that has bytes to come.

use std::collections::VecDeque;

use headlong_engine::{Failure, StreamId};
use tokio::sync::mpsc;

use crate::disk::reply::Piece;

/// A reply that has bytes to come.
pub(super) struct Waiting {
    // What waits in it is bounded by the reply's send window. `None` while the reply is being made.
    pub(super) pieces: Option<mpsc::UnboundedSender<Result<Piece, Failure>>>,
    pub(super) bytes_left: u64,
    pub(super) stream: StreamId,
    pub(super) part: u32,
    /// Where what comes next begins in its part.
    pub(super) next: u64,
}

impl Waiting {
    /// Gives the reply what came for it; `ready` is for one that is being made.
    pub(super) fn give(
        &self,
        ready: &mut VecDeque<Result<Piece, Failure>>,
        next: Result<Piece, Failure>,
    ) {
        match &self.pieces {
            // A piece that comes back is dropped, and counts as sent.
            Some(pieces) => drop(pieces.send(next)),
            None => ready.push_back(next),
        }
    }
}
