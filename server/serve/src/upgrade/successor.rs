//! The new process, as seen by the old one.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::process::Child;
use std::time::Duration;

use headlong_net::ListenAddress;
use tokio::time::{Instant, sleep, timeout};

use super::channel::{UpgradeChannel, UpgradeMessage};
use super::error::UpgradeError;
use super::inherited_sockets::InheritedSocket;
use super::program::Program;

/// Time limit for checking configuration, roots and files.
const CHECK_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit until the new process is ready: some scan roots and allocate memory for minutes.
const READY_TIMEOUT: Duration = Duration::from_secs(900);
/// Interval between checks whether it has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// See [`super::Predecessor::take_over`].
#[cfg(test)]
type TakeoverResult = Result<Option<std::os::unix::net::UnixStream>, UpgradeError>;

/// The new process. Dropping it before the handover sends it a stop message.
#[derive(Debug)]
pub(crate) struct Successor {
    channel: UpgradeChannel,
    has_place: bool,
}

impl Successor {
    /// Starts the program, passes it the listeners, and waits until its checks have passed.
    pub(crate) async fn start(
        program: &Program,
        listeners: &[InheritedSocket],
    ) -> Result<Self, UpgradeError> {
        if std::process::id() == 1 {
            return Err(UpgradeError::FirstProcess);
        }
        let (channel, other) = UpgradeChannel::pair()?;
        ended_well(program.start(other)?).await?;
        let successor = Self {
            channel,
            has_place: false,
        };
        let checked = timeout(CHECK_TIMEOUT, successor.lend(listeners)).await;
        checked.map_err(|_late| UpgradeError::Late)??;
        Ok(successor)
    }

    /// A new process that is ready, and the result at its side; for tests.
    #[cfg(test)]
    pub(crate) async fn ready() -> (Self, tokio::task::JoinHandle<TakeoverResult>) {
        let (channel, other) = UpgradeChannel::pair().expect("a pair");
        let predecessor = super::Predecessor(UpgradeChannel::of(other).expect("an end"));
        let taken_over = tokio::spawn(async move { predecessor.take_over().await });
        let (word, _) = channel.receive().await.expect("it speaks");
        assert!(matches!(word, UpgradeMessage::Ready(_)), "{word}");
        let successor = Self {
            channel,
            has_place: false,
        };
        (successor, taken_over)
    }

    async fn lend(&self, listeners: &[InheritedSocket]) -> Result<(), UpgradeError> {
        for lent in listeners {
            let address = lent.address.clone();
            let is_file = matches!(address, ListenAddress::Unix(_));
            let word = match lent.is_managed && is_file {
                true => UpgradeMessage::Managed(address),
                false => UpgradeMessage::Listener(address),
            };
            // An older program takes the last descriptor as the socket and ignores the others.
            let with = lent.file.iter().chain([&lent.socket]);
            let with: Vec<_> = with.map(|descriptor| descriptor.as_fd()).collect();
            self.channel.send(&word, &with).await?;
        }
        self.channel
            .send(&UpgradeMessage::NoMoreListeners, &[])
            .await?;
        match self.channel.receive().await?.0 {
            UpgradeMessage::Checked => Ok(()),
            other => Err(other.unexpected()),
        }
    }

    /// Allows it to start its devices; returns its process id once it is ready.
    pub(crate) async fn go(&self) -> Result<u32, UpgradeError> {
        self.channel.send(&UpgradeMessage::Go, &[]).await?;
        let answer = timeout(READY_TIMEOUT, self.channel.receive()).await;
        match answer.map_err(|_late| UpgradeError::Late)??.0 {
            UpgradeMessage::Ready(process) => Ok(process),
            other => Err(other.unexpected()),
        }
    }

    /// Hands over: it serves from now on and receives the memory over `pieces`.
    pub(crate) async fn take_over(
        &mut self,
        pieces: Option<BorrowedFd<'_>>,
    ) -> Result<(), UpgradeError> {
        self.channel
            .send(&UpgradeMessage::Yours, pieces.as_slice())
            .await?;
        self.has_place = true;
        Ok(())
    }

    /// Returns when it reports that the service is being stopped. If it ends without that, it has
    /// crashed, and the replies of this process continue.
    pub(crate) async fn says_stop(&self) {
        loop {
            match self.channel.receive().await {
                Ok((UpgradeMessage::Stop, _)) => return,
                Ok(_) => {}
                Err(_) => std::future::pending().await,
            }
        }
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if !self.has_place {
            self.channel.try_send(&UpgradeMessage::GiveUp);
        }
    }
}

/// Waits for the process that checks the configuration.
async fn ended_well(mut child: Child) -> Result<(), UpgradeError> {
    let until = Instant::now() + CHECK_TIMEOUT;
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(UpgradeError::Refused(status)),
            None if Instant::now() >= until => {
                // It may have ended already.
                let _ = child.kill();
                let _ = child.try_wait();
                return Err(UpgradeError::Late);
            }
            None => sleep(LOOK_INTERVAL).await,
        }
    }
}
