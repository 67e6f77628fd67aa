//! Memory transfer: sends the cached pieces to the new process over a socket, while both serve.
//!
//! Viewers have seconds of data buffered, and rereading what was prefetched for them would take a
//! disk longer. The old process therefore sends the pieces in its memory, the most urgent first,
//! and releases each one's memory after sending it.
//!
//! ```text
//! greeting                                a line; another one is another version: nothing is taken
//! D length(2) name                        the following pieces belong to the device of this name
//! P file(16) offset(8) length(4) read(1)  then `length` bytes: a piece of that version of the file
//! ```
//!
//! Numbers are little-endian. Either side may stop at any byte; pieces received before are used.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use headlong_flash::FileKey;
use headlong_units::Bytes;
use tokio::sync::oneshot;

use crate::{Device, IncomingPiece, OutgoingPiece};

const GREETING: &[u8] = b"headlong pieces 2\n";
/// Time limit of the transfer; by then viewers have reread what they need.
const TIME_MAX: Duration = Duration::from_secs(20);
/// Time limit of a stalled socket.
const STALL_MAX: Duration = Duration::from_secs(5);
/// Pieces of one device before the next device has its turn.
const AT_ONCE: usize = 64;
/// Bytes passed to a device at a time; the next batch is received meanwhile.
const HANDED_IN_BYTES: usize = 4 << 20;
/// Upper limit of the length of a piece or name.
const LENGTH_MAX: usize = 2 << 20;

/// Completes when the transfer has ended.
pub(crate) type TransferCompletion = oneshot::Receiver<()>;

/// Sends the cached pieces of devices, on a new thread. Returns once all pieces are removed from
/// the cache, so that no request of this process uses them.
pub async fn send_pieces(devices: &[Device], to: UnixStream) -> TransferCompletion {
    let mut leaving = Vec::new();
    for device in devices {
        leaving.push(SendQueue::of(device).await);
    }
    let (is_over, passing) = oneshot::channel();
    let send = move || {
        let began = Instant::now();
        let mut sent_bytes = 0;
        let sent = send(&to, &mut leaving, &mut sent_bytes);
        drop((to, leaving));
        let seconds = began.elapsed().as_secs_f32();
        let bytes = Bytes(sent_bytes).to_string();
        match sent {
            Ok(()) => tracing::info!(bytes, seconds, "transferred memory to the new process"),
            Err(error) => tracing::warn!(
                bytes, seconds, %error, "memory transfer incomplete; the rest is reread"
            ),
        }
        // The receiver may have been dropped.
        let _ = is_over.send(());
    };
    let started = std::thread::Builder::new()
        .name("pass-on".to_owned())
        .spawn(send);
    if let Err(error) = started {
        tracing::warn!(%error, "cannot transfer memory to the new process; it is read from disk");
    }
    passing
}

/// Pieces of one device to send. Unsent pieces are released on drop.
struct SendQueue {
    device: Device,
    rest: std::vec::IntoIter<OutgoingPiece>,
}

impl SendQueue {
    async fn of(device: &Device) -> Self {
        Self {
            device: device.clone(),
            rest: device.pass_on().await.into_iter(),
        }
    }
}

impl Drop for SendQueue {
    fn drop(&mut self) {
        self.device.passed_on(self.rest.by_ref().collect());
    }
}

