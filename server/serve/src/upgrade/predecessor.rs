//! The process whose place this one takes, as this one sees it.

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tokio::time::timeout;

use super::channel::{Channel, Word};
use super::error::UpgradeError;
use super::inherited::{Inherited, Lent};
use super::program::{SERVE, VARIABLE};

/// The old process has its listeners at hand.
const GREETING_TIMEOUT: Duration = Duration::from_secs(60);

/// The old process.
#[derive(Debug)]
pub(crate) struct Predecessor(pub(super) Channel);

impl Predecessor {
    /// Meets the old process, if there is one, and takes the listeners that it lends.
    pub(crate) async fn meet() -> Result<Option<(Self, Inherited)>, UpgradeError> {
        if std::env::var_os(VARIABLE).is_none_or(|part| part != SERVE) {
            return Ok(None);
        }
        let channel = Channel::of(std::io::stdin().as_fd().try_clone_to_owned()?)?;
        let greeted = timeout(GREETING_TIMEOUT, take_listeners(&channel)).await;
        let inherited = greeted.map_err(|_late| UpgradeError::Late)??;
        Ok(Some((Self(channel), inherited)))
    }

    /// Everything that could be looked at is right; returns when this process may start its devices.
    pub(crate) async fn checked(&self) -> Result<(), UpgradeError> {
        self.0.say(&Word::Checked, &[]).await?;
        match self.0.hear().await?.0 {
            Word::Go => Ok(()),
            Word::GiveUp => Err(UpgradeError::GivenUp),
            other => Err(other.unexpected()),
        }
    }

    /// This process could serve; returns when it is to, with the way on which it is sent what the old
    /// one has in memory.
    pub(crate) async fn take_over(&self) -> Result<Option<UnixStream>, UpgradeError> {
        let ready = Word::Ready(std::process::id());
        let answer = match self.0.say(&ready, &[]).await {
            Ok(()) => self.0.hear().await,
            Err(error) => Err(error),
        };
        match answer {
            Ok((Word::Yours, mut pieces)) => Ok(pieces.pop().map(UnixStream::from)),
            Ok((Word::GiveUp, _)) => Err(UpgradeError::GivenUp),
            Ok((other, _)) => Err(other.unexpected()),
            Err(UpgradeError::Ended) => {
                tracing::warn!("the old process ended before it gave its place; this one serves");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The service is being stopped; the old process passes it on to the one before it.
    pub(crate) fn stop(&self) {
        self.0.say_at_once(&Word::Stop);
    }

    /// Returns once the old process has ended, and with it all before it.
    pub(crate) async fn ended(&self) {
        // It has nothing more to say.
        while self.0.hear().await.is_ok() {}
    }
}

async fn take_listeners(channel: &Channel) -> Result<Inherited, UpgradeError> {
    let mut inherited = Inherited::default();
    loop {
        let (word, mut passed) = channel.hear().await?;
        // The socket is the last.
        match (word, passed.pop()) {
            (Word::Listener(address), Some(socket)) => inherited.add(Lent {
                address,
                socket,
                file: passed.pop(),
                is_managed: false,
            }),
            (Word::Managed(address), Some(socket)) => inherited.add(Lent {
                address,
                socket,
                file: None,
                is_managed: true,
            }),
            (Word::NoMoreListeners, _) => return Ok(inherited),
            (Word::GiveUp, _) => return Err(UpgradeError::GivenUp),
            (other, _) => return Err(other.unexpected()),
        }
    }
}
