//! Checks a configuration against this machine. Problems that can be fixed without changing the
//! configuration are in [`super::ill_parts`].

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use headlong_access::tokens::PublicKey;
use headlong_edge::check_s3;
use headlong_library::{DeviceInfo, RootError, inspect_roots};
use headlong_net::{
    ListenAddress, TcpOptions, ValidityProblem, check_pair, family_trouble, is_socket,
};
use headlong_settings::{Document, ValueLocation};
use headlong_storage::flash::{self, FlashErrorKind};
use headlong_telemetry::LogTarget;
use headlong_units::Bytes;

use crate::check;
use crate::memory;
use crate::settings::{Admin, Config};

impl Config {
    /// Options of viewers' sockets.
    pub fn tcp_options(&self) -> TcpOptions {
        TcpOptions {
            congestion_control: self.tcp.congestion_control.clone(),
        }
    }

    /// Reports missing folders, certificates, logs, devices and memory. Reads folders and files;
    /// binds no port, leaves no file behind and reads no title.
    pub(crate) fn check_machine(&self, document: &mut Document) {
        let seen = match inspect_roots(&self.folders(), self.link_targets.len()) {
            Ok(seen) => {
                self.check_devices(&seen.devices, seen.missing.is_empty(), document);
                // The folders of origins are between roots and targets of links; their files have
                // no paths.
                let targets = seen.real_paths.len() - self.link_targets.len();
                let served = self.served().len();
                let is_served = |index| index < served || index >= targets;
                let folders = seen.real_paths.into_iter().enumerate();
                let served = folders.filter(|(index, _)| is_served(*index));
                served.filter_map(|(_, real)| real).collect()
            }
            Err(errors) => {
                // A missing folder may appear later; the start reports it.
                let is_text = errors.iter().any(RootError::is_of_the_list);
                for error in errors
                    .iter()
                    .filter(|error| is_text && !matches!(error, RootError::None))
                {
                    document.wrong(&self.key_of_folder(error), error.to_string());
                }
                Vec::new()
            }
        };
        self.check_logs(document);
        self.check_unserved(&seen, document);
        for (table, _, rule) in self.pulls() {
            if let Err(mistakes) = rule.read_fleet() {
                document.wrong(&format!("{table}.fleet"), mistakes);
            }
        }
        if let Err((key, text)) = self.steering() {
            document.wrong(key, text);
        }
        for error in flash::check_ssds(&self.flash, self.engine.piece_bytes, 1) {
            if matches!(error.trouble, FlashErrorKind::Twice) {
                document.wrong("flash", error.to_string());
            }
        }
        self.check_sockets(document);
        self.check_tls(document);
        for (table, rule) in self.rules() {
            for error in rule
                .jwt_public_keys
                .iter()
                .map(|path| PublicKey::read(path))
            {
                if let Err(error) = error {
                    document.wrong(&format!("{table}.jwt_public_keys"), error);
                }
            }
        }
        for (table, _, rule) in self.pulls() {
            if let Err((key, text)) = check_s3(rule) {
                document.wrong(&format!("{table}.{key}"), text);
            }
        }
        if let Err(text) = self.tcp_options().check() {
            document.wrong("tcp.congestion_control", text);
        }
        self.check_memory(document);
    }

    /// Reports contradictions within the settings of [`super::disk_rows`] and of single devices,
    /// and settings that do not fit these devices or this machine. For programs that use disks
    /// without a server.
    pub fn check_disks(&self, devices: &[DeviceInfo], document: &mut Document) {
        check::disks(document, self);
        self.check_devices(devices, true, document);
        self.check_memory(document);
    }

