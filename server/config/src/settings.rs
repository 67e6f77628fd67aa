//! The parsed configuration: one field per setting.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use headlong_edge::PullRule;
use headlong_engine::{Control, EngineConfig, Prefetch};
use headlong_http::ForwardedField;
use headlong_net::{CertificateFiles, ListenAddress};
use headlong_storage::IoMode;
use headlong_telemetry::{LogFormat, LogTarget};
use headlong_units::{Duration, KIB, MIB};
use ipnet::IpNet;

use crate::path_rule::{ListingFormat, Packaging, PathRule, Site};
use crate::steering::SteeringSettings;

/// The configuration of a server. Defaults are in `Default`, those of the engine in
/// [`EngineConfig`]; the rows of `keys.rs` and of the engine describe each setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Folders to serve; at least one after [`Config::load`].
    pub roots: Vec<PathBuf>,
    /// Folders outside the roots into which symbolic links may lead.
    pub link_targets: Vec<PathBuf>,
    /// Addresses for viewers; at least one.
    pub listen: Vec<ListenAddress>,
    /// Mode of unix socket files.
    pub unix_mode: u32,
    /// Address of the operator's pages.
    pub admin: Admin,
    /// Address of the answers to HAProxy's agent check.
    pub agent: Option<ListenAddress>,
    /// URL of the media for the operator's pages.
    pub media_url: Option<String>,
    /// Host names of `admin`, besides addresses and `localhost`.
    pub admin_hosts: Vec<String>,
    /// Host names of this server, in URLs of manifests.
    pub server_names: Vec<String>,
    /// Settings of every device's engine; `memory_bytes` is the budget for all of them together.
    pub engine: EngineConfig,
    /// Upper limit of the memory of the process, from which `memory_bytes` was derived; `None` if
    /// `memory` itself was set.
    pub process_memory: Option<u64>,
    /// Whether all memory is allocated at start.
    pub memory_prefault: bool,
    /// Whether frequently sent pieces are copied to the sendfile cache, in addition to `memory`.
    pub copies: bool,
    /// I/O interface of devices.
    pub io: IoMode,
    /// Whether reads bypass the kernel's page cache.
    pub direct: bool,
    /// Upper limit of files that a device keeps open.
    pub open_files_max: u32,
    /// How long a file's size and modification time are used before the file is checked again.
    pub revalidate: Duration,
    /// How often the roots are scanned for new and deleted files; zero for never.
    pub rescan: Duration,
    /// Folder in which an ACME client puts its challenges.
    pub acme_folder: Option<PathBuf>,
    /// Folder for state that survives restarts; none is kept without it.
    pub state: Option<PathBuf>,
    /// SSDs of the flash tier, devices or files; empty without a tier.
    pub flash: Vec<PathBuf>,
    /// Optional fields of replies.
    pub reply_fields: Vec<ReplyField>,
    /// How texts are compressed.
    pub gzip: Vec<Gzip>,
    /// The time that entity tags are made of.
    pub etag: EtagTime,
    /// Form of the listings of folders.
    pub listing: ListingFormat,
    /// Whether playlists and segments are made from MP4 files.
    pub package: Packaging,
    /// Length of their segments.
    pub package_segment: Duration,
    /// Memory for the indexes of titles that they are made from.
    pub package_memory: u64,
    /// How players of packaged titles are steered to other servers.
    pub steering: SteeringSettings,
    /// The `Cache-Control` sent with files; empty for none.
    pub cache_control: String,
    /// Speed limits of replies.
    pub pacing: Pacing,
    /// Limits of connections.
    pub limits: ClientLimits,
    /// Options of viewers' sockets.
    pub tcp: Tcp,
    /// Certificate files.
    pub tls: Tls,
    /// Sites whose pages may play from this server.
    pub cors: Cors,
    /// How a viewing session is identified without CMCD.
    pub session: SessionKeys,
    /// Trusted proxies.
    pub proxies: Proxies,
    /// Logs.
    pub log: Log,
    /// Speed-up of the server's clocks, for experiments; set by an option only.
    pub time_scale: u32,
    /// Overrides per device, by kernel name (`sda`).
    pub device: BTreeMap<String, DeviceOverride>,
    /// Overrides per path, by prefix.
    pub path: BTreeMap<String, PathRule>,
    /// Sites with roots and rules of their own, by host name.
    pub site: BTreeMap<String, Site>,
    /// Paths that are filled from an origin, by prefix.
    pub pull: BTreeMap<String, PullRule>,
}

