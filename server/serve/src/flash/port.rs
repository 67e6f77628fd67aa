//! One device's way to the tier: the engine's commands become jobs of the SSDs' threads.
//!
//! Everything here is called under the engine's lock and waits for nothing. A record is copied and
//! given its checksum when it is staged, into memory of its own, which the writing thread then has
//! alone. The engine bounds how much is collected at a time.

use std::collections::{HashMap, HashSet};
use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use headlong_engine::{FlashCommand, FlashOutcome, FlashRead, FlashReadId, Slot};
use headlong_flash::format::{RecordName, Summary, SummaryHead, encode_record, padded_bytes};
use headlong_flash::{
    BlockId, FlashSpec, PieceId, Place, Probed, RecordEntry, RecoveredBlock, SsdId,
};

use super::aligned::Aligned;
use super::medium::{Medium, SsdCounters, counted};
use super::probe;
use super::random::random;
use super::recover::now_s;
use super::ssd::{Ssd, Wanted, read_records};
use super::tier::TierPart;
use crate::raw::Pool;

/// Most buffers in one call.
const BUFFERS_MAX: usize = 1024;

/// How something that the engine had asked of flash ended.
pub(crate) enum FlashDone {
    /// What this device has of the SSDs.
    Attach(FlashSpec),
    /// Blocks that were there at the start.
    Found(FoundBlocks),
    /// Those were all; bytes written within the last day, and SSDs that were never filled.
    RecoveryEnded {
        written_bytes: u64,
        fresh: Vec<SsdId>,
    },
    Written {
        block: BlockId,
        to: u32,
        ok: bool,
    },
    Sealed {
        block: BlockId,
        ok: bool,
    },
    Read {
        id: FlashReadId,
        outcomes: Vec<FlashOutcome>,
        took: Duration,
    },
    Probed {
        ssd: SsdId,
        /// Without what it took.
        probed: Probed,
        took: Duration,
    },
}

/// Blocks that were there at the start. The next come when this was dropped.
pub(crate) struct FoundBlocks {
    pub(crate) blocks: Vec<RecoveredBlock>,
    fillings: Vec<(BlockId, u64)>,
    _taken: Sender<()>,
}

/// Tells the engine, from whatever thread, without waiting.
pub(crate) type Say = Arc<dyn Fn(FlashDone) + Send + Sync>;

/// The duty to say how something ended; dropped without that, it says that it failed.
struct Ticket {
    done: Option<FlashDone>,
    say: Say,
}

impl Ticket {
    fn end(mut self, done: FlashDone) {
        self.done = Some(done);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(done) = self.done.take() {
            (self.say)(done);
        }
    }
}

/// A block that is being filled.
struct Collecting {
    filling: u64,
    entries: Vec<RecordEntry>,
    /// Records not given to the writing thread yet, by offset.
    staged: Vec<(u32, Aligned)>,
    /// Set when a record could not be staged or written: the block is not to be sealed.
    is_broken: Arc<AtomicBool>,
}

/// What a port is made of.
pub(crate) struct FlashParts {
    pub(crate) part: TierPart,
    pub(crate) pool: Arc<Pool>,
    pub(crate) say: Say,
}

/// One device's way to the tier.
pub(crate) struct FlashPort {
    parts: FlashParts,
    /// Which filling each block has that can be read.
    fillings: HashMap<BlockId, u64>,
    collecting: HashMap<BlockId, Collecting>,
    /// Blocks that were made ready for something else, and are filled next.
    emptied: HashSet<BlockId>,
    next_filling: u64,
}

impl FlashPort {
    /// A port that looks, on a thread of its own, at what is there: [`FlashDone::Attach`], then
    /// [`FlashDone::Found`] any number of times, then [`FlashDone::RecoveryEnded`].
    pub(crate) fn new(parts: FlashParts) -> Self {
        let (part, say) = (parts.part.clone(), Arc::clone(&parts.say));
        let thread = std::thread::Builder::new().name("flash-recover".to_owned());
        if let Err(error) = thread.spawn(move || look(&part, &*say)) {
            tracing::error!(%error, "no thread to look at flash: nothing is kept on it");
        }
        Self {
            parts,
            fillings: HashMap::new(),
            collecting: HashMap::new(),
            emptied: HashSet::new(),
            next_filling: random(),
        }
    }

    /// The SSDs that take part.
    pub(crate) fn ssds(&self) -> impl Iterator<Item = SsdId> + use<> {
        (0..self.parts.part.ssd_count()).map(SsdId)
    }

    /// Blocks were found.
    pub(crate) fn found(&mut self, found: &FoundBlocks) {
        self.fillings.extend(found.fillings.iter().copied());
    }

