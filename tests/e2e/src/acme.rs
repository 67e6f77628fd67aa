//! An authority for certificates by ACME, and certbot as its client.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::python::PythonServer;

/// The Python for which Debian's certbot and its libraries are installed.
const PYTHON: &str = "/usr/bin/python3";

/// A running authority; stopped when dropped.
pub struct Authority {
    server: PythonServer,
    folder: PathBuf,
}

impl Authority {
    /// Starts an authority that asks for challenges at this address, whatever the name; it and
    /// certbot keep their files in `folder`.
    pub fn start(folder: &Path, challenged: SocketAddr) -> std::io::Result<Self> {
        let (ip, port) = (challenged.ip().to_string(), challenged.port().to_string());
        let at = folder.display().to_string();
        let script = include_str!("acme_authority.py");
        Ok(Self {
            server: PythonServer::start(PYTHON, script, &[&at, &ip, &port])?,
            folder: folder.to_owned(),
        })
    }

    /// The file with its own certificate.
    pub fn certificate(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// The outcome of each validation: name, `valid` or `invalid`, and the reason.
    pub fn lines(&self) -> Vec<String> {
        self.server.lines()
    }

    /// Runs a command of certbot; returns its messages.
    ///
    /// # Panics
    /// If it fails.
    pub fn certbot(&self, command: &str, arguments: &[&str]) -> String {
        let url = format!("http://127.0.0.1:{}/directory", self.server.port);
        let mut certbot = Command::new("certbot");
        certbot.arg(command).args(["--server", &url]);
        for (flag, name) in [
            ("--config-dir", "certbot"),
            ("--work-dir", "certbot-work"),
            ("--logs-dir", "certbot-logs"),
        ] {
            certbot.arg(flag).arg(self.folder.join(name));
        }
        let output = certbot
            .args(["--non-interactive", "--agree-tos"])
            .args(arguments)
            .output()
            .expect("certbot");
        let all = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&all).into_owned();
        assert!(output.status.success(), "{text}\n{:?}", self.lines());
        text
    }
}
