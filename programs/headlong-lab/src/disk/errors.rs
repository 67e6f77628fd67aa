//! Errors of the verbs of `disk`.

use headlong_survey::SurveyError;

use crate::mistake::Mistakes;

/// A usage error, which has its own exit code.
pub(super) fn mistake(text: impl ToString) -> anyhow::Error {
    Mistakes(vec![text.to_string()]).into()
}

/// The same error, with usage errors marked.
pub(super) fn mark_mistakes(error: SurveyError) -> anyhow::Error {
    match error.into_mistakes() {
        Ok(mistakes) => Mistakes(mistakes).into(),
        Err(error) => error.into(),
    }
}
