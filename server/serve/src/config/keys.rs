//! The one table of keys: name, kind, place in [`Config`] and meaning.
//!
//! Reading a file, the flags, `headlong check` and the manual all walk this table, so that they
//! cannot disagree. A default is what [`Config::default`] holds at the key's place.

use super::settings::{Config, DeviceOverride};
use super::value::{Setting, Value};

/// One key of a table whose values live in a `T`.
pub(super) struct Key<T> {
    /// Its full name, with its table: `limits.idle_timeout`.
    pub(super) name: &'static str,
    /// What it means, for the manual.
    pub(super) text: &'static str,
    /// What to write.
    pub(super) form: fn() -> String,
    /// Stores what was typed; the error says what is wrong with it.
    pub(super) set: fn(&mut T, &Value) -> Result<(), String>,
    /// The value in force, as it would be written in the file; empty if nothing is set.
    pub(super) show: fn(&T) -> String,
}

impl<T> Key<T> {
    /// Its table, empty at the top, and its name there.
    pub(super) fn split(&self) -> (&'static str, &'static str) {
        self.name.split_once('.').unwrap_or(("", self.name))
    }
}

/// The form of the type that `place` leads to; the table names no types.
fn form_at<T, V: Setting>(_place: fn(&T) -> &V) -> String {
    V::form()
}

macro_rules! keys {
    ($owner:ty: $($name:literal $($field:ident).+: $text:literal)+) => {
        &[$(Key {
            name: $name,
            text: $text,
            form: || form_at(|owner: &$owner| &owner.$($field).+),
            set: |owner, value| {
                owner.$($field).+ = Setting::read(value)?;
                Ok(())
            },
            show: |owner| owner.$($field).+.show(),
        }),+]
    };
}

