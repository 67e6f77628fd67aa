//! Playlists and other small texts by gzip.
//!
//! Invariants: a reply has a turn from before its file is read until it was sent, and there are
//! only so many; who finds none is sent the file as it is. So what all of them hold is bounded. No
//! connection's thread compresses, and no more than two do, so that replies are not kept waiting
//! for processors.

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use headlong_engine::Failure;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::disk::{Piece, PieceInfo, Reply};

/// Replies by gzip at a time.
const TURNS: usize = 64;
/// Of those, being compressed.
const COMPRESSING_MAX: usize = 2;
/// Most of the time that the best level takes is for the last per cent.
const LEVEL: u32 = 5;

/// Turns of replies by gzip.
#[derive(Debug)]
pub(super) struct Turns {
    all: Arc<Semaphore>,
    compressing: Arc<Semaphore>,
}

/// A reply's turn.
pub(super) struct Turn {
    _of_all: OwnedSemaphorePermit,
    compressing: Arc<Semaphore>,
}

/// A body by gzip, and where the first bytes of its file came from.
pub(super) struct Gzipped {
    pub(super) bytes: Bytes,
    pub(super) came_from: PieceInfo,
    pub(super) turn: Turn,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(TURNS)),
            compressing: Arc::new(Semaphore::new(COMPRESSING_MAX)),
        }
    }
}

impl Turns {
    pub(super) fn take(&self) -> Option<Turn> {
        let of_all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(Turn {
            _of_all: of_all,
            compressing: Arc::clone(&self.compressing),
        })
    }
}

/// Reads the whole of a reply, which is small, and compresses it. `note` is told of each piece, and
/// of none when there are no more.
pub(super) async fn gzip(
    mut reply: Reply,
    turn: Turn,
    mut note: impl FnMut(Option<&Piece>),
) -> Result<Gzipped, Failure> {
    let mut text = Vec::new();
    let mut came_from = None;
    while let Some(piece) = reply.next().await {
        let piece = piece?;
        note(Some(&piece));
        came_from.get_or_insert(piece.info());
        text.extend_from_slice(piece.as_ref());
    }
    note(None);
    let came_from = came_from.ok_or(Failure::Device)?;
    // Held by the thread, which goes on if whoever asked leaves.
    let compressing = Arc::clone(&turn.compressing).acquire_owned().await;
    let compressing = compressing.map_err(|_| Failure::NoResources)?;
    let compressed = tokio::task::spawn_blocking(move || {
        let _compressing = compressing;
        compress(&text)
    });
    let compressed = compressed.await;
    let bytes = compressed.map_err(|_| Failure::NoResources)?;
    Ok(Gzipped {
        bytes: bytes.into(),
        came_from,
        turn,
    })
}

fn compress(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
    // Memory takes everything.
    let written = encoder.write_all(text).and_then(|()| encoder.finish());
    written.unwrap_or_default()
}