    /// Whether the path of a unix socket is occupied by something else, and whether the machine has
    /// IPv6. A missing folder of a socket is created when the unit starts.
    fn check_sockets(&self, document: &mut Document) {
        let admin = match &self.admin {
            Admin::Off => &[][..],
            Admin::Address(address) => std::slice::from_ref(address),
        };
        for (key, addresses) in [
            ("listen", &self.listen[..]),
            ("admin", admin),
            ("agent", self.agent.as_slice()),
            ("proxies.listen", &self.proxies.listen),
            ("tls.listen", &self.tls.listen),
            ("tls.redirect", &self.tls.redirect),
        ] {
            for address in addresses {
                let trouble = match address {
                    ListenAddress::Unix(path) => {
                        is_socket(path).err().map(|error| error.to_string())
                    }
                    ListenAddress::Ip(ip) => family_trouble(ip).map(str::to_owned),
                };
                if let Some(text) = trouble {
                    document.wrong(key, format!("{address}: {text}"));
                }
            }
        }
    }

    /// Reads certificates and keys as the server does.
    fn check_tls(&self, document: &mut Document) {
        let mut unread = Vec::new();
        for (name, paths) in [
            ("tls.certificate", &self.tls.certificate),
            ("tls.key", &self.tls.key),
        ] {
            for path in paths {
                if let Err(error) = fs::read(path) {
                    let shown = path.display();
                    let text = format!("{shown} cannot be read: {error}; name a PEM file");
                    document.wrong(name, text);
                    unread.push(path);
                }
            }
        }
        let is_unread = |path: &PathBuf| unread.contains(&path);
        for files in self.tls.files() {
            let are_read = !is_unread(&files.certificate) && !is_unread(&files.key);
            if are_read && let Err(error) = check_pair(&files) {
                let name = match error.is_about_key(&files.key) {
                    true => "tls.key",
                    false => "tls.certificate",
                };
                document.wrong(name, error.to_string());
            }
        }
    }

    /// What is wrong at `now_unix_s`, in seconds since 1970, with how long the certificates are
    /// valid. Those that cannot be used are left out: they are mistakes.
    pub fn certificate_problems(&self, now_unix_s: i64) -> Vec<ValidityProblem> {
        let files = self.tls.files();
        let valid = files.iter().filter_map(|files| check_pair(files).ok());
        valid.filter_map(|one| one.problem(now_unix_s)).collect()
    }

    fn check_memory(&self, document: &mut Document) {
        let (key, bytes) = self.memory_setting();
        if let Some(there) = memory::available()
            && bytes > there.bytes
        {
            let text = format!(
                "{} is more than {} has ({}); lower {key}",
                Bytes(bytes),
                there.owner,
                Bytes(there.bytes).rounded()
            );
            document.wrong_too(key, text);
        }
    }

    /// The setting that bounds the memory, and its value.
    fn memory_setting(&self) -> (&'static str, u64) {
        match self.process_memory {
            Some(bytes) => ("process_memory", bytes),
            None => ("memory", self.engine.memory_bytes),
        }
    }

    /// Additional memory for a device's sendfile cache: a part of its share of `memory`, but at
    /// most a quarter of the memory that `memory` leaves free.
    pub fn hot_bytes(&self, share: u64) -> u64 {
        if !self.copies {
            return 0;
        }
        let memory = self.engine.memory_bytes.max(1);
        let left = memory::available().map_or(0, |there| there.bytes.saturating_sub(memory));
        let of_left = u128::from(left / 4) * u128::from(share) / u128::from(memory);
        u64::try_from(of_left)
            .unwrap_or(u64::MAX)
            .min(Self::sendfile_bytes_max(share))
    }

    /// Warns if less than a tenth of the available memory is left for connections, the kernel and
    /// the file system, as the kernel may then kill the server.
    pub(crate) fn memory_warning(&self) -> Option<String> {
        let ((key, bytes), there) = (self.memory_setting(), memory::available()?);
        (bytes > there.bytes - there.bytes / 10).then(|| {
            format!(
                "{key}: {} of the {} that {} has leave too little for connections and the \
                 kernel, which may end the server; keep a tenth free",
                Bytes(bytes),
                Bytes(there.bytes).rounded(),
                there.owner
            )
        })
    }