fn send(to: &UnixStream, leaving: &mut [SendQueue], sent_bytes: &mut u64) -> io::Result<()> {
    to.set_write_timeout(Some(STALL_MAX))?;
    let until = Instant::now() + TIME_MAX;
    let mut to = to;
    to.write_all(GREETING)?;
    loop {
        let mut is_over = true;
        for queue in leaving.iter_mut() {
            let pieces: Vec<OutgoingPiece> = queue.rest.by_ref().take(AT_ONCE).collect();
            if pieces.is_empty() {
                continue;
            }
            is_over = false;
            let sent = send_some(to, queue.device.name(), &pieces, sent_bytes);
            queue.device.passed_on(pieces);
            sent?;
        }
        if is_over {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

fn send_some(
    mut to: &UnixStream,
    device: &str,
    pieces: &[OutgoingPiece],
    sent_bytes: &mut u64,
) -> io::Result<()> {
    let mut head = vec![b'D'];
    head.extend((device.len() as u16).to_le_bytes());
    head.extend(device.as_bytes());
    for piece in pieces {
        let bytes = piece.view.as_ref();
        head.push(b'P');
        head.extend(piece.file.0.to_le_bytes());
        head.extend(piece.bytes.offset.to_le_bytes());
        head.extend((bytes.len() as u32).to_le_bytes());
        head.push(u8::from(piece.bytes.was_read));
        to.write_all(&head)?;
        to.write_all(bytes)?;
        *sent_bytes += bytes.len() as u64;
        head.clear();
    }
    Ok(())
}

/// Receives the cached pieces of the old process, on a new thread.
pub fn take(devices: &[Device], from: UnixStream) {
    let devices = devices.to_vec();
    let take = move || {
        let began = Instant::now();
        let mut taken_bytes = 0;
        let taken = receive(&from, &devices, &mut taken_bytes);
        let seconds = began.elapsed().as_secs_f32();
        let bytes = Bytes(taken_bytes).to_string();
        match taken {
            Ok(()) => tracing::info!(bytes, seconds, "received memory of the old process"),
            Err(error) => tracing::warn!(
                bytes, seconds, %error, "memory transfer incomplete; the rest is read from disk"
            ),
        }
    };
    let started = std::thread::Builder::new()
        .name("take-over".to_owned())
        .spawn(take);
    if let Err(error) = started {
        tracing::warn!(%error, "cannot receive memory of the old process; it is read from disk");
    }
}

fn receive(from: &UnixStream, devices: &[Device], taken_bytes: &mut u64) -> io::Result<()> {
    from.set_read_timeout(Some(STALL_MAX))?;
    let mut from = BufReader::with_capacity(1 << 20, from);
    let mut greeting = Vec::new();
    from.by_ref().take(64).read_until(b'\n', &mut greeting)?;
    if greeting != GREETING {
        // From a version without the transfer, or with another format.
        return Ok(());
    }
    let mut batch = ReceivedBatch {
        device: None,
        pieces: Vec::new(),
        bytes: 0,
        under_way: None,
        taken_bytes,
    };
    while let Some(kind) = from.by_ref().bytes().next().transpose()? {
        match kind {
            b'D' => {
                let length = u16::from_le_bytes(array(&mut from)?);
                let name = bytes(&mut from, length.into())?;
                let is_it = |device: &&Device| device.name().as_bytes() == name;
                batch.turn_to(devices.iter().find(is_it));
            }
            b'P' => {
                let file = FileKey(u128::from_le_bytes(array(&mut from)?));
                let offset = u64::from_le_bytes(array(&mut from)?);
                let length = u32::from_le_bytes(array(&mut from)?) as usize;
                let [was_read] = array(&mut from)?;
                batch.push(IncomingPiece {
                    file,
                    offset,
                    was_read: was_read != 0,
                    bytes: bytes(&mut from, length)?,
                });
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    Ok(())
}

/// Pieces of one device. While a batch is stored, the next one is received. When dropped, waits
/// until all received pieces are stored.
struct ReceivedBatch<'a> {
    device: Option<&'a Device>,
    pieces: Vec<IncomingPiece>,
    bytes: usize,
    under_way: Option<oneshot::Receiver<u64>>,
    taken_bytes: &'a mut u64,
}

impl<'a> ReceivedBatch<'a> {
    fn push(&mut self, piece: IncomingPiece) {
        self.bytes += piece.bytes.len();
        self.pieces.push(piece);
        if self.bytes >= HANDED_IN_BYTES {
            self.hand_in();
        }
    }

    fn turn_to(&mut self, device: Option<&'a Device>) {
        self.hand_in();
        self.device = device;
    }

    fn hand_in(&mut self) {
        self.bytes = 0;
        let pieces = std::mem::take(&mut self.pieces);
        if let Some(device) = self.device.filter(|_| !pieces.is_empty()) {
            self.wait();
            self.under_way = Some(device.arrived(pieces));
        }
    }

    /// Waits until all submitted pieces are stored.
    fn wait(&mut self) {
        if let Some(taken) = self.under_way.take() {
            // A stopped device stores nothing.
            *self.taken_bytes += taken.blocking_recv().unwrap_or(0);
        }
    }
}

impl Drop for ReceivedBatch<'_> {
    fn drop(&mut self) {
        self.hand_in();
        self.wait();
    }
}

fn array<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut array = [0; N];
    from.read_exact(&mut array)?;
    Ok(array)
}

fn bytes(from: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    if !(1..=LENGTH_MAX).contains(&length) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
#[path = "memory_transfer_tests.rs"]
mod tests;
