//! A network that only servers and viewers of one bench are in: loopback, nothing else.
//!
//! It is held by a process that waits for its standard input to end. Programs are put into it with
//! `nsenter --net`, and with nothing else: `ip netns exec` would give them a copy of the mounts too,
//! which keeps the page cache of an unmounted file system alive.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, Stdio};

use super::RigError;
use super::guard::{Guard, Start};

/// `tcp_congestion_control` must be on the list of allowed ones: the kernel lets a network of its own
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
    pub(crate) fn start(guard: &Guard, congestion_control: &str) -> Result<Self, RigError> {
        let words = [
            "unshare",
            "--net",
            "sh",
            "-c",
            HOLD,
            "hold",
            congestion_control,
        ];
        let words = words.map(str::to_owned);
        let mut holder = guard.spawn(Start::PLAIN, &words, |command| {
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
            return Err(RigError::NoNetwork {
                congestion_control: congestion_control.to_owned(),
                allowed: std::fs::read_to_string(allowed)
                    .unwrap_or_default()
                    .trim()
                    .to_owned(),
            });
        }
        let _stdin = holder.stdin.take();
        Ok(Self { holder, _stdin })
    }

    /// A process in it.
    pub(crate) fn process(&self) -> u32 {
        self.holder.id()
    }

    /// Whether somebody in it listens at this port.
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

/// Whether `/proc/net/tcp` shows a socket in state 0A, which is LISTEN, at this port.
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
    fn a_listener_is_told_from_a_connection() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n\
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000\n\
             1: 0100007F:1F91 0100007F:9C40 01 00000000:00000000 00:00000000\n";
        assert!(has_listener(table, 8080));
        assert!(!has_listener(table, 8081));
        assert!(!has_listener("", 8080));
    }
}
