//! An SSD: lanes that read pages, a write buffer, and garbage collection.
//!
//! Reads are limited by the number of concurrent page reads and by the total rate of the lanes;
//! writes by the speed of the flash and by the garbage collection that they cause (`pages.rs`,
//! `blocks.rs`). Requests do not wait for each other otherwise, so the completion time of each is
//! known when it arrives.
//!
//! Left out: wear levelling and wear, discards, refresh, temperature, reads of data that is still
//! in the buffer, and the write amplification of folding a fast tier into the slow one (its time is
//! part of the rate at which tiers are emptied).

mod blocks;
mod pages;
mod spec;
#[cfg(test)]
mod tests;

use alloc::collections::BTreeMap;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use headlong_units::{Duration, Instant};

use self::blocks::BlockMap;
use self::pages::PageMap;
pub use self::spec::{FlashReadSpec, FlashWriteSpec, Mapping, SolidStateSpec, WriteTier};
use crate::{
    Completion, Direction, Drive, Refusal, Request, RequestId, SECTOR_BYTES, ServiceTimeBreakdown,
};

/// Mapping of addresses, with its state.
#[derive(Debug, Clone)]
enum AddressMap {
    Pages { pages: PageMap, is_spread: bool },
    Blocks(BlockMap),
}

/// The state of an SSD. A new one is empty: garbage collection starts after it has been written
/// once.
///
/// A drive with more than about a million mapping units is modelled with larger units, so that the
/// model takes some ten megabytes of memory whatever the capacity; one with few superblocks is
/// modelled with smaller ones, which take proportionally less time to erase.
#[derive(Debug, Clone)]
pub struct SolidState {
    spec: SolidStateSpec,
    map: AddressMap,
    /// Time to erase one superblock of the modelled size.
    erase_ns: u64,
    /// When each lane is free.
    lanes: Vec<u64>,
    /// When the path from the lanes to the interface is free.
    bus_free_ns: u64,
    /// When all accepted data is in flash.
    flash_free_ns: u64,
    /// When the garbage collection that blocks reads ends.
    cleaning_until_ns: u64,
    /// Bytes in the tiers.
    tier_used_bytes: u64,
    /// Deferred garbage collection: time owed, and its share per byte written.
    owed_ns: u64,
    owed_per_byte_ns: f64,
    written_bytes: u64,
    copied_bytes: u64,
    last_end: u64,
    pending: BTreeMap<(u64, u64), Completion>,
    arrivals: u64,
    done: VecDeque<Completion>,
    now_ns: u64,
}

impl SolidState {
    /// A new drive of this kind. Invalid figures are replaced by the smallest valid ones;
    /// `DriveSpec::check` reports them.
    pub fn new(spec: &SolidStateSpec) -> Self {
        let map = match spec.mapping {
            Mapping::Pages {
                unit_bytes,
                superblock_bytes,
                over_provisioning,
                is_spread,
            } => AddressMap::Pages {
                pages: PageMap::new(
                    spec.capacity_bytes,
                    unit_bytes,
                    superblock_bytes,
                    over_provisioning,
                ),
                is_spread,
            },
            Mapping::Blocks {
                block_bytes,
                open_blocks,
            } => AddressMap::Blocks(BlockMap::new(spec.capacity_bytes, block_bytes, open_blocks)),
        };
        let erase_ns = u64::from(spec.write.erase_us) * 1_000;
        let erase_ns = match (&map, spec.mapping) {
            (
                AddressMap::Pages { pages, .. },
                Mapping::Pages {
                    superblock_bytes, ..
                },
            ) => {
                let part = pages.superblock_bytes() as f64 / superblock_bytes.max(1) as f64;
                (erase_ns as f64 * part) as u64
            }
            _ => erase_ns,
        };
        Self {
            map,
            erase_ns,
            lanes: vec![0; spec.read.lanes.clamp(1, 4_096) as usize],
            bus_free_ns: 0,
            flash_free_ns: 0,
            cleaning_until_ns: 0,
            tier_used_bytes: 0,
            owed_ns: 0,
            owed_per_byte_ns: 0.0,
            written_bytes: 0,
            copied_bytes: 0,
            last_end: 0,
            pending: BTreeMap::new(),
            arrivals: 0,
            done: VecDeque::new(),
            now_ns: 0,
            spec: spec.clone(),
        }
    }

