//! Signals from operators and service managers.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::handover::Handover;
use crate::http::MediaState;
use crate::reload::Reloader;
use crate::upgrade::{Predecessor, Successor};

/// The signals that the server handles.
pub(crate) struct Signals {
    hangup: Signal,
    user1: Signal,
    user2: Signal,
    terminate: Signal,
    interrupt: Signal,
}

/// Why a running server ends.
pub(crate) enum ServerExit {
    /// It was stopped.
    Stop,
    /// Another process has taken over and receives the cached pieces.
    Replaced(Successor, UnixStream),
}

impl Signals {
    /// Installs the handlers; from now on these signals do not kill the process.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Handles signals until the server is stopped or replaced. A process that has itself taken
    /// over (`has_taken_over`) starts with a reload, because a reload signal sent to the old
    /// process during the upgrade was meant for both.
    pub(crate) async fn serve(
        &mut self,
        reloader: &Reloader,
        heir: &Handover,
        has_taken_over: bool,
    ) -> ServerExit {
        if has_taken_over && self.is_stopped_during(reloader.take_in()).await {
            return ServerExit::Stop;
        }
        loop {
            tokio::select! {
                _ = self.hangup.recv() => {
                    if self.is_stopped_during(reloader.reload()).await {
                        return ServerExit::Stop;
                    }
                }
                _ = self.user1.recv() => reloader.state.log.reopen(),
                _ = self.user2.recv() => {
                    // A stop signal interrupts the upgrade.
                    let replaced = tokio::select! {
                        replaced = heir.run() => replaced,
                        _ = self.terminate.recv() => return ServerExit::Stop,
                        _ = self.interrupt.recv() => return ServerExit::Stop,
                    };
                    if let Some((successor, pieces)) = replaced {
                        return ServerExit::Replaced(successor, pieces);
                    }
                }
                _ = self.terminate.recv() => return ServerExit::Stop,
                _ = self.interrupt.recv() => return ServerExit::Stop,
            }
        }
    }

    /// Awaits `what`, which may hang on a disk; returns whether a stop signal came first.
    async fn is_stopped_during<T>(&mut self, what: impl Future<Output = T>) -> bool {
        tokio::select! {
            _ = what => false,
            _ = self.terminate.recv() => true,
            _ = self.interrupt.recv() => true,
        }
    }

    /// Runs a replaced server to its end: until its last connection and its predecessor have ended,
    /// it is stopped, or `within` has passed.
    pub(crate) async fn retire(
        &mut self,
        state: &MediaState,
        within: Duration,
        listeners: &mut JoinSet<()>,
        (predecessor, successor): (Option<&Predecessor>, &Successor),
    ) {
        let mut late = std::pin::pin!(sleep(within));
        let mut told = std::pin::pin!(successor.says_stop());
        let mut ended = std::pin::pin!(async {
            // A listener ends with its last connection.
            while listeners.join_next().await.is_some() {}
            if let Some(predecessor) = predecessor {
                predecessor.ended().await;
            }
        });
        loop {
            tokio::select! {
                () = &mut ended => return,
                () = &mut told => return,
                () = &mut late => return,
                _ = self.user1.recv() => state.log.reopen(),
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => {}
                _ = self.user2.recv() => {}
            }
        }
    }
}
