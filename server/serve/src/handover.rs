//! Upgrade, on the side of the old process: hands the service over to the installed program.

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
use crate::upgrade::{InheritedSocket, Program, Successor, UpgradeError};

/// Time limit for releasing memory; the upgrade continues after it.
const SHRINK_TIMEOUT: Duration = Duration::from_secs(60);

/// Everything the handover needs.
pub(crate) struct Handover {
    pub(crate) program: Program,
    /// The listening sockets.
    pub(crate) listeners: Vec<InheritedSocket>,
    pub(crate) state: Arc<MediaState>,
    pub(crate) folder: StateFolder,
    /// Whether the new process populates all its memory at start-up.
    pub(crate) memory_prefault: bool,
}

impl Handover {
    /// Starts the program and hands the service over to it if it is ready. Returns the new process,
    /// with the socket for the transfer of memory. If it fails, this process continues, possibly
    /// with less cached data.
    pub(crate) async fn run(&self) -> Option<(Successor, UnixStream)> {
        tracing::info!("upgrade started");
        match self.try_run().await {
            Ok((successor, process, pieces)) => {
                tracing::info!(process, "upgrade done: the new process serves now");
                Some((successor, pieces))
            }
            Err(error) => {
                tracing::error!("upgrade failed, this process continues serving: {error}");
                None
            }
        }
    }

    async fn try_run(&self) -> Result<(Successor, u32, UnixStream), UpgradeError> {
        let mut successor = Successor::start(&self.program, &self.listeners).await?;
        // The new process loads this when it starts its devices.
        tasks::remember(&self.state, &self.folder).await;
        if self.memory_prefault {
            // The two processes together must stay within the memory limit of one.
            self.retire_devices(true).await;
        }
        match self.name_it(&mut successor).await {
            Ok((process, pieces)) => Ok((successor, process, pieces)),
            Err(error) => {
                // Release the memory of the new process before this one allocates again.
                drop(successor);
                self.retire_devices(false).await;
                Err(error)
            }
        }
    }

    async fn name_it(&self, successor: &mut Successor) -> Result<(u32, UnixStream), UpgradeError> {
        let process = successor.go().await?;
        // Save the viewers again: their positions have changed meanwhile, and a viewer with an
        // outdated position would count as new.
        tasks::remember(&self.state, &self.folder).await;
        let (own, other) = UnixStream::pair()?;
        let name = |process| service_manager::try_to_notify(&[NotifyState::MainPid(process)]);
        hand_over(successor, process, &other, name).await?;
        Ok((process, own))
    }

    async fn retire_devices(&self, retires: bool) {
        let mut devices = JoinSet::new();
        for device in self.state.devices.clone() {
            devices.spawn(async move { device.retire(retires).await });
        }
        let all = async { while devices.join_next().await.is_some() {} };
        if timeout(SHRINK_TIMEOUT, all).await.is_err() {
            tracing::warn!("devices did not release their memory in time; continuing the upgrade");
        }
    }
}

/// Names the successor to the service manager, then hands over. If the service manager was not
/// notified, it would ignore the watchdog messages of the new process and kill it.
async fn hand_over(
    successor: &mut Successor,
    process: u32,
    pieces: &UnixStream,
    name: impl Fn(u32) -> std::io::Result<()>,
) -> Result<(), UpgradeError> {
    // Must precede any message of the new process, because the service manager accepts only those
    // of the main process.
    name(process)
        .or_else(|_| name(process))
        .map_err(UpgradeError::Unheard)?;
    // No await may follow this call: a stop signal received meanwhile would be handled without
    // knowing that the new process has taken over.
    let given = successor.take_over(Some(pieces.as_fd())).await;
    if given.is_err()
        && let Err(error) = name(std::process::id())
    {
        tracing::error!(%error, "the service manager has the wrong main process");
    }
    given
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[tokio::test]
    async fn hands_over_only_if_service_manager_is_notified() {
        let folder = tempfile::tempdir().expect("a folder");
        let address = folder.path().join("notify");
        let manager = UnixDatagram::bind(&address).expect("bound");
        let name = |process| {
            service_manager::send_states(address.as_os_str(), &[NotifyState::MainPid(process)])
        };
        // Until its queue is full.
        while name(1).is_ok() {}
        let (_own, other) = UnixStream::pair().expect("a pair");
        let (mut successor, taken_over) = Successor::ready().await;
        let error = hand_over(&mut successor, 7, &other, name).await;
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
        hand_over(&mut successor, 7, &other, name)
            .await
            .expect("notified");
        let taken_over = taken_over.await.expect("no panic");
        assert!(taken_over.expect("taken over").is_some());
        let length = manager.recv(&mut text).expect("told");
        assert_eq!(&text[..length], b"MAINPID=7\n");
    }
}
