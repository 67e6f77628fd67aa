//! Independent jobs on some threads: the answers are in the order of the jobs, whatever the threads.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Does jobs on some threads. Answers come in the order of the jobs; `tell` hears of each as soon as
/// it is there, on the calling thread, with its place among the jobs.
pub fn in_parallel<J: Sync, R: Send>(
    jobs: &[J],
    threads: NonZeroUsize,
    work: impl Fn(&J) -> R + Sync,
    mut tell: impl FnMut(usize, &R),
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
            tell(index, &answer);
            answers[index] = Some(answer);
        }
    });
    // A thread that panicked has made the scope panic.
    answers.into_iter().flatten().collect()
}
