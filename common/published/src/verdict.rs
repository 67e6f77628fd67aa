//! Whether a published figure comes out.

use core::fmt;

use serde::{Serialize, Serializer};

/// The verdict on a measured figure; its words are the same in all tables and documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Within the tolerance.
    Yes,
    /// Outside the tolerance.
    No,
    /// Shown without a verdict: the paper gives no number, or no tolerance is stated.
    Shown,
    /// The model was fitted to the published figure, so that agreement says nothing.
    Fitted,
    /// There is no measured figure.
    NotMeasured,
}

impl Verdict {
    /// The word in tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Shown => "shown",
            Self::Fitted => "fitted",
            Self::NotMeasured => "not run",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}
