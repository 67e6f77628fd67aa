//! Arguments of `headlong simulate` for a vanilla server.

use headlong_sim::{AccessMethod, CacheKind, PageCacheServerSetup, Scheduler, ServerModel};
use headlong_units::{Bytes, KIB, nearest_three};

/// Arguments that select and configure a vanilla server.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct VanillaArgs {
    /// Server: headlong, or vanilla, a web server such as nginx that sends files from the kernel's
    /// page cache
    #[arg(
        long,
        help_heading = "Server",
        value_name = "NAME",
        default_value = "headlong"
    )]
    pub(crate) server: String,
    /// Readahead of the kernel (read_ahead_kb) [default: 128KiB]
    #[arg(long, help_heading = "Vanilla server", value_name = "SIZE")]
    pub(crate) read_ahead: Option<Bytes>,
    /// The largest request to the device (max_sectors_kb) [default: 1280KiB]
    #[arg(long, help_heading = "Vanilla server", value_name = "SIZE", value_parser = request_size)]
    max_sectors: Option<Bytes>,
    /// I/O scheduler: mq-deadline or none [default: mq-deadline]
    #[arg(long, help_heading = "Vanilla server", value_name = "NAME")]
    scheduler: Option<String>,
    /// Concurrent requests of the device: 32 for a disk, 128 for a loop device [default:
    /// 32]
    #[arg(long, help_heading = "Vanilla server", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tags: Option<u32>,
    /// Processes [default: 2]
    #[arg(long, help_heading = "Vanilla server", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    workers: Option<u32>,
    /// Threads per process that read files; 1 for blocking processes [default: 64]
    #[arg(long, help_heading = "Vanilla server", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    server_threads: Option<u32>,
    /// How files are read: sendfile, mapped, or the size of read buffers, such as 32KiB
    /// [default: sendfile]
    #[arg(long, help_heading = "Vanilla server", value_name = "HOW")]
    access: Option<String>,
    /// Model of the page cache: large-folios (two lists, Linux since 6.16 with ext4),
    /// pages (two lists, earlier), lru (one LRU list) [default: large-folios]
    #[arg(long, help_heading = "Vanilla server", value_name = "NAME")]
    page_cache: Option<String>,
}

/// Smallest request to the drive: a page.
const REQUEST_MIN: Bytes = Bytes(4 * KIB);

/// Parses the size of the largest request.
pub(crate) fn request_size(text: &str) -> Result<Bytes, String> {
    match text.parse::<Bytes>().map_err(|error| error.to_string())? {
        size if size < REQUEST_MIN => Err(format!("must be at least {REQUEST_MIN}")),
        size => Ok(size),
    }
}

impl VanillaArgs {
    /// The server; mistakes in the arguments are added to `mistakes`.
    pub(crate) fn server(&self, memory_bytes: u64, mistakes: &mut Vec<String>) -> ServerModel {
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
        let setup = PageCacheServerSetup {
            memory_bytes,
            read_ahead_bytes: self.read_ahead.unwrap_or(Bytes(128 * KIB)).0,
            request_bytes_max: self.max_sectors.unwrap_or(Bytes(1280 * KIB)).0,
            scheduler: one_of(
                "--scheduler",
                self.scheduler.as_deref().unwrap_or("mq-deadline"),
                &schedulers,
                mistakes,
            ),
            tags: self.tags.unwrap_or(32),
            workers: self.workers.unwrap_or(2),
            threads: self.server_threads.unwrap_or(64),
            access: self.access(mistakes),
            cache: one_of(
                "--page-cache",
                self.page_cache.as_deref().unwrap_or("large-folios"),
                &caches,
                mistakes,
            ),
            ..PageCacheServerSetup::default()
        };
        if is_vanilla {
            ServerModel::Vanilla(setup)
        } else {
            ServerModel::Headlong
        }
    }

    /// Whether a web server is modelled instead of the engine.
    pub(crate) fn is_vanilla(&self) -> bool {
        self.server == "vanilla"
    }

    /// The given options that apply only to a vanilla server.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let all = [
            ("--read-ahead", self.read_ahead.is_some()),
            ("--max-sectors", self.max_sectors.is_some()),
            ("--scheduler", self.scheduler.is_some()),
            ("--tags", self.tags.is_some()),
            ("--workers", self.workers.is_some()),
            ("--server-threads", self.server_threads.is_some()),
            ("--access", self.access.is_some()),
            ("--page-cache", self.page_cache.is_some()),
        ];
        let given = all.into_iter().filter(|(_, is_given)| *is_given);
        given.map(|(flag, _)| flag).collect()
    }

    fn access(&self, mistakes: &mut Vec<String>) -> AccessMethod {
        let text = self.access.as_deref().unwrap_or("sendfile");
        match (text, text.parse::<Bytes>()) {
            ("sendfile", _) => AccessMethod::Sendfile,
            ("mapped", _) => AccessMethod::Mapped,
            (_, Ok(Bytes(bytes @ 1..))) => AccessMethod::Read(bytes),
            (text, _) => {
                mistakes.push(format!(
                    "--access {text}: write sendfile, mapped, or a size such as 32KiB"
                ));
                AccessMethod::Sendfile
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
