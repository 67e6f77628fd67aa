//! The listening sockets: opened or inherited, passed to the next process, and closed.
//!
//! Invariant: a unix socket file is removed only by the process that owns it when the service ends.
//! A new process owns none before the handover, a replaced process none after it; files of the
//! service manager belong to the service manager.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use headlong_net::{BindError, ListenAddress, Listener, SocketFile, adopt, bind};

use crate::upgrade::{InheritedSocket, InheritedSockets};
use headlong_config::{Config, ListenSetting};

/// The listening sockets of this process.
pub(crate) struct Listeners {
    unix_mode: u32,
    /// Duplicates, for the next process.
    copies: Vec<InheritedSocket>,
    /// Socket files owned by this process.
    files: Vec<SocketFile>,
    /// Socket files of the old process, which this process owns after the handover.
    files_before: Vec<OldSocketFile>,
    /// Socket files of the old process that are no longer configured.
    unwanted: Vec<OldSocketFile>,
}

/// A socket file of the old process.
struct OldSocketFile {
    path: PathBuf,
    /// The file itself; older versions do not pass it.
    file: Option<OwnedFd>,
}

impl OldSocketFile {
    fn of(address: &ListenAddress, file: Option<OwnedFd>) -> Option<Self> {
        match address {
            ListenAddress::Ip(_) => None,
            ListenAddress::Unix(path) => Some(Self {
                path: path.clone(),
                file,
            }),
        }
    }

    /// Takes ownership of the file, if it still exists.
    fn take(self) -> Option<SocketFile> {
        match self.file {
            Some(file) => SocketFile::take_over(&self.path, file),
            None => SocketFile::of(&self.path).ok(),
        }
    }
}

impl Listeners {
    /// Creates an empty set; unix socket files get this mode.
    pub(crate) fn new(unix_mode: u32) -> Self {
        Self {
            unix_mode,
            copies: Vec::new(),
            files: Vec::new(),
            files_before: Vec::new(),
            unwanted: Vec::new(),
        }
    }

    /// Opens or inherits all listeners for viewers.
    pub(crate) fn open_all(
        &mut self,
        config: &Config,
        inherited: &mut InheritedSockets,
    ) -> Result<Vec<(ListenSetting, Listener)>, BindError> {
        let all = config.listeners().into_iter();
        all.map(|on| {
            let listener = self.open(&on.address, inherited)?;
            Ok((on, listener))
        })
        .collect()
    }

    /// Opens or inherits one listener.
    pub(crate) fn open(
        &mut self,
        address: &ListenAddress,
        inherited: &mut InheritedSockets,
    ) -> Result<Listener, BindError> {
        let copied = |descriptor: BorrowedFd<'_>| {
            let copy = descriptor.try_clone_to_owned();
            copy.map_err(|source| BindError::new(address, source))
        };
        let (listener, file, is_managed) = match inherited.take(address) {
            Some(lent) => {
                let file = lent.file.as_ref().map(|file| copied(file.as_fd()));
                if !lent.is_managed {
                    self.files_before
                        .extend(OldSocketFile::of(address, lent.file));
                }
                (adopt(address, lent.socket)?, file, lent.is_managed)
            }
            None => {
                let (listener, made) = bind(address, self.unix_mode)?;
                let file = made.as_ref().map(|made| copied(made.file()));
                self.files.extend(made);
                (listener, file, false)
            }
        };
        self.copies.push(InheritedSocket {
            address: address.clone(),
            socket: copied(listener.as_fd())?,
            file: file.transpose()?,
            is_managed,
        });
        Ok(listener)
    }

    /// Marks the remaining sockets of the old process as no longer configured.
    pub(crate) fn close(&mut self, inherited: InheritedSockets) {
        let own = inherited
            .into_unclaimed()
            .into_iter()
            .filter(|lent| !lent.is_managed);
        self.unwanted
            .extend(own.filter_map(|lent| OldSocketFile::of(&lent.address, lent.file)));
    }

    /// The handover has happened: this process owns the files of the old one.
    pub(crate) fn take_over(&mut self) {
        // A file that is missing or was replaced by another process is not ours to remove.
        for file in self.files_before.drain(..).filter_map(OldSocketFile::take) {
            file.set_mode(self.unix_mode);
            self.files.push(file);
        }
        for file in self.unwanted.drain(..) {
            drop(file.take());
        }
    }

    /// Takes the duplicates.
    pub(crate) fn lend(&mut self) -> Vec<InheritedSocket> {
        std::mem::take(&mut self.copies)
    }

    /// Another process has taken over and owns the files.
    pub(crate) fn leave(self) {
        self.files.into_iter().for_each(SocketFile::leave);
    }
}
