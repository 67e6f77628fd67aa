//! What a configuration means, once it has been read: one field for each key of the file.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use headlong_engine::{Control, EngineConfig, Policy, Prefetch};
use headlong_http::{CorsPolicy, ForwardedField};
use headlong_units::{Duration, KIB};
use ipnet::IpNet;

use super::path_rule::PathRule;
use super::pull_rule::PullRule;
use crate::disk::IoMode;
use crate::log::{LogFormat, LogTarget};
use crate::net::ListenAddress;

/// Everything an operator may say. Defaults are in `Default`, the engine's own in
/// [`EngineConfig`]; what each setting means is in the rows of `keys.rs` and of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Folders whose trees are served; at least one after [`Config::load`].
    pub roots: Vec<PathBuf>,
    /// Addresses for viewers; at least one.
    pub listen: Vec<ListenAddress>,
    /// Mode of the files of unix sockets.
    pub unix_mode: u32,
    /// Address for the operator.
    pub admin: Admin,
    /// Names under which the operator reaches `admin`, besides addresses and `localhost`.
    pub admin_hosts: Vec<String>,
    /// Settings of every device's engine; `memory_bytes` is the whole budget, for all of them.
    pub engine: EngineConfig,
    /// Whether all of the memory is taken from the system at start.
    pub memory_prefault: bool,
    /// Whether what is sent again and again is copied to where sockets take it from, beside `memory`.
    pub copies: bool,
    /// How devices are read.
    pub io: IoMode,
    /// Whether to read past the kernel's page cache.
    pub direct: bool,
    /// Most files that a device keeps open.
    pub open_files_max: u32,
    /// How long a file's size and time of change are believed before they are looked at again.
    pub revalidate: Duration,
    /// How often the roots are searched for new and deleted files; zero for never.
    pub rescan: Duration,
    /// Folder for what is remembered across restarts; nothing is, if there is none.
    pub state: Option<PathBuf>,
    /// SSDs of the flash tier, devices or files; none if there is no tier.
    pub flash: Vec<PathBuf>,
    /// When replies say where their time went.
    pub server_timing: ServerTiming,
    /// Whether replies say by `Cache-Status` where they come from.
    pub cache_status: bool,
    /// Whether replies tell players what is known of them, by CMSD.
    pub cmsd: bool,
    /// Whether replies say what their request is called.
    pub request_id: bool,
    /// Most bytes of a text that is sent by gzip; zero for none.
    pub gzip_max: u64,
    /// Whether a text is sent from the file by gzip that lies beside it.
    pub gzip_static: bool,
    /// The `Cache-Control` sent with files; empty for none.
    pub cache_control: String,
    /// How fast replies go; no setting of the engine.
    pub pacing: Pacing,
    /// Bounds on connections.
    pub limits: Limits,
    /// Options of viewers' sockets.
    pub tcp: Tcp,
    /// Certificate files.
    pub tls: Tls,
    /// Which other sites' pages may play from here.
    pub cors: Cors,
    /// How a viewing session is recognised when the player does not say it by CMCD.
    pub session: SessionKeys,
    /// Proxies that speak for clients.
    pub proxies: Proxies,
    /// Logs.
    pub log: Log,
    /// How many times faster than real the server's clocks run, for experiments.
    pub time_scale: u32,
    /// What is different for single devices, by kernel name (`sda`).
    pub device: BTreeMap<String, DeviceOverride>,
    /// What is different below single paths, by their prefix.
    pub path: BTreeMap<String, PathRule>,
    /// What is filled from an origin, by its prefix.
    pub pull: BTreeMap<String, PullRule>,
}

impl Config {
    /// The roots, and after them the folders for what comes from origins that are no roots.
    pub fn folders(&self) -> Vec<PathBuf> {
        let mut folders = self.roots.clone();
        for rule in self.pull.values() {
            if !folders.contains(&rule.folder) {
                folders.push(rule.folder.clone());
            }
        }
        folders
    }

    /// Where viewers connect, and what is spoken there.
    pub fn listeners(&self) -> Vec<ListenOn> {
        let is_all_tls = self.tls.listen.is_empty() && self.tls.certificate.is_some();
        let on = |addresses: &[ListenAddress], is_for_proxies, speaks_tls| {
            let on = |address: &ListenAddress| ListenOn {
                address: address.clone(),
                is_for_proxies,
                speaks_tls,
            };
            addresses.iter().map(on).collect::<Vec<_>>()
        };
        let mut all = on(&self.listen, false, is_all_tls);
        all.extend(on(&self.proxies.listen, true, is_all_tls));
        all.extend(on(&self.tls.listen, false, true));
        all
    }
}

/// An address for viewers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenOn {
    /// Where.
    pub address: ListenAddress,
    /// Whether connections begin with a header of the PROXY protocol.
    pub is_for_proxies: bool,
    /// Whether they are encrypted.
    pub speaks_tls: bool,
}

