//! The errors that verbs of `disk` end in.

use headlong_survey::SurveyError;

use crate::mistake::Mistakes;

/// A mistake of the operator's, for the exit code that is for those.
pub(super) fn mistake(text: impl ToString) -> anyhow::Error {
    Mistakes(vec![text.to_string()]).into()
}

/// The same error, with mistakes of the operator's marked as such.
pub(super) fn told(error: SurveyError) -> anyhow::Error {
    match error.into_mistakes() {
        Ok(mistakes) => Mistakes(mistakes).into(),
        Err(error) => error.into(),
    }
}
