//! One device's way to the threads of the SSDs: the jobs of its core are carried out there.
//!
//! A job is answered once, also where a thread panics. Nothing here is waited for under the engine's
//! lock.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use headlong_device::flash::{FlashEnd, FoundBlock, SsdJob, probe};
use headlong_flash::SsdId;
use headlong_units::Duration;

use super::random::random;
use super::ssd::{Ssd, SsdMedium};
use super::stopwatch::Stopwatch;
use super::tier::TierPart;
use crate::disk::DiskResources;
use crate::time_scale::TimeScale;

/// Something that was asked of flash has ended.
pub(crate) struct FlashDone {
    pub(crate) end: FlashEnd,
    /// To be dropped when it was handled: then comes what follows.
    pub(crate) taken: Option<Sender<()>>,
}

/// Tells the engine, from whatever thread, without waiting.
pub(crate) type Say = Arc<dyn Fn(FlashDone) + Send + Sync>;

/// A part of the tier that is there, and where to tell of it.
pub(crate) struct FlashSource {
    pub(crate) part: TierPart,
    pub(crate) say: Say,
}

/// The duty to say how something ended; dropped without that, it says that it failed.
struct Ticket {
    failure: Option<FlashEnd>,
    say: Say,
}

impl Ticket {
    fn end(mut self, end: Option<FlashEnd>) {
        self.failure = end;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(end) = self.failure.take() {
            (self.say)(FlashDone { end, taken: None });
        }
    }
}

/// One device's way to the SSDs.
pub(crate) struct SsdQueue {
    source: FlashSource,
    time_scale: TimeScale,
}

impl SsdQueue {
    /// Has a thread of its own look at what is there: [`FlashEnd::Attach`], then
    /// [`FlashEnd::Found`] any number of times, then [`FlashEnd::RecoveryEnded`].
    pub(crate) fn start(source: FlashSource, time_scale: TimeScale) -> Self {
        let (part, say) = (source.part.clone(), Arc::clone(&source.say));
        let thread = std::thread::Builder::new().name("flash-recover".to_owned());
        if let Err(error) = thread.spawn(move || look(&part, &*say)) {
            tracing::error!(%error, "no thread to look at flash: nothing is kept on it");
        }
        Self { source, time_scale }
    }

    /// Where the SSDs are, by their numbers.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.source.part.paths()
    }

    /// Has the thread for it do a job.
    pub(crate) fn submit(&self, ssd: SsdId, job: SsdJob<DiskResources>) {
        let ticket = Ticket {
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
                // The memory is free before that is told.
                drop(job);
                let took = Some(scale.model(medium.took));
                ticket.end(Some(FlashEnd::Read { id, outcomes, took }));
            }),
            SsdJob::Probe(id) => ssd.prober.run(move || {
                ticket.end(Some(probed(&of, id, |took| scale.model(took))));
            }),
        }
    }
}

fn probed(ssd: &Ssd, id: SsdId, model: impl Fn(std::time::Duration) -> Duration) -> FlashEnd {
    let stopwatch = Stopwatch::start();
    let (mut probed, is_other) = probe(&mut SsdMedium::new(ssd), random());
    probed.took = Some(model(stopwatch.elapsed()));
    ssd.note_other(is_other);
    FlashEnd::Probed { ssd: id, probed }
}

/// Says what is there, each part once the one before was taken.
fn look(part: &TierPart, say: &(dyn Fn(FlashDone) + Send + Sync)) {
    let Some(spec) = part.share().spec() else {
        return;
    };
    let tell = |end| say(FlashDone { end, taken: None });
    tell(FlashEnd::Attach(spec, Vec::new()));
    let (written_bytes, fresh) = part.recover(|found: Vec<FoundBlock>| {
        let (taken, is_taken) = channel();
        say(FlashDone {
            end: FlashEnd::Found(found),
            taken: Some(taken),
        });
        // It ends when that is dropped, taken or not.
        let _ = is_taken.recv();
        true
    });
    tell(FlashEnd::RecoveryEnded {
        written_bytes,
        fresh,
    });
}