/// The keys for everything.
pub(super) const KEYS: &[Key<Config>] = keys![Config:
    "roots" roots: "Folders whose trees are served; the folders named on the command line replace them. A URL's path is looked up in each in turn, and the first that has it answers."
    "listen" listen: "Addresses and ports for viewers. With `[tls]`, all of them speak TLS."
    "admin" admin: "Address and port of metrics, status and the operator's pages. They have no password: keep them on loopback or behind one."
    "admin_hosts" admin_hosts: "Names under which the operator's pages may be asked for, besides addresses and `localhost`; others are refused, so that no other site can read them through a name of its own."
    "memory" memory: "The whole budget for pieces of files. Devices named with a `memory` of their own get that; the others share what is left equally."
    "memory_prefault" memory_prefault: "Whether all of `memory` is taken from the system at start, and not when it is first used. Starting then takes as long as the system needs to clear it; no read waits for that later, and memory that is not there is missed at start."
    "piece" piece: "The unit of memory and the alignment of reads: a power of two from 4KiB to 2MiB."
    "policy" policy: "How the size of a prefetch is chosen: one size, proportional to the bit rate or to its square root, or growing with the length of the chain (first-grow; first-grow-sr also scales its largest size with the square root)."
    "prefetch" prefetch: "The policy's reference size: the size itself (fixed), the size at `reference_bit_rate` (proportional, square-root), or the largest size (first-grow, first-grow-sr). `auto` finds it for each device while it serves, from the device's measured times, the viewers and the memory; `auto-paper` by the slower descent of the published controller. See prefetch-size.md."
    "reference_bit_rate" reference_bit_rate: "The bit rate that `prefetch` is for."
    "order" order: "Which job a device does next: the oldest, the next one upwards by physical position, or that unless somebody is about to run dry."
    "retention" retention: "Which pieces to keep once they have been read: the most recently used, or those that the next viewer, a little behind, will read soonest; or, for comparisons, everything by last use, what is not yet read too."
    "read_max" read_max: "Largest run of bytes read as one when jobs merge."
    "outstanding_reads_rotating" outstanding_reads_rotating: "Reads outstanding at once at a device with moving parts. The drive's own queue takes those first that come by first; 1 serializes."
    "outstanding_reads_flash" outstanding_reads_flash: "Reads outstanding at once at a device without moving parts."
    "outstanding_max" outstanding_max: "No further read is issued to a device while those outstanding are of so many bytes together."
    "io" io: "How devices are read; `auto` takes io_uring where the kernel allows it, and says so once if not."
    "direct" direct: "Whether to read with O_DIRECT, past the kernel's page cache, where the file system allows it."
    "ahead_horizon" ahead_horizon: "While fewer than four jobs wait, a chain's next prefetch is queued when what it has left lasts no longer than this, or than its next request. With more waiting, or with `\"0s\"`, it is queued when something is missing, and not before."
    "chain_gap" chain_gap: "Two requests of one viewer for one file belong to one chain if at most this far apart."
    "patience" patience: "How long a viewer who is already playing may wait for bytes that are not in memory."
    "startup_patience" startup_patience: "The same for a viewer who starts, seeks, or says that it is about to run dry."
    "pace_default" pace_default: "Assumed reading speed of a viewer who has not shown or said any."
    "send_window" send_window: "Bytes handed to one reply and not yet taken by its socket."
    "admission" admission: "What new viewers of a device that cannot meet its deadlines get: an answer 503 with Retry-After, or their share of the slowness."
    "read_timeout" read_timeout: "A read that takes longer counts as an error of the device, and those who wait for it get an error."
    "error_window" error_window: "A device's errors are counted over this time."
    "errors_offline" errors_offline: "So many errors within `error_window` take a device out of service."
    "offline_retry" offline_retry: "How often a device out of service is tried again."
    "requests_max" requests_max: "Most requests in progress at one device."
    "chains_max" chains_max: "Most chains remembered for one device."
    "streams_max" streams_max: "Most streams known to one device at a time."
    "open_files_max" open_files_max: "Most files that one device keeps open; those being read come on top."
    "revalidate" revalidate: "How long a file's size and time of change are believed before they are looked at again."
    "rescan" rescan: "How often the roots are searched for new and deleted files; \"0s\" for never."
    "state" state: "Folder for what is remembered across restarts: the prefetch size that `auto` found for each device. Must exist and be writable."
    "server_timing" server_timing: "When replies carry Server-Timing (queue, disk, tier): when the request has a Server-Timing header of its own, always, or never."
    "cache_control" cache_control: "The Cache-Control sent with files; empty for none."
    "time_scale" time_scale: "For experiments on an emulated drive: the server's own clocks run this many times faster, so that every duration in this file is model time. Anything but 1 is wrong for real viewers."
    "limits.connections_max" limits.connections_max: "Connections at a time; more wait to be accepted."
    "limits.requests_per_connection_max" limits.requests_per_connection_max: "Requests on one connection before it is closed."
    "limits.requests_at_once_max" limits.requests_at_once_max: "Requests in progress at a time on one HTTP/2 connection."
    "limits.header_bytes_max" limits.header_bytes_max: "Bytes of a request's line and headers together; more is answered 431."
    "limits.headers_max" limits.headers_max: "Header fields of a request; more are answered 431."
    "limits.header_timeout" limits.header_timeout: "Longest time for a request's headers to arrive, and for a TLS handshake."
    "limits.idle_timeout" limits.idle_timeout: "Longest time between two requests of a connection."
    "limits.keep_alive_interval" limits.keep_alive_interval: "How often an HTTP/2 client is asked whether it is still there."
    "limits.send_timeout" limits.send_timeout: "A reply that takes fewer than `send_bytes_min` in this time is ended and its connection closed, so that slow readers cannot pin memory."
    "limits.send_bytes_min" limits.send_bytes_min: "See `send_timeout`."
    "limits.drain_timeout" limits.drain_timeout: "When the server stops, replies in progress get this long to end."
    "limits.ranges_max" limits.ranges_max: "Most ranges answered in one reply; a request for more gets the whole file."
    "tcp.congestion_control" tcp.congestion_control: "Congestion control of viewers' connections by name, such as \"bbr\"; the system's default if not set. `sysctl net.ipv4.tcp_available_congestion_control` lists those there are."
    "tcp.unsent_max" tcp.unsent_max: "Unsent bytes that the kernel takes for one connection beyond what is on its way (TCP_NOTSENT_LOWAT); \"0B\" for the kernel's own limit."
    "tls.certificate" tls.certificate: "Certificate chain in PEM. Both files are read again on SIGHUP."
    "tls.key" tls.key: "Its private key in PEM."
    "cors.origins" cors.origins: "Origins whose pages may play from here; \"*\" for all, an empty list for none."
    "cors.headers" cors.headers: "Request headers allowed to those pages beyond Range, the conditional headers and CMCD."
    "cors.max_age" cors.max_age: "How long a browser may remember the answer to a preflight."
    "session.header" session.header: "Request header with the id of a viewing session, where the player sends no CMCD `sid`."
    "session.cookie" session.cookie: "The same for a cookie."
    "session.query" session.query: "The same for a key of the query."
    "log.access" log.access: "Where one line for each request goes."
    "log.format" log.format: "How these lines look; see logs.md."
    "log.sessions" log.sessions: "Where one line for each viewing session goes."
    "log.session_gap" log.session_gap: "A viewing session without requests for this long has ended."
    "log.level" log.level: "The least severe of the daemon's own messages, which go to standard error."
];

/// The keys of one device: `[device."sda"]`.
pub(super) const DEVICE_KEYS: &[Key<DeviceOverride>] = keys![DeviceOverride:
    "memory" memory: "Its part of the budget; the other devices share the rest."
    "rotational" rotational: "Whether it has moving parts, whatever the kernel says."
    "outstanding_reads" outstanding_reads: "Reads outstanding at once."
    "policy" policy: "As above, for this device."
    "prefetch" prefetch: "As above, for this device."
    "io" io: "As above, for this device."
];
