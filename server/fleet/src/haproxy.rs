//! The configuration of HAProxy (2.6 or later) before a fleet.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::balancer::{CHECKS_FALL, CHECKS_RISE, SLOW_START_S};
use crate::fleet::{Fleet, TitleRule, split};
use crate::plan::DiskId;

/// Copies of a title that the balancer uses.
const COPIES_MAX: usize = 4;

/// Where titles live, as HAProxy reads it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlacesMap {
    /// A line for each title: the title as it is in a path, and its boxes.
    pub text: String,
    /// Titles with a blank or a `#` in their names, which such a file cannot have.
    pub left_out: usize,
}

impl Fleet {
    /// The map for [`Self::haproxy`], from the disks of each title.
    pub fn haproxy_map<'p>(
        &self,
        places: impl Iterator<Item = (&'p str, &'p [DiskId])>,
    ) -> PlacesMap {
        let mut map = PlacesMap::default();
        for (title, disks) in places {
            if title.contains(|c: char| c.is_whitespace() || c == '#') {
                map.left_out += 1;
                continue;
            }
            let mut boxes: Vec<&str> = Vec::new();
            for disk in disks {
                if boxes.len() < COPIES_MAX && !boxes.contains(&&*disk.of_box) {
                    boxes.push(&disk.of_box);
                }
            }
            if boxes.is_empty() {
                continue;
            }
            let slash = if title.is_empty() { "" } else { "/" };
            let key = match self.title {
                TitleRule::File => format!("/{title}"),
                TitleRule::Folder => format!("/{title}{slash}"),
                TitleRule::Names(_) => title.into(),
            };
            let _ = writeln!(map.text, "{key} {}", boxes.join(":"));
        }
        map
    }

    /// A complete configuration of HAProxy; `source` is the name of the description, and `map` that
    /// of a file with [`PlacesMap::text`], if titles are to be read from the boxes that have them.
    pub fn haproxy(&self, source: &str, map: Option<&str>) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            text,
            "# Made from {source} by `headlong fleet config`; change that file, not this one."
        );
        text.push_str(DEFAULTS);
        for address in &self.listen {
            let _ = writeln!(text, "    bind {address}");
        }
        let _ = write!(
            text,
            "    default_backend boxes\n\n{}\
             backend boxes\n    \
                 # Requests for one title reach one box; those beyond its bound, the next one.\n    \
                 balance hash {}\n    \
                 hash-type consistent sdbm avalanche\n    \
                 hash-balance-factor {}\n    \
                 http-reuse safe\n    \
                 option forwardfor\n    \
                 # Another box is asked before the viewer learns that one is down or full (503).\n    \
                 option redispatch 1\n    \
                 retries {}\n    \
                 # 500 and 504: its disk failed or did not answer.\n    \
                 retry-on conn-failure empty-response response-timeout 500 503 504\n    \
                 http-request disable-l7-retry unless METH_GET\n    \
                 option httpchk GET /healthz\n    \
                 default-server check inter 1s fall {CHECKS_FALL} rise {CHECKS_RISE} slowstart {SLOW_START_S}s\n",
            self.stats.as_deref().map(stats).unwrap_or_default(),
            title(self.title),
            self.load_percent_max,
            self.tries - 1,
        );
        if let Some(map) = map {
            text.push_str(&placed(self.title, map));
        }
        for one in &self.boxes {
            let (name, address, id, weight) = (&one.name, &one.address, one.id(), one.weight);
            let (host, port) = split(&one.admin).unwrap_or_default();
            let _ = write!(
                text,
                "    server {name} {address} id {id} weight {weight} addr {host} port {port}"
            );
            if let Some((host, port)) = one.agent.as_deref().and_then(split) {
                let _ = write!(
                    text,
                    " agent-check agent-addr {host} agent-port {port} agent-inter 1s"
                );
            }
            text.push('\n');
        }
        text
    }
}

const DEFAULTS: &str = "\
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    timeout queue 5s
    timeout http-keep-alive 75s

frontend videos
";

/// A page for operators, and metrics.
fn stats(address: &str) -> String {
    format!(
        "frontend stats\n    \
             bind {address}\n    \
             stats enable\n    \
             stats uri /\n    \
             http-request use-service prometheus-exporter if {{ path /metrics }}\n\n"
    )
}

/// The expression of a title. A token before the path (`/t/TOKEN/`) is left out, or each viewer of a
/// title would be sent to another box.
fn title(rule: TitleRule) -> String {
    let path = "path,regsub(^/t/[^/]+,)";
    match rule {
        TitleRule::File => path.into(),
        TitleRule::Folder => format!("{path},regsub([^/]*$,)"),
        TitleRule::Names(count) => format!("{path},field(2,/,{count})"),
    }
}

