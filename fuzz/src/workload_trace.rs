//! A trace of viewers, in any dialect.

use headlong_player::Plan;
use headlong_workload::{Dialect, Trace};

/// What is read is written and read again as itself, but for thinking before a session's first call
/// and names that had to be escaped.
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
        if let Plan::Adaptive(plan) = &session.plan {
            assert_eq!(plan.check(), []);
            for rendition in 0..plan.title.renditions.len() {
                let place = plan.title.place(rendition, 0).expect("it was checked");
                assert!((place.object.0 as usize) < trace.objects.len());
            }
        }
    }
    let text = trace
        .to_text(Dialect::Headlong)
        .expect("ours says everything");
    let again = Trace::read(text.as_bytes()).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let again = again
        .to_text(Dialect::Headlong)
        .expect("ours says everything");
    assert_eq!(text, again);
}
