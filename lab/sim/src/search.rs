//! The highest rate that a server can serve without a failure, found by bracketing.
//!
//! The one idea (thesis 4.4.3): a rate passes if no call of any seed fails in steady state. From
//! the first guess the rate is raised by an eighth until it fails, or lowered until it passes (from a
//! guess that is near, by steps that double), and then halved in between down to the resolution. A world whose rate fails is left at its first
//! failure, so a search costs little more than the worlds that pass.
//!
//! Invariant: which rates are tried, and in which order records come, depends on the records
//! alone, not on how many threads there are to make them.

use std::num::NonZeroUsize;

use crate::record::Record;

/// How to search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    /// The first guess, MiB/s.
    pub guess_mib_s: f64,
    /// Whether it is likely to be right within some per cent: the first step is then the resolution,
    /// and each twice the one before, up to an eighth.
    pub is_near: bool,
    /// The answer is known to this, MiB/s.
    pub resolution_mib_s: f64,
    /// The first seed.
    pub seed: u64,
    /// How many, from the first on; all must pass.
    pub seeds: u64,
    /// How many worlds are run at once.
    pub threads: NonZeroUsize,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Found {
    /// The highest rate that passed, MiB/s; `None` if none did.
    pub passed_mib_s: Option<f64>,
    /// The lowest rate that failed, MiB/s; `None` if none did.
    pub failed_mib_s: Option<f64>,
    /// Figures of the highest rate that passed, one record for each seed.
    pub records: Vec<Record>,
    /// Worlds that were run.
    pub worlds: usize,
}

impl Found {
    /// The result in one line for a person; means over the seeds, and the largest of waits.
    pub fn line(&self) -> String {
        let rate = |rate: Option<f64>| rate.map_or("none".to_owned(), |rate| format!("{rate:.1}"));
        let mean = |figure: fn(&Record) -> f64| {
            let sum: f64 = self.records.iter().map(figure).sum();
            sum / (self.records.len().max(1)) as f64
        };
        let wait_max = self.records.iter().map(|record| record.wait_ms.max);
        format!(
            "max {} MiB/s (fails at {}; {} worlds): served {:.1}, disk {:.1} MiB/s, busy {:.0}%, {:.0} reads/s \
             of {:.0} KiB in {:.1} ms (seek {:.1}, turn {:.1}), hit {:.1}%, waste {:.1}%, \
             evicted {:.1}%, late {:.1}%, queue {:.0}, wait p99 {:.0} max {:.0} ms",
            rate(self.passed_mib_s),
            rate(self.failed_mib_s),
            self.worlds,
            mean(|r| r.served_mib_s),
            mean(|r| r.disk_mib_s),
            mean(|r| r.busy * 100.0),
            mean(|r| r.reads as f64 / r.seconds),
            mean(|r| r.read_kib),
            mean(|r| r.read_ms),
            mean(|r| r.seek_ms),
            mean(|r| r.rotation_ms),
            mean(|r| r.hit_ratio * 100.0),
            mean(|r| r.waste_ratio * 100.0),
            mean(|r| r.evicted_ratio * 100.0),
            mean(|r| r.jobs_late_ratio * 100.0),
            mean(|r| r.queue_mean),
            mean(|r| r.wait_ms.p99),
            wait_max.fold(0.0, f64::max),
        )
    }
}

/// Probes beyond which a search gives up; each halves or moves the bracket by an eighth.
const PROBES_MAX: usize = 64;

impl Search {
    /// Searches. `run` makes the record of one world, for a rate and a seed; `tell` is given every
    /// record, in order.
    ///
    /// # Errors
    /// The first that `run` returned.
    pub fn run<E: Send>(
        &self,
        run: impl Fn(f64, u64) -> Result<Record, E> + Sync,
        mut tell: impl FnMut(&Record),
    ) -> Result<Found, E> {
        let mut found = Found {
            passed_mib_s: None,
            failed_mib_s: None,
            records: Vec::new(),
            worlds: 0,
        };
        let mut rate = self.guess_mib_s;
        for probe in 0..PROBES_MAX {
            let records = self.probe(rate, &run)?;
            found.worlds += records.len();
            records.iter().for_each(&mut tell);
            if records.iter().all(|record| record.failures == 0) {
                found.passed_mib_s = Some(rate);
                found.records = records;
            } else {
                found.failed_mib_s = Some(rate);
            }
            match self.next(found.passed_mib_s, found.failed_mib_s, probe) {
                Some(next) => rate = next,
                None => break,
            }
        }
        // How the probes went is for those who run one.
        for record in &mut found.records {
            record.series.clear();
        }
        Ok(found)
    }

