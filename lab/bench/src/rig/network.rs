//! A network that only servers and viewers of one bench are in: loopback, nothing else.
//!
//! It is held by a process that waits for its standard input to end. Programs are put into it with
//! `nsenter --net`, and with nothing else: `ip netns exec` would give them a copy of the mounts too,
//! which keeps the page cache of an unmounted file system alive.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};

use headlong_units::BitRate;

use super::RigError;
use super::guard::{Guard, Start};
use crate::experiment::Network;

/// The packets of this time on the wall, at least, may leave a link at once: a timer of the kernel is
/// no finer.
const BURST_MS: u64 = 4;
/// No less than a few of loopback's packets, which are of 64 KiB.
const BURST_BYTES_MIN: u64 = 256 << 10;
/// What waits for a link for longer is lost: a queue such as that of a switch.
const QUEUE_MS: u64 = 100;

/// `tcp_congestion_control` must be on the list of allowed ones: the kernel lets a network of its own
/// choose only among those.
const HOLD: &str = "ip link set lo up || exit 1
    echo \"$1\" > /proc/sys/net/ipv4/tcp_congestion_control || exit 1
    if [ -n \"$2\" ]; then
        tc qdisc replace dev lo root tbf rate \"$2\"bit burst \"$3\" latency \"$4\"us || exit 2
    fi
    echo ready
    exec cat";

/// The network; it ends when dropped.
#[derive(Debug)]
pub(crate) struct PrivateNetwork {
    holder: Child,
    _stdin: Option<ChildStdin>,
}

impl PrivateNetwork {
    /// The network of an experiment in which clocks go `time_scale` times faster.
    pub(crate) fn start(
        guard: &Guard,
        wanted: &Network,
        time_scale: u32,
    ) -> Result<Self, RigError> {
        let mut words = ["unshare", "--net", "sh", "-c", HOLD, "hold"]
            .map(str::to_owned)
            .to_vec();
        words.push(wanted.congestion_control.clone());
        words.extend(
            wanted
                .link
                .iter()
                .flat_map(|rate| bucket(*rate, time_scale)),
        );
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
            let status = holder.wait();
            if let Some(link) = status.ok().and_then(|status| link_refused(status, wanted)) {
                return Err(RigError::Machine(format!(
                    "a link of {link} cannot be made: it takes `tc` (package iproute2) and a kernel \
                     with the token bucket (sch_tbf); leave [network] link out to do without"
                )));
            }
            let allowed = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
            return Err(RigError::Machine(format!(
                "a network with TCP congestion control {} cannot be made: it takes root, and one of \
                 the allowed ones, which are here: {}",
                wanted.congestion_control,
                std::fs::read_to_string(allowed).unwrap_or_default().trim()
            )));
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

/// What `tc` is told of a link, on the wall: bits per second, bytes at once, and the time that is
/// waited for it, in microseconds.
fn bucket(rate: BitRate, time_scale: u32) -> [String; 3] {
    let bits = rate.0.saturating_mul(u64::from(time_scale));
    let burst = (bits / 8 / 1000).saturating_mul(BURST_MS);
    let wait_us = QUEUE_MS * 1000 / u64::from(time_scale.max(1));
    [bits, burst.max(BURST_BYTES_MIN), wait_us].map(|number| number.to_string())
}

/// The link that was asked for, if it is why the network ended.
fn link_refused(status: ExitStatus, wanted: &Network) -> Option<BitRate> {
    wanted.link.filter(|_| status.code() == Some(2))
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
    use headlong_units::BitRate;

    use super::{bucket, has_listener};

    #[test]
    fn a_link_is_as_many_times_faster_as_clocks_are() {
        let gigabit = BitRate::from_kbps(1_000_000);
        assert_eq!(bucket(gigabit, 1), ["1000000000", "500000", "100000"]);
        assert_eq!(bucket(gigabit, 10), ["10000000000", "5000000", "10000"]);
        // A burst holds some packets of loopback, however slow the link is.
        assert_eq!(bucket(BitRate::from_kbps(1000), 1)[1], "262144");
    }

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
