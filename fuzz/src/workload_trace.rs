//! Input: a trace of viewers, in any dialect.

use headlong_player::SessionPlan;
use headlong_workload::{Dialect, Trace};

/// References are valid, and a trace written in our dialect parses to the same text. The first text
/// may differ from the input: pauses before the first call of a session, and escaped names.
pub fn run(data: &[u8]) {
    let Ok(trace) = Trace::read(data) else {
        return;
    };
    assert!(!trace.sessions.is_empty() && !trace.classes.is_empty());
    for session in &trace.sessions {
        assert!((session.class as usize) < trace.classes.len());
        for call in session.calls() {
            assert!((call.object.0 as usize) < trace.objects.len());
            assert!(call.range.is_none_or(|range| range.start < range.end));
        }
        if let SessionPlan::Adaptive(plan) = &session.plan {
            assert_eq!(plan.check(), []);
            for rendition in 0..plan.title.renditions.len() {
                let place = plan.title.place(rendition, 0).expect("checked");
                assert!((place.object.0 as usize) < trace.objects.len());
            }
        }
    }
    let text = trace
        .to_text(Dialect::Headlong)
        .expect("our dialect is complete");
    let again = Trace::read(text.as_bytes()).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let again = again
        .to_text(Dialect::Headlong)
        .expect("our dialect is complete");
    assert_eq!(text, again);
}
