//! Export and import of a shard's state across processes.

use alloc::vec::Vec;

use headlong_units::{ByteRange, Instant};

use super::state::Shard;
use crate::chain::Chain;
use crate::chain_matching::ProxyTolerance;
use crate::ids::StreamId;
use crate::request::ReaderIdentity;
use crate::saved_state::{SavedChain, ShardMeasurements};

impl Shard {
    /// The measurements so far, for the shard of the next process.
    pub fn measurements(&self) -> ShardMeasurements {
        let (sent_bytes, ended) = self.control.ended(self.stats.bytes_sent);
        let control = self.control.view();
        ShardMeasurements {
            // Without a verdict the size is no finding.
            reference_bytes: control.reason.map(|_| control.target_bytes),
            drive: control.drive,
            service: self.load.service(),
            carried: self.depth.carried(),
            bit_rate_mean: self.control.bit_rate_mean(),
            ended,
            sent_bytes,
        }
    }

    /// At most `count_max` of the live chains, the most recently seen first.
    pub fn saved_chains(&self, count_max: usize) -> Vec<SavedChain> {
        let chains = self.chains.iter();
        let mut chains: Vec<_> = chains.filter(|(_, chain)| !chain.is_expected()).collect();
        chains.sort_unstable_by_key(|(id, chain)| (core::cmp::Reverse(chain.last_seen), *id));
        chains.truncate(count_max);
        let told = chains.into_iter().map(|(_, chain)| self.saved_chain(chain));
        told.collect()
    }

    fn saved_chain(&self, chain: &Chain) -> SavedChain {
        SavedChain {
            viewer: chain.identity(),
            stream: chain.stream,
            start: chain.start,
            end: chain.end,
            position: chain.position.clamp(chain.start, chain.end),
            last_request_bytes: chain.last_request_bytes,
            open_ended: chain.open_ended,
            pace: self.pace(chain),
            idle: match chain.is_idle() {
                true => self.now.since(chain.last_seen),
                false => headlong_units::Duration::ZERO,
            },
        }
    }

    /// Imports the measurements of an earlier shard of this device. To be called before the first
    /// request; later measurements outweigh them, and impossible values are ignored.
    pub fn restore_measurements(&mut self, now: Instant, learned: &ShardMeasurements) {
        self.begin(now);
        let learned = learned.clamped();
        self.load.resume(learned.service);
        self.depth.resume(learned.carried);
        self.control.resume(learned);
        self.finish();
    }

    /// Restores a chain of an earlier shard of this device, on a registered stream, so that its
    /// viewer is recognised when it returns. Returns whether the chain was restored: not if it is
    /// impossible, if it has expired, or if the table is full.
    pub fn restore_chain(&mut self, now: Instant, stream: StreamId, told: SavedChain) -> bool {
        self.begin(now);
        let Some(layout) = self.streams.layout(stream) else {
            return false;
        };
        let has_room = self.chains.len() < self.config.chains_limit();
        let is_live = told.idle <= self.config.chain_gap;
        if !has_room || !is_live || !told.is_possible(layout.size_bytes()) {
            return false;
        }
        let told = SavedChain {
            viewer: match told.viewer {
                ReaderIdentity::Unnamed { origin, .. } => ReaderIdentity::Unnamed {
                    origin,
                    connection: None,
                },
                named @ ReaderIdentity::Named(_) => named,
            },
            open_ended: told.open_ended && layout.part_count() == 1,
            ..told
        };
        // The viewer has already returned, and has begun a new chain.
        let place = ByteRange::new(told.position, told.position);
        let reader = (told.viewer, stream);
        let known = self.chains.find(
            self.now,
            (self.config.chain_gap, ProxyTolerance::of(&self.config)),
            reader,
            place,
        );
        if known.is_some() {
            return false;
        }
        let surplus = self.chains.resume(self.now, stream, &told);
        self.streams.begin_chain(stream);
        if let Some(surplus) = surplus {
            self.end_chain(surplus);
        }
        self.finish();
        true
    }
}
