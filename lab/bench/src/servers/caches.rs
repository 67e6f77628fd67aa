//! Third-party caches on an SSD in front of a server of titles. Each is set up as its manual
//! recommends for large immutable files: connections to the server are kept alive, concurrent
//! misses of a file are collapsed, cached objects stay valid, and access logs are off.
//!
//! The server of titles sends no cache headers, so lifetimes are configured. Each cache gets as
//! many bytes as headlong's tier would, on a file system of twice the size: nginx removes the
//! excess only every ten seconds.

use headlong_units::MIB;

use super::launch::{CacheSpace, ConfigFiles, LaunchSpec, ServerEnvironment, scaled_ms, text};
use super::nginx::command;
use crate::command_builder::CommandBuilder;
use crate::experiment::{Cache, CacheKind};

/// A year: nothing becomes stale during a run.
const VALID_DAYS: u32 = 365;
/// Share of the memory limit for Traffic Server's RAM cache. The rest is for the process, the
/// server behind it and the page cache.
const OWN_MEMORY_PART: u64 = 6;
/// RAM cache of Traffic Server without a memory limit.
const OWN_MEMORY: u64 = 256 * MIB;

/// Listens on the place's port and forwards to the server at `behind`; `None` for a pool, which is
/// not a proxy.
pub(super) fn launch(
    cache: Cache,
    space: &CacheSpace,
    place: &ServerEnvironment,
    behind: u16,
) -> Option<LaunchSpec> {
    let (command, files) = match cache.kind {
        CacheKind::Nginx => nginx(cache.slice_bytes, space, place, behind),
        CacheKind::TrafficServer => traffic_server(space, place, behind),
        CacheKind::Varnish => varnish(space, place, behind),
        CacheKind::Zfs => return None,
    };
    Some(LaunchSpec::of_others(place, command, files))
}

type CommandAndFiles = (Vec<String>, ConfigFiles);

fn nginx(
    slice: Option<u64>,
    space: &CacheSpace,
    place: &ServerEnvironment,
    behind: u16,
) -> CommandAndFiles {
    let file = place.folder.join("cache-nginx.conf");
    let (folder, port) = (text(&place.folder), place.port);
    let ms = |seconds| scaled_ms(seconds, place);
    let (idle, patience, lock) = (ms(75.0), ms(60.0), ms(20.0));
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let paths = paths.map(|name| format!("    {name}_temp_path {folder}/cache-{name};\n"));
    let slices = slice.map_or_else(String::new, |bytes| {
        format!(
            "            slice {bytes};
            proxy_cache_key $uri$slice_range;
            proxy_set_header Range $slice_range;
"
        )
    });
    let config = format!(
        "daemon off;
user root;
worker_processes 2;
pid {folder}/cache-nginx.pid;
error_log stderr warn;
thread_pool titles threads=64 max_queue=65536;
events {{ worker_connections 16384; }}
http {{
    access_log off;
{paths}    sendfile on;
    tcp_nopush on;
    aio threads=titles;
    keepalive_timeout {idle}ms;
    keepalive_requests 1000000000;
    send_timeout {patience}ms;
    proxy_cache_path '{cache}/nginx' levels=1:2 keys_zone=titles:16m max_size={size} \
inactive={VALID_DAYS}d use_temp_path=off;
    upstream server {{
        server 127.0.0.1:{behind};
        keepalive 256;
        keepalive_requests 1000000000;
        keepalive_timeout {patience}ms;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
{slices}            proxy_pass http://server;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            proxy_cache titles;
            proxy_cache_valid 200 206 {VALID_DAYS}d;
            proxy_cache_lock on;
            proxy_cache_lock_age {lock}ms;
            proxy_cache_lock_timeout {lock}ms;
            proxy_buffer_size 64k;
            proxy_buffers 16 64k;
            proxy_busy_buffers_size 256k;
            proxy_max_temp_file_size 0;
            proxy_read_timeout {patience}ms;
            proxy_next_upstream off;
            aio_write on;
        }}
    }}
}}
",
        paths = paths.concat(),
        cache = space.folder.display(),
        size = space.bytes,
    );
    (command(&file, place), vec![(file, config)])
}

