//! Other boxes of the fleet, which may have a title that this one lacks.
//!
//! Peers are asked with `only-if-cached` (RFC 9111, 5.2.1.7), so they answer from what they have
//! stored and ask no one: a request takes one hop, and peers cannot ask in circles. They are asked in
//! the order in which the balancer sends them requests for the title, so first the one that has it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use headlong_fleet::TitleOrder;
use headlong_kernel::time_scale::TimeScale;
use headlong_pull::{OriginVersion, ToldFreshness};
use headlong_telemetry::RequestId;
use headlong_units::Duration;
use http::header::HeaderValue;

use super::origin::Origin;
use super::title;
use crate::pull_rule::PullRule;

/// How long a peer may be silent. It answers from what it has stored, and the origin has it, too.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// Peers that are asked about one title.
const ASKED_MAX: usize = 4;

/// The peers of one path.
pub(super) struct Peers {
    /// The path, without the folder of its site.
    prefix: String,
    /// All boxes of the fleet, this one included, in the order of its description.
    peers: Vec<Origin>,
    /// Whether each is this box, as far as that is known.
    are_own: Vec<bool>,
    /// None without a fleet.
    order: Option<TitleOrder>,
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
    /// The peers of a rule for `prefix` of the tree of all sites. Requests for a path of a site have
    /// its name as `Host`: another site of a peer may have the same path from another origin.
    pub(super) fn open(prefix: &str, rule: &PullRule, scale: TimeScale) -> Result<Self, String> {
        let of_site = prefix.strip_prefix("//");
        let of_site = of_site.and_then(|below| Some(below.split_at(below.find('/')?)));
        let (site, prefix) = match of_site {
            Some((site, prefix)) => (Some(site), prefix),
            None => (None, prefix),
        };
        let host = site.map(HeaderValue::from_str).transpose();
        let host = host.map_err(|error| format!("the name of its site: {error}"))?;
        let fleet = rule.read_fleet()?;
        let peer = |address: &String| {
            let rule = PullRule {
                origin: format!("http://{address}{prefix}"),
                s3_region: None,
                s3_keys: None,
                redirect_hosts: Vec::new(),
                fleet: None,
                idle_timeout: rule.idle_timeout.min(SILENCE_MAX),
                ..rule.clone()
            };
            Origin::of_peer(&rule, host.clone(), scale)
        };
        let boxes = || fleet.iter().flat_map(|fleet| &fleet.boxes);
        Ok(Self {
            prefix: prefix.to_owned(),
            peers: boxes()
                .map(|one| peer(&one.address))
                .collect::<Result<_, _>>()?,
            are_own: boxes()
                .map(|one| is_own(&one.address, &rule.own_addresses))
                .collect(),
            order: fleet.as_ref().map(TitleOrder::new),
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
        let path = format!("{}{}", self.prefix, title::split(name).0);
        let order = self.order.iter();
        let first: Vec<usize> = order
            .flat_map(|order| order.boxes(&path))
            .filter(|of_box| !self.are_own[*of_box])
            .take(ASKED_MAX)
            .collect();
        first.into_iter().map(|peer| (peer, &self.peers[peer]))
    }
}

/// Whether the address of a box leads to one of `own`. Unknown, and thus false, for a host name and
/// for an address that is translated on the way to this machine.
fn is_own(address: &str, own: &[SocketAddr]) -> bool {
    let Ok(address) = address.parse::<SocketAddr>() else {
        return false;
    };
    own.iter().any(|on| {
        let is_any = on.ip().is_unspecified();
        on.port() == address.port()
            && (on.ip() == address.ip() || is_any && is_of_machine(address).unwrap_or(false))
    })
}

/// Whether this machine has an address: the kernel then reaches it from the same one. No packet is
/// sent. (Binding would succeed for every address with `ip_nonlocal_bind`.)
fn is_of_machine(address: SocketAddr) -> io::Result<bool> {
    let any = match address {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(address)?;
    Ok(socket.local_addr()?.ip() == address.ip())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;

    use tokio::time::Instant;

    use super::*;

    /// The peers for a prefix in a fleet of boxes with these listeners, at a box that listens on
    /// `own`.
    fn peers(prefix: &str, listening: &[TcpListener], own: &[SocketAddr]) -> Peers {
        let addresses = listening.iter().map(|of| of.local_addr().expect("one"));
        let boxes = addresses.zip(0..).map(|(address, number)| {
            format!("[box.{number}]\naddress = \"{address}\"\nadmin = \"a:1\"\n")
        });
        let fleet = tempfile::NamedTempFile::new().expect("a file");
        let text = format!("title = \"file\"\n{}", boxes.collect::<String>());
        std::fs::write(fleet.path(), text).expect("written");
        let rule = PullRule {
            origin: "https://origin.example/".to_owned(),
            fleet: Some(fleet.path().to_owned()),
            own_addresses: own.to_owned(),
            ..PullRule::default()
        };
        Peers::open(prefix, &rule, TimeScale::ONE).expect("peers")
    }

    /// The first line and the `Host` of the request that a peer gets for a title below a prefix,
    /// and the peer's address.
    async fn request_to_peer(prefix: &str) -> (String, String, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("one").to_string();
        let peers = peers(prefix, std::slice::from_ref(&listener), &[]);
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a request");
            let lines = BufReader::new(stream.try_clone().expect("a copy")).lines();
            let lines = lines.map(|line| line.expect("a line"));
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let reply = b"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(reply).expect("sent");
            head
        });
        assert!(peers.find("film.mp4", None).await.is_none());
        let head = peer.join().expect("it has answered");
        let hosts = head.iter().filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("host").then_some(value)
        });
        let hosts: Vec<&str> = hosts.collect();
        (head[0].clone(), hosts.join(", "), address)
    }

    #[tokio::test]
    async fn peer_is_asked_under_the_name_of_the_site() {
        let line = "HEAD /vod/film.mp4 HTTP/1.1";
        let (first, host, _) = request_to_peer("//films.example/vod/").await;
        assert_eq!((&*first, &*host), (line, "films.example"));
        let (first, host, address) = request_to_peer("/vod/").await;
        assert_eq!((&*first, host), (line, address));
    }

    #[tokio::test]
    async fn own_box_is_not_among_peers() {
        let listening =
            [(); 1 + ASKED_MAX].map(|()| TcpListener::bind("127.0.0.1:0").expect("bound"));
        let address = listening[0].local_addr().expect("one");
        let any = SocketAddr::from(([0, 0, 0, 0], address.port()));
        for own in [address, any] {
            let peers = peers("/vod/", &listening, &[own]);
            for title in 0..20 {
                let name = format!("{title}.mp4");
                let order: Vec<usize> = peers.order(&name).map(|(number, _)| number).collect();
                assert_eq!(order.len(), ASKED_MAX, "{order:?}");
                assert!(!order.contains(&0), "{own}: {order:?}");
            }
        }
        assert!(!is_own(
            "192.0.2.1:80",
            &[SocketAddr::from(([0, 0, 0, 0], 80))]
        ));
        assert!(!is_own(
            "box.example:80",
            &[SocketAddr::from(([0, 0, 0, 0], 80))]
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn silent_peers_delay_a_title_for_seconds() {
        // Connections to these are accepted by the kernel, and never answered.
        let listening = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("bound"));
        let peers = peers("//site/vod/", &listening, &[]);
        assert_eq!(
            (&*peers.prefix, peers.order("film.mp4").count()),
            ("/vod/", 2)
        );
        let began = Instant::now();
        assert!(peers.find("film.mp4", None).await.is_none());
        let within = TimeScale::ONE.wall(SILENCE_MAX.times(2) + Duration::from_secs(1));
        assert!(began.elapsed() < within, "{:?}", began.elapsed());
    }
}
