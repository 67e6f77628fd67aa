//! Arguments of `headlong simulate` for a vanilla server.

use headlong_sim::{Access, CacheKind, Scheduler, ServerKind, VanillaSetup};
use headlong_units::{Bytes, nearest_three};

/// What answers, if it is not the engine.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct VanillaArgs {
    /// What answers: headlong, or vanilla, a web server such as nginx that sends files from the
    /// kernel's page cache
    #[arg(long, value_name = "NAME", default_value = "headlong")]
    pub(crate) server: String,
    /// Vanilla: how far the kernel reads ahead (read_ahead_kb)
    #[arg(long, value_name = "SIZE", default_value = "128KiB")]
    pub(crate) read_ahead: Bytes,
    /// Vanilla: the largest request to the device (max_sectors_kb)
    #[arg(long, value_name = "SIZE", default_value = "1280KiB")]
    max_sectors: Bytes,
    /// Vanilla: I/O scheduler: mq-deadline or none
    #[arg(long, value_name = "NAME", default_value = "mq-deadline")]
    scheduler: String,
    /// Vanilla: requests that the device takes at once: 32 of a disk, 128 of a loop device
    #[arg(long, value_name = "N", default_value_t = 32)]
    tags: u32,
    /// Vanilla: processes
    #[arg(long, value_name = "N", default_value_t = 2)]
    workers: u32,
    /// Vanilla: threads of each process that read files; 1 for processes that block
    #[arg(long, value_name = "N", default_value_t = 64)]
    server_threads: u32,
    /// Vanilla: how files are got at: sendfile, mapped, or the size of the buffers they are read
    /// into, such as 32KiB
    #[arg(long, value_name = "HOW", default_value = "sendfile")]
    access: String,
    /// Vanilla: how the page cache works: large-folios (two lists, Linux since 6.16 with ext4), pages
    /// (two lists, earlier), lru (one list by last use)
    #[arg(long, value_name = "NAME", default_value = "large-folios")]
    page_cache: String,
}

impl VanillaArgs {
    /// Who answers; what is wrong with the arguments is added to `mistakes`.
    pub(crate) fn server(&self, memory_bytes: u64, mistakes: &mut Vec<String>) -> ServerKind {
        let servers = [("headlong", false), ("vanilla", true)];
        let is_vanilla = one_of("--server", &self.server, &servers, mistakes);
        let schedulers = [
            ("mq-deadline", Scheduler::Deadline),
            ("none", Scheduler::None),
        ];
        let caches: Vec<(&str, CacheKind)> = CacheKind::ALL
            .iter()
            .map(|kind| (kind.name(), *kind))
            .collect();
        let setup = VanillaSetup {
            memory_bytes,
            read_ahead_bytes: self.read_ahead.0,
            request_bytes_max: self.max_sectors.0,
            scheduler: one_of("--scheduler", &self.scheduler, &schedulers, mistakes),
            tags: self.tags,
            workers: self.workers,
            threads: self.server_threads,
            access: self.access(mistakes),
            cache: one_of("--page-cache", &self.page_cache, &caches, mistakes),
            ..VanillaSetup::default()
        };
        if is_vanilla {
            ServerKind::Vanilla(setup)
        } else {
            ServerKind::Headlong
        }
    }

    fn access(&self, mistakes: &mut Vec<String>) -> Access {
        match (self.access.as_str(), self.access.parse::<Bytes>()) {
            ("sendfile", _) => Access::Sendfile,
            ("mapped", _) => Access::Mapped,
            (_, Ok(Bytes(bytes))) => Access::Read(bytes),
            (text, Err(_)) => {
                mistakes.push(format!(
                    "--access {text}: write sendfile, mapped, or a size such as 32KiB"
                ));
                Access::Sendfile
            }
        }
    }
}

fn one_of<T: Copy + Default>(
    flag: &str,
    typed: &str,
    names: &[(&str, T)],
    mistakes: &mut Vec<String>,
) -> T {
    let found = names.iter().find(|(name, _)| *name == typed);
    if found.is_none() {
        let known = || names.iter().map(|(name, _)| *name);
        let meant = nearest_three(typed, known())[0];
        let known: Vec<&str> = known().collect();
        mistakes.push(format!(
            "{flag} {typed}: did you mean `{meant}`? There are {}",
            known.join(", ")
        ));
    }
    found.map(|(_, value)| *value).unwrap_or_default()
}
