//! The operator's listener: metrics, status and the pages.