    /// Bytes written to flash for each byte written by the host so far; 1 initially.
    pub fn write_amplification(&self) -> f64 {
        if self.written_bytes == 0 {
            return 1.0;
        }
        (self.written_bytes + self.copied_bytes) as f64 / self.written_bytes as f64
    }

    fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        while let Some(entry) = self.pending.first_entry() {
            if entry.key().0 > self.now_ns {
                break;
            }
            self.done.push_back(entry.remove());
        }
    }

    fn overhead_ns(&self) -> u64 {
        u64::from(self.spec.command_overhead_us) * 1_000
    }

    /// Completion time of a read, and its delay by garbage collection.
    fn read(&mut self, bytes: u64) -> (u64, u64) {
        let understood_ns = self.now_ns + self.overhead_ns();
        let ready_ns = if self.cleaning_until_ns > understood_ns {
            self.cleaning_until_ns
        } else if self.flash_free_ns > understood_ns {
            let program_ns = u64::from(self.spec.read.behind_write_us) * 1_000;
            understood_ns + program_ns.min(self.flash_free_ns - understood_ns)
        } else {
            understood_ns
        };
        let page_ns = u64::from(self.spec.read.page_us) * 1_000;
        let pages = bytes.div_ceil(u64::from(self.spec.read.page_bytes.max(1)));
        let used = (self.lanes.len() as u64).min(pages) as usize;
        if used < self.lanes.len() {
            self.lanes.select_nth_unstable(used - 1);
        }
        let busy_ns = pages.div_ceil(used as u64) * page_ns;
        let mut read_ns = ready_ns;
        for lane in &mut self.lanes[..used] {
            *lane = (*lane).max(ready_ns) + busy_ns;
            read_ns = read_ns.max(*lane);
        }
        let first_ns = (read_ns - busy_ns + page_ns).max(self.bus_free_ns);
        self.bus_free_ns = first_ns + time_ns(bytes, self.spec.read.bytes_per_s);
        let interface_ns = ready_ns + time_ns(bytes, self.spec.interface_bytes_per_s);
        let end_ns = read_ns.max(self.bus_free_ns).max(interface_ns);
        (end_ns, ready_ns - understood_ns)
    }

    /// Completion time of a write, and its delay by garbage collection.
    fn write(&mut self, start_byte: u64, bytes: u64) -> (u64, u64) {
        let ready_ns = self.now_ns + self.overhead_ns();
        self.rest(ready_ns.saturating_sub(self.flash_free_ns));
        let cleaning_ns = self.clean(start_byte, bytes);
        let program_ns = self.program_ns(bytes);
        let begin_ns = ready_ns.max(self.flash_free_ns);
        self.flash_free_ns = begin_ns + cleaning_ns + program_ns;
        if cleaning_ns > 0
            && !matches!(
                self.map,
                AddressMap::Pages {
                    is_spread: true,
                    ..
                }
            )
        {
            self.cleaning_until_ns = begin_ns + cleaning_ns;
        }
        self.written_bytes += bytes;
        let buffered_ns = if bytes == 0 {
            0
        } else {
            let part = u128::from(program_ns) * u128::from(self.spec.write.buffer_bytes);
            u64::try_from(part / u128::from(bytes)).unwrap_or(u64::MAX)
        };
        let received_ns = ready_ns + time_ns(bytes, self.spec.interface_bytes_per_s);
        let end_ns = received_ns.max(self.flash_free_ns.saturating_sub(buffered_ns));
        (end_ns, cleaning_ns.min(end_ns - received_ns))
    }

    /// Idle time without writes: empties tiers and reduces deferred garbage collection.
    fn rest(&mut self, idle_ns: u64) {
        let rate = u128::from(self.spec.write.tiers_emptied_bytes_per_s);
        let emptied = u64::try_from(rate * u128::from(idle_ns) / 1_000_000_000);
        let emptied = emptied.unwrap_or(u64::MAX);
        self.tier_used_bytes = self.tier_used_bytes.saturating_sub(emptied);
        self.owed_ns = self.owed_ns.saturating_sub(idle_ns);
    }

    /// Time of the garbage collection due for a write.
    fn clean(&mut self, start_byte: u64, bytes: u64) -> u64 {
        let (copied, erased, gained, is_spread) = match &mut self.map {
            AddressMap::Pages { pages, is_spread } => {
                let moved = pages.write(start_byte, bytes);
                let gained = moved.gained_bytes;
                (moved.copied_bytes, moved.erased, gained, *is_spread)
            }
            AddressMap::Blocks(blocks) => {
                let closed = blocks.write(start_byte, bytes);
                (closed.copied_bytes, closed.erased, 0, false)
            }
        };
        self.copied_bytes += copied;
        let cost_ns = time_ns(copied, self.spec.write.copy_bytes_per_s) + erased * self.erase_ns;
        if !is_spread {
            return cost_ns;
        }
        if gained > 0 {
            self.owed_ns += cost_ns;
            self.owed_per_byte_ns = self.owed_ns as f64 / gained as f64;
        }
        let due_ns = (self.owed_per_byte_ns * bytes as f64) as u64;
        let paid_ns = due_ns.min(self.owed_ns);
        self.owed_ns -= paid_ns;
        paid_ns
    }

    /// Time to program the flash, using the tiers first while they have space.
    fn program_ns(&mut self, bytes: u64) -> u64 {
        let (mut left, mut below) = (bytes, 0u64);
        let mut program_ns = 0;
        for tier in &self.spec.write.tiers {
            let top = below.saturating_add(tier.bytes);
            let part = left.min(top.saturating_sub(self.tier_used_bytes.max(below)));
            program_ns += time_ns(part, tier.bytes_per_s);
            self.tier_used_bytes += part;
            left -= part;
            below = top;
        }
        program_ns + time_ns(left, self.spec.write.bytes_per_s)
    }
}

