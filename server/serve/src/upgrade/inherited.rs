//! Listening sockets that this process need not open, because another one has: the process whose
//! place it takes, or the service manager.

use std::os::fd::OwnedFd;

use rustix::net::sockopt::socket_acceptconn;

use super::error::UpgradeError;
use crate::net::ListenAddress;
use crate::raw::passed_descriptor;

/// A listening socket that another process opened.
#[derive(Debug)]
pub(crate) struct Lent {
    /// What the configuration has for it.
    pub(crate) address: ListenAddress,
    pub(crate) socket: OwnedFd,
    /// The file of a unix socket that this process made, or had from the one before.
    pub(crate) file: Option<OwnedFd>,
    /// Whether the file of a unix socket is the service manager's, and not this process's.
    pub(crate) is_managed: bool,
}

/// Listening sockets that this process need not open.
#[derive(Debug, Default)]
pub(crate) struct Inherited(Vec<Lent>);

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
            let address = address_of(&socket).map_err(passed)?;
            inherited.add(Lent {
                address,
                socket,
                file: None,
                is_managed: true,
            });
        }
        Ok(inherited)
    }

    pub(super) fn add(&mut self, lent: Lent) {
        self.0.push(lent);
    }

    /// The one that the configuration has under this address.
    pub(crate) fn take(&mut self, address: &ListenAddress) -> Option<Lent> {
        let found = self.0.iter().position(|lent| lent.address == *address)?;
        Some(self.0.swap_remove(found))
    }

    /// What is left of them.
    pub(crate) fn left(self) -> Vec<Lent> {
        self.0
    }

    /// Looks that nothing is left of what the service manager passed: clients that it lets in would
    /// never be answered.
    pub(crate) fn all_taken(&self) -> Result<(), UpgradeError> {
        match self.0.first() {
            Some(lent) => Err(UpgradeError::Unnamed(lent.address.clone())),
            None => Ok(()),
        }
    }
}

/// Where a listening socket of the network, or of a path, listens.
fn address_of(socket: &OwnedFd) -> std::io::Result<ListenAddress> {
    let address = socket2::SockRef::from(socket).local_addr()?;
    let path = address.as_pathname().map(std::path::Path::to_owned);
    let ip = address.as_socket().map(ListenAddress::Ip);
    ip.or(path.map(ListenAddress::Unix))
        .ok_or_else(|| std::io::ErrorKind::InvalidInput.into())
}
