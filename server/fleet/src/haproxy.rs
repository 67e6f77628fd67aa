//! The configuration of HAProxy (2.6 or later) before a fleet.

use alloc::format;
use alloc::string::String;
use core::fmt::Write as _;

use crate::fleet::{Fleet, TitleRule};

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
            "    default_backend boxes\n\n\
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
                 retry-on conn-failure empty-response response-timeout 503\n    \
                 http-request disable-l7-retry unless METH_GET\n    \
                 option httpchk GET /healthz\n    \
                 default-server check inter 1s fall 2 rise 2 slowstart 30s\n",
            title(self.title),
            self.load_percent_max,
            self.tries - 1,
        );
        for one in &self.boxes {
            let _ = writeln!(
                text,
                "    server {} {} id {} weight {} addr {} port {}",
                one.name,
                one.address,
                one.id(),
                one.weight,
                one.admin_host(),
                one.admin_port()
            );
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
