//! Keys that specifications of both kinds have: arrivals, ramps, and the kind itself.

use alloc::format;

use headlong_settings::{ValueKind, parsed, time, whole};

use super::{ArrivalRate, SessionArrivals};
use crate::keys::{KeyVisitor, document};
use crate::preset;

/// Whether a text declares itself a specification of phases.
pub(crate) fn is_of_phases(text: &str) -> bool {
    let model = document("", text, &[]).take("model");
    model.is_some_and(|model| model.text() == Some(preset::PHASED_MODEL))
}

pub(crate) fn arrival_rate() -> ValueKind<ArrivalRate> {
    parsed("sessions such as \"2.5/s\", or bytes that they ask for such as \"60MiB/s\"")
}

/// How sessions are played and counted, whatever their kind.
pub(crate) fn take_playing(keys: &mut impl KeyVisitor, it: &mut SessionArrivals) {
    for (end, ramp) in [("up", &mut it.ramp_up), ("down", &mut it.ramp_down)] {
        keys.key(&format!("ramp_{end}"), whole(), &mut ramp.sessions);
        keys.key(&format!("ramp_{end}_time"), time(), &mut ramp.time);
    }
    keys.key("resume_time", time(), &mut it.resume_time);
    let warming = whole().at_most(1_000_000);
    keys.key("warming", warming, &mut it.warming_count);
}
