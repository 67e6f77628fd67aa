//! The thread of one device: starts reads, sleeps until an event, and passes completions and
//! messages to the engine.
//!
//! It makes no decisions. It blocks only in its one sleep and, briefly, on the engine's lock.
//!
//! However it ends (stop, error or panic), the link is closed first: replies and requests end at
//! once, and only then reads in flight are awaited.

use std::io;
use std::sync::Arc;

use super::io::DiskIo;
use super::link::Link;

/// Closes the link when the thread ends or never starts.
struct LinkCloser(Arc<Link>);

impl Drop for LinkCloser {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Everything the thread owns, in drop order.
pub(crate) struct DeviceThread {
    link: LinkCloser,
    pub(crate) io: Box<dyn DiskIo>,
}

impl DeviceThread {
    /// Creates a thread for the link's engine, reading through `io`.
    pub(crate) fn new(link: Arc<Link>, io: Box<dyn DiskIo>) -> Self {
        Self {
            link: LinkCloser(link),
            io,
        }
    }

    /// The link to its engine.
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link.0
    }

    /// Runs until the device is stopped.
    ///
    /// # Errors
    /// If the device cannot be read any more.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let link = Arc::clone(&self.link.0);
        let mut submits = Vec::new();
        let mut completions = Vec::new();
        let mut messages = Vec::new();
        loop {
            let timeout = link.before_sleep(&mut submits)?;
            for read in submits.drain(..) {
                self.io.submit(read);
            }
            self.io.wait(timeout, &mut completions)?;
            if link.is_stopping() {
                return Ok(());
            }
            link.take_messages(&mut messages);
            link.turn(|engine| {
                let now = engine.now();
                for completion in completions.drain(..) {
                    engine.complete(now, completion);
                }
                for message in messages.drain(..) {
                    engine.handle(now, message);
                }
                engine.tick(now);
            })?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use headlong_engine::{
        EngineConfig, Failure, Hints, ReaderIdentity, Request, RequestId, Shard, StreamId, ViewerId,
    };
    use headlong_kernel::raw::Pool;
    use headlong_kernel::time_scale::TimeScale;
    use tokio::sync::oneshot;

    use super::*;
    use crate::StreamSource;
    use crate::completion::Completion;
    use crate::disk_read::DiskRead;
    use crate::engine::{DeviceProperties, EngineParts};
    use crate::io::IoMode;
    use crate::mailbox::{Mailbox, Waker};
    use crate::message::{DeviceMessage, DeviceRequest};
    use crate::opener::Opener;
    use crate::rig::{FileSource, ScratchDir};

    /// An I/O interface whose reads panic in the middle of a turn.
    struct PanickingIo(Arc<Mailbox<Completion>>);

    impl DiskIo for PanickingIo {
        fn submit(&mut self, _read: DiskRead) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }

        fn wait(&mut self, _: Option<Duration>, ended: &mut Vec<Completion>) -> io::Result<()> {
            std::thread::yield_now();
            self.0.take(ended);
            Ok(())
        }

        fn mode(&self) -> IoMode {
            IoMode::Pread
        }
    }

    #[test]
    fn panicking_device_thread_fails_all_waiting_requests() {
        let scratch = ScratchDir::new();
        let source: Arc<dyn StreamSource> = Arc::new(FileSource::new(1, [scratch.file("a", b"a")]));
        let config = EngineConfig::default();
        let waker = Waker::new().expect("eventfd");
        let mailbox = Mailbox::new(Arc::clone(&waker));
        let completions = Mailbox::new(waker);
        let parts = EngineParts {
            identity: DeviceProperties {
                name: "test".to_owned(),
                roots: Vec::new(),
                rotational: true,
                capacity_bytes: 0,
            },
            config,
            time_scale: TimeScale::ONE,
            shard: Shard::new(config).expect("sound"),
            pool: Pool::new(8, 4096).expect("maps"),
            opener: Opener::new("test").expect("starts"),
            open_files_max: 8,
            io_mode: IoMode::Pread,
            completions: Arc::clone(&completions),
            flags: Arc::default(),
            flash: None,
            learned: None,
        };
        let link = Link::new(parts, mailbox, None);
        let thread = DeviceThread::new(Arc::clone(&link), Box::new(PanickingIo(completions)));
        let thread = std::thread::spawn(|| thread.run());
        let (answer, answered) = oneshot::channel();
        link.post(DeviceMessage::Request(Box::new(DeviceRequest {
            id: RequestId(1),
            request: Request {
                viewer: ReaderIdentity::Named(ViewerId(1)),
                stream: StreamId(1),
                part: 0,
                offset: 0,
                length: 1,
                open_ended: false,
                overlap_bytes: 0,
                holder: None,
                hints: Hints::default(),
            },
            register: Some((source.spec(), source)),
            answer,
        })));
        let mut reply = answered
            .blocking_recv()
            .expect("answered")
            .expect("accepted");
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(thread.join().is_err(), "the thread panicked");
        let next = reply.poll_next(&mut context);
        assert!(matches!(
            next,
            std::task::Poll::Ready(Some(Err(Failure::Offline)))
        ));
        let (answer, answered) = oneshot::channel();
        link.post(DeviceMessage::Snapshot(answer));
        assert!(
            answered.blocking_recv().is_err(),
            "the message is dropped, not kept"
        );
    }
}
