//! Other boxes of the fleet, which may have a title that this one lacks.
//!
//! Peers are asked with `only-if-cached` (RFC 9111, 5.2.1.7), so they answer from what they have
//! stored and ask nobody: a request takes one hop, and peers cannot ask in circles.

use headlong_fleet::{RendezvousNode, first_nodes};
use headlong_kernel::time_scale::TimeScale;
use headlong_pull::{OriginVersion, ToldFreshness};
use headlong_telemetry::RequestId;
use headlong_units::Duration;

use super::origin::Origin;
use super::title;
use crate::pull_rule::PullRule;

/// How long a peer may be silent. It answers from what it has stored, and the origin has it, too.
const SILENCE_MAX: Duration = Duration::from_secs(2);
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
    /// Not fresh if the origin has not confirmed it for too long.
    pub(super) freshness: ToldFreshness,
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
                idle_timeout: rule.idle_timeout.min(SILENCE_MAX),
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
            let Ok((version, freshness)) = answer else {
                continue;
            };
            // Otherwise the tag is the peer's own, and the origin's version would look like another.
            if version.validators.strong_tag().is_none() {
                continue;
            }
            let found = PeerVersion {
                version,
                freshness,
                peer,
            };
            if freshness.is_fresh() {
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silent_peers_delay_a_title_for_seconds() {
        // Connections to these are accepted by the kernel, and never answered.
        let listening = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("bound"));
        let url = |of: &TcpListener| format!("http://{}/vod/", of.local_addr().expect("one"));
        let rule = PullRule {
            origin: "https://origin.example/".to_owned(),
            peers: listening.iter().map(url).collect(),
            ..PullRule::default()
        };
        let peers = Peers::open(&rule, TimeScale::ONE).expect("peers");
        let began = Instant::now();
        assert!(peers.find("film.mp4", None).await.is_none());
        let within = TimeScale::ONE.wall(SILENCE_MAX.times(2) + Duration::from_secs(1));
        assert!(began.elapsed() < within, "{:?}", began.elapsed());
    }
}
