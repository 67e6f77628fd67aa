//! The configuration of HAProxy (2.6 or later) before a fleet.

use alloc::format;
use alloc::string::String;
use core::fmt::Write as _;

use crate::balancer::{CHECKS_FALL, CHECKS_RISE, SLOW_START_S};
use crate::fleet::{Fleet, TitleRule, split};

impl Fleet {
    /// A complete configuration of HAProxy; `source` is the name of the description.
    pub fn haproxy(&self, source: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_hashes_titles_and_asks_other_boxes() {
        let text = "title = 2\nlisten = [\"*:8080\", \"[::]:8080\"]\ntries = 2\n\
            [box.a]\naddress = \"10.0.0.1:80\"\nadmin = \"10.0.1.1:81\"\nweight = 50\n";
        let fleet = Fleet::read("", text).expect("right");
        let made = fleet.haproxy("fleet.toml");
        let id = fleet.boxes[0].id();
        let server = format!("    server a 10.0.0.1:80 id {id} weight 50 addr 10.0.1.1 port 81\n");
        let agent = text.replace("weight", "agent = \"10.0.1.1:82\"\nweight");
        let made_with = Fleet::read("", &agent).expect("right").haproxy("");
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
