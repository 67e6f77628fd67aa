//! Setup of a fleet: its boxes and its balancer, failures, and the origin.

use headlong_fleet::{Balancer, BalancingRule, Fleet, FleetBox, TitleOrder, title_hash};
use headlong_units::{BitRate, Duration, Instant};
use headlong_workload::Catalogue;

use crate::fleet::pulled::PullSpace;
use crate::layout::disk_of;

/// Blocks of the file system.
const BLOCK_BYTES: u64 = 4096;

/// An outage of a box: its process ends at once with its memory and its replies, and connections to
/// it are refused. Its disks keep their titles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoxFailure {
    /// Number of the box, from 0.
    pub of_box: usize,
    /// When it fails.
    pub at: Instant,
    /// Length of the outage.
    pub down: Duration,
}

/// The origin of titles that a box lacks: it has every title, and room for every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OriginLink {
    /// From a request until its first byte.
    pub delay: Duration,
    /// Bytes of one reply.
    pub rate: BitRate,
    /// Bytes that a box keeps of what it has fetched; the oldest are dropped first.
    pub kept_bytes: u64,
}

/// A fleet. The number of disks of a box and all else about it is in the
/// [`WorldSetup`](crate::WorldSetup).
#[derive(Debug, Clone, PartialEq)]
pub struct FleetSetup {
    /// The boxes, with their weights.
    pub boxes: Vec<FleetBox>,
    /// How the balancer selects a box.
    pub rule: BalancingRule,
    /// Most requests in progress at a box, per cent of the mean, for
    /// rules with a bound.
    pub load_percent_max: u32,
    /// Boxes that are asked in turn before a viewer gets a refusal.
    pub tries: u32,
    /// Least number of copies of each title, for [`BalancingRule::Placed`].
    pub replicas: u32,
    /// Whether boxes have agents that tell what they can bear.
    pub has_agents: bool,
    /// Whether a box asks its peers for what it lacks, before the origin.
    pub has_peers: bool,
    /// Outages of boxes.
    pub failures: Vec<BoxFailure>,
    /// The origin.
    pub origin: OriginLink,
    /// Seed of random choices.
    pub seed: u64,
}

impl FleetSetup {
    /// What each of a box's disks, which have this capacity, keeps free for fetched bytes: its end.
    pub(crate) fn pull_space(&self, capacity_bytes: u64, disks: u32) -> PullSpace {
        let bytes = self.origin.kept_bytes / u64::from(disks.max(1)) / BLOCK_BYTES * BLOCK_BYTES;
        let bytes = bytes.min(capacity_bytes);
        PullSpace {
            first: (capacity_bytes - bytes) / BLOCK_BYTES * BLOCK_BYTES,
            bytes,
        }
    }

    pub(crate) fn balancer(&self) -> Balancer {
        Balancer::new(&self.boxes, self.rule, self.load_percent_max, self.seed)
    }

    pub(crate) fn peer_order(&self) -> TitleOrder {
        TitleOrder::new(&Fleet {
            boxes: self.boxes.clone(),
            ..Fleet::default()
        })
    }

    /// The hash by which the balancer knows each title. All renditions of a work are one title.
    pub(crate) fn hashes(catalogue: &Catalogue) -> Vec<u32> {
        let titles = catalogue.titles.iter();
        let works = titles.map(|title| title.number - title.rendition);
        works.map(|work| title_hash(&work.to_string())).collect()
    }

    /// The disk of each title, out of those of all boxes: its box is the one that its hash selects
    /// as long as all are in service.
    pub(crate) fn disks_of_titles(&self, hashes: &[u32], disks: u32) -> Vec<u32> {
        let balancer = self.balancer();
        let titles = (0..).zip(hashes);
        let of_title = |(number, hash): (u32, &u32)| {
            let home = balancer.home(*hash).unwrap_or(0) as u32;
            home * disks + disk_of(number, disks)
        };
        titles.map(of_title).collect()
    }
}
