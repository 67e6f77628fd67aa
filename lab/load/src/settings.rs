//! How a trace is to be played.

use std::net::{Ipv4Addr, SocketAddr};

use headlong_units::Duration;
use headlong_workload::Ramp;

use crate::TimeScale;

/// A generator that is more than a millisecond late measures itself (wrk2's own bound, too).
const LATE_MAX: std::time::Duration = std::time::Duration::from_millis(1);

/// How a trace is to be played.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How many times faster than the clock on the wall.
    pub time_scale: TimeScale,
    /// Sessions that arrive before this do not count.
    pub ramp_up: Ramp,
    /// Sessions that arrive in this last part of the trace do not count.
    pub ramp_down: Ramp,
    /// Whether bytes are checked.
    pub verify: bool,
    /// Whether the first failure in the steady state ends the run.
    pub stop_at_failure: bool,
    /// Whether the run ends when the last session arrives. Who is still there then is not counted as
    /// a session, as the load would not be steady any more (thesis 3.6.1); its calls so far are.
    pub end_with_arrivals: bool,
    /// Play this many sessions of the trace and no more.
    pub sessions_max: Option<u64>,
    /// Bytes of a title in each of its chunk files, to know which bytes a chunk file must have.
    pub chunk_bytes: Option<u64>,
    /// Which addresses viewers have.
    pub sources: Sources,
    /// Whether who watches is told of each call.
    pub tells_calls: bool,
    /// Length of an interval of the series.
    pub interval: Duration,
    /// How late one request in a hundred may leave, on the wall, before the result is invalid.
    pub late_max: std::time::Duration,
    /// Longest that sessions may go on after their own schedule, before the run is given up.
    pub overtime: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            time_scale: TimeScale::ONE,
            ramp_up: Ramp::default(),
            ramp_down: Ramp::default(),
            verify: true,
            stop_at_failure: false,
            end_with_arrivals: false,
            sessions_max: None,
            chunk_bytes: None,
            sources: Sources::default(),
            tells_calls: false,
            interval: Duration::from_secs(5),
            late_max: LATE_MAX,
            overtime: Duration::from_secs(600),
        }
    }
}

/// Reads `300s` or `500sessions`.
///
/// # Errors
/// What is wrong with it, and how to write it.
pub fn parse_ramp(text: &str) -> Result<Ramp, String> {
    let nothing = Ramp::default();
    if let Some(count) = text.trim().strip_suffix("sessions") {
        let reason = |_| format!("`{text}` is no number of sessions; write it like 500sessions");
        let sessions = count.trim().parse().map_err(reason)?;
        return Ok(Ramp {
            sessions,
            ..nothing
        });
    }
    match text.parse() {
        Ok(time) => Ok(Ramp { time, ..nothing }),
        Err(error) => {
            let error: headlong_units::ParseError = error;
            Err(format!("{error}, or like 500sessions"))
        }
    }
}

/// Which addresses viewers have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Sources {
    /// Each its own within 127.0.0.0/8 if the server is there, else whatever the kernel chooses. So
    /// a server that tells viewers by their addresses can, and ports never run out.
    #[default]
    PerSession,
    /// Whatever the kernel chooses.
    Kernel,
    /// These in turn; they must be addresses of this machine.
    These(Vec<Ipv4Addr>),
}

impl Sources {
    /// The same for players that are not to be told apart by it.
    pub(crate) fn shared(&self) -> Self {
        match self {
            Self::PerSession => Self::Kernel,
            chosen => chosen.clone(),
        }
    }

    /// The address of a session.
    pub(crate) fn of(&self, session: u64, server_is_loopback: bool) -> Option<Ipv4Addr> {
        match self {
            Self::PerSession if server_is_loopback => {
                // 127.64.0.1 and on: out of the way of what people use by hand.
                let offset = (session % PER_SESSION_MAX) as u32;
                Some(Ipv4Addr::from_bits(0x7f40_0001 + offset))
            }
            Self::PerSession | Self::Kernel => None,
            Self::These(addresses) if addresses.is_empty() => None,
            Self::These(addresses) => {
                let index = session % addresses.len() as u64;
                addresses.get(index as usize).copied()
            }
        }
    }

    /// What is wrong with them for a server at this address, if something is: no connection would
    /// come about, and each would count as the server's failure.
    pub fn misfit(&self, server: SocketAddr) -> Option<String> {
        let are_named = matches!(self, Self::These(addresses) if !addresses.is_empty());
        (are_named && server.is_ipv6()).then(|| {
            format!(
                "nothing gets from an address of IPv4 to {server}; write `kernel`, or a URL whose \
                 host has an address of IPv4"
            )
        })
    }

    /// How many different ones there are.
    pub(crate) fn count(&self, server_is_loopback: bool) -> u64 {
        match self {
            Self::PerSession if server_is_loopback => PER_SESSION_MAX,
            Self::PerSession | Self::Kernel => 1,
            Self::These(addresses) => (addresses.len() as u64).max(1),
        }
    }
}

/// From 127.64.0.1 to the end of 127.0.0.0/8, less the last, which is no host's.
const PER_SESSION_MAX: u64 = 0xbf_fffd;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ramps_are_times_or_numbers_of_sessions() {
        let time = Duration::from_secs(300);
        assert_eq!(parse_ramp("300s"), Ok(Ramp { sessions: 0, time }));
        let sessions = Ramp {
            sessions: 500,
            time: Duration::ZERO,
        };
        assert_eq!(parse_ramp("500sessions"), Ok(sessions));
        assert_eq!(parse_ramp("500 sessions"), Ok(sessions));
        for text in ["300", "many sessions", "-1s", ""] {
            let error = parse_ramp(text).expect_err(text);
            assert!(error.contains("500sessions"), "{error}");
        }
    }

    #[test]
    fn named_addresses_are_no_good_for_a_server_with_one_of_ipv6() {
        let named = Sources::These(vec![Ipv4Addr::LOCALHOST]);
        let misfit = |sources: &Sources, server: &str| {
            let server = server.parse().expect("an address");
            sources.misfit(server)
        };
        let told = misfit(&named, "[::1]:80").expect("a mistake");
        assert!(told.contains("[::1]:80"), "{told}");
        assert!(misfit(&named, "[::ffff:127.0.0.1]:80").is_some());
        assert_eq!(misfit(&named, "127.0.0.1:80"), None);
        for sources in [Sources::PerSession, Sources::Kernel] {
            assert_eq!(misfit(&sources, "[::1]:80"), None);
        }
    }

    #[test]
    fn every_viewer_has_an_address_of_its_own_on_the_loopback() {
        let sources = Sources::PerSession;
        assert_ne!(sources.of(1, true), sources.of(2, true));
        for session in [0, PER_SESSION_MAX - 1, PER_SESSION_MAX, u64::MAX] {
            let address = sources.of(session, true).expect("one");
            assert!(
                address.is_loopback() && !address.is_broadcast(),
                "{address}"
            );
        }
        assert_eq!(sources.of(1, false), None);
    }
}
