//! A trace: sessions in order of their arrival.

use alloc::string::String;
use alloc::vec::Vec;

use headlong_player::Plan;
use headlong_units::{BitRate, Duration};

/// How viewers of one class are connected (thesis Table 3.1).
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkClass {
    /// Its name in results: `high`, `bband`, `medium`.
    pub name: String,
    /// Most that such a viewer receives; no limit if `None`.
    pub bandwidth: Option<BitRate>,
    /// One way; a request is answered no sooner than twice this (thesis 3.2.3: 50 ms).
    pub delay: Duration,
    /// Share of sessions in this class; shares add up to 1.
    pub share: f64,
}

/// One viewer's visit.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// From the start of the trace.
    pub arrival: Duration,
    /// Index into [`Trace::classes`].
    pub class: u32,
    /// What it does.
    pub plan: Plan,
}

/// Everything that a load generator needs to know.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// Paths, without a leading slash, that calls name by their place here.
    pub objects: Vec<String>,
    /// Never empty in a trace that was generated or parsed.
    pub classes: Vec<NetworkClass>,
    /// By arrival.
    pub sessions: Vec<Session>,
}
