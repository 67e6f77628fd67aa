//! Requests that warm a cache before the measurement.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headlong_player::SessionPlan;

use crate::ideal_server;
use crate::trace::{Trace, WarmupRange};

/// The `count` most frequently requested ranges; ties are broken by first use. For adaptive
/// players, their requests to an ideal server.
pub(super) fn warming(trace: &Trace, count: u64) -> Vec<WarmupRange> {
    if count == 0 {
        return Vec::new();
    }
    let mut asked: BTreeMap<WarmupRange, (u64, usize)> = BTreeMap::new();
    let mut index = 0;
    let mut note = |object, range| {
        asked
            .entry(WarmupRange { object, range })
            .or_insert((0, index))
            .0 += 1;
        index += 1;
    };
    for session in &trace.sessions {
        for call in session.calls() {
            note(call.object, call.range);
        }
        if let SessionPlan::Adaptive(_) = session.plan {
            let class = &trace.classes[session.class as usize];
            ideal_server::watch(&session.plan, class, &mut |sent| {
                note(sent.object, sent.range);
            });
        }
    }
    let mut asked: Vec<_> = asked.into_iter().collect();
    asked.sort_by_key(|(_, (times, first))| (core::cmp::Reverse(*times), *first));
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    asked.into_iter().take(count).map(|(key, _)| key).collect()
}
