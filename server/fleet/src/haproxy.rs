//! The configuration of HAProxy (2.6 or later) before a fleet.

use alloc::format;
use alloc::string::String;
use core::fmt::Write as _;

use crate::balancer::{CHECKS_FALL, CHECKS_RISE, SLOW_START_S};
use crate::fleet::{Fleet, TitleRule, split};
use crate::placed_titles::{COPIES_MAX, GROUPS};
use crate::popularity::{COPIES, COPIES_OF_A_BOX, PERIOD_S, POPULAR_REQUESTS_MIN};

impl Fleet {
    /// A complete configuration of HAProxy; `source` is the name of the description, and `map` that
    /// of a file with [`crate::PlacedTitles::map`], if titles are read from the boxes of a plan.
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
                 # Requests for one title reach one box; those beyond its bound, the next one.\n{}    \
                 balance hash var(txn.key)\n    \
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
            self.key(map),
            self.load_percent_max,
            self.tries - 1,
        );
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
/// title would be sent to another box; the rest is decoded, since players encode it differently.
fn title(rule: TitleRule) -> String {
    let path = "path,url_dec,regsub(^/t/[^/]+,)";
    match rule {
        TitleRule::File => path.into(),
        TitleRule::Folder => format!("{path},regsub([^/]*$,)"),
        TitleRule::Names(count) => format!("{path},field(2,/,{count})"),
    }
}

impl Fleet {
    /// The rules for the key by which a request is hashed: its title, another name for each copy of
    /// a popular title, or the key of a title of a map.
    fn key(&self, map: Option<&str>) -> String {
        let title = title(self.title);
        let (parts, least) = (
            self.boxes.len() as u64 * COPIES_OF_A_BOX,
            POPULAR_REQUESTS_MIN,
        );
        let [(first, _), .., (_, copies_max)] = COPIES;
        let mut text = format!(
            "    http-request set-var(txn.title) {title}\n    \
                 http-request set-var(txn.key) var(txn.title)\n    \
                 # A title with {first}/{COPIES_OF_A_BOX} of a box's requests, and {least} in {PERIOD_S} s, has 2 to {copies_max}\n    \
                 # places, which share its viewers by their addresses.\n    \
                 stick-table type integer size 1m expire {}s store http_req_rate({PERIOD_S}s)\n    \
                 http-request track-sc0 var(txn.title),xxh32\n    \
                 http-request track-sc1 int(1)\n    \
                 http-request set-var(txn.all) sc_http_req_rate(1)\n    \
                 http-request set-var(txn.share) sc_http_req_rate(0),mul({parts}),div(txn.all) \
                 if {{ sc_http_req_rate(0) ge {least} }}\n",
            2 * PERIOD_S
        );
        for (share, copies) in COPIES {
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(
                text,
                "    http-request set-var(txn.copy) src,xxh32,mod({copies}) if {{ var(txn.share) -m int ge {share} }}"
            );
        }
        text.push_str(
            "    http-request set-var(txn.key) var(txn.title),concat(/,txn.copy) if { var(txn.copy) -m int gt 0 }\n",
        );
        if let Some(map) = map {
            let _ = write!(
                text,
                "    # A title of the map has a key that the hash leads to its boxes; a popular one has a\n    \
                     # key for each group of viewers.\n    \
                     http-request set-var(txn.group) src,xxh32,mod({GROUPS}),concat(/,txn.title),url_enc,map({map})\n    \
                     http-request set-var(txn.placed) var(txn.title),url_enc,map({map})\n    \
                     http-request set-var(txn.placed) var(txn.group) if {{ var(txn.group) -m found }}\n    \
                     http-request set-var(txn.key) var(txn.placed),field(1,/) if {{ var(txn.placed) -m found }}\n    \
                     # A box without a copy got the request, since those with one are down or full.\n    \
                     http-response set-var(txn.box) srv_name\n"
            );
            for field in 2..2 + COPIES_MAX {
                let _ = writeln!(
                    text,
                    "    acl has_copy var(txn.placed),field({field},/),strcmp(txn.box) eq 0"
                );
            }
            for action in ["set-header Retry-After 2", "set-status 503"] {
                let _ = writeln!(
                    text,
                    "    http-response {action} if {{ status 404 }} {{ var(txn.placed) -m found }} !has_copy"
                );
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

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
            "    http-request set-var(txn.title) path,url_dec,regsub(^/t/[^/]+,),field(2,/,2)\n",
            "    retries 1\n",
            &server,
        ] {
            assert!(made.contains(part), "{part}\n{made}");
        }
    }

    #[test]
    fn absent_file_is_503_only_at_box_without_copy() {
        let fleet = Fleet::default();
        assert!(!fleet.haproxy("", None).contains("http-response"));
        let made = fleet.haproxy("", Some("/etc/places.map"));
        let conditions: Vec<&str> = made
            .lines()
            .filter(|line| line.contains("status 404"))
            .map(|line| line.split_once(" if ").expect("a condition").1)
            .collect();
        let expected = "{ status 404 } { var(txn.placed) -m found } !has_copy";
        assert_eq!(conditions, [expected; 2]);
        // The key and twelve boxes.
        let last = "    acl has_copy var(txn.placed),field(13,/),strcmp(txn.box) eq 0\n";
        assert!(made.contains(last), "{made}");
    }
}
