//! The server's settings by name: one row for each, besides the engine's own.
//!
//! Reading a file, the flags, `headlong check` and the manual all walk these rows, so that they
//! cannot disagree. A default is what [`Config::default`] holds at the row's place.

use headlong_engine::{knobs, policy, prefetch};
use headlong_http::ForwardedField;
use headlong_settings::{Rows, flag, named, size, time, whole};
use headlong_units::{Duration, KIB};

use super::kinds::{
    address, admin, congestion_control, field_value, host, mode, network, of_query, origin, path,
    sink, token,
};
use super::settings::{Config, DeviceOverride, LogLevel, ServerTiming};
use crate::disk::IoMode;
use crate::log::LogFormat;
use crate::net::FIELDS_MAX;

/// Every setting, but those of single devices.
#[rustfmt::skip]
pub(super) fn rows() -> Rows<Config> {
    let mut rows = Rows::<Config>::default();
    rows.add("roots", path().list(), |c| &mut c.roots,
        "Folders whose trees are served; the folders named on the command line replace them. A URL's path is looked up in each in turn, and the first that has it answers.").restart();
    rows.add("listen", address().list(), |c| &mut c.listen,
        "Addresses and ports for viewers, and unix sockets for a proxy of this machine (`unix:` and the path; see beside.md). With `[tls]` they speak TLS, unless `tls.listen` names those that do.").restart();
    rows.add("unix_mode", mode(), |c| &mut c.unix_mode,
        "Mode of the files of unix sockets, wherever one is named: who may write to it may connect, and is believed about for whom it speaks as those in `proxies.trusted` are. Its group is the server's, or that of a folder with the setgid bit.").restart();
    rows.add("admin", admin(), |c| &mut c.admin,
        "Address and port, or unix socket, of metrics, status and the operator's pages. They have no password: keep them on loopback or behind one.").restart();
    rows.add("admin_hosts", host().list(), |c| &mut c.admin_hosts,
        "Names under which the operator's pages may be asked for, besides addresses and `localhost`; others are refused, so that no other site can read them through a name of its own.").restart();
    rows.include(disk_rows(), |c| c);
    rows.add("revalidate", time(), |c| &mut c.revalidate,
        "How long a file's size and time of change are believed before they are looked at again.").restart();
    rows.add("rescan", time(), |c| &mut c.rescan,
        "How often the roots are searched for new and deleted files; \"0s\" for never.").restart();
    rows.add("state", path().optional(), |c| &mut c.state,
        "Folder for what is remembered across restarts: of each device its times, the prefetch size that `auto` found, and where viewers are; of MP4 files bit rates and durations. Must exist and be writable.").restart();
    rows.add("flash", path().list(), |c| &mut c.flash,
        "SSDs that keep what is asked for often, between memory and disks: devices or files made by `headlong flash format`. Each serves all disks.").restart();
    rows.add("server_timing", named(ServerTiming::ALL, ServerTiming::name), |c| &mut c.server_timing,
        "When replies carry Server-Timing (queue, disk, tier): when the request has a Server-Timing header of its own, always, or never.");
    rows.add("cache_status", flag(), |c| &mut c.cache_status,
        "Whether replies carry Cache-Status (RFC 9211): `hit` if the first bytes came from memory or flash, `fwd=miss` if from the disk; `detail` says which.");
    rows.add("cmsd", flag(), |c| &mut c.cmsd,
        "Whether replies with bytes of files carry CMSD (CTA-5006): `br`, `ot` and `sf` as far as they are known, the delay `rd`, `mb` where `bytes_per_second_max` bounds replies, and `etp` where the connection was measured to carry so much by a reply before that had always more to send; not to a proxy.");
    rows.add("request_id", flag(), |c| &mut c.request_id,
        "Whether replies carry X-Request-Id: the `request_id` of the access log. Origins and servers of `auth_url` are always told it.");
    rows.add("gzip_max", size().at_most(8 << 20), |c| &mut c.gzip_max,
        "Playlists, manifests, subtitles and other small texts up to this size are sent by gzip to who takes it; \"0B\" for none. Ranges never are, nor more than 64 replies at a time.");
    rows.add("gzip_static", flag(), |c| &mut c.gzip_static,
        "Whether a playlist or other text `NAME` of any size is sent from `NAME.gz` beside it, to who takes gzip and asks for no range. One that is empty, older than `NAME` or cannot be read counts as none; looking for one that is not there asks the disk at each such request.");
    rows.add("cache_control", field_value(), |c| &mut c.cache_control,
        "The Cache-Control sent with files; empty for none.");
    rows.add("pace_percent", whole(), |c| &mut c.pacing.pace_percent,
        "How fast a reply goes after `pace_burst`, in per cent of its title's bit rate: 125 is a quarter faster than it is played. Who leaves early has then been sent less in vain. Titles whose bit rate is not known are not paced, nor is anything with 0.");
    rows.add("pace_burst", time(), |c| &mut c.pacing.pace_burst,
        "What of a title a reply sends as fast as it can at first, with `pace_percent`. Longer than what a player buffers before it plays, and than a segment.");
    rows.add("bytes_per_second_max", size(), |c| &mut c.pacing.bytes_per_second_max,
        "Most bytes a second of one reply, whatever its bit rate and from its first byte on; \"0B\" for any.");
    rows.add("bytes_per_second_per_address_max", size(), |c| &mut c.pacing.bytes_per_second_per_address_max,
        "Most bytes a second of all replies to one address together, whatever they are for, or to one IPv6 network of 64 bits; \"0B\" for any. Behind one address there may be a whole NAT of viewers. An address in `proxies.trusted` is nobody's.");
    rows.add("bytes_per_second_per_session_max", size(), |c| &mut c.pacing.bytes_per_second_per_session_max,
        "Most bytes a second of all replies to one session together; \"0B\" for any. Who sends no session id is told by address and user agent; a client can call itself what it likes, so this is for players and not for those who would take everything.");
    rows.add("time_scale", whole().at_least(1), |c| &mut c.time_scale,
        "For experiments on an emulated drive: the server's own clocks run this many times faster, so that every duration in this file is model time. Anything but 1 is wrong for real viewers.").restart();
    rows.add("limits.connections_max", whole().at_least(1), |c| &mut c.limits.connections_max,
        "Connections at a time. When more come, those on which nothing has been asked for the longest time are closed; if there are none, the new ones wait to be accepted.").restart();
    rows.add("limits.connections_per_address_max", whole().at_least(1), |c| &mut c.limits.connections_per_address_max,
        "Of those, connections from one address (of IPv6: from one network of 64 bits); further ones are closed at once. Addresses in `proxies.trusted` are not counted; behind `proxies.listen` clients are. A NAT or a CDN may have thousands; lower it only where none is in front.").restart();
    rows.add("limits.requests_per_address_max", whole().at_least(1), |c| &mut c.limits.requests_per_address_max,
        "Requests from one address (as above) that wait for one device or are being sent from it; further ones get 503. Each that is being sent holds a piece of the device's memory at least. Addresses in `proxies.trusted` are not counted; those that they name are.");
    rows.add("limits.requests_per_connection_max", whole().at_least(1), |c| &mut c.limits.requests_per_connection_max,
        "Requests on one connection before it is closed.").restart();
    rows.add("limits.requests_at_once_max", whole().at_least(1), |c| &mut c.limits.requests_at_once_max,
        "Requests in progress at a time on one HTTP/2 connection.").restart();
    rows.add("limits.header_bytes_max", size().at_least(8 * KIB), |c| &mut c.limits.header_bytes_max,
        "Bytes of a request's line and headers together; more is answered 431, or 414 if the line alone has as many.").restart();
    rows.add("limits.headers_max", whole().between(1, FIELDS_MAX as u32), |c| &mut c.limits.headers_max,
        "Header fields of a request; more are answered 431.").restart();
    rows.add("limits.header_timeout", time().at_least(SHORTEST), |c| &mut c.limits.header_timeout,
        "Longest time for a request's headers to arrive, and for a TLS handshake.").restart();
    rows.add("limits.idle_timeout", time().at_least(SHORTEST), |c| &mut c.limits.idle_timeout,
        "Longest time between two requests of a connection.").restart();
    rows.add("limits.keep_alive_interval", time().at_least(SHORTEST), |c| &mut c.limits.keep_alive_interval,
        "How often an HTTP/2 client is asked whether it is still there.").restart();
    rows.add("limits.send_timeout", time().at_least(SHORTEST), |c| &mut c.limits.send_timeout,
        "A reply that takes fewer than `send_bytes_min` in this time is ended and its connection closed, so that slow readers cannot pin memory.").restart();
    rows.add("limits.send_bytes_min", size(), |c| &mut c.limits.send_bytes_min,
        "See `send_timeout`.").restart();
    rows.add("limits.drain_timeout", time(), |c| &mut c.limits.drain_timeout,
        "When the server stops, replies in progress get this long to end. Nobody is served meanwhile, and players have about 10 s in their buffers.").restart();
    rows.add("limits.upgrade_timeout", time(), |c| &mut c.limits.upgrade_timeout,
        "When another process has taken this one's place (SIGUSR2), replies in progress get this long to end; then what is left is ended as at a stop. They hold no more memory than they are being sent.").restart();
    rows.add("limits.ranges_max", whole().at_least(1), |c| &mut c.limits.ranges_max,
        "Most ranges answered in one reply; a request for more gets the whole file.");
    rows.add("tcp.congestion_control", congestion_control().optional(), |c| &mut c.tcp.congestion_control,
        "Congestion control of viewers' connections by name, such as \"bbr\"; the system's default if not set. `sysctl net.ipv4.tcp_available_congestion_control` lists those there are.").restart();
    rows.add("tcp.unsent_max", size().at_most(1 << 30), |c| &mut c.tcp.unsent_max,
        "Unsent bytes that the kernel takes for one connection beyond what is on its way (TCP_NOTSENT_LOWAT); \"0B\" for the kernel's own limit.").restart();
    rows.add("tls.certificate", path().optional(), |c| &mut c.tls.certificate,
        "Certificate chain in PEM. Both files are read again on SIGHUP.").restart();
    rows.add("tls.key", path().optional(), |c| &mut c.tls.key,
        "Its private key in PEM.").restart();
    rows.add("tls.listen", address().list(), |c| &mut c.tls.listen,
        "Addresses and ports, or unix sockets, that speak TLS, so that those of `listen` and `proxies.listen` do not. If there are none, those do.").restart();
    rows.add("cors.origins", origin().list(), |c| &mut c.cors.origins,
        "Origins whose pages may play from here; \"*\" for all, an empty list for none.");
    rows.add("cors.headers", token().list(), |c| &mut c.cors.headers,
        "Request headers allowed to those pages beyond Range, the conditional headers and CMCD.");
    rows.add("cors.max_age", time(), |c| &mut c.cors.max_age,
        "How long a browser may remember the answer to a preflight.");
    rows.add("session.header", token().optional(), |c| &mut c.session.header,
        "Request header with the id of a viewing session, where the player sends no CMCD `sid`.");
    rows.add("session.cookie", token().optional(), |c| &mut c.session.cookie,
        "The same for a cookie.");
    rows.add("session.query", of_query().optional(), |c| &mut c.session.query,
        "The same for a key of the query.");
    rows.add("proxies.trusted", network().list(), |c| &mut c.proxies.trusted,
        "Networks of proxies that are believed when they say for which client they speak: by `proxies.header`, or by the PROXY protocol on `proxies.listen`. Of several in a row, the client is the first from the right that is not one of them. Who comes by a unix socket is believed too, and nobody else.");
    rows.add("proxies.header", named(ForwardedField::ALL, |field| field.name()), |c| &mut c.proxies.header,
        "The header in which trusted proxies say it. They must write it themselves, or a client could: a proxy hands on headers that it does not know.");
    rows.add("proxies.listen", address().list(), |c| &mut c.proxies.listen,
        "More addresses and ports, or unix sockets, for proxies that speak the PROXY protocol (version 1 or 2). A connection that does not begin with it, or comes from an address that is not trusted, is closed.").restart();
    rows.add("log.access", sink(), |c| &mut c.log.access,
        "Where one line for each request goes.").restart();
    rows.add("log.format", named(LogFormat::ALL, LogFormat::name), |c| &mut c.log.format,
        "How these lines look; see logs.md.").restart();
    rows.add("log.sessions", sink(), |c| &mut c.log.sessions,
        "Where one line for each viewing session goes.").restart();
    rows.add("log.session_gap", time().at_least(SHORTEST), |c| &mut c.log.session_gap,
        "A viewing session without requests for this long has ended.").restart();
    rows.add("log.slow", sink(), |c| &mut c.log.slow,
        "Where one line for each slow reply goes, with the time of each stage, in the format of `log.format`; there are none before `slow_after` is set.").restart();
    rows.add("log.slow_after", time(), |c| &mut c.log.slow_after,
        "A reply is slow if the server took longer for it, not counted what the client and `pace_percent` or other limits of speed made it wait; \"0s\" for none. A reload turns it on and off.");
    rows.add("log.level", named(LogLevel::ALL, LogLevel::name), |c| &mut c.log.level,
        "The least severe of the daemon's own messages, which go to standard error.");
    rows
}