    /// Does what the engine says, or sees to it.
    pub(crate) fn command(&mut self, command: FlashCommand) {
        match command {
            FlashCommand::Stage {
                place,
                piece,
                length,
                slot,
            } => self.stage(place, piece, length, slot),
            FlashCommand::Write { block, from, to } => self.write(block, from, to),
            FlashCommand::Seal {
                block, sequence, ..
            } => self.seal(block, sequence),
            FlashCommand::Drop(block) => self.drop_block(block),
            FlashCommand::Read(read) => self.read(read),
            FlashCommand::Probe(ssd) => self.probe(ssd),
        }
    }

    /// Where the SSDs are, by their numbers.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.parts.part.paths()
    }

    fn probe(&self, id: SsdId) {
        let done = move |probed, took| FlashDone::Probed {
            ssd: id,
            probed,
            took,
        };
        let ticket = self.ticket(done(probe::FAILED, Duration::ZERO));
        if let Some(ssd) = self.parts.part.ssd(id) {
            probe::probe(ssd, move |probed, took| ticket.end(done(probed, took)));
        }
    }

    fn ticket(&self, failure: FlashDone) -> Ticket {
        Ticket {
            done: Some(failure),
            say: Arc::clone(&self.parts.say),
        }
    }

    fn name(&self, place: Place, piece: PieceId, length: u32, filling: u64) -> Option<RecordName> {
        let (ssd, block) = self.parts.part.locate(place.block)?;
        Some(RecordName {
            device: ssd.tier.device,
            block,
            filling,
            offset: place.offset,
            piece,
            length,
        })
    }

    fn stage(&mut self, place: Place, piece: PieceId, length: u32, slot: Slot) {
        if !self.collecting.contains_key(&place.block) {
            self.begin(place.block);
        }
        let Some(filling) = self.fillings.get(&place.block).copied() else {
            return;
        };
        let view = self.parts.pool.view(slot, 0, length);
        let name = self.name(place, piece, length, filling);
        let record = view.zip(name).and_then(|(view, name)| {
            let mut record = Aligned::new(padded_bytes(length) as usize);
            encode_record(&name, view.as_ref(), record.as_mut())?;
            Some(record)
        });
        let Some(collecting) = self.collecting.get_mut(&place.block) else {
            return;
        };
        let Some(record) = record else {
            tracing::error!(?place, ?slot, "what is to be kept on flash is not there");
            collecting.is_broken.store(true, Ordering::Relaxed);
            return;
        };
        let offset = place.offset;
        collecting.entries.push(RecordEntry {
            piece,
            offset,
            length,
        });
        collecting.staged.push((offset, record));
    }

    /// A block is filled anew.
    fn begin(&mut self, block: BlockId) {
        self.next_filling = self.next_filling.wrapping_add(1);
        let filling = self.next_filling;
        self.fillings.insert(block, filling);
        let collecting = Collecting {
            filling,
            entries: Vec::new(),
            staged: Vec::new(),
            is_broken: Arc::default(),
        };
        self.collecting.insert(block, collecting);
        if !self.emptied.remove(&block) {
            self.on_writer(block, |ssd, local| {
                // A summary that stays leads to records that are not what it says: misses.
                let _ = ssd.empty_block(local);
            });
        }
    }

    /// Does something on the thread that writes to a block's SSD, behind all that was begun.
    fn on_writer(&self, block: BlockId, act: impl FnOnce(&Ssd, u32) + Send + 'static) {
        if let Some((ssd, local)) = self.parts.part.locate(block) {
            let of = Arc::clone(ssd);
            ssd.writer.run(move || act(&of, local));
        }
    }

    fn place_of(&self, block: BlockId) -> Option<(&Arc<Ssd>, u64)> {
        let (ssd, local) = self.parts.part.locate(block)?;
        Some((ssd, ssd.tier.layout.block_start(local)?))
    }

    fn write(&mut self, block: BlockId, from: u32, to: u32) {
        let ok = false;
        let ticket = self.ticket(FlashDone::Written { block, to, ok });
        let Some(collecting) = self.collecting.get_mut(&block) else {
            return;
        };
        let staged = std::mem::take(&mut collecting.staged);
        let (now, later) = staged
            .into_iter()
            .partition(|(offset, _)| (from..to).contains(offset));
        collecting.staged = later;
        let now: Vec<(u32, Aligned)> = now;
        let is_broken = Arc::clone(&collecting.is_broken);
        let Some((ssd, start)) = self.place_of(block) else {
            return;
        };
        let (medium, counters) = (Arc::clone(&ssd.medium), Arc::clone(&ssd.counters));
        ssd.writer.run(move || {
            let written = write_records(&medium, &counters, start, &now);
            if written.is_err() {
                is_broken.store(true, Ordering::Relaxed);
            }
            // The memory is free before the engine has more collected.
            drop(now);
            let ok = !is_broken.load(Ordering::Relaxed);
            ticket.end(FlashDone::Written { block, to, ok });
        });
    }

    fn seal(&mut self, block: BlockId, sequence: u64) {
        let ticket = self.ticket(FlashDone::Sealed { block, ok: false });
        let Some(collecting) = self.collecting.remove(&block) else {
            return;
        };
        let Collecting {
            filling,
            mut entries,
            is_broken,
            ..
        } = collecting;
        entries.sort_by_key(|entry| entry.offset);
        let mut head = SummaryHead {
            block: 0,
            count: entries.len() as u32,
            filling,
            sequence,
            owner: self.parts.part.owner,
            sealed_s: now_s(),
        };
        self.on_writer(block, move |ssd, local| {
            head.block = local;
            let is_whole = !is_broken.load(Ordering::Relaxed);
            let ok = is_whole && ssd.seal(Summary { head, entries }).is_ok();
            ticket.end(FlashDone::Sealed { block, ok });
        });
    }

    fn drop_block(&mut self, block: BlockId) {
        let was_filled = self.collecting.remove(&block).is_some();
        if self.fillings.remove(&block).is_some() {
            self.on_writer(block, move |ssd, local| {
                let _ = ssd.empty_block(local);
                if was_filled {
                    ssd.with_checkpoints(|checkpoints, _| checkpoints.end(local, None));
                }
            });
            if !was_filled {
                self.emptied.insert(block);
            }
        }
    }

    fn read(&mut self, read: FlashRead) {
        let FlashRead { id, records } = read;
        let outcomes = vec![FlashOutcome::Error; records.len()];
        let took = Duration::ZERO;
        let ticket = self.ticket(FlashDone::Read { id, outcomes, took });
        let Some(block) = records.first().map(|record| record.place.block) else {
            return;
        };
        let filling = self.fillings.get(&block).copied().unwrap_or(0);
        let wanted = records.into_iter().map(|record| {
            let (place, piece) = (record.place, record.piece);
            let name = self.name(place, piece, record.length, filling)?;
            let lease = self.parts.pool.lease(&[record.slot])?;
            let fits = u64::from(record.length) <= lease.capacity() && place.block == block;
            fits.then_some(Wanted {
                record,
                name,
                lease,
            })
        });
        let Some(mut wanted) = wanted.collect::<Option<Vec<Wanted>>>() else {
            tracing::error!(?id, "a read of flash names memory that is in use; it fails");
            return;
        };
        let Some((ssd, start)) = self.place_of(block) else {
            return;
        };
        let (medium, counters) = (Arc::clone(&ssd.medium), Arc::clone(&ssd.counters));
        ssd.readers.run(move || {
            let (outcomes, took) = read_records(&medium, &counters, start, &mut wanted);
            drop(wanted);
            ticket.end(FlashDone::Read { id, outcomes, took });
        });
    }
}