impl Config {
    /// Whether a number of connections or files differs from the default, or from that derived from
    /// the memory.
    pub fn has_chosen_descriptors(&self) -> bool {
        let usual = Self::default();
        !self.derives_connections_max() || self.open_files_max != usual.open_files_max
    }

    /// The addresses for viewers and their protocols.
    pub fn listeners(&self) -> Vec<ListenSetting> {
        let is_all_tls = self.tls.listen.is_empty() && !self.tls.certificate.is_empty();
        let plain = ListenSetting::default();
        let usual = ListenSetting {
            speaks_tls: is_all_tls,
            ..plain.clone()
        };
        let for_proxies = ListenSetting {
            is_for_proxies: true,
            ..usual.clone()
        };
        let tls = ListenSetting {
            speaks_tls: true,
            ..plain.clone()
        };
        let redirects = ListenSetting {
            redirects: true,
            ..plain
        };
        let lists = [
            (usual, &self.listen),
            (for_proxies, &self.proxies.listen),
            (tls, &self.tls.listen),
            (redirects, &self.tls.redirect),
        ];
        let all = lists.into_iter().flat_map(|(kind, addresses)| {
            addresses.iter().map(move |address| ListenSetting {
                address: address.clone(),
                ..kind.clone()
            })
        });
        all.collect()
    }
}

/// A listening address for viewers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenSetting {
    /// The address.
    pub address: ListenAddress,
    /// Whether connections start with a PROXY protocol header.
    pub is_for_proxies: bool,
    /// Whether connections use TLS.
    pub speaks_tls: bool,
    /// Whether requests are redirected to TLS.
    pub redirects: bool,
}

impl Default for ListenSetting {
    /// Any port, without TLS.
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)).into(),
            is_for_proxies: false,
            speaks_tls: false,
            redirects: false,
        }
    }
}

/// Address of the operator's pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admin {
    /// Disabled.
    Off,
    /// At this address.
    Address(ListenAddress),
}

/// Limits of connections, so that no client can hold more than its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientLimits {
    /// Upper limit of connections.
    pub connections_max: u32,
    /// Upper limit of connections from one address.
    pub connections_per_address_max: u32,
    /// Upper limit of requests from one address that wait for one device or are being sent from it.
    pub requests_per_address_max: u32,
    /// Upper limit of requests on one connection, which is then closed.
    pub requests_per_connection_max: u32,
    /// Upper limit of the size of a request's line and headers together.
    pub header_bytes_max: u64,
    /// Time limit for receiving a request's headers.
    pub header_timeout: Duration,
    /// Time limit between two requests.
    pub idle_timeout: Duration,
    /// Period in which a client must accept at least `send_bytes_min`.
    pub send_timeout: Duration,
    /// Minimum number of bytes accepted per `send_timeout`.
    pub send_bytes_min: u64,
    /// Time that replies in progress have to complete when the server stops.
    pub drain_timeout: Duration,
    /// Time that they have to complete after another process has taken over.
    pub upgrade_timeout: Duration,
}

