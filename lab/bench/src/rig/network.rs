//! A private network namespace for the servers and viewers of one bench, with only loopback.
//!
//! A process that waits for the end of its standard input holds it. Programs join with `nsenter
//! --net` only: `ip netns exec` would also copy the mounts, which keeps the page cache of an
//! unmounted file system alive.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, Stdio};

use super::RigError;
use super::cleanup_guard::{CleanupGuard, ProcessContext};
use crate::experiment::NetworkSettings;

/// `tcp_congestion_control` must be in the list of allowed algorithms: a private namespace can
/// choose only among those.
const HOLD: &str = "ip link set lo up || exit 1
    echo \"$1\" > /proc/sys/net/ipv4/tcp_congestion_control || exit 1
    echo ready
    exec cat";

/// The network; it ends when dropped.
#[derive(Debug)]
pub(crate) struct PrivateNetwork {
    holder: Child,
    _stdin: Option<ChildStdin>,
}

impl PrivateNetwork {
    /// The network of an experiment.
    pub(crate) fn start(guard: &CleanupGuard, wanted: &NetworkSettings) -> Result<Self, RigError> {
        let mut words = ["unshare", "--net", "sh", "-c", HOLD, "hold"]
            .map(str::to_owned)
            .to_vec();
        words.push(wanted.congestion_control.clone());
        let mut holder = guard.spawn(ProcessContext::PLAIN, &words, |command| {
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null());
        })?;
        let mut line = String::new();
        if let Some(stdout) = holder.stdout.take() {
            let read = BufReader::new(stdout).read_line(&mut line);
            read.map_err(|error| RigError::io("unshare", error))?;
        }
        if line.trim() != "ready" {
            let _ = holder.kill();
            let _ = holder.wait();
            let allowed = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
            return Err(RigError::Machine(format!(
                "a network with TCP congestion control {} cannot be created: it needs root and an \
                 allowed algorithm; allowed here: {}",
                wanted.congestion_control,
                std::fs::read_to_string(allowed).unwrap_or_default().trim()
            )));
        }
        let _stdin = holder.stdin.take();
        Ok(Self { holder, _stdin })
    }

    /// A process inside it.
    pub(crate) fn process(&self) -> u32 {
        self.holder.id()
    }

    /// Whether a socket inside it listens on this port.
    pub(crate) fn is_listening(&self, port: u16) -> bool {
        ["tcp", "tcp6"].iter().any(|table| {
            let path = format!("/proc/{}/net/{table}", self.process());
            std::fs::read_to_string(path).is_ok_and(|text| has_listener(&text, port))
        })
    }
}

impl Drop for PrivateNetwork {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Whether `/proc/net/tcp` shows a socket in state 0A, which is LISTEN, on this port.
fn has_listener(table: &str, port: u16) -> bool {
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().and_then(|local| local.rsplit_once(':'));
        let is_port = local.is_some_and(|(_, hex)| u16::from_str_radix(hex, 16) == Ok(port));
        is_port && fields.nth(1) == Some("0A")
    })
}

#[cfg(test)]
mod tests {
    use super::has_listener;

    #[test]
    fn distinguishes_listener_from_connection() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n\
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000\n\
             1: 0100007F:1F91 0100007F:9C40 01 00000000:00000000 00:00000000\n";
        assert!(has_listener(table, 8080));
        assert!(!has_listener(table, 8081));
        assert!(!has_listener("", 8080));
    }
}
