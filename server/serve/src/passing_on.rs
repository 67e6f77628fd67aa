//! What is in memory goes to the process that takes this one's place, over a socket, while both serve.
//!
//! The one idea: viewers have seconds in their buffers, and reading anew what was read ahead for them
//! takes a disk longer. So the old process sends the pieces in its memory, those first that are asked
//! for soonest, and gives each one's memory back as soon as it is sent.
//!
//! ```text
//! greeting                       a line; another one is another version's, and nothing is taken
//! D length(2) name               what follows is of the device of that name
//! F length(4) version            what follows is of that file in that version
//! P offset(8) length(4) read(1)  then as many bytes: a piece of that file
//! ```
//!
//! Numbers are little-endian. Either end may end it at any byte; what was taken by then is of use.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use headlong_units::Bytes;
use tokio::sync::oneshot;

use crate::disk::{Arrived, Device, Leaving};

const GREETING: &[u8] = b"headlong pieces 1\n";
/// So long it may take; what viewers wait for has long been read by then.
const TIME_MAX: Duration = Duration::from_secs(20);
/// The other process does not answer.
const STALL_MAX: Duration = Duration::from_secs(5);
/// Pieces of one device, after which another device has its turn.
const AT_ONCE: usize = 64;
/// No piece, no version and no name is longer.
const LENGTH_MAX: usize = 2 << 20;

/// Under way for as long as it is to be waited for: until everything is sent, or will not be.
pub(crate) type Passing = oneshot::Receiver<()>;

/// Sends what devices have in memory, on a thread of its own. Returns once all of it is taken out of
/// their memory, so that no request of this process begins to use it.
pub(crate) async fn give(devices: &[Device], to: UnixStream) -> Passing {
    let mut leaving = Vec::new();
    for device in devices {
        leaving.push((device.clone(), device.pass_on().await.into_iter()));
    }
    let (is_over, passing) = oneshot::channel();
    let send = move || {
        let began = Instant::now();
        let mut sent_bytes = 0;
        let sent = send(&to, &mut leaving, &mut sent_bytes);
        drop(to);
        for (device, rest) in leaving {
            device.passed_on(rest.collect());
        }
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

type Queue = (Device, std::vec::IntoIter<Leaving>);

fn send(to: &UnixStream, leaving: &mut [Queue], sent_bytes: &mut u64) -> io::Result<()> {
    to.set_write_timeout(Some(STALL_MAX))?;
    let until = Instant::now() + TIME_MAX;
    let mut to = to;
    to.write_all(GREETING)?;
    loop {
        let mut is_over = true;
        for (device, rest) in leaving.iter_mut() {
            let pieces: Vec<Leaving> = rest.take(AT_ONCE).collect();
            if pieces.is_empty() {
                continue;
            }
            is_over = false;
            let sent = send_some(to, device.name(), &pieces, sent_bytes);
            device.passed_on(pieces);
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
    let mut of: Option<&Arc<str>> = None;
    for piece in pieces {
        if of != Some(&piece.version) {
            head.push(b'F');
            head.extend((piece.version.len() as u32).to_le_bytes());
            head.extend(piece.version.as_bytes());
            of = Some(&piece.version);
        }
        let bytes = piece.view.as_ref();
        head.push(b'P');
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
    let mut arrivals = Batch::default();
    let mut version: Option<Arc<str>> = None;
    let mut kind = [0];
    while from.read(&mut kind)? > 0 {
        match kind[0] {
            b'D' => {
                let length = u16::from_le_bytes(array(&mut from)?);
                let name = text(&mut from, length.into())?;
                arrivals.turn_to(devices.iter().find(|device| **device.name() == *name));
            }
            b'F' => {
                let length = u32::from_le_bytes(array(&mut from)?) as usize;
                version = Some(text(&mut from, length)?.into());
            }
            b'P' => {
                let offset = u64::from_le_bytes(array(&mut from)?);
                let length = u32::from_le_bytes(array(&mut from)?) as usize;
                let [was_read] = array(&mut from)?;
                let bytes = bytes(&mut from, length)?;
                *taken_bytes += bytes.len() as u64;
                let version = version.clone().ok_or(io::ErrorKind::InvalidData)?;
                arrivals.push(Arrived {
                    version,
                    offset,
                    was_read: was_read != 0,
                    bytes,
                });
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    arrivals.turn_to(None);
    arrivals.wait();
    Ok(())
}

/// Pieces of one device. While one batch goes into memory, the next is read.
#[derive(Default)]
struct Batch<'a> {
    device: Option<&'a Device>,
    pieces: Vec<Arrived>,
    under_way: Option<oneshot::Receiver<()>>,
}

impl<'a> Batch<'a> {
    fn push(&mut self, piece: Arrived) {
        self.pieces.push(piece);
        if self.pieces.len() >= AT_ONCE {
            self.hand_in();
        }
    }

    fn turn_to(&mut self, device: Option<&'a Device>) {
        self.hand_in();
        self.device = device;
    }

    fn hand_in(&mut self) {
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
            let _ = taken.blocking_recv();
        }
    }
}

fn array<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut array = [0; N];
    from.read_exact(&mut array)?;
    Ok(array)
}

fn bytes(from: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    if length > LENGTH_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn text(from: &mut impl Read, length: usize) -> io::Result<String> {
    String::from_utf8(bytes(from, length)?).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
#[path = "passing_on_tests.rs"]
mod tests;
