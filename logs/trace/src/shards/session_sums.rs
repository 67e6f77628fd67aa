//! Sums over the sessions of all partitions, on all cores.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use headlong_chains::{ChainRules, Request};
use headlong_characterise::{Accumulators, LogContext, Merge as _, SessionSplitter};

use crate::{Partitions, PartitionsError};

/// State of a thread, reused between partitions.
struct PartitionWorker {
    splitter: SessionSplitter,
    sums: Accumulators,
}

/// Sums the sessions of these partitions. `also` gets each partition after its sums, by number, and
/// may wait for earlier ones until `give_up` is called; `done` gets the number of requests processed
/// so far.
pub(crate) fn sum_sessions<E>(
    parts: &Partitions,
    log: &LogContext,
    (rules, threads): (ChainRules, usize),
    (also, give_up): (
        impl Fn(usize, &mut SessionSplitter, &mut [Request]) -> Result<(), E> + Sync,
        impl Fn() + Sync,
    ),
    done: impl Fn(u64) + Sync,
) -> Result<Accumulators, E>
where
    E: From<PartitionsError> + Send,
{
    let workers: Mutex<Vec<PartitionWorker>> = Mutex::new(Vec::new());
    let so_far = AtomicU64::new(0);
    let sum = |number, requests: &mut Vec<Request>| {
        let free = workers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut worker = free.unwrap_or_else(|| PartitionWorker {
            splitter: SessionSplitter::new(rules),
            sums: Accumulators::new(log),
        });
        let PartitionWorker { splitter, sums } = &mut worker;
        splitter.split(log, requests, |view| sums.add(log, view));
        let outcome = also(number, splitter, requests);
        workers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(worker);
        let count = requests.len() as u64;
        done(so_far.fetch_add(count, Relaxed) + count);
        outcome
    };
    let outcomes = parts.each_awaited(threads, sum, give_up)?;
    outcomes.into_iter().collect::<Result<(), E>>()?;
    let workers = workers.into_inner().unwrap_or_else(PoisonError::into_inner);
    // The first takes in the others: a further accumulator would be as large as any of them.
    let mut workers = workers.into_iter().map(|worker| worker.sums);
    let mut all = workers.next().unwrap_or_else(|| Accumulators::new(log));
    workers.for_each(|sums| all.merge(sums));
    Ok(all)
}