impl ClientLimits {
    /// The rate below which a client is too slow.
    pub(crate) fn send_bytes_per_second(&self) -> u64 {
        let milliseconds = u128::from(self.send_timeout.as_millis().max(1));
        let rate = u128::from(self.send_bytes_min) * 1000 / milliseconds;
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

/// Speed limits of replies, after an initial burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacing {
    /// Percent of a title's bit rate; zero for no pacing.
    pub pace_percent: u32,
    /// Playing time that is sent at full speed first.
    pub pace_burst: Duration,
    /// Upper limit of bytes per second for one reply; zero for none.
    pub bytes_per_second_max: u64,
    /// Upper limit of bytes per second for all replies to one address; zero for none.
    pub bytes_per_second_per_address_max: u64,
    /// Upper limit of bytes per second for all replies to one session; zero for none.
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
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tcp {
    /// Name of the congestion control; the system default if not set.
    pub congestion_control: Option<String>,
}

/// Certificate files; as many of each after [`Config::load`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// Certificate chains, PEM.
    pub certificate: Vec<PathBuf>,
    /// The private key of each, PEM.
    pub key: Vec<PathBuf>,
    /// Addresses that speak TLS, if others do not; if empty, all do.
    pub listen: Vec<ListenAddress>,
    /// Addresses without TLS that redirect to it.
    pub redirect: Vec<ListenAddress>,
}

impl Tls {
    /// The files of each certificate.
    pub fn files(&self) -> Vec<CertificateFiles> {
        let pairs = self.certificate.iter().zip(&self.key);
        let files = pairs.map(|(certificate, key)| CertificateFiles {
            certificate: certificate.clone(),
            key: key.clone(),
        });
        files.collect()
    }
}

/// Sites whose pages may play from this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// Origins allowed; `*` for all, empty for none.
    pub origins: Vec<String>,
    /// Request headers allowed besides those that players always send.
    pub headers: Vec<String>,
    /// Whether their pages may send cookies.
    pub credentials: bool,
}

/// Places at which a request may carry its session id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionKeys {
    /// A header.
    pub header: Option<String>,
    /// A cookie.
    pub cookie: Option<String>,
    /// A query argument.
    pub query: Option<String>,
}

/// Proxies that forward client addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proxies {
    /// Networks of trusted proxies.
    pub trusted: Vec<IpNet>,
    /// The header in which they name the client.
    pub header: ForwardedField,
    /// Addresses on which they name the client by the PROXY protocol.
    pub listen: Vec<ListenAddress>,
}

impl Proxies {
    /// Whether a proxy with this address is trusted.
    pub fn trust(&self, address: IpAddr) -> bool {
        self.trusted
            .iter()
            .any(|network| network.contains(&address))
    }
}

/// Logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Destination of the access log, one line per request.
    pub access: LogTarget,
    /// Format of the access log.
    pub format: LogFormat,
    /// Request fields that its lines have, too.
    pub headers: Vec<String>,
    /// Destination of the session log, one line per viewing session.
    pub sessions: LogTarget,
    /// Destination of the slow log, one line per reply slower than `slow_after`.
    pub slow: LogTarget,
    /// Threshold of the slow log; zero to disable it.
    pub slow_after: Duration,
    /// A session ends after this long without a request.
    pub session_gap: Duration,
    /// Lowest severity of the server's own messages, which go to standard error.
    pub level: LogLevel,
}

impl Log {
    /// The logs' destinations, each with the name of its setting.
    pub(crate) fn sinks(&self) -> [(&'static str, &LogTarget); 3] {
        [
            ("log.access", &self.access),
            ("log.sessions", &self.sessions),
            ("log.slow", &self.slow),
        ]
    }
}

/// Overrides for one device; unset fields inherit the global setting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceOverride {
    /// Its share of the budget.
    pub memory: Option<u64>,
    /// Whether it is a rotating disk, overriding the kernel.
    pub rotational: Option<bool>,
    /// Upper limit of outstanding reads.
    pub outstanding_reads: Option<u32>,
    /// Reference size of the policy, or the controller that determines it.
    pub prefetch: Option<Prefetch>,
    /// I/O interface.
    pub io: Option<IoMode>,
    /// Whether it may be absent.
    pub optional: bool,
}

headlong_units::names! {
    /// Severity of the server's own messages.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LogLevel {
        /// Something failed.
        Error => "error",
        /// A condition that needs attention.
        Warn => "warn",
        /// Starts, stops and changes.
        Info => "info",
        /// Individual decisions.
        Debug => "debug",
        /// Everything.
        Trace => "trace"
    }
}