/// Rules for the titles of a map. A box that is down is passed over; a title that is not in the map
/// goes where its hash sends it.
fn placed(rule: TitleRule, map: &str) -> String {
    let mut text = format!(
        "    # A title of the map is read from its boxes, which share its viewers by their addresses.\n    \
             http-request set-var(txn.boxes) {},url_dec,map({map})\n    \
             http-request set-var(txn.turn) src,xxh32\n",
        title(rule)
    );
    let one = |number: usize| format!("var(txn.boxes),word({number},:)");
    for count in (2..=COPIES_MAX).rev() {
        for number in 1..=count {
            let (first, last, turn) = (one(number), one(count), number - 1);
            let _ = writeln!(
                text,
                "    use-server %[{first}] if {{ {last} -m found }} {{ var(txn.turn),mod({count}) {turn} }}"
            );
        }
    }
    for number in 1..=COPIES_MAX {
        let one = one(number);
        let _ = writeln!(text, "    use-server %[{one}] if {{ {one} -m found }}");
    }
    text.push_str(
        "    # Its boxes are down or full, and another box does not have it.\n    \
             http-response set-header Retry-After 2 if { status 404 } { var(txn.boxes) -m found }\n    \
             http-response set-status 503 if { status 404 } { var(txn.boxes) -m found }\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placed_titles_have_rules_and_a_map() {
        let of = |title: &str| {
            let text = format!(
                "title = {title}\n[box.a]\naddress = \"10.0.0.1:80\"\nadmin = \"10.0.0.1:81\"\n"
            );
            Fleet::read("", &text).expect("right")
        };
        let made = of("\"file\"").haproxy("", Some("/etc/haproxy/places.map"));
        for part in [
            "path,regsub(^/t/[^/]+,),url_dec,map(/etc/haproxy/places.map)\n",
            "    use-server %[var(txn.boxes),word(2,:)] if { var(txn.boxes),word(3,:) -m found } \
             { var(txn.turn),mod(3) 1 }\n",
            "    use-server %[var(txn.boxes),word(1,:)] if { var(txn.boxes),word(1,:) -m found }\n",
        ] {
            assert!(made.contains(part), "{part}\n{made}");
        }
        assert!(!of("1").haproxy("", None).contains("use-server"));
        let disk = |text: &str| DiskId::read(text).expect("a disk");
        let two = [disk("a:d0"), disk("a:d1"), disk("b:d0")];
        let one = [disk("c:d2")];
        let places = || {
            [
                ("x/y", &two[..]),
                ("x y", &one[..]),
                ("z", &one[..]),
                ("", &[][..]),
            ]
            .into_iter()
        };
        for (title, lines) in [
            ("\"file\"", "/x/y a:b\n/z c\n"),
            ("\"folder\"", "/x/y/ a:b\n/z/ c\n"),
            ("2", "x/y a:b\nz c\n"),
        ] {
            let map = of(title).haproxy_map(places());
            assert_eq!((&*map.text, map.left_out), (lines, 1), "{title}");
        }
    }

    #[test]
    fn configuration_hashes_titles_and_asks_other_boxes() {
        let text = "title = 2\nlisten = [\"*:8080\", \"[::]:8080\"]\ntries = 2\n\
            [box.a]\naddress = \"10.0.0.1:80\"\nadmin = \"10.0.1.1:81\"\nweight = 50\n";
        let fleet = Fleet::read("", text).expect("right");
        let made = fleet.haproxy("fleet.toml", None);
        let id = fleet.boxes[0].id();
        let server = format!("    server a 10.0.0.1:80 id {id} weight 50 addr 10.0.1.1 port 81\n");
        let agent = text.replace("weight", "agent = \"10.0.1.1:82\"\nweight");
        let made_with = Fleet::read("", &agent).expect("right").haproxy("", None);
        let check = "port 81 agent-check agent-addr 10.0.1.1 agent-port 82 agent-inter 1s\n";
        assert!(made_with.contains(check), "{made_with}");
        assert!(!made.contains("stats"), "{made}");
        for part in [
            "    bind *:8080\n    bind [::]:8080\n",
            "    balance hash path,regsub(^/t/[^/]+,),field(2,/,2)\n",
            "    retries 1\n",
            &server,
        ] {
            assert!(made.contains(part), "{part}\n{made}");
        }
    }
}
