//! Runs independent jobs on several threads; results are in the order of the jobs.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Runs jobs on several threads. Results are in the order of the jobs; `on_result` is called on the
/// calling thread for each result as soon as it is available, with the index of its job.
pub fn in_parallel<J: Sync, R: Send>(
    jobs: &[J],
    threads: NonZeroUsize,
    work: impl Fn(&J) -> R + Sync,
    mut on_result: impl FnMut(usize, &R),
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let mut answers: Vec<Option<R>> = jobs.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let (next, work) = (&next, &work);
        for _ in 0..threads.get().min(jobs.len()) {
            let sender = sender.clone();
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else {
                        return;
                    };
                    if sender.send((index, work(job))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (index, answer) in receiver {
            on_result(index, &answer);
            answers[index] = Some(answer);
        }
    });
    // The scope panics if a thread has panicked.
    answers.into_iter().flatten().collect()
}
