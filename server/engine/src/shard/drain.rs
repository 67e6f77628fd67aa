//! Retirement: another process takes over, and memory that no running reply needs is returned to
//! the system while the last replies are sent.
//!
//! In small steps, as the shell needs some time to release each slot.

use alloc::vec::Vec;

use headlong_units::{Duration, Instant};

use super::state::Shard;
use crate::command::Command;
use crate::config::Retention;
use crate::ids::ChainId;

/// Most slots that are vacated in one step. A slot of 256 KiB takes about 30 microseconds.
const SLOTS_AT_ONCE: usize = 64;
/// Pause between two steps.
const PAUSE: Duration = Duration::from_millis(10);

impl Shard {
    /// From now on only pieces that a running reply will send are kept: other memory is returned by
    /// [`Command::Vacate`]. Requests are served as before, and the positions of viewers are still
    /// tracked, for the other process. `false` ends the retirement: pieces are retained again.
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

    /// Another process serves from now on. A viewer with range requests sends at most one more
    /// request here, so no more is read for it than that; long replies continue as before.
    pub fn handle_replaced(&mut self, now: Instant) {
        self.begin(now);
        self.is_replaced = true;
        self.finish();
    }

    /// Whether memory that no running reply needs must still be returned.
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
