//! The memory of the process as a whole: its parts, and the share of file data in it.

use headlong_units::{Bytes, KIB, MIB};

use crate::path_rule::Packaging;
use crate::settings::Config;

/// The program, its threads, the logs' queues, and a catalogue of some ten thousand titles: a server
/// of 10,000 small files has 40 MiB resident after its catalogue was requested.
const PROGRAM_BYTES: u64 = 64 * MIB;
/// A connection whose client stopped reading: its buffers and its task. With `memory_prefault`,
/// VmRSS grew by 25 KiB for each of 1,000 and of 3,000 connections that requested a title of 20 MB.
const CONNECTION_BYTES: u64 = 28 * KIB;
/// The same with TLS, which keeps up to 64 KiB of encrypted bytes: VmRSS grew by 103 KiB for each of
/// 1,000 and of 2,000 connections.
const TLS_CONNECTION_BYTES: u64 = 108 * KIB;
/// HTTP/2 requests in progress may use one part in this many of `memory`, on top of it.
const REQUEST_PART: u64 = 8;
const REQUEST_BYTES_MIN: u64 = 8 * MIB;
/// The sendfile cache uses at most one part in this many of `memory`, on top of it.
const SENDFILE_PART: u64 = 8;
/// Sample tables of MP4 files that are being read, on top of `package_memory`.
pub const PACKAGE_READING_BYTES: u64 = 64 * MIB;
/// Heads of fragments of segments, in files that have an index of those: none waits for an index.
pub const PACKAGE_SEGMENT_BYTES: u64 = 16 * MIB;
/// Copies of headers that are being written to the state folder.
pub const PACKAGE_STORING_BYTES: u64 = 16 * MIB;
/// Unless `limits.connections_max` is set, connections get one part in this many of
/// `process_memory`, or in addition to `memory`.
const CONNECTIONS_PART: u64 = 8;
/// Connections get at least this beside `memory`: a thousand without TLS.
const CONNECTIONS_BYTES_MIN: u64 = 32 * MIB;

/// Upper limits of what the process uses, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryParts {
    /// File data: `memory`.
    pub files: u64,
    /// Copies of frequently sent file data for sendfile.
    pub sendfile: u64,
    /// HTTP/2 requests in progress.
    pub requests: u64,
    /// All connections that `limits.connections_max` permits.
    pub connections: u64,
    /// Sample tables of titles that are packaged: `package_memory`, and those being read and stored.
    pub package: u64,
    /// Everything else.
    pub program: u64,
}

impl MemoryParts {
    /// The whole process.
    pub fn sum(&self) -> u64 {
        let parts = [
            self.files,
            self.sendfile,
            self.requests,
            self.connections,
            self.package,
            self.program,
        ];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

impl std::fmt::Display for MemoryParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whole = |bytes: u64| Bytes(bytes - bytes % MIB);
        write!(
            f,
            "{} for file data (memory), {} for the sendfile cache, {} for HTTP/2 requests, {} for \
             connections (limits.connections_max), ",
            whole(self.files),
            whole(self.sendfile),
            whole(self.requests),
            whole(self.connections),
        )?;
        if self.package > 0 {
            write!(
                f,
                "{} for packaging (package_memory), ",
                whole(self.package)
            )?;
        }
        write!(
            f,
            "{} for the program and its catalogue: {}",
            whole(self.program),
            whole(self.sum())
        )
    }
}

impl Config {
    /// The most that the process may use with these settings.
    pub fn memory_parts(&self) -> MemoryParts {
        let files = self.engine.memory_bytes;
        MemoryParts {
            files,
            sendfile: match self.copies {
                true => files / SENDFILE_PART,
                false => 0,
            },
            requests: self.request_bytes_max(),
            connections: u64::from(self.limits.connections_max)
                .saturating_mul(self.connection_bytes()),
            package: match self.packages() {
                true => [
                    PACKAGE_READING_BYTES,
                    PACKAGE_SEGMENT_BYTES,
                    PACKAGE_STORING_BYTES,
                ]
                .into_iter()
                .fold(self.package_memory, u64::saturating_add),
                false => 0,
            },
            program: PROGRAM_BYTES,
        }
    }

    /// Whether playlists and segments are made from some MP4 files.
    pub fn packages(&self) -> bool {
        let of_rules = self.rules().filter_map(|(_, rule)| rule.package);
        let mut all = std::iter::once(self.package).chain(of_rules);
        all.any(|package| package == Packaging::On)
    }

    /// Memory that HTTP/2 requests in progress may use on top of `memory`.
    pub fn request_bytes_max(&self) -> u64 {
        (self.engine.memory_bytes / REQUEST_PART).max(REQUEST_BYTES_MIN)
    }

    /// Memory of one device's sendfile cache if the machine has enough, on top of its share of
    /// `memory`.
    pub(crate) fn sendfile_bytes_max(share: u64) -> u64 {
        share / SENDFILE_PART
    }

