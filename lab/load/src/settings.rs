//! Settings for playing a trace, and the reasons for not playing it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use headlong_units::Duration;
use headlong_workload::Ramp;

use crate::TimeScale;

/// A generator that is later than a millisecond distorts its measurements (the same bound as wrk2).
const LATE_MAX: std::time::Duration = std::time::Duration::from_millis(1);

/// Settings for playing a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSettings {
    /// Speed-up over wall time.
    pub time_scale: TimeScale,
    /// Sessions that arrive before its end do not count.
    pub ramp_up: Ramp,
    /// Sessions that arrive in this last part of the trace do not count.
    pub ramp_down: Ramp,
    /// Whether received bytes are verified.
    pub verify: bool,
    /// Whether the first failure in the steady state ends the run.
    pub stop_at_failure: bool,
    /// Whether the run ends when the last session arrives. Sessions in progress then are not
    /// counted, because the load would not be steady any more (thesis 3.6.1); their calls so far
    /// are.
    pub end_with_arrivals: bool,
    /// Plays at most this many sessions of the trace.
    pub sessions_max: Option<u64>,
    /// Bytes of a chunk file, needed to verify chunk files.
    pub chunk_bytes: Option<u64>,
    /// Source addresses of viewers.
    pub sources: SourceAddresses,
    /// Whether the observer receives each call.
    pub tells_calls: bool,
    /// Length of an interval of the time series.
    pub interval: Duration,
    /// Limit of the 99th percentile of the schedule error, in wall time, for a valid result.
    pub late_max: std::time::Duration,
    /// How long sessions may exceed their own schedule before the run is aborted.
    pub overtime: Duration,
}

impl Default for LoadSettings {
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
            sources: SourceAddresses::default(),
            tells_calls: false,
            interval: Duration::from_secs(5),
            late_max: LATE_MAX,
            overtime: Duration::from_secs(600),
        }
    }
}

/// Parses `300s` or `500sessions`.
///
/// # Errors
/// The reason, and the expected form.
pub fn parse_ramp(text: &str) -> Result<Ramp, String> {
    let nothing = Ramp::default();
    if let Some(count) = text.trim().strip_suffix("sessions") {
        let reason = |_| format!("`{text}` is not a number of sessions; write it like 500sessions");
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

/// Source addresses of viewers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SourceAddresses {
    /// Each viewer has its own within 127.0.0.0/8 if the server is there, else the kernel chooses.
    /// So a server that distinguishes viewers by address can do so, and ports are never exhausted.
    #[default]
    PerSession,
    /// The kernel chooses.
    Kernel,
    /// These in turn; they must be addresses of this machine.
    These(Vec<Ipv4Addr>),
}

impl SourceAddresses {
    /// The same for players that must not be distinguishable by address.
    pub(crate) fn shared(&self) -> Self {
        match self {
            Self::PerSession => Self::Kernel,
            chosen => chosen.clone(),
        }
    }

    /// The source address of a session.
    pub(crate) fn of(&self, session: u64, server_is_loopback: bool) -> Option<Ipv4Addr> {
        match self {
            Self::PerSession if server_is_loopback => {
                // From 127.64.0.1: away from addresses that people use manually.
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

    /// Why they cannot be used with a server at this address, if so: every connection would fail,
    /// and count as the server's failure.
    pub fn misfit(&self, server: SocketAddr) -> Option<String> {
        let are_named = matches!(self, Self::These(addresses) if !addresses.is_empty());
        (are_named && server.is_ipv6()).then(|| {
            format!(
                "an IPv4 source address cannot reach {server}; write `kernel`, or a URL whose host \
                 has an IPv4 address"
            )
        })
    }

    /// Number of distinct addresses.
    pub(crate) fn count(&self, server_is_loopback: bool) -> u64 {
        match self {
            Self::PerSession if server_is_loopback => PER_SESSION_MAX,
            Self::PerSession | Self::Kernel => 1,
            Self::These(addresses) => (addresses.len() as u64).max(1),
        }
    }
}

/// From 127.64.0.1 to the end of 127.0.0.0/8, without the broadcast address.
const PER_SESSION_MAX: u64 = 0xbf_fffd;

/// Why a trace cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// It has no sessions.
    #[error("the trace has no sessions")]
    Empty,
    /// It refers to a missing object or class.
    #[error("session {session} of the trace (from 0): {reason}")]
    Trace {
        /// Number of the session.
        session: u64,
        /// The reason.
        reason: String,
    },
    /// The ramps are too long.
    #[error(
        "no session counts: the trace has {sessions} sessions within {length}; shorten the \
         ramps or use a longer trace"
    )]
    NothingCounts {
        /// From the first arrival to the last.
        length: Duration,
        /// Number of sessions.
        sessions: u64,
    },
    /// The machine does not permit the number of connections.
    #[error(
        "the trace needs at least {needed} concurrent connections, but there are {what} for \
         {limit}; {remedy}"
    )]
    TooMany {
        /// Connections needed.
        needed: u64,
        /// The scarce resource.
        what: &'static str,
        /// Connections for which it suffices.
        limit: u64,
        /// The remedy.
        remedy: &'static str,
    },
    /// A system call that every Linux supports failed.
    #[error("cannot wait for sockets: {0}")]
    Wait(#[from] io::Error),
}

impl PlayError {
    /// Whether the input is at fault, not the machine.
    pub const fn is_usage(&self) -> bool {
        !matches!(self, Self::Wait(_) | Self::TooMany { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_ramp_as_time_or_sessions() {
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
    fn rejects_ipv4_sources_for_ipv6_server() {
        let named = SourceAddresses::These(vec![Ipv4Addr::LOCALHOST]);
        let misfit = |sources: &SourceAddresses, server: &str| {
            let server = server.parse().expect("an address");
            sources.misfit(server)
        };
        let told = misfit(&named, "[::1]:80").expect("a mistake");
        assert!(told.contains("[::1]:80"), "{told}");
        assert!(misfit(&named, "[::ffff:127.0.0.1]:80").is_some());
        assert_eq!(misfit(&named, "127.0.0.1:80"), None);
        for sources in [SourceAddresses::PerSession, SourceAddresses::Kernel] {
            assert_eq!(misfit(&sources, "[::1]:80"), None);
        }
    }

    #[test]
    fn viewers_have_distinct_loopback_addresses() {
        let sources = SourceAddresses::PerSession;
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