/// Says what is there, each part once the one before was taken.
fn look(part: &TierPart, say: &(dyn Fn(FlashDone) + Send + Sync)) {
    let Some(spec) = part.spec() else {
        return;
    };
    say(FlashDone::Attach(spec));
    let (written_bytes, fresh) = part.recover(|found| {
        let (taken, is_taken) = channel();
        let filling = |(filling, of): &(u64, RecoveredBlock)| (of.block, *filling);
        let fillings = found.iter().map(filling).collect();
        say(FlashDone::Found(FoundBlocks {
            blocks: found.into_iter().map(|(_, of)| of).collect(),
            fillings,
            _taken: taken,
        }));
        // It ends when what was said is dropped, taken or not.
        let _ = is_taken.recv();
        true
    });
    say(FlashDone::RecoveryEnded {
        written_bytes,
        fresh,
    });
}

/// Writes records of a block, those that lie one behind the other in one call.
fn write_records(
    medium: &Medium,
    counters: &SsdCounters,
    block_start: u64,
    records: &[(u32, Aligned)],
) -> io::Result<()> {
    let mut rest = records;
    while let Some((first, _)) = rest.first() {
        let mut end = *first;
        let run = rest
            .iter()
            .take(BUFFERS_MAX)
            .take_while(|(offset, bytes)| {
                let follows = *offset == end;
                end = offset + bytes.as_ref().len() as u32;
                follows
            })
            .count();
        let (now, later) = rest.split_at(run);
        rest = later;
        let slices: Vec<_> = now
            .iter()
            .map(|(_, bytes)| IoSlice::new(bytes.as_ref()))
            .collect();
        let total: usize = now.iter().map(|(_, bytes)| bytes.as_ref().len()).sum();
        let at = block_start + u64::from(*first);
        match rustix::io::pwritev(medium.file(), &slices, at) {
            Ok(written) if written == total => {
                let total = total as u64;
                counters.bytes_written.fetch_add(total, Ordering::Relaxed);
            }
            // Interrupted, or the kernel takes less at a time: one by one, which goes on by itself.
            Ok(_) | Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {
                for (offset, bytes) in now {
                    let at = block_start + u64::from(*offset);
                    medium.write_counted(counters, at, bytes)?;
                }
            }
            Err(errno) => {
                return counted(Err(errno.into()), medium, counters, "writing flash");
            }
        }
    }
    Ok(())
}
