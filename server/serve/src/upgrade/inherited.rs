//! Listening sockets that this process need not open, because another one has: the process whose
//! place it takes, or the service manager.

use std::net::{SocketAddr, TcpListener};

use rustix::net::sockopt::socket_acceptconn;

use super::error::UpgradeError;
use crate::raw::passed_descriptor;

/// Listening sockets by the address that the configuration has for them.
#[derive(Debug, Default)]
pub(crate) struct Inherited(Vec<(SocketAddr, TcpListener)>);

impl Inherited {
    /// Those that the service manager passes (`LISTEN_FDS`, sd_listen_fds(3)). To be called once, before
    /// this process opens anything.
    pub(crate) fn of_manager() -> Result<Self, UpgradeError> {
        let mut inherited = Self::default();
        for number in sd_notify::listen_fds()? {
            let passed = |source| UpgradeError::Passed { number, source };
            let socket = passed_descriptor(number).map_err(passed)?;
            if !socket_acceptconn(&socket).map_err(|errno| passed(errno.into()))? {
                return Err(passed(std::io::ErrorKind::InvalidInput.into()));
            }
            let listener = TcpListener::from(socket);
            let address = listener.local_addr().map_err(passed)?;
            inherited.add(address, listener);
        }
        Ok(inherited)
    }

    pub(super) fn add(&mut self, address: SocketAddr, listener: TcpListener) {
        self.0.push((address, listener));
    }

    /// The one that the configuration has under this address.
    pub(crate) fn take(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let found = self.0.iter().position(|(known, _)| *known == address)?;
        Some(self.0.swap_remove(found).1)
    }

    /// Looks that nothing is left of what the service manager passed: clients that it lets in would
    /// never be answered.
    pub(crate) fn all_taken(&self) -> Result<(), UpgradeError> {
        match self.0.first() {
            Some((address, _)) => Err(UpgradeError::Unnamed(*address)),
            None => Ok(()),
        }
    }
}
