//! What the service manager is told, by datagrams to the socket that `NOTIFY_SOCKET` names.
//!
//! Invariant: one that does not listen holds nobody up. A datagram to a socket whose queue is full
//! waits for room, and who tells it is who acts on signals: it would hear no other any more, not even
//! to stop.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

pub use sd_notify::NotifyState;
use sd_notify::watchdog_enabled;

/// A service manager that is busy is given so long; what it does not take by then it does not get.
const PATIENCE: Duration = Duration::from_secs(1);
/// Within its patience it is told so many times.
const BEATS: u32 = 3;

/// Tells the service manager; without one, nothing happens. That it did not hear is said in the log.
pub fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = try_to_notify(states) {
        tracing::warn!(%error, "the service manager was not told {states:?}");
    }
}

/// Tells the service manager; without one, nothing happens.
///
/// # Errors
/// If it does not hear.
pub fn try_to_notify(states: &[NotifyState<'_>]) -> io::Result<()> {
    match std::env::var_os("NOTIFY_SOCKET") {
        Some(address) => tell(&address, states),
        None => Ok(()),
    }
}

/// Tells the service manager that this process works, as often as it wants to hear that
/// (`WatchdogSec=`). Each time `beat` must have ended before: it is what shows that it works.
pub async fn keep_alive<F: Future<Output = ()>>(beat: impl Fn() -> F) {
    let Some(patience) = watchdog_enabled() else {
        return;
    };
    loop {
        beat().await;
        notify(&[NotifyState::Watchdog]);
        tokio::time::sleep(patience / BEATS).await;
    }
}

/// The same for a thread that goes round and round.
#[derive(Debug)]
pub struct Heartbeat {
    every: Option<Duration>,
    last: Option<Instant>,
}

impl Heartbeat {
    /// As often as the service manager wants to hear it.
    pub fn asked_for() -> Self {
        Self {
            every: watchdog_enabled().map(|patience| patience / BEATS),
            last: None,
        }
    }

    /// The thread has gone round once more.
    pub fn beat(&mut self) {
        if let Some(every) = self.every
            && self.last.is_none_or(|last| last.elapsed() >= every)
        {
            self.last = Some(Instant::now());
            notify(&[NotifyState::Watchdog]);
        }
    }
}

pub(crate) fn tell(address: &OsStr, states: &[NotifyState<'_>]) -> io::Result<()> {
    let mut text = String::new();
    for state in states {
        let _ = writeln!(text, "{state}");
    }
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.connect_addr(&address)?;
    // A datagram goes whole or not at all.
    socket.send(text.as_bytes()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> String {
        format!("headlong-manager-{}", std::process::id())
    }

    #[test]
    fn a_service_manager_that_does_not_listen_holds_nobody_up() {
        let name = name();
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let manager = UnixDatagram::bind_addr(&address).expect("bound");
        let address = format!("@{name}");
        let tell = || {
            tell(
                address.as_ref(),
                &[NotifyState::Reloading, NotifyState::Ready],
            )
        };
        // More than any queue holds (net.unix.max_dgram_qlen).
        let told = (0..100_000).find_map(|_| tell().err());
        let error = told.expect("it does not take everything");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let mut text = [0; 100];
        let length = manager.recv(&mut text).expect("what came first");
        assert_eq!(&text[..length], b"RELOADING=1\nREADY=1\n");
        tell().expect("there is room again");
    }
}
