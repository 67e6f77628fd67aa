//! The listening sockets: opened or taken over, lent to the process that comes next, and closed.
//!
//! Invariant: the file of a unix socket is removed by who has the place when the service ends, and by
//! nobody else. A process that is to take the place owns none before it has it; one that was replaced
//! owns none any more; those of the service manager are the service manager's.

use std::os::fd::AsFd as _;
use std::path::PathBuf;

use crate::config::{Config, ListenOn};
use crate::net::{BindError, ListenAddress, Listener, SocketFile, adopt, bind};
use crate::upgrade::{Inherited, Lent};

/// The listening sockets of this process.
pub(crate) struct Doors {
    unix_mode: u32,
    /// Copies of them, for the process that comes next.
    copies: Vec<Lent>,
    /// Files that are this process's own.
    files: Vec<SocketFile>,
    /// Files of the process before, which become this one's with the place.
    files_before: Vec<PathBuf>,
    /// Those of them at which nobody is to listen any more.
    unwanted: Vec<PathBuf>,
}

impl Doors {
    /// None yet; files of unix sockets get this mode.
    pub(crate) fn new(unix_mode: u32) -> Self {
        Self {
            unix_mode,
            copies: Vec::new(),
            files: Vec::new(),
            files_before: Vec::new(),
            unwanted: Vec::new(),
        }
    }

    /// Opens all for viewers, or takes them over.
    pub(crate) fn open_all(
        &mut self,
        config: &Config,
        inherited: &mut Inherited,
    ) -> Result<Vec<(ListenOn, Listener)>, BindError> {
        let all = config.listeners().into_iter();
        all.map(|on| {
            let listener = self.open(&on.address, inherited)?;
            Ok((on, listener))
        })
        .collect()
    }

    /// Opens one, or takes it over.
    pub(crate) fn open(
        &mut self,
        address: &ListenAddress,
        inherited: &mut Inherited,
    ) -> Result<Listener, BindError> {
        let (listener, is_managed) = match inherited.take(address) {
            Some(lent) => {
                if !lent.is_managed {
                    self.files_before.extend(path_of(address));
                }
                (adopt(address, lent.socket)?, lent.is_managed)
            }
            None => {
                let (listener, file) = bind(address, self.unix_mode)?;
                self.files.extend(file);
                (listener, false)
            }
        };
        let copy = listener.as_fd().try_clone_to_owned();
        self.copies.push(Lent {
            address: address.clone(),
            socket: copy.map_err(|source| BindError::new(address, source))?,
            is_managed,
        });
        Ok(listener)
    }

    /// What is left of the sockets of the process before is not wanted any more.
    pub(crate) fn close(&mut self, inherited: Inherited) {
        let own = inherited.left().into_iter().filter(|lent| !lent.is_managed);
        self.unwanted
            .extend(own.filter_map(|lent| path_of(&lent.address)));
    }

    /// This process has the place of the one before, and so its files.
    pub(crate) fn take_over(&mut self) {
        for path in self.files_before.drain(..) {
            // One that is gone by now needs not be removed.
            if let Ok(file) = SocketFile::of(&path) {
                file.set_mode(self.unix_mode);
                self.files.push(file);
            }
        }
        for path in self.unwanted.drain(..) {
            drop(SocketFile::of(&path));
        }
    }

    /// The copies, once.
    pub(crate) fn lend(&mut self) -> Vec<Lent> {
        std::mem::take(&mut self.copies)
    }

    /// Another process has this one's place, and its files.
    pub(crate) fn leave(self) {
        self.files.into_iter().for_each(SocketFile::leave);
    }
}

fn path_of(address: &ListenAddress) -> Option<PathBuf> {
    match address {
        ListenAddress::Ip(_) => None,
        ListenAddress::Unix(path) => Some(path.clone()),
    }
}
