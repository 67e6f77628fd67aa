//! A Prometheus that scrapes one server and evaluates the rules of `packaging/`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use headlong_testkit::{Scratch, server::free_address};

use crate::program::Program;

/// A running Prometheus; stopped when dropped.
pub struct Prometheus(Program);

impl Prometheus {
    /// Scrapes `target` and evaluates the rules every second.
    pub fn start(target: SocketAddr) -> std::io::Result<Self> {
        let scratch = Scratch::new("prometheus")?;
        let address = free_address();
        let file = scratch.path().join("prometheus.yml");
        let rules = packaging().join("prometheus/alerts.yml");
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: ['{}']\n\
             scrape_configs:\n  - job_name: headlong\n    static_configs: [{{targets: ['{target}']}}]\n",
            rules.display()
        );
        std::fs::write(&file, config)?;
        let data = scratch.path().join("data");
        let mut command = scratch.command("/usr/bin/prometheus");
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg("--enable-feature=exemplar-storage")
            .arg(format!("--web.listen-address={address}"));
        Program::start(scratch, &mut command, address).map(Self)
    }

    /// Address of its API.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }
}

/// Folder with the files that are installed beside the programs.
pub fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}
