//! Exemplars (OpenMetrics): for each bucket of a histogram the id of a recent request in it, so
//! that its line can be found in the logs.
//!
//! This costs a request one atomic read: a bucket accepts at most one exemplar a second, and none
//! while another thread writes it. The library's own exemplars lock the whole histogram for each
//! request.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use headlong_telemetry::RequestId;

/// An exemplar of a bucket.
#[derive(Debug, Clone)]
struct Exemplar {
    id: RequestId,
    seconds: f64,
    unix_ms: u64,
}

#[derive(Debug, Default)]
struct Bucket {
    /// Second since 1970 of the last exemplar.
    second: AtomicU64,
    last: Mutex<Option<Exemplar>>,
}

/// Exemplars of a histogram.
#[derive(Debug)]
pub(super) struct Exemplars {
    /// Name of the family, without the program's prefix.
    name: &'static str,
    bounds: &'static [f64],
    buckets: Box<[Bucket]>,
}

impl Exemplars {
    /// No exemplars yet, for one bucket up to and including each bound, and one above.
    pub(super) fn new(name: &'static str, bounds: &'static [f64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| Bucket::default());
        Self {
            name,
            bounds,
            buckets: buckets.collect(),
        }
    }

    /// A request took `seconds` and ended at `unix_ms`.
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

    /// Adds the exemplars to the histogram's buckets in an OpenMetrics text.
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

/// Adds the exemplars of several histograms.
pub(super) fn add(text: String, all: &[Exemplars]) -> String {
    all.iter().fold(text, |text, of| of.add_to(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_has_at_most_one_exemplar_a_second() {
        let of = Exemplars::new("x", &[0.5, 1.0]);
        let id = RequestId::own;
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
