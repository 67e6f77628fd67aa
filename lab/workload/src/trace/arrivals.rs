//! Arrivals for traces that name none.

use headlong_random::Generator;
use headlong_units::Duration;

use super::{Session, Trace, session_bytes};
use crate::specification::Rate;

/// The trace with Poisson arrivals at `rate`, instead of those it had, if any. A rate in bytes is
/// turned into sessions by the mean of what the trace's sessions ask for, as far as they say so.
///
/// # Errors
/// If `rate` is in bytes and no call says how many it asks for: only a rate in sessions will do.
pub fn with_arrivals(mut trace: Trace, rate: Rate, seed: u64) -> Result<Trace, UnknownSizes> {
    let gap = match rate {
        Rate::Sessions(rate) => 1.0 / rate,
        Rate::Bytes(rate) => {
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

/// No call of the trace says how many bytes it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the trace does not say how many bytes its calls ask for; give the rate in sessions, like 2.5/s"
)]
pub struct UnknownSizes;
