//! Mistakes of the operator's: they end the program with the code for that.

/// What is wrong with the command line, or with a file it names; each is one line.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub(crate) struct Mistakes(pub(crate) Vec<String>);
