//! The listening sockets: opened or taken over, lent to the process that comes next, and closed.
//!
//! Invariant: the file of a unix socket is removed by who has the place when the service ends, and by
//! nobody else. A process that is to take the place owns none before it has it; one that was replaced
//! owns none any more; those of the service manager are the service manager's.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
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
    files_before: Vec<FileBefore>,
    /// Those of them at which nobody is to listen any more.
    unwanted: Vec<FileBefore>,
}

/// The file of a socket of the process before.
struct FileBefore {
    path: PathBuf,
    /// An older program does not say which one it made.
    file: Option<OwnedFd>,
}

impl FileBefore {
    fn of(address: &ListenAddress, file: Option<OwnedFd>) -> Option<Self> {
        match address {
            ListenAddress::Ip(_) => None,
            ListenAddress::Unix(path) => Some(Self {
                path: path.clone(),
                file,
            }),
        }
    }

    /// It is this process's from now on, if it is still there.
    fn take(self) -> Option<SocketFile> {
        match self.file {
            Some(file) => SocketFile::given(&self.path, file),
            None => SocketFile::of(&self.path).ok(),
        }
    }
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
        let copied = |descriptor: BorrowedFd<'_>| {
            let copy = descriptor.try_clone_to_owned();
            copy.map_err(|source| BindError::new(address, source))
        };
        let (listener, file, is_managed) = match inherited.take(address) {
            Some(lent) => {
                let file = lent.file.as_ref().map(|file| copied(file.as_fd()));
                if !lent.is_managed {
                    self.files_before.extend(FileBefore::of(address, lent.file));
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
        self.copies.push(Lent {
            address: address.clone(),
            socket: copied(listener.as_fd())?,
            file: file.transpose()?,
            is_managed,
        });
        Ok(listener)
    }

    /// What is left of the sockets of the process before is not wanted any more.
    pub(crate) fn close(&mut self, inherited: Inherited) {
        let own = inherited.left().into_iter().filter(|lent| !lent.is_managed);
        self.unwanted
            .extend(own.filter_map(|lent| FileBefore::of(&lent.address, lent.file)));
    }

    /// This process has the place of the one before, and so its files.
    pub(crate) fn take_over(&mut self) {
        // One that is gone by now needs not be removed, and what another has put there is not ours.
        for file in self.files_before.drain(..).filter_map(FileBefore::take) {
            file.set_mode(self.unix_mode);
            self.files.push(file);
        }
        for file in self.unwanted.drain(..) {
            drop(file.take());
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
