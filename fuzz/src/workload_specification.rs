//! A specification of a workload in TOML.

use headlong_workload::Specification;

/// What is wrong is told in lines without control characters; what is right has titles, viewers and
/// shares that add up.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    match Specification::read("input.toml", text, &[]) {
        Ok(specification) => {
            assert!(!specification.groups.is_empty() && !specification.classes.is_empty());
            let shares: f64 = specification.classes.iter().map(|class| class.share).sum();
            assert!((shares - 1.0).abs() < 1e-6);
        }
        Err(errors) => {
            assert!(errors.iter().count() > 0);
            for error in errors.iter() {
                assert!(!error.to_string().chars().any(char::is_control));
            }
        }
    }
}