    /// The value of `limits.connections_max` if it is not set: what the memory of connections holds.
    pub(crate) fn connections_max_by_memory(&self) -> u32 {
        let bytes = match self.process_memory {
            Some(whole) => whole / CONNECTIONS_PART,
            None => (self.engine.memory_bytes / CONNECTIONS_PART).max(CONNECTIONS_BYTES_MIN),
        };
        let most = u32::try_from((bytes / self.connection_bytes()).max(1)).unwrap_or(u32::MAX);
        Self::default().limits.connections_max.min(most)
    }

    /// Whether `limits.connections_max` is what the memory of connections holds.
    pub(crate) fn derives_connections_max(&self) -> bool {
        self.limits.connections_max == self.connections_max_by_memory()
    }

    /// Derives `limits.connections_max` unless it `is_written`, and `memory` from `process_memory`.
    pub(crate) fn divide_process_memory(&mut self, connections_max_is_written: bool) {
        if !connections_max_is_written {
            self.limits.connections_max = self.connections_max_by_memory();
        }
        let Some(whole) = self.process_memory else {
            return;
        };
        self.engine.memory_bytes = 0;
        let rest = whole.saturating_sub(self.memory_parts().sum() - self.request_bytes_max());
        let sendfile = u64::from(self.copies);
        // Where an eighth of the result is less than the minimum for requests, that is subtracted.
        let by_parts = rest / (REQUEST_PART + 1 + sendfile) * REQUEST_PART;
        let by_minimum =
            rest.saturating_sub(REQUEST_BYTES_MIN) / (SENDFILE_PART + sendfile) * SENDFILE_PART;
        let files = by_parts.min(by_minimum);
        self.engine.memory_bytes = files - files % self.engine.piece_bytes.max(MIB);
    }

    fn connection_bytes(&self) -> u64 {
        match self.tls.certificate.is_empty() {
            false => TLS_CONNECTION_BYTES,
            true => CONNECTION_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::super::load::Flags;
    use super::*;

    fn of(text: &str) -> Result<Config, String> {
        let flags = Flags {
            roots: vec![PathBuf::from("/")],
            ..Flags::default()
        };
        Config::from_text(Path::new("headlong.toml"), text, &flags)
            .map_err(|mistakes| mistakes.to_string())
    }

    #[test]
    fn parts_fill_process_memory_and_never_exceed_it() {
        for (mebibytes, others) in [
            (160, ""),
            (256, ""),
            (1000, "limits.connections_max = 100\n"),
            (
                4096,
                "tls.certificate = \"/c\"\ntls.key = \"/k\"\npiece = \"1MiB\"\n",
            ),
            (65_536, "limits.connections_max = 100000\n"),
        ] {
            let text = format!("process_memory = \"{mebibytes}MiB\"\n{others}");
            let config = of(&text).expect(&text);
            let (parts, whole) = (config.memory_parts(), mebibytes * MIB);
            assert!(parts.sum() <= whole, "{text}: {parts}");
            assert!(parts.sum() > whole - 3 * MIB, "{text}: {parts}");
            assert_eq!(of(&config.show()), Ok(config), "{text}");
        }
    }

    #[test]
    fn connections_fit_into_small_memory_unless_their_number_is_set() {
        let most = |text: &str| of(text).expect(text).limits.connections_max;
        assert_eq!(most("process_memory = \"224MiB\""), 1024);
        assert_eq!(most("process_memory = \"64GiB\""), 16_384);
        let text = "process_memory = \"1GiB\"\nlimits.connections_max = 20000\n";
        assert_eq!(most(text), 20_000);
        assert_eq!(most("memory = \"32MiB\""), 1170);
        assert_eq!(most("memory = \"1GiB\""), 4681);
        assert_eq!(most("memory = \"8GiB\""), 16_384);
        assert_eq!(most("memory = \"32MiB\"\nlimits.connections_max = 9\n"), 9);
    }

    #[test]
    fn too_small_or_contradictory_process_memory_is_a_mistake_with_remedy() {
        let few = of("process_memory = \"80MiB\"").expect_err("too small");
        assert!(few.contains("raise process_memory"), "{few}");
        let text = "process_memory = \"1GiB\"\nlimits.connections_max = 1000000\n";
        let many = of(text).expect_err("too many connections");
        assert!(many.contains("limits.connections_max"), "{many}");
        let both = of("process_memory = \"1GiB\"\nmemory = \"1GiB\"\n").expect_err("both");
        assert!(both.contains("contradicts"), "{both}");
    }

    #[test]
    fn flag_memory_overrides_process_memory_of_the_file() {
        let flags = Flags {
            roots: vec![PathBuf::from("/")],
            memory: Some("1GiB".to_owned()),
            ..Flags::default()
        };
        let text = "process_memory = \"512MiB\"\n";
        let config = Config::from_text(Path::new("headlong.toml"), text, &flags).expect("valid");
        assert_eq!(config.engine.memory_bytes, 1 << 30);
        assert_eq!(config.process_memory, None);
    }
}
