//! Counters and status of the reception, as JSON.

use std::io::{self, IoSliceMut};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use headlong_protocol::{Answer, BUCKETS, Message, MessageKind, bucket, bucket_end_us};
use headlong_walk::SweepResult;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, connect, recvmsg, send, socket_with, sockopt,
};
use serde_json::{Value, json};

/// Longest status; it is sent as one message.
pub(crate) const STATUS_BYTES_MAX: usize = 128 << 10;
/// How long a status request waits.
const WAIT: Duration = Duration::from_secs(10);

/// Monotonic counters of the reception.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    looked_at: AtomicU64,
    resident: AtomicU64,
    given_up: AtomicU64,
    asked: AtomicU64,
    noted: AtomicU64,
    unreadable: AtomicU64,
    small_waits: AtomicU64,
    sweeps: AtomicU64,
    swept_files: AtomicU64,
    swept_bytes: AtomicU64,
    ready: AtomicU64,
    gone_on: AtomicU64,
    left_alone: AtomicU64,
    latencies: [AtomicU64; BUCKETS],
    waits: [AtomicU64; BUCKETS],
}

impl Counters {
    /// Counts a message and adds the counters in it.
    pub(crate) fn count(&self, message: &Message) {
        self.looked_at.fetch_add(message.looked_at.into(), Relaxed);
        self.resident.fetch_add(message.resident.into(), Relaxed);
        self.given_up.fetch_add(message.given_up.into(), Relaxed);
        for (own, count) in self.latencies.iter().zip(message.latencies) {
            own.fetch_add(count.into(), Relaxed);
        }
        match message.kind {
            MessageKind::Ask => self.asked.fetch_add(1, Relaxed),
            MessageKind::Note => self.noted.fetch_add(1, Relaxed),
            MessageKind::Waited => self.small_waits.fetch_add(1, Relaxed),
            MessageKind::Count | MessageKind::Status => 0,
        };
    }

    /// Counts an invalid message.
    pub(crate) fn misheard(&self) {
        self.unreadable.fetch_add(1, Relaxed);
    }

    /// Counts small files read ahead of a program.
    pub(crate) fn swept(&self, swept: SweepResult) {
        self.sweeps.fetch_add(u64::from(swept.files > 0), Relaxed);
        self.swept_files.fetch_add(swept.files.into(), Relaxed);
        self.swept_bytes.fetch_add(swept.bytes, Relaxed);
    }

    /// Counts an answered call and its wait.
    pub(crate) fn answered(&self, answer: Answer, waited_ns: u64) {
        let counter = match answer {
            Answer::Ready => &self.ready,
            Answer::GoOn => &self.gone_on,
            Answer::LeaveAlone => &self.left_alone,
        };
        counter.fetch_add(1, Relaxed);
        if let Some(count) = self.waits.get(bucket(waited_ns)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// All counters.
    pub(crate) fn show(&self) -> Value {
        let number = |counter: &AtomicU64| counter.load(Relaxed);
        json!({
            "looked_at": number(&self.looked_at),
            "resident": number(&self.resident),
            "asked": number(&self.asked),
            "noted": number(&self.noted),
            "ready": number(&self.ready),
            "gone_on": number(&self.gone_on),
            "left_alone": number(&self.left_alone),
            "given_up": number(&self.given_up),
            "unreadable": number(&self.unreadable),
            "small_waits": number(&self.small_waits),
            "sweeps": number(&self.sweeps),
            "swept_files": number(&self.swept_files),
            "swept_bytes": number(&self.swept_bytes),
            "latencies": histogram(&self.latencies),
            "waits": histogram(&self.waits),
        })
    }
}

/// Non-empty buckets, each with its end in microseconds; the last bucket has none.
fn histogram(counts: &[AtomicU64; BUCKETS]) -> Value {
    let buckets = counts.iter().enumerate();
    let filled = buckets.filter_map(|(index, count)| {
        let count = count.load(Relaxed);
        (count > 0).then(|| json!({ "below_us": bucket_end_us(index), "count": count }))
    });
    filled.collect()
}

/// Why there is no status.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// No process listens.
    #[error("no reception listens on {path}: {error}; start one with `headlong reception`")]
    Absent {
        /// The socket.
        path: String,
        /// The error of the kernel.
        error: io::Error,
    },
    /// It does not answer.
    #[error("the reception on {path} does not answer: {error}")]
    Silent {
        /// The socket.
        path: String,
        /// The error of the kernel.
        error: io::Error,
    },
}

/// Requests the status of the reception on a socket, as JSON.
///
/// # Errors
/// If no reception listens there, or it does not answer.
pub fn status(path: &Path) -> Result<String, StatusError> {
    let name = || path.display().to_string();
    let absent = |error: rustix::io::Errno| StatusError::Absent {
        path: name(),
        error: error.into(),
    };
    let silent = |error: rustix::io::Errno| StatusError::Silent {
        path: name(),
        error: error.into(),
    };
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let socket = socket.map_err(absent)?;
    let address = SocketAddrUnix::new(path).map_err(absent)?;
    connect(&socket, &address).map_err(absent)?;
    let message = Message::new(MessageKind::Status, Default::default(), 0, 0);
    send(&socket, &message.encode(), SendFlags::NOSIGNAL).map_err(silent)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(WAIT)).map_err(silent)?;
    let mut bytes = vec![0; STATUS_BYTES_MAX];
    let mut vector = [IoSliceMut::new(&mut bytes)];
    let mut control = RecvAncillaryBuffer::default();
    let received = recvmsg(&socket, &mut vector, &mut control, RecvFlags::empty());
    let received = received.map_err(silent)?.bytes;
    bytes.truncate(received);
    String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.is_empty())
        .ok_or_else(|| silent(rustix::io::Errno::CONNRESET))
}
