//! Notifications to the service manager, by datagrams to the socket named in `NOTIFY_SOCKET`.
//!
//! Invariant: an unresponsive service manager blocks this process only briefly. Sending to a full
//! socket blocks, and the sender is the task that handles signals: it could not even handle a stop
//! meanwhile.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

pub use sd_notify::NotifyState;
use sd_notify::watchdog_enabled;

/// Send timeout; after it the notification is lost.
const PATIENCE: Duration = Duration::from_secs(1);
/// Watchdog notifications per watchdog period.
const BEATS: u32 = 3;

/// Notifies the service manager, if there is one; logs a failure.
pub fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = try_to_notify(states) {
        tracing::warn!(%error, "cannot notify the service manager of {states:?}");
    }
}

/// Notifies the service manager, if there is one.
///
/// # Errors
/// If the notification cannot be sent.
pub fn try_to_notify(states: &[NotifyState<'_>]) -> io::Result<()> {
    match std::env::var_os("NOTIFY_SOCKET") {
        Some(address) => send_states(&address, states),
        None => Ok(()),
    }
}

/// Sends watchdog notifications as often as the service manager requires (`WatchdogSec=`). Before
/// each one, `beat` must complete, which proves that the process works.
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

/// The same for a thread with a main loop.
#[derive(Debug)]
pub struct Heartbeat {
    every: Option<Duration>,
    last: Option<Instant>,
}

impl Heartbeat {
    /// Uses the interval that the service manager requires.
    pub fn asked_for() -> Self {
        Self {
            every: watchdog_enabled().map(|patience| patience / BEATS),
            last: None,
        }
    }

    /// Called once per iteration of the loop.
    pub fn beat(&mut self) {
        if let Some(every) = self.every
            && self.last.is_none_or(|last| last.elapsed() >= every)
        {
            self.last = Some(Instant::now());
            notify(&[NotifyState::Watchdog]);
        }
    }
}

pub(crate) fn send_states(address: &OsStr, states: &[NotifyState<'_>]) -> io::Result<()> {
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
    // A datagram is sent whole or not at all.
    socket.send(text.as_bytes()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> String {
        format!("headlong-manager-{}", std::process::id())
    }

    #[test]
    fn unresponsive_service_manager_does_not_block() {
        let name = name();
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let manager = UnixDatagram::bind_addr(&address).expect("bound");
        let address = format!("@{name}");
        let tell = || {
            send_states(
                address.as_ref(),
                &[NotifyState::Reloading, NotifyState::Ready],
            )
        };
        // More than any queue holds (net.unix.max_dgram_qlen).
        let told = (0..100_000).find_map(|_| tell().err());
        let error = told.expect("the queue fills up");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let mut text = [0; 100];
        let length = manager.recv(&mut text).expect("the first datagram");
        assert_eq!(&text[..length], b"RELOADING=1\nREADY=1\n");
        tell().expect("there is room again");
    }
}
