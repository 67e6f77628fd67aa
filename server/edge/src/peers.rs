//! Other boxes of the fleet, which may have a title that this one lacks.
//!
//! Peers are asked with `only-if-cached` (RFC 9111, 5.2.1.7), so they answer from what they have
//! stored and ask nobody: a request takes one hop, and peers cannot ask in circles.

use headlong_fleet::{RendezvousNode, first_nodes};
use headlong_kernel::time_scale::TimeScale;
use headlong_pull::OriginVersion;
use headlong_telemetry::RequestId;
use headlong_units::Duration;

use super::origin::Origin;
use super::title;
use crate::pull_rule::PullRule;

/// Peers that are asked about one title. With more peers than that, each title has its own.
const ASKED_MAX: usize = 4;

/// The peers of one path.
pub(super) struct Peers {
    peers: Vec<Origin>,
    nodes: Vec<RendezvousNode>,
}

/// A version that a peer has.
pub(super) struct PeerVersion {
    pub(super) version: OriginVersion,
    /// How long it is fresh; zero if the origin has not confirmed it for too long.
    pub(super) fresh_for: Duration,
    /// The peer.
    pub(super) peer: usize,
}

impl Peers {
    /// The peers of a rule whose URLs are checked.
    pub(super) fn open(rule: &PullRule, scale: TimeScale) -> Result<Self, String> {
        let peer = |url: &String| {
            let rule = PullRule {
                origin: url.clone(),
                s3_region: None,
                s3_keys: None,
                redirect_hosts: Vec::new(),
                peers: Vec::new(),
                ..rule.clone()
            };
            Origin::of_peer(&rule, scale)
        };
        let node = |url: &String| RendezvousNode::new(url, 1.0);
        Ok(Self {
            peers: rule.peers.iter().map(peer).collect::<Result<_, _>>()?,
            nodes: rule.peers.iter().map(node).collect(),
        })
    }

    /// The first peer in the order of the title that has it, and of those that have only an
    /// outdated version, the first.
    pub(super) async fn find(&self, name: &str, by: Option<&RequestId>) -> Option<PeerVersion> {
        let mut outdated = None;
        for (peer, origin) in self.order(name) {
            // Absent, refused or out of reach: the same to this box.
            let answer = origin.query_version(name, by).await;
            let Ok((version, fresh_for)) = answer else {
                continue;
            };
            // Otherwise the tag is the peer's own, and the origin's version would look like another.
            if version.validators.strong_tag().is_none() {
                continue;
            }
            let found = PeerVersion {
                version,
                fresh_for,
                peer,
            };
            if found.fresh_for > Duration::ZERO {
                return Some(found);
            }
            outdated.get_or_insert(found);
        }
        outdated
    }

    /// The peers that are asked about a title, in its order, with their numbers.
    pub(super) fn order(&self, name: &str) -> impl Iterator<Item = (usize, &Origin)> {
        let first = first_nodes(title::split(name).0, &self.nodes, ASKED_MAX);
        first.into_iter().map(|peer| (peer, &self.peers[peer]))
    }
}
