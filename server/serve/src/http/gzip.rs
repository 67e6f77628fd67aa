//! Playlists and other small texts by gzip.
//!
//! Invariants: a reply has a slot from before its file is read until it was sent, and there are
//! only so many; who finds none is sent the file as it is. So what all of them hold is bounded. No
//! connection's thread compresses.

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use headlong_engine::Failure;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::disk::{Piece, PieceInfo, Reply};

/// Replies by gzip at a time.
const SLOTS: usize = 64;
/// Most of the time that the best level takes is for the last per cent.
const LEVEL: u32 = 5;

/// Slots for replies by gzip.
#[derive(Debug)]
pub(super) struct Slots(Arc<Semaphore>);

/// A reply's slot.
pub(super) type Slot = OwnedSemaphorePermit;

/// A body by gzip, and where the first bytes of its file came from.
pub(super) struct Gzipped {
    pub(super) bytes: Bytes,
    pub(super) came_from: PieceInfo,
    pub(super) slot: Slot,
}

impl Default for Slots {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(SLOTS)))
    }
}

impl Slots {
    pub(super) fn take(&self) -> Option<Slot> {
        Arc::clone(&self.0).try_acquire_owned().ok()
    }
}

/// Reads the whole of a reply, which is small, and compresses it.
pub(super) async fn gzip(
    mut reply: Reply,
    slot: Slot,
    mut note: impl FnMut(&Piece),
) -> Result<Gzipped, Failure> {
    let mut text = Vec::new();
    let mut came_from = None;
    while let Some(piece) = reply.next().await {
        let piece = piece?;
        note(&piece);
        came_from.get_or_insert(piece.info());
        text.extend_from_slice(piece.as_ref());
    }
    let came_from = came_from.ok_or(Failure::Device)?;
    let compressed = tokio::task::spawn_blocking(move || compress(&text)).await;
    let bytes = compressed.map_err(|_| Failure::NoResources)?;
    Ok(Gzipped {
        bytes: bytes.into(),
        came_from,
        slot,
    })
}

fn compress(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
    // Memory takes everything.
    let written = encoder.write_all(text).and_then(|()| encoder.finish());
    written.unwrap_or_default()
}