/// It needs separate folders, and a file with their paths.
fn traffic_server(space: &CacheSpace, place: &ServerEnvironment, behind: u16) -> CommandAndFiles {
    let own = place.folder.join("trafficserver");
    let etc = own.join("etc");
    let folder = text(&own);
    let memory = place
        .memory
        .map_or(OWN_MEMORY, |limit| limit / OWN_MEMORY_PART);
    let year = u64::from(VALID_DAYS) * 24 * 3600;
    let records = format!(
        "CONFIG proxy.config.http.server_ports STRING {port}:ip-in=127.0.0.1
CONFIG proxy.config.admin.user_id STRING #-1
CONFIG proxy.config.exec_thread.autoconfig INT 0
CONFIG proxy.config.exec_thread.limit INT 2
CONFIG proxy.config.cache.threads_per_disk INT 16
CONFIG proxy.config.cache.ram_cache.size INT {memory}
CONFIG proxy.config.cache.min_average_object_size INT 262144
CONFIG proxy.config.http.wait_for_cache INT 1
CONFIG proxy.config.http.cache.required_headers INT 0
CONFIG proxy.config.http.cache.heuristic_min_lifetime INT {year}
CONFIG proxy.config.http.cache.heuristic_max_lifetime INT {year}
CONFIG proxy.config.log.logging_enabled INT 0
",
        port = place.port,
    );
    let root = format!(
        "prefix: {folder}
exec_prefix: {folder}
bindir: /usr/bin
sbindir: /usr/bin
sysconfdir: {folder}/etc
datadir: {folder}
includedir: {folder}
libdir: /usr/lib/trafficserver
libexecdir: /usr/lib/trafficserver/modules
localstatedir: {folder}/run
runtimedir: {folder}/run
logdir: {folder}/log
cachedir: {cache}
",
        cache = space.folder.display(),
    );
    let storage = format!("{} {}M\n", space.folder.display(), space.bytes / MIB);
    let allowed =
        "ip_allow:\n  - apply: in\n    ip_addrs: 0/0\n    action: allow\n    methods: ALL\n";
    let layout = own.join("runroot.yaml");
    let command = vec![
        "traffic_server".to_owned(),
        format!("--run-root={}", layout.display()),
    ];
    let files = vec![
        (layout, root),
        (etc.join("records.config"), records),
        (etc.join("storage.config"), storage),
        (
            etc.join("remap.config"),
            format!("map / http://127.0.0.1:{behind}/\n"),
        ),
        (etc.join("ip_allow.yaml"), allowed.to_owned()),
        // Traffic Server does not create these folders.
        (own.join("run/.made"), String::new()),
        (own.join("log/.made"), String::new()),
    ];
    (command, files)
}

fn varnish(space: &CacheSpace, place: &ServerEnvironment, behind: u16) -> CommandAndFiles {
    let file = place.folder.join("cache.vcl");
    let seconds = scaled_ms(60.0, place) as f64 / 1000.0;
    let rules = format!(
        "vcl 4.1;
backend server {{
    .host = \"127.0.0.1\";
    .port = \"{behind}\";
    .first_byte_timeout = {seconds}s;
    .between_bytes_timeout = {seconds}s;
}}
sub vcl_recv {{
    return (hash);
}}
sub vcl_backend_response {{
    set beresp.ttl = {VALID_DAYS}d;
    set beresp.grace = 0s;
}}
"
    );
    let store = format!(
        "file,{}/varnish,{}M",
        space.folder.display(),
        space.bytes / MIB
    );
    // Making room for a large object may evict many files; with a lower limit the request fails.
    let command = CommandBuilder::default()
        .plain("varnishd -F -j none")
        .option("-a", format_args!("127.0.0.1:{}", place.port))
        .option("-f", file.display())
        .option("-n", place.folder.join("varnish").display())
        .option("-s", store)
        .plain("-s Transient=malloc,16M -p thread_pools=1 -p thread_pool_min=200")
        .plain("-p nuke_limit=1000");
    (command.0, vec![(file, rules)])
}