/// Where the operator's pages are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admin {
    /// Nowhere.
    Off,
    /// At this address.
    Address(ListenAddress),
}

/// Bounds on connections, so that no client can hold more than its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time.
    pub connections_max: u32,
    /// Of those, connections from one address.
    pub connections_per_address_max: u32,
    /// Requests from one address that wait for one device or are being sent from it.
    pub requests_per_address_max: u32,
    /// Requests on one connection before it is closed.
    pub requests_per_connection_max: u32,
    /// Requests in progress at a time on one HTTP/2 connection.
    pub requests_at_once_max: u32,
    /// Bytes of a request's line and headers together.
    pub header_bytes_max: u64,
    /// Header fields of a request.
    pub headers_max: u32,
    /// Longest time for a request's headers to arrive.
    pub header_timeout: Duration,
    /// Longest time between two requests.
    pub idle_timeout: Duration,
    /// How often an HTTP/2 client is asked whether it is still there.
    pub keep_alive_interval: Duration,
    /// Within each of these a reply must take `send_bytes_min`.
    pub send_timeout: Duration,
    /// Fewest bytes a reply must take within `send_timeout`.
    pub send_bytes_min: u64,
    /// Longest time replies in progress are given when the server stops.
    pub drain_timeout: Duration,
    /// Longest time they are given when another process has taken this one's place.
    pub upgrade_timeout: Duration,
    /// Most ranges answered in one reply.
    pub ranges_max: u32,
}

/// How fast replies go, once a burst is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacing {
    /// Per cent of a title's bit rate; zero for as fast as it can.
    pub pace_percent: u32,
    /// What goes as fast as it can at first, in time of the title.
    pub pace_burst: Duration,
    /// Most bytes a second of one reply; zero for any.
    pub bytes_per_second_max: u64,
    /// Most bytes a second of all replies of one address; zero for any.
    pub bytes_per_second_per_address_max: u64,
    /// Most bytes a second of all replies of one session; zero for any.
    pub bytes_per_second_per_session_max: u64,
}

impl Default for Pacing {
    fn default() -> Self {
        Self {
            pace_percent: 0,
            pace_burst: Duration::from_secs(10),
            bytes_per_second_max: 0,
            bytes_per_second_per_address_max: 0,
            bytes_per_second_per_session_max: 0,
        }
    }
}

/// Options of viewers' sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tcp {
    /// Congestion control by name; the system's default if there is none.
    pub congestion_control: Option<String>,
    /// Unsent bytes that the kernel takes beyond what is on its way; zero for its own default.
    pub unsent_max: u64,
}

/// Certificate files; both or neither after [`Config::load`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// Certificate chain, PEM.
    pub certificate: Option<PathBuf>,
    /// Its private key, PEM.
    pub key: Option<PathBuf>,
    /// Addresses that speak TLS, beside others that do not; if there are none, all do.
    pub listen: Vec<ListenAddress>,
}

impl Tls {
    /// Certificate and key, if there are any.
    pub fn files(&self) -> Option<(&Path, &Path)> {
        self.certificate.as_deref().zip(self.key.as_deref())
    }
}

/// Which other sites' pages may play from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// Origins allowed; `*` for all, empty for none.
    pub origins: Vec<String>,
    /// Request headers allowed beyond those that players send anyway.
    pub headers: Vec<String>,
    /// How long a browser may remember the answer.
    pub max_age: Duration,
}

impl Cors {
    /// What is answered to scripts of these origins.
    pub fn policy(&self, origins: &[String]) -> CorsPolicy {
        let max_age_seconds = self.max_age.0 / 1_000_000_000;
        // The configuration was checked with the same function, so that only an empty list is left.
        let none = |_| CorsPolicy::new(&[], &[], 0);
        let policy = CorsPolicy::new(origins, &self.headers, max_age_seconds).or_else(none);
        policy.unwrap_or_else(|_| unreachable!("an empty policy has nothing wrong in it"))
    }
}

/// Names under which a request may carry the id of its viewing session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionKeys {
    /// A header.
    pub header: Option<String>,
    /// A cookie.
    pub cookie: Option<String>,
    /// A key of the query.
    pub query: Option<String>,
}

/// Proxies in front, which say for whom they speak.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proxies {
    /// Networks of those that are believed.
    pub trusted: Vec<IpNet>,
    /// Where they say it in a request.
    pub header: ForwardedField,
    /// Addresses on which they say it by the PROXY protocol, when they connect.
    pub listen: Vec<ListenAddress>,
}

impl Proxies {
    /// Whether who has this address is believed.
    pub fn trust(&self, address: IpAddr) -> bool {
        self.trusted
            .iter()
            .any(|network| network.contains(&address))
    }
}

/// Logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// One line for each request.
    pub access: LogTarget,
    /// How those lines look.
    pub format: LogFormat,
    /// One line for each viewing session.
    pub sessions: LogTarget,
    /// One line for each reply that took longer than `slow_after`.
    pub slow: LogTarget,
    /// What the server may take for a reply; zero if nobody wants to know.
    pub slow_after: Duration,
    /// A session without requests for this long has ended.
    pub session_gap: Duration,
    /// The least severe message of the daemon's own log, which goes to standard error.
    pub level: LogLevel,
}

impl Log {
    /// Where lines go, each with its setting.
    pub(super) fn sinks(&self) -> [(&'static str, &LogTarget); 3] {
        [
            ("log.access", &self.access),
            ("log.sessions", &self.sessions),
            ("log.slow", &self.slow),
        ]
    }
}

/// What is different for one device; what is not set is as for all devices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceOverride {
    /// Its part of the budget.
    pub memory: Option<u64>,
    /// Whether it has moving parts, whatever the kernel says.
    pub rotational: Option<bool>,
    /// Reads outstanding.
    pub outstanding_reads: Option<u32>,
    /// Sizing rule.
    pub policy: Option<Policy>,
    /// Reference size of the rule, or who finds it.
    pub prefetch: Option<Prefetch>,
    /// How it is read.
    pub io: Option<IoMode>,
    /// Whether it may be away.
    pub optional: bool,
}

headlong_units::names! {
    /// Severity of the daemon's own messages.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LogLevel {
        /// Something failed.
        Error => "error",
        /// Something needs looking at.
        Warn => "warn",
        /// Starts, stops and changes.
        Info => "info",
        /// Each decision.
        Debug => "debug",
        /// Everything.
        Trace => "trace"
    }
}

headlong_units::names! {
    /// When replies carry `Server-Timing`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ServerTiming {
        /// When the request asks for it.
        OnRequest => "on-request",
        /// Always.
        Always => "always",
        /// Never.
        Off => "off"
    }
}

impl Default for Config {
    fn default() -> Self {
        let mut engine = EngineConfig::default();
        // In virtual time it serves as much as the best size of a grid, or nearly.
        engine.control.mode = Control::Auto;
        Self {
            roots: Vec::new(),
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 8080)).into()],
            unix_mode: 0o660,
            admin: Admin::Address(SocketAddr::from(([127, 0, 0, 1], 8081)).into()),
            admin_hosts: Vec::new(),
            engine,
            memory_prefault: false,
            copies: true,
            io: IoMode::Auto,
            direct: true,
            open_files_max: 1024,
            revalidate: Duration::from_secs(1),
            rescan: Duration::from_secs(60),
            state: None,
            flash: Vec::new(),
            server_timing: ServerTiming::OnRequest,
            cache_status: false,
            cmsd: false,
            request_id: false,
            gzip_max: 512 * KIB,
            gzip_static: false,
            cache_control: String::new(),
            pacing: Pacing::default(),
            limits: Limits::default(),
            tcp: Tcp::default(),
            tls: Tls::default(),
            cors: Cors::default(),
            session: SessionKeys::default(),
            proxies: Proxies::default(),
            log: Log::default(),
            time_scale: 1,
            device: BTreeMap::new(),
            path: BTreeMap::new(),
            pull: BTreeMap::new(),
        }
    }
}

impl Default for Limits {
    /// Times are near nginx's own: its players and proxies are the ones that come here.
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            connections_per_address_max: 8_192,
            requests_per_address_max: 8_192,
            requests_per_connection_max: 10_000,
            requests_at_once_max: 100,
            header_bytes_max: 16 * KIB,
            headers_max: 100,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            keep_alive_interval: Duration::from_secs(30),
            send_timeout: Duration::from_secs(30),
            send_bytes_min: 64 * KIB,
            drain_timeout: Duration::from_secs(5),
            // Longer than a film that is sent as it is watched.
            upgrade_timeout: Duration::from_secs(6 * 3600),
            ranges_max: 16,
        }
    }
}

impl Default for Tcp {
    /// A quarter of a megabyte keeps a fast reader busy, and a slow one from holding megabytes of
    /// the kernel's memory.
    fn default() -> Self {
        Self {
            congestion_control: None,
            unsent_max: 256 * KIB,
        }
    }
}

impl Default for Cors {
    fn default() -> Self {
        Self {
            origins: vec!["*".to_string()],
            headers: Vec::new(),
            max_age: Duration::from_secs(24 * 3600),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            access: LogTarget::Stdout,
            format: LogFormat::Json,
            sessions: LogTarget::Off,
            slow: LogTarget::Stdout,
            slow_after: Duration::ZERO,
            // The longest pause within a chain, too (thesis 5.3).
            session_gap: EngineConfig::default().chain_gap,
            level: LogLevel::Info,
        }
    }
}
