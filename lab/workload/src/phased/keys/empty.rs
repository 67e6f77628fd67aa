//! A blank specification, before anything is read.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use headlong_random::Empirical;

use crate::Curve;
use crate::phased::specification::{
    DeviceType, NetworkSettings, PhasedSpecification, PhasedViewing, RateSelection, RequestForm,
    SessionSettings, TitleSettings,
};

/// A curve with a single value, which is always valid.
fn constant(value: f64) -> Empirical {
    Curve::constant(value).law
}

/// The initial specification: every value is within its bounds.
pub(super) fn empty() -> PhasedSpecification {
    PhasedSpecification {
        name: "unnamed".to_owned(),
        catalogue: TitleSettings {
            seed: 1,
            count: 1,
            zipf_alpha: 0.0,
            head_titles: 0,
            head_factor: 1.0,
            durations: constant(3600.0),
            duration_weights: vec![1.0],
            drives: 1,
            segment_s: 2.0,
            segment_variation: 0.0,
            rate_variation: 0.0,
            table_entry_bytes: 0.0,
            rates: RateSelection::Several,
            renditions: [Vec::new(), Vec::new(), Vec::new()],
        },
        sessions: SessionSettings {
            count: 1,
            length_s: 86_400.0,
            arrivals: vec![1.0],
        },
        viewing: PhasedViewing {
            start: constant(0.0),
            glance_share: 0.0,
            glance_s: constant(10.0),
            stay: constant(1.0),
            skips_per_hour: 0.0,
            skip_s: constant(60.0),
            pauses_per_hour: 0.0,
            pause_at_start: 0.0,
            pause_s: constant(60.0),
            changes_per_hour: 0.0,
            up_share: 0.0,
            down_share: 0.0,
            cautious_share: 0.0,
        },
        network: NetworkSettings {
            headroom: constant(4.0),
            delay_s: 0.05,
            transient_share: 1.0,
        },
        devices: Vec::new(),
    }
}

/// A blank device.
pub(super) fn unknown_device() -> DeviceType {
    DeviceType {
        name: String::new(),
        share: 1.0,
        is_separate: true,
        form: RequestForm::Chunk,
        audio_form: RequestForm::Chunk,
        both_share: 0.0,
        kbps_max: 10_000_000,
        request_s: 2.0,
        part_bytes_max: 512 * 1024,
        connections: 1,
        audio_request_s: 16.0,
        buffer_s: 120.0,
        audio_buffer_s: 120.0,
        spacing_s: 4.0,
        audio_spacing_s: 16.0,
        table_bytes: 0,
        probes_first: 4.0,
        probes_next: 2.0,
        probe_s: 6.0,
        audio_probes: 0.0,
        resume_share: 0.0,
    }
}
