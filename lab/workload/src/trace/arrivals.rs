//! Arrivals for traces without any.

use headlong_random::Generator;
use headlong_units::Duration;

use super::{Session, Trace, session_bytes};
use crate::specification::ArrivalRate;

/// The trace with Poisson arrivals at `rate`, replacing its own, if any. A rate in bytes is
/// converted to sessions by the mean bytes of the trace's sessions, as far as known.
///
/// # Errors
/// If `rate` is in bytes and no call has a known size: then only a rate in sessions is possible.
pub fn with_arrivals(
    mut trace: Trace,
    rate: ArrivalRate,
    seed: u64,
) -> Result<Trace, UnknownSizes> {
    let gap = match rate {
        ArrivalRate::Sessions(rate) => 1.0 / rate,
        ArrivalRate::Bytes(rate) => {
            let asked = |session: &Session| {
                let class = trace.classes.get(session.class as usize);
                u128::from(session_bytes(session, class))
            };
            let bytes: u128 = trace.sessions.iter().map(asked).sum();
            if bytes == 0 {
                return Err(UnknownSizes);
            }
            bytes as f64 / trace.sessions.len() as f64 / rate
        }
    };
    let mut generator = Generator::new(seed).fork("arrivals");
    let mut now = 0.0;
    for session in &mut trace.sessions {
        now += generator.exponential(gap);
        session.arrival = Duration(libm::round(now * 1e9) as u64);
    }
    trace.about.has_arrivals = true;
    Ok(trace)
}

/// No call of the trace has a known size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sizes of the trace's calls are unknown; give the rate in sessions, like 2.5/s")]
pub struct UnknownSizes;