/// The settings of disks: the engine's, and how files are read.
#[rustfmt::skip]
pub fn disk_rows() -> Rows<Config> {
    let mut rows = Rows::<Config>::default();
    rows.include(knobs(), |c| &mut c.engine);
    rows.add("memory_prefault", flag(), |c| &mut c.memory_prefault,
        "Whether all of `memory` is taken from the system at start, and not when it is first used. Starting then takes as long as the system needs to clear it; no read waits for that later, and memory that is not there is missed at start.").restart();
    rows.add("io", named(IoMode::ALL, IoMode::name), |c| &mut c.io,
        "How devices are read; `auto` takes io_uring where the kernel allows it, and says so once if not.").restart();
    rows.add("direct", flag(), |c| &mut c.direct,
        "Whether to read with O_DIRECT, past the kernel's page cache, where the file system allows it.");
    rows.add("open_files_max", whole().at_least(1), |c| &mut c.open_files_max,
        "Most files that one device keeps open; those being read come on top.").restart();
    rows
}

/// What may differ for one device: `[device."sda"]`.
#[rustfmt::skip]
pub fn device_rows() -> Rows<DeviceOverride> {
    let mut rows = Rows::<DeviceOverride>::default();
    rows.add("memory", size().optional(), |d| &mut d.memory,
        "Its part of the budget; the other devices share the rest.").restart();
    rows.add("rotational", flag().optional(), |d| &mut d.rotational,
        "Whether it has moving parts, whatever the kernel says.");
    rows.add("outstanding_reads", whole().at_least(1).optional(), |d| &mut d.outstanding_reads,
        "Reads outstanding at once.");
    rows.add("policy", policy().optional(), |d| &mut d.policy,
        "As above, for this device.");
    rows.add("prefetch", prefetch().optional(), |d| &mut d.prefetch,
        "As above, for this device.");
    rows.add("io", named(IoMode::ALL, IoMode::name).optional(), |d| &mut d.io,
        "As above, for this device.").restart();
    rows.add("optional", flag(), |d| &mut d.optional,
        "Whether the device may be away. Without it, a table for a device that no root lies on is a mistake. Its `memory` is kept for it.");
    rows
}

/// Within less time nothing would ever be done.
const SHORTEST: Duration = Duration::from_millis(1);
