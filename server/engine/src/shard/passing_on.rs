//! What is in memory goes from a process to the one that takes its place.
//!
//! The one idea: memory is moved, not copied. The old process gives a slot back to the system as soon
//! as the other has its bytes, and the new one takes only slots that are free, so that both together
//! have no more than one may.
//!
//! The new process is given pieces of streams that nobody has asked it for yet. Such a piece waits in
//! a slot of its own, [reserved](Shard::handle_reserve), until its stream is registered or it takes too
//! long. In the old one, too, slots are reserved until the other has their bytes.

use alloc::vec::Vec;

use headlong_flash::FileKey;
use headlong_units::{Duration, Instant};

use super::state::Shard;
use crate::command::Command;
use crate::ids::{Slot, StreamId};
use crate::memory::{Held, PieceKey};

/// A piece that is to be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassedOn {
    /// Its stream.
    pub stream: StreamId,
    /// Which bytes of it.
    pub bytes: PieceBytes,
    /// Where it is.
    pub slot: Slot,
}

/// Which bytes of a stream a piece has, and what they were used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieceBytes {
    /// Number of the part.
    pub part: u32,
    /// Of the first byte, in the part.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Whether any of them was sent.
    pub was_read: bool,
}

/// What goes first: what viewers will ask for, the soonest first; then what was read of late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Awaited(Duration),
    /// Since it was read into memory.
    Kept(Duration),
}

impl Shard {
    /// The lasting name of each part of a stream, of those that have one.
    pub fn file_keys(&self, stream: StreamId) -> Vec<Option<FileKey>> {
        let layout = self.streams.layout(stream);
        layout.map_or_else(Vec::new, |layout| layout.flash_keys().collect())
    }

    /// Another process serves from now on, and is to have what is in memory, but for what is kept for
    /// running replies: these pieces, the most useful first. They are not in memory any more, but
    /// their slots are reserved until they are [passed on](Self::handle_passed_on).
    pub fn handle_pass_on(&mut self, now: Instant) -> Vec<PassedOn> {
        self.begin(now);
        let held: Vec<Held> = self.memory.held().collect();
        let mut pieces: Vec<(Use, PassedOn)> = held
            .into_iter()
            .filter_map(|held| self.describe(held))
            .collect();
        pieces.sort_unstable_by_key(|(of_use, piece)| (*of_use, piece.slot));
        let pieces: Vec<PassedOn> = pieces.into_iter().map(|(_, piece)| piece).collect();
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

    /// What a piece is good for in another process; `None` if this one needs it.
    fn describe(&self, held: Held) -> Option<(Use, PassedOn)> {
        let stream = self.streams.get(held.key.0)?;
        let place = stream.layout.place(held.key.1);
        let own = held.owner.and_then(|owner| self.chains.get(owner));
        let of_use = match (own, held.wanted_at) {
            (Some(chain), _) if !chain.is_idle() => return None,
            (Some(chain), _) => {
                let pace = chain.pace(self.now, stream.bit_rate, self.config.pace_default);
                Use::Awaited(pace.time_for(place.logical.saturating_sub(chain.position)))
            }
            (None, Some(at)) => Use::Awaited(at.since(self.now)),
            (None, None) => Use::Kept(self.now.since(held.filled_at)),
        };
        let bytes = PieceBytes {
            part: place.part,
            offset: place.offset,
            length: place.length,
            was_read: held.was_read,
        };
        let piece = PassedOn {
            stream: held.key.0,
            bytes,
            slot: held.slot,
        };
        Some((of_use, piece))
    }

    /// The other process has what these slots held, or never will: their memory goes back to the
    /// system, by [`Command::Vacate`].
    pub fn handle_passed_on(&mut self, now: Instant, slots: &[Slot]) {
        self.begin(now);
        for slot in slots {
            self.memory.unfilled(*slot);
            self.commands.push_back(Command::Vacate(*slot));
        }
        self.finish();
    }

    /// A free slot, to be filled with a piece that another process has; `None` if there is none.
    /// Nothing is taken from anybody for it. It is to be [received](Self::handle_received) or
    /// [given up](Self::handle_not_received).
    pub fn handle_reserve(&mut self, now: Instant) -> Option<Slot> {
        self.begin(now);
        let slot = self.memory.reserve();
        self.finish();
        slot
    }

    /// A reserved slot holds these bytes of a stream. Whether they are of use: if the stream has no
    /// such piece, or has it already, the slot is free again.
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
                    .received(self.now, (slot, key), read_to, wanted_at);
                // Of who has asked for it already.
                self.wake_waiters(key, slot);
            }
            None => self.memory.unfilled(slot),
        }
        self.finish();
        key.is_some()
    }

    /// Nobody asked for the stream of what a reserved slot holds.
    pub fn handle_not_received(&mut self, now: Instant, slot: Slot) {
        self.begin(now);
        self.memory.unfilled(slot);
        self.finish();
    }

    /// The piece that has exactly these bytes.
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