    /// Warns about each log that is a pipe: only at run time is it known whether a process reads
    /// it.
    pub(crate) fn pipe_warnings(&self) -> impl Iterator<Item = String> {
        self.log
            .sinks()
            .into_iter()
            .filter_map(|(key, sink)| match sink {
                LogTarget::File(path) if is_pipe(path) => Some(format!(
                    "{key}: {} is a pipe; while no process reads it, lines are dropped and counted",
                    path.display()
                )),
                _ => None,
            })
    }

    /// The setting that names the folder of an error.
    pub(crate) fn key_of_folder(&self, error: &RootError) -> String {
        let folder = error.path();
        folder.map_or("roots".to_owned(), |folder| self.key_of(folder))
    }

    /// Refuses files of the server that lie below a root. `roots` are the accessible roots, with
    /// symbolic links resolved.
    fn check_unserved(&self, roots: &[PathBuf], document: &mut Document) {
        let mut own: Vec<(String, &Path)> = Vec::new();
        for (key, sink) in self.log.sinks() {
            if let LogTarget::File(path) = sink {
                own.push((key.to_owned(), path));
            }
        }
        own.extend(self.state.iter().map(|path| ("state".to_owned(), &**path)));
        own.extend(self.flash.iter().map(|path| ("flash".to_owned(), &**path)));
        own.extend(
            self.tls
                .key
                .iter()
                .map(|path| ("tls.key".to_owned(), &**path)),
        );
        for (table, _, rule) in self.pulls() {
            let keys = rule.s3_keys.iter();
            own.extend(keys.map(|path| (format!("{table}.s3_keys"), &**path)));
        }
        for (key, path) in own {
            let real = real_path(path);
            if let Some(root) = roots.iter().find(|root| real.starts_with(root)) {
                let text = format!(
                    "{} is in {}, which is served: viewers could read it; place it elsewhere",
                    path.display(),
                    root.display()
                );
                document.wrong(&key, text);
            }
        }
    }

    /// Refuses two logs in one file.
    fn check_logs(&self, document: &mut Document) {
        let mut others: Vec<(&str, PathBuf)> = Vec::new();
        for (key, sink) in self.log.sinks() {
            let LogTarget::File(path) = sink else {
                continue;
            };
            let real = real_path(path);
            if let Some((other, _)) = others.iter().find(|(_, other)| *other == real) {
                let text = format!(
                    "{} is also the file of {other}; give each log a file of its own",
                    path.display()
                );
                document.wrong(key, text);
            }
            others.push((key, real));
        }
    }

    /// Checks the settings against the devices of the roots; devices of missing roots are unknown.
    fn check_devices(&self, devices: &[DeviceInfo], are_all: bool, document: &mut Document) {
        if document.mistakes.is_about("process_memory") {
            return;
        }
        if let Err(mistakes) = self.engines_for(&names(devices), are_all) {
            for mistake in mistakes.iter() {
                match document.is_written(&mistake.key) {
                    true => document.wrong_too(&mistake.key, &mistake.text),
                    false => {
                        document
                            .mistakes
                            .push(ValueLocation::Machine, &mistake.key, &mistake.text)
                    }
                }
            }
        }
    }
}

/// Names of the devices, and whether they rotate, as the configuration expects them.
pub fn names(devices: &[DeviceInfo]) -> Vec<(String, bool)> {
    let name = |device: &DeviceInfo| (device.name.clone(), device.rotates());
    devices.iter().map(name).collect()
}

pub(crate) fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

pub(crate) fn folder_of(path: &Path) -> &Path {
    let folder = path.parent();
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Resolves symbolic links as far as the path exists.
fn real_path(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| {
        let folder = folder_of(path);
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
        folder.join(path.file_name().unwrap_or_default())
    })
}
