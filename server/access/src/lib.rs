//! Checks of access that need keys or another server: JSON Web Tokens ([`tokens`]) and subrequests
//! to an authentication server ([`auth_subrequest`]).
//!
//! Signed links and path tokens are pure and in `headlong-http`; the service in `headlong-serve`
//! decides which checks a path requires.

pub mod auth_subrequest;
pub mod tokens;
