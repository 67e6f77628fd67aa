//! Input: a workload specification in TOML.

use headlong_workload::Specification;

/// Errors have no control characters; a valid specification has titles, classes and shares that sum
/// to 1.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    match Specification::read("input.toml", text, &[]) {
        Ok(specification) => {
            let has_titles = !specification.groups.is_empty() || specification.phases.is_some();
            assert!(has_titles && !specification.classes.is_empty());
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
