//! Input: a trace of viewers, in JSON lines or a dialect of wsesslog.

use headlong_player::SessionPlan;
use headlong_workload::Trace;

/// References are valid, and a trace written as JSON lines parses to the same trace.
pub fn run(data: &[u8]) {
    let Ok(trace) = Trace::read(data) else {
        return;
    };
    assert!(!trace.sessions.is_empty() && !trace.classes.is_empty());
    for session in &trace.sessions {
        assert!((session.class as usize) < trace.classes.len());
        for (object, range) in session.asked() {
            assert!((object.0 as usize) < trace.objects.len());
            assert!(range.is_none_or(|range| range.start < range.end));
        }
        if let SessionPlan::Adaptive(plan) = &session.plan {
            assert_eq!(plan.check(), []);
            for rendition in 0..plan.title.renditions.len() {
                let place = plan.title.place(rendition, 0).expect("checked");
                assert!((place.object.0 as usize) < trace.objects.len());
            }
        }
    }
    let text = trace.to_text();
    let again = Trace::read(text.as_bytes()).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    assert_eq!(again, trace);
}
