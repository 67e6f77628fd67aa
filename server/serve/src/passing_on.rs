//! What is in memory goes to the process that takes this one's place, over a socket, while both serve.
//!
//! The one idea: viewers have seconds in their buffers, and reading anew what was read ahead for them
//! takes a disk longer. So the old process sends the pieces in its memory, those first that are asked
//! for soonest, and gives each one's memory back as soon as it is sent.
//!
//! ```text
//! greeting                                a line; another one is another version's, and nothing is taken
//! D length(2) name                        what follows is of the device of that name
//! P file(16) offset(8) length(4) read(1)  then as many bytes: a piece of that file in that version
//! ```
//!
//! Numbers are little-endian. Either end may end it at any byte; what was taken by then is of use.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use headlong_flash::FileKey;
use headlong_units::Bytes;
use tokio::sync::oneshot;

use crate::disk::{Arrived, Device, Leaving};

const GREETING: &[u8] = b"headlong pieces 2\n";
/// So long it may take; what viewers wait for has long been read by then.
const TIME_MAX: Duration = Duration::from_secs(20);
/// The other process does not answer.
const STALL_MAX: Duration = Duration::from_secs(5);
/// Pieces of one device, after which another device has its turn.
const AT_ONCE: usize = 64;
/// So many bytes are handed in at a time; as many wait meanwhile.
const HANDED_IN_BYTES: usize = 4 << 20;
/// No piece and no name is longer.
const LENGTH_MAX: usize = 2 << 20;

/// Under way for as long as it is to be waited for: until everything is sent, or will not be.
pub(crate) type Passing = oneshot::Receiver<()>;

/// Sends what devices have in memory, on a thread of its own. Returns once all of it is taken out of
/// their memory, so that no request of this process begins to use it.
pub(crate) async fn give(devices: &[Device], to: UnixStream) -> Passing {
    let mut leaving = Vec::new();
    for device in devices {
        leaving.push(Queue::of(device).await);
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
            Ok(()) => tracing::info!(bytes, seconds, "passed on what was in memory"),
            Err(error) => tracing::warn!(
                bytes, seconds, %error, "passed on part of what was in memory; the rest is read anew"
            ),
        }
        // Nobody may wait for it any more.
        let _ = is_over.send(());
    };
    let started = std::thread::Builder::new()
        .name("pass-on".to_owned())
        .spawn(send);
    if let Err(error) = started {
        tracing::warn!(%error, "cannot pass on what is in memory: it is read anew");
    }
    passing
}

/// What is to be sent of one device. What was not by the end is nobody's any more.
struct Queue {
    device: Device,
    rest: std::vec::IntoIter<Leaving>,
}

impl Queue {
    async fn of(device: &Device) -> Self {
        Self {
            device: device.clone(),
            rest: device.pass_on().await.into_iter(),
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.device.passed_on(self.rest.by_ref().collect());
    }
}

fn send(to: &UnixStream, leaving: &mut [Queue], sent_bytes: &mut u64) -> io::Result<()> {
    to.set_write_timeout(Some(STALL_MAX))?;
    let until = Instant::now() + TIME_MAX;
    let mut to = to;
    to.write_all(GREETING)?;
    loop {
        let mut is_over = true;
        for queue in leaving.iter_mut() {
            let pieces: Vec<Leaving> = queue.rest.by_ref().take(AT_ONCE).collect();
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
    pieces: &[Leaving],
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

/// Takes what the process before has in memory, on a thread of its own.
pub(crate) fn take(devices: &[Device], from: UnixStream) {
    let devices = devices.to_vec();
    let take = move || {
        let began = Instant::now();
        let mut taken_bytes = 0;
        let taken = receive(&from, &devices, &mut taken_bytes);
        let seconds = began.elapsed().as_secs_f32();
        let bytes = Bytes(taken_bytes).to_string();
        match taken {
            Ok(()) => tracing::info!(bytes, seconds, "took over what was in memory"),
            Err(error) => tracing::warn!(
                bytes, seconds, %error, "took over part of what was in memory; the rest is read anew"
            ),
        }
    };
    let started = std::thread::Builder::new()
        .name("take-over".to_owned())
        .spawn(take);
    if let Err(error) = started {
        tracing::warn!(%error, "cannot take over what is in memory: it is read anew");
    }
}

fn receive(from: &UnixStream, devices: &[Device], taken_bytes: &mut u64) -> io::Result<()> {
    from.set_read_timeout(Some(STALL_MAX))?;
    let mut from = BufReader::with_capacity(1 << 20, from);
    let mut greeting = Vec::new();
    from.by_ref().take(64).read_until(b'\n', &mut greeting)?;
    if greeting != GREETING {
        // Of a version that passes nothing on, or passes it on in another way.
        return Ok(());
    }
    let mut batch = Batch {
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
                batch.push(Arrived {
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

/// Pieces of one device. While one batch goes into memory, the next is read. Dropped, it waits until
/// all is there that came.
struct Batch<'a> {
    device: Option<&'a Device>,
    pieces: Vec<Arrived>,
    bytes: usize,
    under_way: Option<oneshot::Receiver<u64>>,
    taken_bytes: &'a mut u64,
}

impl<'a> Batch<'a> {
    fn push(&mut self, piece: Arrived) {
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

    /// Returns once everything that was handed in is in memory.
    fn wait(&mut self) {
        if let Some(taken) = self.under_way.take() {
            // A device that stopped takes nothing.
            *self.taken_bytes += taken.blocking_recv().unwrap_or(0);
        }
    }
}

impl Drop for Batch<'_> {
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
#[path = "passing_on_tests.rs"]
mod tests;
