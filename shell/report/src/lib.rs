//! Charts and pages.
