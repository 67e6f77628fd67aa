//! Listening sockets inherited from the old process or from the service manager.

use std::os::fd::OwnedFd;

use headlong_kernel::raw::passed_descriptor;
use headlong_net::ListenAddress;
use rustix::net::sockopt::socket_acceptconn;

use super::error::UpgradeError;

/// An inherited listening socket.
#[derive(Debug)]
pub(crate) struct InheritedSocket {
    /// Its configured address.
    pub(crate) address: ListenAddress,
    pub(crate) socket: OwnedFd,
    /// File of a unix socket that this service created.
    pub(crate) file: Option<OwnedFd>,
    /// Whether the file of a unix socket belongs to the service manager.
    pub(crate) is_managed: bool,
}

/// Inherited listening sockets.
#[derive(Debug, Default)]
pub(crate) struct InheritedSockets(Vec<InheritedSocket>);

impl InheritedSockets {
    /// Takes the sockets passed by the service manager (`LISTEN_FDS`, sd_listen_fds(3)). Must be
    /// called once, before this process opens a descriptor.
    pub(crate) fn of_manager() -> Result<Self, UpgradeError> {
        let mut inherited = Self::default();
        for number in sd_notify::listen_fds()? {
            let passed = |source| UpgradeError::Passed { number, source };
            let socket = passed_descriptor(number).map_err(passed)?;
            if !socket_acceptconn(&socket).map_err(|errno| passed(errno.into()))? {
                return Err(passed(std::io::ErrorKind::InvalidInput.into()));
            }
            let address = address_of(&socket).map_err(passed)?;
            inherited.add(InheritedSocket {
                address,
                socket,
                file: None,
                is_managed: true,
            });
        }
        Ok(inherited)
    }

    pub(super) fn add(&mut self, lent: InheritedSocket) {
        self.0.push(lent);
    }

    /// Takes the socket with this configured address.
    pub(crate) fn take(&mut self, address: &ListenAddress) -> Option<InheritedSocket> {
        let found = self.0.iter().position(|lent| lent.address == *address)?;
        Some(self.0.swap_remove(found))
    }

    /// The sockets not taken.
    pub(crate) fn into_unclaimed(self) -> Vec<InheritedSocket> {
        self.0
    }

    /// Checks that all sockets of the service manager were taken: clients of the others would never
    /// be answered.
    pub(crate) fn all_taken(&self) -> Result<(), UpgradeError> {
        match self.0.first() {
            Some(lent) => Err(UpgradeError::Unnamed(lent.address.clone())),
            None => Ok(()),
        }
    }
}

/// The address of a listening TCP or unix socket.
fn address_of(socket: &OwnedFd) -> std::io::Result<ListenAddress> {
    let address = socket2::SockRef::from(socket).local_addr()?;
    let path = address.as_pathname().map(std::path::Path::to_owned);
    let ip = address.as_socket().map(ListenAddress::Ip);
    ip.or(path.map(ListenAddress::Unix))
        .ok_or_else(|| std::io::ErrorKind::InvalidInput.into())
}
