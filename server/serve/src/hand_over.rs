//! The server gives its place to a process of the program that is installed by now.

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::http::MediaState;
use crate::service_manager::{self, NotifyState};
use crate::state_folder::StateFolder;
use crate::tasks;
use crate::upgrade::{Lent, Program, Successor, UpgradeError};

/// How long giving the cache back is waited for. It goes on after that.
const SHRINK_TIMEOUT: Duration = Duration::from_secs(60);

/// What giving the place away needs.
pub(crate) struct HandOver {
    pub(crate) program: Program,
    /// The listening sockets.
    pub(crate) listeners: Vec<Lent>,
    pub(crate) state: Arc<MediaState>,
    pub(crate) folder: StateFolder,
    /// Whether the other process takes all of its memory at its start.
    pub(crate) memory_prefault: bool,
}

impl HandOver {
    /// Starts the program and gives it this process's place, if it can take it; the process that has
    /// it then, and the way on which that is to be sent what is in memory. If not, this process serves
    /// as before, but for what was in its cache.
    pub(crate) async fn give_place(&self) -> Option<(Successor, UnixStream)> {
        tracing::info!("another process is to take this one's place");
        match self.try_to_give().await {
            Ok((successor, process, pieces)) => {
                tracing::info!(process, "another process serves from now on");
                Some((successor, pieces))
            }
            Err(error) => {
                tracing::error!("this process goes on serving: {error}");
                None
            }
        }
    }

    async fn try_to_give(&self) -> Result<(Successor, u32, UnixStream), UpgradeError> {
        let mut successor = Successor::start(&self.program, &self.listeners).await?;
        // It reads this when it starts its devices.
        tasks::remember(&self.state, &self.folder).await;
        if self.memory_prefault {
            // The memory of both together is to stay within what one may have.
            self.retire_devices(true).await;
        }
        match self.name_it(&mut successor).await {
            Ok((process, pieces)) => Ok((successor, process, pieces)),
            Err(error) => {
                // It is to give its memory back before this process takes some again.
                drop(successor);
                self.retire_devices(false).await;
                Err(error)
            }
        }
    }

    async fn name_it(&self, successor: &mut Successor) -> Result<(u32, UnixStream), UpgradeError> {
        let process = successor.go().await?;
        // Viewers went on meanwhile: who is told of elsewhere than where it is would be a new one.
        tasks::remember(&self.state, &self.folder).await;
        let (own, other) = UnixStream::pair()?;
        let name = |process| service_manager::try_to_notify(&[NotifyState::MainPid(process)]);
        give(successor, process, &other, name).await?;
        Ok((process, own))
    }

    async fn retire_devices(&self, retires: bool) {
        let mut devices = JoinSet::new();
        for device in self.state.devices.clone() {
            devices.spawn(async move { device.retire(retires).await });
        }
        let all = async { while devices.join_next().await.is_some() {} };
        if timeout(SHRINK_TIMEOUT, all).await.is_err() {
            tracing::warn!("a device takes long to give its memory back; it is not waited for");
        }
    }
}

/// Names the successor to the service manager, and gives it the place if that hears it: of another
/// process than it knows it takes no word, and ends it for its silence.
async fn give(
    successor: &mut Successor,
    process: u32,
    pieces: &UnixStream,
    name: impl Fn(u32) -> std::io::Result<()>,
) -> Result<(), UpgradeError> {
    // Before it says anything to the service manager, which hears only the main process.
    name(process)
        .or_else(|_| name(process))
        .map_err(UpgradeError::Unheard)?;
    // Nothing may be waited for after this: who is told to stop meanwhile would not know that the
    // place is another's.
    let given = successor.take_over(Some(pieces.as_fd())).await;
    if given.is_err()
        && let Err(error) = name(std::process::id())
    {
        tracing::error!(%error, "the service manager takes a process that has ended for this one");
    }
    given
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[tokio::test]
    async fn the_place_is_given_away_only_if_the_service_manager_hears_of_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let address = folder.path().join("notify");
        let manager = UnixDatagram::bind(&address).expect("bound");
        let name =
            |process| service_manager::tell(address.as_os_str(), &[NotifyState::MainPid(process)]);
        // Until its queue is full.
        while name(1).is_ok() {}
        let (_own, other) = UnixStream::pair().expect("a pair");
        let (mut successor, taken_over) = Successor::ready().await;
        let error = give(&mut successor, 7, &other, name).await;
        assert!(matches!(error, Err(UpgradeError::Unheard(_))), "{error:?}");
        drop(successor);
        let taken_over = taken_over.await.expect("no panic");
        assert!(
            matches!(taken_over, Err(UpgradeError::GivenUp)),
            "{taken_over:?}"
        );

        manager.set_nonblocking(true).expect("set");
        let mut text = [0; 100];
        while manager.recv(&mut text).is_ok() {}
        let (mut successor, taken_over) = Successor::ready().await;
        give(&mut successor, 7, &other, name)
            .await
            .expect("it hears");
        let taken_over = taken_over.await.expect("no panic");
        assert!(taken_over.expect("it has the place").is_some());
        let length = manager.recv(&mut text).expect("told");
        assert_eq!(&text[..length], b"MAINPID=7\n");
    }
}
