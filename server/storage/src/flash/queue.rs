//! Queue from one device to the threads of the SSDs, which run the jobs of its core.
//!
//! Each job is completed exactly once, even if a thread panics. No call blocks under the engine's
//! lock.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use headlong_device::flash::{FlashResult, RecoveredFlashBlock, SsdJob, probe};
use headlong_flash::SsdId;
use headlong_kernel::time_scale::TimeScale;
use headlong_units::Duration;

use super::random::random;
use super::ssd::{Ssd, SsdMedium};
use super::stopwatch::Stopwatch;
use super::tier::TierPart;
use crate::DiskResources;

/// A flash operation has completed.
pub(crate) struct FlashDone {
    pub(crate) end: FlashResult,
    /// Dropped after `end` was handled, which requests the next part of recovery.
    pub(crate) taken: Option<Sender<()>>,
}

/// Reports to the engine, from any thread, without blocking.
pub(crate) type ReportCompletion = Arc<dyn Fn(FlashDone) + Send + Sync>;

/// An attached share of the tier, and where to report.
pub(crate) struct FlashSource {
    pub(crate) part: TierPart,
    pub(crate) say: ReportCompletion,
}

/// Completion guard: reports failure when dropped without a result.
struct FlashCompletionGuard {
    failure: Option<FlashResult>,
    say: ReportCompletion,
}

impl FlashCompletionGuard {
    fn end(mut self, end: Option<FlashResult>) {
        self.failure = end;
    }
}

impl Drop for FlashCompletionGuard {
    fn drop(&mut self) {
        if let Some(end) = self.failure.take() {
            (self.say)(FlashDone { end, taken: None });
        }
    }
}

/// Queue from one device to the SSDs.
pub(crate) struct SsdQueue {
    source: FlashSource,
    time_scale: TimeScale,
}

impl SsdQueue {
    /// Starts recovery on a new thread, which reports [`FlashResult::Attach`], then any number of
    /// [`FlashResult::Found`], then [`FlashResult::RecoveryEnded`].
    pub(crate) fn start(source: FlashSource, time_scale: TimeScale) -> Self {
        let (part, say) = (source.part.clone(), Arc::clone(&source.say));
        let thread = std::thread::Builder::new().name("flash-recover".to_owned());
        if let Err(error) = thread.spawn(move || recover(&part, &*say)) {
            tracing::error!(%error, "cannot start the recovery thread: flash tier is not used");
        }
        Self { source, time_scale }
    }

    /// Paths of the SSDs, ordered by SSD number.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.source.part.paths()
    }

    /// Passes a job to the thread responsible for it.
    pub(crate) fn submit(&self, ssd: SsdId, job: SsdJob<DiskResources>) {
        let ticket = FlashCompletionGuard {
            failure: job.failure(),
            say: Arc::clone(&self.source.say),
        };
        let Some(ssd) = self.source.part.ssd(ssd) else {
            return;
        };
        let of = Arc::clone(ssd);
        let scale = self.time_scale;
        match job {
            SsdJob::Write(job) => ssd
                .writer
                .run(move || ticket.end(Some(job.run(&mut SsdMedium::new(&of))))),
            SsdJob::Block(job) => ssd.writer.run(move || {
                ticket.end(of.with_checkpoints(|checkpoints, medium| job.run(checkpoints, medium)));
            }),
            SsdJob::Read(mut job) => ssd.readers.run(move || {
                let mut medium = SsdMedium::new(&of);
                let outcomes = job.run(&mut medium);
                let id = job.id;
                // Release the memory before reporting.
                drop(job);
                let took = Some(scale.model(medium.took));
                ticket.end(Some(FlashResult::Read { id, outcomes, took }));
            }),
            SsdJob::Probe(id) => ssd.prober.run(move || {
                ticket.end(Some(probed(&of, id, |took| scale.model(took))));
            }),
        }
    }
}

fn probed(ssd: &Ssd, id: SsdId, model: impl Fn(std::time::Duration) -> Duration) -> FlashResult {
    let stopwatch = Stopwatch::start();
    let (mut probed, is_other) = probe(&mut SsdMedium::new(ssd), random());
    probed.took = Some(model(stopwatch.elapsed()));
    ssd.note_other(is_other);
    FlashResult::Probed { ssd: id, probed }
}

/// Runs recovery and reports its parts, each after the previous one was handled.
fn recover(part: &TierPart, say: &(dyn Fn(FlashDone) + Send + Sync)) {
    let Some(spec) = part.share().spec() else {
        return;
    };
    let tell = |end| say(FlashDone { end, taken: None });
    tell(FlashResult::Attach(spec, Vec::new()));
    let (written_bytes, fresh) = part.recover(|found: Vec<RecoveredFlashBlock>| {
        let (taken, is_taken) = channel();
        say(FlashDone {
            end: FlashResult::Found(found),
            taken: Some(taken),
        });
        // Fails when the sender is dropped, which signals that the part was handled.
        let _ = is_taken.recv();
        true
    });
    tell(FlashResult::RecoveryEnded {
        written_bytes,
        fresh,
    });
}
