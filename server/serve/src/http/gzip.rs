//! gzip compression of playlists and other small texts.
//!
//! Invariants: a reply holds a slot from before its file is read until it was sent, and slots are
//! limited, which bounds their memory; a reply without a slot is sent uncompressed. Compression
//! runs outside of the connection threads, at most two at a time, so that other replies are not
//! delayed by a lack of processors.

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use headlong_engine::Failure;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use headlong_storage::{Piece, PieceInfo, Reply};

/// Slots for gzip replies.
const TURNS: usize = 64;
/// Concurrent compressions among them.
const COMPRESSING_MAX: usize = 2;
/// The highest level spends most of its time on the last per cent.
const LEVEL: u32 = 5;

/// Slots for gzip replies.
#[derive(Debug)]
pub(super) struct GzipSlots {
    all: Arc<Semaphore>,
    compressing: Arc<Semaphore>,
}

/// The slot of a reply.
pub(super) struct GzipSlot {
    _of_all: OwnedSemaphorePermit,
    compressing: Arc<Semaphore>,
}

/// A compressed body, and the source of its file's first bytes.
pub(super) struct GzipBody {
    pub(super) bytes: Bytes,
    pub(super) came_from: PieceInfo,
    pub(super) turn: GzipSlot,
}

impl Default for GzipSlots {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(TURNS)),
            compressing: Arc::new(Semaphore::new(COMPRESSING_MAX)),
        }
    }
}

impl GzipSlots {
    pub(super) fn take(&self) -> Option<GzipSlot> {
        let of_all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(GzipSlot {
            _of_all: of_all,
            compressing: Arc::clone(&self.compressing),
        })
    }
}

/// Reads a whole small reply and compresses it. `note` receives each piece, and `None` after the
/// last one.
pub(super) async fn gzip(
    mut reply: Reply,
    turn: GzipSlot,
    mut note: impl FnMut(Option<&Piece>),
) -> Result<GzipBody, Failure> {
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
    // Held by the compression thread, which continues if the client leaves.
    let compressing = Arc::clone(&turn.compressing).acquire_owned().await;
    let compressing = compressing.map_err(|_| Failure::NoResources)?;
    let compressed = tokio::task::spawn_blocking(move || {
        let _compressing = compressing;
        compress(&text)
    });
    let compressed = compressed.await;
    let bytes = compressed.map_err(|_| Failure::NoResources)?;
    Ok(GzipBody {
        bytes: bytes.into(),
        came_from,
        turn,
    })
}

fn compress(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
    // Writing to memory does not fail.
    let written = encoder.write_all(text).and_then(|()| encoder.finish());
    written.unwrap_or_default()
}