fn time_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX / 4)
}

impl Drive for SolidState {
    fn capacity_sectors(&self) -> u64 {
        (self.spec.capacity_bytes / SECTOR_BYTES).max(1)
    }

    fn queue_depth(&self) -> usize {
        self.spec.queue_depth.max(1) as usize
    }

    fn handle_request(
        &mut self,
        now: Instant,
        id: RequestId,
        request: Request,
    ) -> Result<(), Refusal> {
        self.advance(now.0);
        let end = request.sector.checked_add(u64::from(request.sectors));
        if request.sectors == 0 || end.is_none_or(|end| end > self.capacity_sectors()) {
            return Err(Refusal::OutOfRange);
        }
        if self.pending.len() >= self.queue_depth() {
            return Err(Refusal::QueueFull);
        }
        let bytes = u64::from(request.sectors) * SECTOR_BYTES;
        let (end_ns, cleaning_ns) = match request.direction {
            Direction::Read => self.read(bytes),
            Direction::Write => self.write(request.sector * SECTOR_BYTES, bytes),
        };
        let overhead = Duration(self.overhead_ns());
        let cleaning = Duration(cleaning_ns);
        let completion = Completion {
            id,
            request,
            started: Instant(self.now_ns),
            ended: Instant(end_ns),
            parts: ServiceTimeBreakdown {
                overhead,
                cleaning,
                transfer: Duration(end_ns - self.now_ns) - overhead - cleaning,
                ..ServiceTimeBreakdown::default()
            },
            is_sequential: request.sector == self.last_end,
        };
        self.last_end = request.end();
        self.pending.insert((end_ns, self.arrivals), completion);
        self.arrivals += 1;
        Ok(())
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.advance(now.0);
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.pending
            .first_key_value()
            .map(|((end, _), _)| Instant(*end))
    }
}
