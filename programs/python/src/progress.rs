//! Reports how far a long call is to a function of Python.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use headlong_trace::IntakeProgress;
use pyo3::prelude::*;

/// Calls in between would only cost time.
const EVERY: Duration = Duration::from_millis(200);

/// A function of Python that is called with what is done (`"reading"` bytes or `"summing"`
/// requests), how much of it, and the total or None; an exception in it is printed, and ends
/// nothing.
pub(crate) struct ProgressFunction {
    function: Py<PyAny>,
    /// The time of the next call.
    next: Mutex<Instant>,
}

impl ProgressFunction {
    pub(crate) fn new(function: Py<PyAny>) -> Self {
        Self {
            function,
            next: Mutex::new(Instant::now()),
        }
    }

    /// Calls the function if it is time, or if all is done. Called without Python's lock.
    pub(crate) fn call(&self, what: &str, done: u64, of: Option<u64>) {
        let is_end = of == Some(done);
        let next = match is_end {
            true => Some(self.next.lock().unwrap_or_else(PoisonError::into_inner)),
            // Another thread calls it just now.
            false => self.next.try_lock().ok(),
        };
        let Some(mut next) = next else {
            return;
        };
        let now = Instant::now();
        if !is_end && now < *next {
            return;
        }
        *next = now + EVERY;
        Python::attach(|py| {
            if let Err(error) = self.function.call1(py, (what, done, of)) {
                error.write_unraisable(py, None);
            }
        });
    }
}

impl IntakeProgress for ProgressFunction {
    fn read(&self, bytes: u64, of: Option<u64>) {
        self.call("reading", bytes, of);
    }

    fn note(&self, _: &str) {}
}
