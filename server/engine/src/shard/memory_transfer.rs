//! Transfer of memory from a process to its successor.
//!
//! Memory is moved, not copied. The old process returns a slot to the system as soon as the new one
//! has its bytes, and the new one only uses free slots, so that both together use no more than one
//! budget.
//!
//! The new process may receive pieces of streams that are not registered yet. Such a piece waits in
//! a [reserved](Shard::handle_reserve) slot until its stream is registered or a timeout expires. In
//! the old process, too, slots are reserved until the new one has their bytes.

use alloc::vec::Vec;
use core::cmp::Reverse;

use headlong_flash::FileKey;
use headlong_units::{Duration, Instant};

use super::state::Shard;
use crate::command::Command;
use crate::ids::{Slot, StreamId};
use crate::memory::{CachedPiece, PieceKey};
use crate::popularity::Popularity;

/// A piece to transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferPiece {
    /// The stream.
    pub stream: StreamId,
    /// Its position in the stream.
    pub bytes: PieceBytes,
    /// Slot that holds it.
    pub slot: Slot,
}

/// Position of a piece in its stream, and whether it was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieceBytes {
    /// Index of the part.
    pub part: u32,
    /// Offset of the first byte, in the part.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Whether any of its bytes were sent.
    pub was_read: bool,
}

/// Order of the transfer: pieces that viewers will request, the soonest first; then the most popular
/// ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TransferOrder {
    Awaited(Duration),
    Kept(Reverse<Popularity>),
}

impl Shard {
    /// The persistent key of each part of a stream, if it has one.
    pub fn file_keys(&self, stream: StreamId) -> Vec<Option<FileKey>> {
        let layout = self.streams.layout(stream);
        layout.map_or_else(Vec::new, |layout| layout.flash_keys().collect())
    }

    /// Another process serves from now on and takes over the memory, except for pieces kept for
    /// running replies. Returns these pieces, the most useful first. They are removed from memory,
    /// but their slots stay reserved until they are [passed on](Self::handle_passed_on).
    pub fn handle_pass_on(&mut self, now: Instant) -> Vec<TransferPiece> {
        self.begin(now);
        let held: Vec<CachedPiece> = self.memory.held().collect();
        let mut pieces: Vec<(TransferOrder, TransferPiece)> = held
            .into_iter()
            .filter_map(|held| self.describe(held))
            .collect();
        pieces.sort_unstable_by_key(|(of_use, piece)| (*of_use, piece.slot));
        let pieces: Vec<TransferPiece> = pieces.into_iter().map(|(_, piece)| piece).collect();
        for piece in &pieces {
            let gone = self.memory.take_out(self.now, piece.slot);
            let layout = self.streams.layout(gone.key.0);
            let logical = layout.map(|layout| layout.logical_of_piece(gone.key.1));
            let chain = gone.owner.and_then(|owner| self.chains.get_mut(owner));
            if let (Some(chain), Some(logical)) = (chain, logical) {
                chain.unread.remove(gone.key.1);
                chain.fetched_end = chain.fetched_end.min(logical);
            }
        }
        self.finish();
        pieces
    }

    /// The value of a piece for the other process; `None` if this one needs it.
    fn describe(&self, held: CachedPiece) -> Option<(TransferOrder, TransferPiece)> {
        let stream = self.streams.get(held.key.0)?;
        let place = stream.layout.place(held.key.1);
        let own = held.owner.and_then(|owner| self.chains.get(owner));
        let of_use = match (own, held.wanted_at) {
            (Some(chain), _) if !chain.is_idle() => return None,
            (Some(chain), _) => {
                let pace = chain.pace(self.now, stream.bit_rate, self.config.pace_default);
                TransferOrder::Awaited(pace.time_for(place.logical.saturating_sub(chain.position)))
            }
            (None, Some(at)) => TransferOrder::Awaited(at.since(self.now)),
            (None, None) => TransferOrder::Kept(Reverse(held.popularity)),
        };
        let bytes = PieceBytes {
            part: place.part,
            offset: place.offset,
            length: place.length,
            was_read: held.was_read,
        };
        let piece = TransferPiece {
            stream: held.key.0,
            bytes,
            slot: held.slot,
        };
        Some((of_use, piece))
    }

    /// The other process has received these slots, or never will: their memory is returned to the
    /// system, by [`Command::Vacate`].
    pub fn handle_passed_on(&mut self, now: Instant, slots: &[Slot]) {
        self.begin(now);
        for slot in slots {
            self.memory.unfilled(*slot);
            self.commands.push_back(Command::Vacate(*slot));
        }
        self.finish();
    }

    /// Reserves a free slot for a piece of another process; `None` if there is none. No piece is
    /// evicted for it. Must be followed by [`Self::handle_received`] or
    /// [`Self::handle_not_received`].
    pub fn handle_reserve(&mut self, now: Instant) -> Option<Slot> {
        self.begin(now);
        let slot = self.memory.reserve();
        self.finish();
        slot
    }

    /// A reserved slot holds these bytes of a stream. Returns whether they are useful. If
    /// not, because the stream has no such piece or it is already in memory, the slot is freed.
    pub fn handle_received(
        &mut self,
        now: Instant,
        slot: Slot,
        stream: StreamId,
        bytes: PieceBytes,
    ) -> bool {
        self.begin(now);
        let key = self.key_of(stream, bytes);
        let key = key.filter(|key| self.memory.find(*key).is_none());
        match key {
            Some(key) => {
                let wanted_at = self.wanted_at(key);
                let read_to = if bytes.was_read {
                    bytes.length as u32
                } else {
                    0
                };
                self.memory
                    .received(self.now, slot, key, read_to, wanted_at);
                // Of replies that have requested the piece already.
                self.wake_waiters(key, slot);
            }
            None => self.memory.unfilled(slot),
        }
        self.finish();
        key.is_some()
    }

    /// The stream of a reserved slot was not registered.
    pub fn handle_not_received(&mut self, now: Instant, slot: Slot) {
        self.begin(now);
        self.memory.unfilled(slot);
        self.finish();
    }

    /// The piece with exactly these bytes.
    fn key_of(&self, stream: StreamId, bytes: PieceBytes) -> Option<PieceKey> {
        let layout = self.streams.layout(stream)?;
        if bytes.offset >= layout.part_bytes(bytes.part)? {
            return None;
        }
        let piece = layout.piece_at(bytes.part, bytes.offset);
        let place = layout.place(piece);
        let is_it = place.offset == bytes.offset && place.length == bytes.length;
        is_it.then_some((stream, piece))
    }
}
