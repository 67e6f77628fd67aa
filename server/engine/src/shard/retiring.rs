//! Another process takes this one's place: what is kept for later is of no use here any more, and its
//! memory goes back to the system while the last replies are sent.
//!
//! A little at a time, as clearing memory away takes the shell a moment for each slot.

use alloc::vec::Vec;

use headlong_units::{Duration, Instant};

use super::state::Shard;
use crate::command::Command;
use crate::config::Retention;
use crate::ids::ChainId;

/// Most slots that are vacated at a time. A slot of 256 KiB takes about 30 microseconds.
const SLOTS_AT_ONCE: usize = 64;
/// Between two such times.
const PAUSE: Duration = Duration::from_millis(10);

impl Shard {
    /// From now on nothing is kept that no running reply will send: its memory is given back by
    /// [`Command::Vacate`]. Requests are served as before, and it is known where viewers are, which the
    /// other process is told when it takes the place. `false` ends that: what comes is kept again.
    pub fn handle_retiring(&mut self, now: Instant, retires: bool) {
        self.begin(now);
        let keeps_unread = retires || self.config.retention != Retention::PageCache;
        self.memory.protect_unread(keeps_unread);
        if retires {
            self.retiring = Some(self.now);
            let idle = self.chains.iter().filter(|(_, chain)| chain.is_idle());
            let idle: Vec<ChainId> = idle.map(|(id, _)| id).collect();
            for chain in idle {
                self.empty_chain(chain);
            }
            self.memory.begin_vacating();
        } else {
            self.retiring = None;
            self.memory.end_vacating();
        }
        self.finish();
    }

    /// Another process serves from now on. Who asks in ranges asks here once more at most, so no more is
    /// read for it than that; long replies go on as before.
    pub fn handle_replaced(&mut self, now: Instant) {
        self.begin(now);
        self.is_replaced = true;
        self.finish();
    }

    /// Whether memory is still to be given back that no running reply needs.
    pub fn is_vacating(&self) -> bool {
        self.retiring.is_some() && self.memory.has_to_vacate()
    }

    pub(super) fn vacates_at(&self) -> Option<Instant> {
        self.retiring.filter(|_| self.memory.has_to_vacate())
    }

    pub(super) fn vacate(&mut self) {
        if self.vacates_at().is_none_or(|at| at > self.now) {
            return;
        }
        for _ in 0..SLOTS_AT_ONCE {
            let Some((slot, evicted)) = self.memory.vacate(self.now) else {
                break;
            };
            if let Some(evicted) = evicted {
                self.count_dropped(&evicted);
            }
            self.commands.push_back(Command::Vacate(slot));
        }
        self.retiring = Some(self.now + PAUSE);
    }
}
