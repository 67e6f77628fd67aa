//! For each bucket of a histogram a request of lately that fell into it, so that one finds its line in
//! the logs.
//!
//! OpenMetrics calls that an exemplar. A request pays one look at an atomic for it: a bucket takes no
//! more than one in a second, and none while somebody else is at it. The library's own kind locks its
//! whole histogram for every request.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::log::RequestId;

/// One of the requests that a bucket counts.
#[derive(Debug, Clone)]
struct Exemplar {
    id: RequestId,
    seconds: f64,
    unix_ms: u64,
}

#[derive(Debug, Default)]
struct Bucket {
    /// In which second since 1970 it took the last one.
    second: AtomicU64,
    last: Mutex<Option<Exemplar>>,
}

/// The exemplars of one histogram.
#[derive(Debug)]
pub(super) struct Exemplars {
    /// The family's name, without the program's.
    name: &'static str,
    bounds: &'static [f64],
    buckets: Box<[Bucket]>,
}

impl Exemplars {
    /// None yet, for buckets up to and with each of these bounds, and one above.
    pub(super) fn new(name: &'static str, bounds: &'static [f64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| Bucket::default());
        Self {
            name,
            bounds,
            buckets: buckets.collect(),
        }
    }

    /// A request took so long and ended at that time.
    pub(super) fn note(&self, id: &RequestId, seconds: f64, unix_ms: u64) {
        let index = self.bounds.partition_point(|bound| *bound < seconds);
        let bucket = &self.buckets[index];
        let second = unix_ms / 1000;
        if bucket.second.load(Relaxed) == second {
            return;
        }
        let Ok(mut last) = bucket.last.try_lock() else {
            return;
        };
        bucket.second.store(second, Relaxed);
        *last = Some(Exemplar {
            id: id.clone(),
            seconds,
            unix_ms,
        });
    }

    /// Adds them to a text of OpenMetrics, behind the buckets of the histogram.
    fn add_to(&self, text: &str) -> String {
        let bucket = format!("headlong_{}_seconds_bucket{{", self.name);
        let mut buckets = self.buckets.iter();
        let mut all = String::with_capacity(text.len() + 96 * self.buckets.len());
        for line in text.lines() {
            all.push_str(line);
            if line.starts_with(&bucket)
                && let Some(bucket) = buckets.next()
            {
                let last = bucket.last.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(Exemplar {
                    id,
                    seconds,
                    unix_ms,
                }) = &*last
                {
                    let (s, ms) = (unix_ms / 1000, unix_ms % 1000);
                    all.push_str(&format!(" # {{request_id=\"{id}\"}} {seconds} {s}.{ms:03}"));
                }
            }
            all.push('\n');
        }
        all
    }
}

/// A text of OpenMetrics with the exemplars of these histograms.
pub(super) fn add(text: String, all: &[Exemplars]) -> String {
    all.iter().fold(text, |text, of| of.add_to(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_shows_the_last_request_of_a_second_before_and_keeps_to_its_bounds() {
        let of = Exemplars::new("x", &[0.5, 1.0]);
        let id = RequestId::Own;
        // A bound belongs to the bucket below it.
        of.note(&id(1), 0.5, 10_000);
        of.note(&id(2), 0.25, 10_999);
        of.note(&id(3), 7.0, 11_005);
        of.note(&id(4), 8.0, 12_000);
        let text = "# TYPE headlong_x_seconds histogram\nheadlong_x_seconds_count 4\n\
                    headlong_x_seconds_bucket{le=\"0.5\"} 2\n\
                    headlong_x_seconds_bucket{le=\"1.0\"} 2\n\
                    headlong_x_seconds_bucket{le=\"+Inf\"} 4\n# EOF\n";
        let expected = "# TYPE headlong_x_seconds histogram\nheadlong_x_seconds_count 4\n\
            headlong_x_seconds_bucket{le=\"0.5\"} 2 # {request_id=\"0000000000000001\"} 0.5 10.000\n\
            headlong_x_seconds_bucket{le=\"1.0\"} 2\n\
            headlong_x_seconds_bucket{le=\"+Inf\"} 4 # {request_id=\"0000000000000004\"} 8 12.000\n\
            # EOF\n";
        assert_eq!(add(text.to_owned(), &[of]), expected);
    }
}