    /// The next rate to try after so many probes and one; none if the bracket is narrow enough.
    fn next(&self, passed: Option<f64>, failed: Option<f64>, probe: usize) -> Option<f64> {
        let step = self.resolution_mib_s;
        let stride = |eighth: f64| match self.is_near {
            true => eighth.min(step * (1_u64 << probe.min(32)) as f64),
            false => eighth,
        };
        let rounded = |rate: f64| (rate / step).round() * step;
        match (passed, failed) {
            (Some(passed), Some(failed)) => {
                let middle = rounded((passed + failed) / 2.0);
                let is_new = middle > passed + step / 4.0 && middle < failed - step / 4.0;
                is_new.then_some(middle)
            }
            (Some(passed), None) => {
                let next = rounded(passed + stride(passed * 0.125));
                Some(next.max(passed + step))
            }
            (None, Some(failed)) => {
                let next = rounded(failed - stride(failed - failed / 1.125)).min(failed - step);
                (next > 0.0).then_some(next)
            }
            (None, None) => Some(self.guess_mib_s),
        }
    }

    /// Every seed at one rate, up to the first that fails.
    fn probe<E: Send>(
        &self,
        rate: f64,
        run: &(impl Fn(f64, u64) -> Result<Record, E> + Sync),
    ) -> Result<Vec<Record>, E> {
        let seeds: Vec<u64> = (self.seed..self.seed + self.seeds).collect();
        let mut records = Vec::new();
        for batch in seeds.chunks(self.threads.get()) {
            let results: Vec<Result<Record, E>> = std::thread::scope(|scope| {
                let worlds: Vec<_> = batch
                    .iter()
                    .map(|&seed| scope.spawn(move || run(rate, seed)))
                    .collect();
                let joined = worlds.into_iter().map(|world| {
                    // A panic in a world is a mistake of ours, and ends the search as well.
                    world
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                });
                joined.collect()
            });
            for result in results {
                let record = result?;
                let has_failed = record.failures > 0;
                records.push(record);
                if has_failed {
                    return Ok(records);
                }
            }
        }
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Measure, Window};

    fn search(guess: f64, threads: usize) -> Search {
        Search {
            guess_mib_s: guess,
            is_near: false,
            resolution_mib_s: 1.0,
            seed: 1,
            seeds: 3,
            threads: NonZeroUsize::new(threads).expect("some"),
        }
    }

    /// A server that serves 50 MiB/s, a little less with every seed.
    fn limited(rate: f64, seed: u64) -> Result<Record, ()> {
        let mut record = Record::new(rate, seed, &Measure::new(Window::default(), &[]));
        record.failures = u64::from(rate > 50.6 - seed as f64 / 10.0);
        Ok(record)
    }

    #[test]
    fn the_edge_is_found_from_above_and_from_below() {
        for guess in [5.0, 49.0, 50.0, 51.0, 200.0] {
            let found = search(guess, 2).run(limited, |_| {}).expect("runs");
            assert_eq!(found.passed_mib_s, Some(50.0), "from {guess}");
            assert_eq!(found.failed_mib_s, Some(51.0), "from {guess}");
            assert_eq!(found.records.len(), 3);
        }
    }

    #[test]
    fn a_guess_that_is_near_saves_probes_and_one_that_is_not_costs_few() {
        let worlds = |guess, is_near| {
            let search = Search {
                is_near,
                seeds: 1,
                ..search(guess, 1)
            };
            let found = search.run(limited, |_| {}).expect("runs");
            assert_eq!(found.passed_mib_s, Some(50.0), "from {guess}");
            found.worlds
        };
        assert_eq!(worlds(50.0, true), 2);
        assert!(worlds(50.0, false) > 2);
        assert!(worlds(48.0, true) <= worlds(48.0, false));
        assert!(worlds(100.0, true) <= worlds(100.0, false) + 3);
    }

    #[test]
    fn the_order_of_records_does_not_depend_on_the_threads() {
        let told = |threads| {
            let mut told = Vec::new();
            let tell = |record: &Record| told.push((record.rate_mib_s as u64, record.seed));
            search(30.0, threads).run(limited, tell).expect("runs");
            told
        };
        assert_eq!(told(1), told(2));
        assert_eq!(told(1), told(5));
    }

    #[test]
    fn a_server_that_always_fails_has_no_rate() {
        let fails = |rate, seed| {
            let mut record = limited(rate, seed)?;
            record.failures = 1;
            Ok::<_, ()>(record)
        };
        let found = search(8.0, 1).run(fails, |_| {}).expect("runs");
        assert_eq!(found.passed_mib_s, None);
    }
}
