//! Memory transfer between processes: pieces sent to the new process, and pieces received from the
//! previous one.
//!
//! Stream and slot numbers are not valid across processes, so each piece carries the persistent key
//! that its file version has on flash. Received pieces wait in reserved slots until their stream is
//! requested, for at most `chain_gap`.

use std::collections::HashMap;
use std::sync::Arc;

use headlong_engine::{PieceBytes, Shard, Slot, StreamId};
use headlong_flash::FileKey;
use headlong_units::Instant;

use headlong_kernel::raw::{PieceView, Pool};

/// A piece for the new process. Its slot stays reserved until the device is notified that the piece
/// was passed on.
#[derive(Debug)]
pub(crate) struct OutgoingPiece {
    pub(crate) file: FileKey,
    pub(crate) bytes: PieceBytes,
    pub(crate) slot: Slot,
    pub(crate) view: PieceView,
}

/// A piece from the previous process.
#[derive(Debug)]
pub(crate) struct IncomingPiece {
    pub(crate) file: FileKey,
    /// Offset in the file.
    pub(crate) offset: u64,
    pub(crate) was_read: bool,
    pub(crate) bytes: Vec<u8>,
}

/// Takes the pieces to transfer out of a shard, the most useful first. Pieces that came from the
/// previous process and were not requested here come last.
pub(super) fn take_out(
    now: Instant,
    shard: &mut Shard,
    pool: &Arc<Pool>,
    arrivals: &mut IncomingPieces,
) -> Vec<OutgoingPiece> {
    let mut files: HashMap<StreamId, Vec<Option<FileKey>>> = HashMap::new();
    let mut pieces = Vec::new();
    for piece in shard.handle_pass_on(now) {
        let of_stream = files
            .entry(piece.stream)
            .or_insert_with(|| shard.file_keys(piece.stream));
        let file = of_stream.get(piece.bytes.part as usize).copied().flatten();
        pieces.push((file, piece.slot, piece.bytes));
    }
    for (file, waiting) in arrivals.leave() {
        pieces.extend(
            waiting
                .into_iter()
                .map(|(slot, bytes)| (Some(file), slot, bytes)),
        );
    }
    let mut of_no_use = Vec::new();
    let mut leaving = Vec::with_capacity(pieces.len());
    for (file, slot, bytes) in pieces {
        match (file, pool.view(slot, 0, bytes.length as u32)) {
            (Some(file), Some(view)) => leaving.push(OutgoingPiece {
                file,
                bytes,
                slot,
                view,
            }),
            _ => of_no_use.push(slot),
        }
    }
    shard.handle_passed_on(now, &of_no_use);
    leaving
}

/// Received pieces, until they are requested or expire.
#[derive(Debug, Default)]
pub(super) struct IncomingPieces {
    /// Time of expiry; `None` until the first piece arrives.
    until: Option<Instant>,
    /// Slots with pieces of files that have not been requested yet.
    waiting: HashMap<FileKey, Vec<(Slot, PieceBytes)>>,
    waiting_count: u64,
    /// Stream and part of each known file.
    known: HashMap<FileKey, (StreamId, u32)>,
    /// Set when another process serves: no more pieces are accepted.
    is_over: bool,
}

impl IncomingPieces {
    /// When [`IncomingPieces::end`] is due.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Stores a received piece. Returns whether it is in memory now.
    pub(super) fn take(
        &mut self,
        now: Instant,
        (shard, pool): (&mut Shard, &Arc<Pool>),
        streams: impl Iterator<Item = StreamId>,
        piece: IncomingPiece,
    ) -> bool {
        if self.is_over {
            return false;
        }
        if self.until.is_none() {
            self.until = Some(now + shard.config().chain_gap);
            for stream in streams {
                self.know(stream, shard.file_keys(stream));
            }
        }
        let config = shard.config();
        // Leave a quarter of the memory to new viewers.
        let waiting_max = config.memory_bytes / config.piece_bytes / 4 * 3;
        let known = self.known.get(&piece.file).copied();
        if known.is_none() && self.waiting_count >= waiting_max {
            return false;
        }
        let Some(slot) = shard.handle_reserve(now) else {
            return false;
        };
        if !pool.fill(slot, &piece.bytes) {
            shard.handle_not_received(now, slot);
            return false;
        }
        let bytes = PieceBytes {
            part: known.map_or(0, |(_, part)| part),
            offset: piece.offset,
            length: piece.bytes.len() as u64,
            was_read: piece.was_read,
        };
        match known {
            Some((stream, _)) => receive(now, shard, pool, stream, slot, bytes),
            None => {
                self.waiting_count += 1;
                let waiting = self.waiting.entry(piece.file).or_default();
                waiting.push((slot, bytes));
                true
            }
        }
    }

    fn know(&mut self, stream: StreamId, files: Vec<Option<FileKey>>) {
        let files = (0..).zip(files);
        let files = files.filter_map(|(part, file)| Some((file?, (stream, part))));
        self.known.extend(files);
    }

    /// A stream is registered: it receives the waiting pieces of its files.
    pub(super) fn welcome(
        &mut self,
        now: Instant,
        (shard, pool): (&mut Shard, &Arc<Pool>),
        stream: StreamId,
    ) {
        if self.until.is_none() {
            return;
        }
        let files = shard.file_keys(stream);
        for (part, file) in (0..).zip(&files) {
            let came = file.and_then(|file| self.waiting.remove(&file));
            for (slot, bytes) in came.unwrap_or_default() {
                self.waiting_count -= 1;
                let bytes = PieceBytes { part, ..bytes };
                receive(now, shard, pool, stream, slot, bytes);
            }
        }
        self.know(stream, files);
    }

    /// Returns the pieces not requested yet, and refuses further ones: another process takes over.
    fn leave(&mut self) -> HashMap<FileKey, Vec<(Slot, PieceBytes)>> {
        let over = Self {
            is_over: true,
            ..Self::default()
        };
        std::mem::replace(self, over).waiting
    }

    /// Discards the pieces that were not requested in time.
    pub(super) fn end(&mut self, now: Instant, shard: &mut Shard) {
        for (slot, _) in std::mem::take(self).waiting.into_values().flatten() {
            shard.handle_not_received(now, slot);
        }
    }
}

fn receive(
    now: Instant,
    shard: &mut Shard,
    pool: &Arc<Pool>,
    stream: StreamId,
    slot: Slot,
    bytes: PieceBytes,
) -> bool {
    let is_taken = shard.handle_received(now, slot, stream, bytes);
    if is_taken {
        pool.note_stream(&[slot], stream);
    }
    is_taken
}
