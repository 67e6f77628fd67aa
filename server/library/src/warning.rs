//! What is odd about a file, without keeping it from being served.

/// Something about a file that its owner may want to mend.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Warning {
    /// The file or directory, from the root of its tree; empty for the whole library.
    pub path: String,
    /// What is wrong, and what is done about it.
    pub reason: String,
}

impl Warning {
    pub(crate) fn new(path: &str, reason: impl Into<String>) -> Self {
        Self {
            path: path.to_string(),
            reason: reason.into(),
        }
    }

    /// Says it in the log.
    pub(crate) fn log(&self) {
        tracing::warn!(path = %self.path, "in the library: {}", self.reason);
    }
}
