//! Table of the server's settings: one row each, besides the engine's own.
//!
//! File, flags, `headlong check` and the manual all use these rows, so they cannot disagree. The
//! default of a setting is its value in [`Config::default`].

use headlong_engine::{knobs, prefetch};
use headlong_http::ForwardedField;
use headlong_settings::Tier::{Basic, Expert};
use headlong_settings::{Rows, Tier, flag, named, size, text, time, whole};
use headlong_storage::IoMode;
use headlong_telemetry::LogFormat;
use headlong_units::{Duration, KIB, MIB};

use crate::kinds::{
    address, admin, congestion_control, field_value, host, logged_field, media_url, mode, network,
    of_query, one_or_more_paths, origin, path, sink, token,
};
use crate::path_rule::{ListingFormat, Packaging};
use crate::settings::{Config, DeviceOverride, EtagTime, Gzip, LogLevel, ReplyField};

/// All settings except those of single devices.
#[rustfmt::skip]
pub(crate) fn rows() -> Rows<Config> {
    let mut rows = Rows::<Config>::default();
    rows.add("roots", path().list(), |c| &mut c.roots,
        "Folders to serve; folders named on the command line replace them. A URL's path is looked up in each folder in order; the first match is served.").restart().tier(Basic);
    rows.add("link_targets", path().list(), |c| &mut c.link_targets,
        "Folders outside the roots into which symbolic links in the roots may lead, such as the mount points of other disks. Files behind such a link have the path of the link, and the device of the folder reads them. Links to any other place outside are not followed; the log and `/library.json` name them.").restart();
    rows.add("listen", address().list(), |c| &mut c.listen,
        "Addresses and ports for viewers, and unix sockets for a proxy on this machine (`unix:` and the path; see beside.md). With `[tls]` they speak TLS, unless `tls.listen` names other addresses for that.").restart().tier(Basic);
    rows.add("unix_mode", mode(), |c| &mut c.unix_mode,
        "Mode of the files of all unix sockets. A process with write permission may connect, and its statement of the client address is trusted as that of the proxies in `proxies.trusted`. The group is the server's, or that of a folder with the setgid bit.").restart();
    rows.add("admin", admin(), |c| &mut c.admin,
        "Address and port, or unix socket, of metrics, status and the operator's pages. They have no password: keep them on loopback or behind a proxy with one.").restart().tier(Basic);
    rows.add("agent", address().optional(), |c| &mut c.agent,
        "Address and port of the answers to HAProxy's agent check, by which a balancer gives this server less while its disks are late, refuse viewers or are missing, and nothing while it stops; see fleet.md. A connection there gets one line, such as `up 87%`.").restart();
    rows.add("media_url", media_url().optional(), |c| &mut c.media_url,
        "URL at which the browsers of operators reach the media, such as \"https://films.example\", for the player of the operator's pages. If not set: an address of `listen` without TLS, or else the name in the first certificate.").restart();
    rows.add("admin_hosts", host().list(), |c| &mut c.admin_hosts,
        "Host names accepted for the operator's pages, besides addresses and `localhost`. Other names are refused, which prevents DNS rebinding by other sites.").restart();
    rows.add("server_names", host().list(), |c| &mut c.server_names,
        "Host names, without a port, under which players reach this server. A playlist or MPD that names its files by URLs of these hosts is a title like one with relative names; URLs of other hosts belong to other servers.").restart();
    rows.add("process_memory", size().optional(), |c| &mut c.process_memory,
        "Upper limit of the memory of the whole process, instead of `memory`, which is derived from it: what connections, HTTP/2 requests, the sendfile cache and the program leave. `headlong check` prints the parts. `limits.connections_max`, if not set, is lowered so that connections need at most an eighth. A limit of the control group (`MemoryMax=`) should be a tenth higher, for the kernel's socket buffers.").restart().tier(Basic);
    rows.include(disk_rows(), |c| c);
    rows.add("revalidate", time(), |c| &mut c.revalidate,
        "How long a file's size and modification time are used before the file is checked again.").restart().tier(Expert);
    rows.add("rescan", time(), |c| &mut c.rescan,
        "How often the roots are scanned for new and deleted files; \"0s\" for never.").restart();
    rows.add("acme_folder", path().optional(), |c| &mut c.acme_folder,
        "Folder of an ACME client (`certbot certonly --webroot -w FOLDER`). The files that it puts into `.well-known/acme-challenge` below this folder are served at that path on all addresses for viewers, before any rule of a path; see certificates.md.");
    rows.add("state", path().optional(), |c| &mut c.state,
        "Folder for state that survives restarts: the measured times and the prefetch size of each device, the positions of viewers, the bit rates and durations of MP4 and Matroska files, and heads of fragmented ones. Must exist and be writable.").restart().tier(Basic);
    rows.add("flash", path().list(), |c| &mut c.flash,
        "SSDs that cache frequently requested data between memory and disks: devices or files formatted by `headlong flash format`. Each serves all disks.").restart();
    rows.add("reply_fields", named(ReplyField::ALL, ReplyField::name).list(), |c| &mut c.reply_fields,
        "Optional fields of replies. `server-timing` and `server-timing-on-request`: Server-Timing (queue, disk, tier) in all replies, or if the request has a Server-Timing header. `cache-status`: Cache-Status (RFC 9211), `hit` if the first bytes came from memory or flash, `fwd=miss` if from the disk; `detail` names the source. `cmsd`: CMSD (CTA-5006) with file content, `br`, `ot` and `sf` if known, the delay `rd`, `mb` if `bytes_per_second_max` limits replies, and `etp` if an earlier reply on the connection was limited by the network and measured its throughput; not sent to proxies. `request-id`: X-Request-Id, the `request_id` of the access log; origins and the servers of `auth_url` always receive it.");
    rows.add("gzip", named(Gzip::ALL, Gzip::name).list(), |c| &mut c.gzip,
        "How playlists, manifests, subtitles and other texts are compressed for clients that accept it; an empty list for not at all. Ranges are never compressed. `dynamic`: those of at most 512 KiB by gzip, as they are sent, at most 64 at a time. `static`, `static-br`, `static-zstd`: a text `NAME` of any size is sent from the file `NAME.gz`, `NAME.br` or `NAME.zst` beside it, the first that exists in the order of the weights of Accept-Encoding, of equal ones br, zstd, gzip. A file that is empty, older than `NAME` or unreadable is ignored, and each such request without a file accesses the disk to look for it, once for each coding.");
    rows.add("etag", named(EtagTime::ALL, EtagTime::name), |c| &mut c.etag,
        "The modification time in ETags. `nanoseconds`: all of it. `seconds`: without the fraction, so that servers whose copies of a file were made by programs that drop it, such as `tar`, send the same ETag.");
    rows.add("listing", named(ListingFormat::ALL, ListingFormat::name), |c| &mut c.listing,
        "Listings of folders, for URLs that end in `/`: none, a page with links, or the array of nginx's `autoindex_format json`. Clients may then also read by WebDAV. A listing names what a request would be served, and is checked by the rule of its path: no hidden name, no link, no folder that is not listed itself, and no entry that another rule protects. See serve.md.");
    rows.add("package", named(Packaging::ALL, Packaging::name), |c| &mut c.package,
        "Whether HLS and DASH are made from MP4 files at the time of a request: `/films/film.mp4/master.m3u8` and `/films/film.mp4/manifest.mpd`, with segments that are ranges of the file. The rule of the path of the file applies to them. See package.md.");
    rows.add("package_segment", time().at_least(Duration::from_secs(1)), |c| &mut c.package_segment,
        "Length of their segments: each ends at the key frame nearest to it. A change gives the segments new names; players that have begun load their playlist again, or stop.").tier(Expert);
    rows.add("package_memory", size().at_least(64 * MIB), |c| &mut c.package_memory,
        "Memory for the sample tables of titles that are being played as HLS or DASH, on top of `memory`: 3 to 8 MB for a film of two hours. If it is used up, tables are read again when a player asks for its next segment.").tier(Expert);
    rows.add("cache_control", field_value(), |c| &mut c.cache_control,
        "The Cache-Control sent with files; empty for none.").tier(Basic);
    rows.add("pace_percent", whole(), |c| &mut c.pacing.pace_percent,
        "Speed of a reply after `pace_burst`, in percent of its title's bit rate: 125 is a quarter faster than playback. Less data is wasted when a viewer leaves early. Titles of unknown bit rate are not paced; 0 disables pacing.");
    rows.add("pace_burst", time(), |c| &mut c.pacing.pace_burst,
        "Playing time of a title that a reply sends at full speed first, with `pace_percent`. Should exceed a player's initial buffer and the length of a segment.");
    rows.add("bytes_per_second_max", size(), |c| &mut c.pacing.bytes_per_second_max,
        "Upper limit of bytes per second for one reply, from its first byte, whatever the bit rate; \"0B\" for no limit.");
    rows.add("bytes_per_second_per_address_max", size(), |c| &mut c.pacing.bytes_per_second_per_address_max,
        "Upper limit of bytes per second for all replies to one address (of IPv6, to one /64 network) together; \"0B\" for no limit. A NAT may put many viewers behind one address. Addresses in `proxies.trusted` are exempt.");
    rows.add("bytes_per_second_per_session_max", size(), |c| &mut c.pacing.bytes_per_second_per_session_max,
        "Upper limit of bytes per second for all replies to one session together; \"0B\" for no limit. Clients without a session id are distinguished by address and user agent. A client can choose its session id, so this limits players, not attackers.");
    rows.add("limits.connections_max", whole().at_least(1), |c| &mut c.limits.connections_max,
        "Upper limit of connections. If it is not set, fewer if they would not fit into an eighth of `process_memory`, or, without that, into an eighth of `memory` or 32 MiB, whichever is more; each takes 28 KiB, with TLS 108 KiB. Beyond it, idle connections are closed, first those of the address with the most; if none is idle, new connections wait to be accepted.").restart();
    rows.add("limits.connections_per_address_max", whole().at_least(1), |c| &mut c.limits.connections_per_address_max,
        "Upper limit of connections from one address (of IPv6, from one /64 network); further ones are closed at once. Beyond seven eighths of `connections_max` so are those of an address that has no idle ones, which else make room. Addresses in `proxies.trusted` are exempt; clients behind `proxies.listen` are counted. A NAT or a CDN may need thousands; lower it only if there is none in front.").restart();
    rows.add("limits.requests_per_address_max", whole().at_least(1), |c| &mut c.limits.requests_per_address_max,
        "Upper limit of requests from one address (as above) that wait for one device or are being sent from it; further ones receive 503. Each request being sent holds at least one piece of the device's memory. Addresses in `proxies.trusted` are exempt; the clients they name are counted.");
    rows.add("limits.requests_per_connection_max", whole().at_least(1), |c| &mut c.limits.requests_per_connection_max,
        "Upper limit of requests on one connection, which is then closed.").restart().tier(Expert);
    rows.add("limits.header_bytes_max", size().at_least(8 * KIB), |c| &mut c.limits.header_bytes_max,
        "Upper limit of the size of a request's line and headers together; larger requests receive 431, or 414 if the line alone is too long.").restart().tier(Expert);
    rows.add("limits.header_timeout", time().at_least(SHORTEST), |c| &mut c.limits.header_timeout,
        "Time limit for receiving a request's headers, and for a TLS handshake.").restart();
    rows.add("limits.idle_timeout", time().at_least(SHORTEST), |c| &mut c.limits.idle_timeout,
        "Time limit between two requests of a connection.").restart();
    rows.add("limits.send_timeout", time().at_least(SHORTEST), |c| &mut c.limits.send_timeout,
        "A reply whose client accepts fewer than `send_bytes_min` within this time is aborted and its connection closed, so that slow readers cannot hold memory.").restart();
    rows.add("limits.send_bytes_min", size(), |c| &mut c.limits.send_bytes_min,
        "See `send_timeout`.").restart().tier(Expert);
    rows.add("limits.drain_timeout", time(), |c| &mut c.limits.drain_timeout,
        "Time that replies in progress have to complete when the server stops. No new request is served meanwhile; players usually buffer about 10 s.").restart();
    rows.add("limits.upgrade_timeout", time(), |c| &mut c.limits.upgrade_timeout,
        "Time that replies in progress have to complete after another process has taken over (SIGUSR2); the rest is then aborted as at a stop. They hold only the memory that is being sent.").restart().tier(Expert);
    rows.add("tcp.congestion_control", congestion_control().optional(), |c| &mut c.tcp.congestion_control,
        "Congestion control of viewers' connections, such as \"bbr\"; the system default if not set. `sysctl net.ipv4.tcp_available_congestion_control` lists the available ones.").restart().tier(Expert);
    rows.add("tls.certificate", one_or_more_paths(), |c| &mut c.tls.certificate,
        "Certificate chain in PEM, or a list of several. Of several, a client gets the first one that has the name it asks for and a key of a type it accepts, otherwise the first. Certificates and keys are read again on SIGHUP. See certificates.md.").restart().tier(Basic);
    rows.add("tls.key", one_or_more_paths(), |c| &mut c.tls.key,
        "Private key of the certificate, in PEM; of several certificates, a list in the same order.").restart().tier(Basic);
    rows.add("tls.listen", address().list(), |c| &mut c.tls.listen,
        "Addresses and ports, or unix sockets, that speak TLS; those of `listen` and `proxies.listen` then do not. If empty, those do.").restart();
    rows.add("tls.redirect", address().list(), |c| &mut c.tls.redirect,
        "Addresses and ports without TLS, such as \"[::]:80\", at which every request is redirected (301) to the same URL with `https`, at the default port. Challenges in `acme_folder` are answered there, too.").restart();
    rows.add("cors.origins", origin().list(), |c| &mut c.cors.origins,
        "Origins whose pages may play from this server; \"*\" for all, an empty list for none.");
    rows.add("cors.headers", token().list(), |c| &mut c.cors.headers,
        "Request headers allowed for those pages, besides Range, the conditional headers, CMCD, `session.header`, and the headers that the checks of a path read (`jwt_from`, `auth_headers`).");
    rows.add("cors.credentials", flag(), |c| &mut c.cors.credentials,
        "Whether those pages may send cookies (`withCredentials`, `crossOrigin=\"use-credentials\"`). Needs a list of origins, since browsers send none for `\"*\"`. A cookie for pages of other sites must be set with `SameSite=None; Secure`.");
    rows.add("session.header", token().optional(), |c| &mut c.session.header,
        "Request header with the id of a viewing session, for players that send no CMCD `sid`.").tier(Basic);
    rows.add("session.cookie", token().optional(), |c| &mut c.session.cookie,
        "The same for a cookie.").tier(Basic);
    rows.add("session.query", of_query().optional(), |c| &mut c.session.query,
        "The same for a query argument.").tier(Basic);
    rows.add("proxies.trusted", network().list(), |c| &mut c.proxies.trusted,
        "Networks of proxies whose statement of the client address is trusted: in `proxies.header`, or by the PROXY protocol on `proxies.listen`. In a chain of proxies, the client is the first address from the right that is not in these networks. Peers on a unix socket are also trusted; all others are not.").tier(Basic);
    rows.add("proxies.header", named(ForwardedField::ALL, |field| field.name()), |c| &mut c.proxies.header,
        "The header in which trusted proxies name the client. The proxies must set it themselves, because they forward unknown headers and a client could forge it.");
    rows.add("proxies.listen", address().list(), |c| &mut c.proxies.listen,
        "Additional addresses and ports, or unix sockets, for proxies that speak the PROXY protocol (version 1 or 2). Connections without its header, or from an untrusted address, are closed.").restart();
    rows.add("steering.fleet", path().optional(), |c| &mut c.steering.fleet,
        "The description of the fleet, as for `headlong fleet config`: playlists that are made from MP4 files name its boxes with a `url`, and players go to another box while the disks of this one are late; see fleet.md. Titles of sites are not steered.").restart();
    rows.add("steering.box", text().optional(), |c| &mut c.steering.of_box,
        "The name of this server in it.").restart();
    rows.add("log.access", sink(), |c| &mut c.log.access,
        "Destination of the access log, one line per request.").restart().tier(Basic);
    rows.add("log.format", named(LogFormat::ALL, LogFormat::name), |c| &mut c.log.format,
        "Format of the access log; see logs.md.").restart();
    rows.add("log.headers", logged_field().list(), |c| &mut c.log.headers,
        "Request headers that each line has, too, such as `Host` or `X-Forwarded-Host`, at most 1024 bytes of each. None that holds credentials. A `traceparent` (W3C Trace Context) is always logged, and sent to origins and to servers of `auth_url`.");
    rows.add("log.sessions", sink(), |c| &mut c.log.sessions,
        "Destination of the session log, one line per viewing session.").restart().tier(Basic);
    rows.add("log.session_gap", time().at_least(SHORTEST), |c| &mut c.log.session_gap,
        "A viewing session ends after this long without a request.").restart();
    rows.add("log.slow", sink(), |c| &mut c.log.slow,
        "Destination of the slow log, one line per slow reply with the time of each stage, in the format of `log.format`. Empty unless `slow_after` is set.").restart();
    rows.add("log.slow_after", time(), |c| &mut c.log.slow_after,
        "A reply is slow if the server took longer than this, not counting delays by the client, `pace_percent` or other rate limits; \"0s\" disables the slow log. A reload applies it.").tier(Basic);
    rows.add("log.level", named(LogLevel::ALL, LogLevel::name), |c| &mut c.log.level,
        "Lowest severity of the server's own messages, which go to standard error.");
    rows
}

