//! The old process, as seen by the new one.

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tokio::time::timeout;

use super::channel::{UpgradeChannel, UpgradeMessage};
use super::error::UpgradeError;
use super::inherited_sockets::{InheritedSocket, InheritedSockets};
use super::program::{SERVE, VARIABLE};

/// Time limit for receiving the listeners, which the old process sends at once.
const GREETING_TIMEOUT: Duration = Duration::from_secs(60);

/// The old process.
#[derive(Debug)]
pub(crate) struct Predecessor(pub(super) UpgradeChannel);

impl Predecessor {
    /// Connects to the old process, if there is one, and receives its listeners.
    pub(crate) async fn meet() -> Result<Option<(Self, InheritedSockets)>, UpgradeError> {
        if std::env::var_os(VARIABLE).is_none_or(|part| part != SERVE) {
            return Ok(None);
        }
        let channel = UpgradeChannel::of(std::io::stdin().as_fd().try_clone_to_owned()?)?;
        let greeted = timeout(GREETING_TIMEOUT, take_listeners(&channel)).await;
        let inherited = greeted.map_err(|_late| UpgradeError::Late)??;
        Ok(Some((Self(channel), inherited)))
    }

    /// Reports that all checks have passed; returns when this process may start its devices.
    pub(crate) async fn checked(&self) -> Result<(), UpgradeError> {
        self.0.send(&UpgradeMessage::Checked, &[]).await?;
        match self.0.receive().await?.0 {
            UpgradeMessage::Go => Ok(()),
            UpgradeMessage::GiveUp => Err(UpgradeError::GivenUp),
            other => Err(other.unexpected()),
        }
    }

    /// Reports that this process is ready; returns when it must serve, with the socket for the
    /// transfer of memory.
    pub(crate) async fn take_over(&self) -> Result<Option<UnixStream>, UpgradeError> {
        let ready = UpgradeMessage::Ready(std::process::id());
        let answer = match self.0.send(&ready, &[]).await {
            Ok(()) => self.0.receive().await,
            Err(error) => Err(error),
        };
        match answer {
            Ok((UpgradeMessage::Yours, mut pieces)) => Ok(pieces.pop().map(UnixStream::from)),
            Ok((UpgradeMessage::GiveUp, _)) => Err(UpgradeError::GivenUp),
            Ok((other, _)) => Err(other.unexpected()),
            Err(UpgradeError::Ended) => {
                tracing::warn!(
                    "the old process ended before the handover; this process serves now"
                );
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reports that the service is being stopped; the old process passes that on to its
    /// predecessor.
    pub(crate) fn stop(&self) {
        self.0.try_send(&UpgradeMessage::Stop);
    }

    /// Returns once the old process and all its predecessors have ended.
    pub(crate) async fn ended(&self) {
        // No further message is expected.
        while self.0.receive().await.is_ok() {}
    }
}

async fn take_listeners(channel: &UpgradeChannel) -> Result<InheritedSockets, UpgradeError> {
    let mut inherited = InheritedSockets::default();
    loop {
        let (word, mut passed) = channel.receive().await?;
        // The socket is the last descriptor.
        match (word, passed.pop()) {
            (UpgradeMessage::Listener(address), Some(socket)) => inherited.add(InheritedSocket {
                address,
                socket,
                file: passed.pop(),
                is_managed: false,
            }),
            (UpgradeMessage::Managed(address), Some(socket)) => inherited.add(InheritedSocket {
                address,
                socket,
                file: None,
                is_managed: true,
            }),
            (UpgradeMessage::NoMoreListeners, _) => return Ok(inherited),
            (UpgradeMessage::GiveUp, _) => return Err(UpgradeError::GivenUp),
            (other, _) => return Err(other.unexpected()),
        }
    }
}