headlong_units::names! {
    /// An optional field of replies.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ReplyField {
        /// `Server-Timing`, if the request asks for it.
        ServerTimingOnRequest => "server-timing-on-request",
        /// `Server-Timing`.
        ServerTiming => "server-timing",
        /// `Cache-Status`.
        CacheStatus => "cache-status",
        /// CMSD.
        Cmsd => "cmsd",
        /// `X-Request-Id`.
        RequestId => "request-id"
    }
}

headlong_units::names! {
    /// The modification time in entity tags.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum EtagTime {
        /// As precise as the file system.
        Nanoseconds => "nanoseconds",
        /// As precise as most archives.
        Seconds => "seconds"
    }
}

headlong_units::names! {
    /// How texts are compressed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Gzip {
        /// Small ones as they are sent.
        Dynamic => "dynamic",
        /// From a gzip file beside them.
        Static => "static",
        /// From a Brotli file beside them.
        StaticBrotli => "static-br",
        /// From a Zstandard file beside them.
        StaticZstd => "static-zstd"
    }
}

impl Default for Config {
    fn default() -> Self {
        let mut engine = EngineConfig::default();
        // In virtual time it serves nearly as much as the best size of a grid search.
        engine.control.mode = Control::Auto;
        Self {
            roots: Vec::new(),
            link_targets: Vec::new(),
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 8080)).into()],
            unix_mode: 0o660,
            admin: Admin::Address(SocketAddr::from(([127, 0, 0, 1], 8081)).into()),
            media_url: None,
            agent: None,
            admin_hosts: Vec::new(),
            server_names: Vec::new(),
            engine,
            process_memory: None,
            memory_prefault: false,
            copies: true,
            io: IoMode::Auto,
            direct: true,
            open_files_max: 1024,
            revalidate: Duration::from_secs(1),
            rescan: Duration::from_secs(60),
            acme_folder: None,
            state: None,
            flash: Vec::new(),
            reply_fields: vec![ReplyField::ServerTimingOnRequest],
            gzip: vec![Gzip::Dynamic],
            etag: EtagTime::Nanoseconds,
            listing: ListingFormat::Off,
            package: Packaging::Off,
            package_segment: Duration::from_secs(6),
            package_memory: 64 * MIB,
            steering: SteeringSettings::default(),
            cache_control: String::new(),
            pacing: Pacing::default(),
            limits: ClientLimits::default(),
            tcp: Tcp::default(),
            tls: Tls::default(),
            cors: Cors::default(),
            session: SessionKeys::default(),
            proxies: Proxies::default(),
            log: Log::default(),
            time_scale: 1,
            device: BTreeMap::new(),
            path: BTreeMap::new(),
            site: BTreeMap::new(),
            pull: BTreeMap::new(),
        }
    }
}

impl Default for ClientLimits {
    /// Close to the defaults of nginx, which players and proxies are used to.
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            connections_per_address_max: 8_192,
            requests_per_address_max: 8_192,
            requests_per_connection_max: 10_000,
            header_bytes_max: 16 * KIB,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            send_timeout: Duration::from_secs(30),
            send_bytes_min: 64 * KIB,
            drain_timeout: Duration::from_secs(5),
            // Longer than a film that is sent at playback speed.
            upgrade_timeout: Duration::from_secs(6 * 3600),
        }
    }
}

impl Default for Cors {
    fn default() -> Self {
        Self {
            origins: vec!["*".to_string()],
            headers: Vec::new(),
            credentials: false,
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            access: LogTarget::Stdout,
            format: LogFormat::Json,
            headers: Vec::new(),
            sessions: LogTarget::Off,
            slow: LogTarget::Stdout,
            slow_after: Duration::ZERO,
            // Also the longest pause within a chain (thesis 5.3).
            session_gap: EngineConfig::default().chain_gap,
            level: LogLevel::Info,
        }
    }
}