/// Settings of disks: those of the engine, and how files are read.
#[rustfmt::skip]
pub fn disk_rows() -> Rows<Config> {
    let mut rows = Rows::<Config>::default();
    rows.include(knobs(), |c| &mut c.engine);
    rows.add("memory_prefault", flag(), |c| &mut c.memory_prefault,
        "Whether all of `memory` is allocated at start instead of on first use. The start then takes as long as the system needs to clear it; later reads never wait for that, and a shortage is detected at start.").restart();
    rows.add("io", named(IoMode::ALL, IoMode::name), |c| &mut c.io,
        "How devices are read; `auto` uses io_uring if the kernel allows it, and otherwise logs that once.").restart().tier(Expert);
    rows.add("direct", flag(), |c| &mut c.direct,
        "Whether to read with O_DIRECT, bypassing the kernel's page cache, if the file system supports it.").tier(Expert);
    rows.add("open_files_max", whole().at_least(1), |c| &mut c.open_files_max,
        "Upper limit of files that one device keeps open; files being read come on top.").restart().tier(Expert);
    rows
}

/// Overrides for one device: `[device."sda"]`.
#[rustfmt::skip]
pub fn device_rows() -> Rows<DeviceOverride> {
    let mut rows = Rows::<DeviceOverride>::default();
    rows.add("memory", size().optional(), |d| &mut d.memory,
        "Its share of the budget; the other devices divide the rest.").restart();
    rows.add("rotational", flag().optional(), |d| &mut d.rotational,
        "Whether it is a rotating disk, overriding the kernel.").tier(Expert);
    rows.add("outstanding_reads", whole().at_least(1).optional(), |d| &mut d.outstanding_reads,
        "Upper limit of outstanding reads.").tier(Expert);
    rows.add("prefetch", prefetch().optional(), |d| &mut d.prefetch,
        "As above, for this device.");
    rows.add("io", named(IoMode::ALL, IoMode::name).optional(), |d| &mut d.io,
        "As above, for this device.").restart().tier(Expert);
    rows.add("optional", flag(), |d| &mut d.optional,
        "Whether the device may be absent. Otherwise, a table for a device without a root is a mistake. Its `memory` stays reserved.");
    rows
}

/// Lower limit of timeouts: zero would prevent all work.
const SHORTEST: Duration = Duration::from_millis(1);

/// The page of the manual, in the folder of the server's pages, with the settings of a tier.
pub fn page_of(tier: Tier) -> Option<&'static str> {
    match tier {
        Basic | Tier::Normal => Some("configuration.md"),
        Expert => Some("configuration-expert.md"),
        Tier::Lab => None,
    }
}
