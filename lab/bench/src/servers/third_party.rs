//! Servers, proxies and caches of others: their commands and configurations, as their manuals
//! recommend for large immutable files.

use std::path::Path;

use headlong_units::MIB;

use super::launch::{
    CacheSpace, CommandBuilder, ConfigFiles, LaunchSpec, ServerEnvironment, scaled_ms, text,
};
use crate::experiment::{ApacheSettings, Cache, CacheKind, FrontProxy, NginxSettings};

pub(super) fn nginx(settings: &NginxSettings, place: &ServerEnvironment) -> LaunchSpec {
    let file = place.folder.join("nginx.conf");
    let command = nginx_command(&file, place);
    LaunchSpec::of_others(place, command, vec![(file, nginx_config(settings, place))])
}

/// nginx with this configuration, and no files outside the place's folder.
fn nginx_command(file: &Path, place: &ServerEnvironment) -> Vec<String> {
    let words = CommandBuilder::default()
        .plain("nginx")
        .option("-c", file.display());
    let words = words.option("-p", place.folder.display());
    words.plain("-e stderr").0
}

fn nginx_config(settings: &NginxSettings, place: &ServerEnvironment) -> String {
    let folder = text(&place.folder);
    let on = |flag| if flag { "on" } else { "off" };
    let ms = |seconds| scaled_ms(seconds, place);
    let (pool, aio) = match settings.aio_threads {
        true => (
            format!(
                "thread_pool titles threads={} max_queue=65536;\n",
                settings.threads
            ),
            "    aio threads=titles;\n",
        ),
        false => (String::new(), ""),
    };
    let buffers = settings.output_buffers;
    let buffers = buffers.map(|(number, size)| format!("    output_buffers {number} {size};\n"));
    let direct = settings.directio_bytes;
    let direct = direct.map(|size| format!("    directio {size};\n"));
    let directives = settings.directives.lines();
    format!(
        "daemon off;
user root;
worker_processes {workers};
pid {folder}/nginx.pid;
error_log stderr warn;
{pool}events {{ worker_connections 16384; }}
http {{
    include /etc/nginx/mime.types;
    access_log off;
{paths}    sendfile {sendfile};
    tcp_nopush on;
    keepalive_timeout {idle}ms;
    keepalive_requests 1000000000;
    keepalive_time {life}ms;
    send_timeout {patience}ms;
    client_header_timeout {patience}ms;
{aio}{buffers}{direct}    server {{
        listen 127.0.0.1:{port} backlog=4096;
        root '{root}';
{directives}    }}
}}
",
        workers = settings.workers,
        paths = temp_paths(&format!("{folder}/")),
        sendfile = on(settings.sendfile),
        idle = ms(75.0),
        life = ms(3600.0),
        patience = ms(60.0),
        buffers = buffers.unwrap_or_default(),
        direct = direct.unwrap_or_default(),
        port = place.port,
        root = place.root.display(),
        directives = directives
            .map(|line| format!("        {line}\n"))
            .collect::<String>(),
    )
}

/// Where nginx puts its temporary files: paths that begin with `prefix`.
fn temp_paths(prefix: &str) -> String {
    let names = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    names
        .map(|name| format!("    {name}_temp_path {prefix}{name};\n"))
        .concat()
}

// Apache with its event MPM, with Debian's defaults unless set here.

/// Debian's folder of modules.
const MODULES: &str = "/usr/lib/apache2/modules";
const THREADS_PER_CHILD: u32 = 64;

pub(super) fn apache(settings: &ApacheSettings, place: &ServerEnvironment) -> LaunchSpec {
    let file = place.folder.join("apache.conf");
    let CommandBuilder(command) = CommandBuilder::default()
        .plain("apache2 -D FOREGROUND")
        .option("-f", file.display());
    LaunchSpec::of_others(place, command, vec![(file, apache_config(settings, place))])
}

fn apache_config(settings: &ApacheSettings, place: &ServerEnvironment) -> String {
    let on = |flag| if flag { "On" } else { "Off" };
    let children = settings.workers.div_ceil(THREADS_PER_CHILD).max(1);
    let modules = ["mpm_event", "authz_core", "mime"];
    let modules = modules.map(|name| format!("LoadModule {name}_module {MODULES}/mod_{name}.so\n"));
    let directives = settings.directives.lines();
    format!(
        "{modules}\
ServerRoot \"{folder}\"
DefaultRuntimeDir \"{folder}\"
PidFile \"{folder}/apache.pid\"
ServerName 127.0.0.1
User www-data
Group www-data
ErrorLog /proc/self/fd/2
LogLevel warn
TypesConfig /etc/mime.types
Listen 127.0.0.1:{port}
ListenBacklog 4096
ServerLimit {children}
StartServers {children}
ThreadsPerChild {THREADS_PER_CHILD}
ThreadLimit {THREADS_PER_CHILD}
MaxRequestWorkers {workers}
MaxSpareThreads {workers}
Timeout {timeout_s}
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout {keep_alive_ms}ms
EnableMMAP {mmap}
EnableSendfile {sendfile}
DocumentRoot \"{root}\"
<Directory \"{root}\">
    AllowOverride None
    Require all granted
</Directory>
{directives}",
        modules = modules.concat(),
        folder = place.folder.display(),
        port = place.port,
        workers = children * THREADS_PER_CHILD,
        // `Timeout` takes whole seconds.
        timeout_s = scaled_ms(300.0, place).div_ceil(1000),
        keep_alive_ms = scaled_ms(5.0, place),
        mmap = on(settings.mmap),
        sendfile = on(settings.sendfile),
        root = place.root.display(),
        directives = directives
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    )
}

// A proxy in front of a server, set up as its manual recommends for large files: connections to
// the server are kept alive, nothing is buffered on disk, and `X-Forwarded-For` has the client's
// address.

/// Listens on the place's port and forwards to the server at `behind`.
pub(super) fn front_proxy(front: FrontProxy, place: &ServerEnvironment, behind: u16) -> LaunchSpec {
    let (file, config, command) = match front {
        FrontProxy::Nginx => {
            let file = place.folder.join("front-nginx.conf");
            let command = nginx_command(&file, place);
            (file, front_nginx_config(place, behind), command)
        }
        FrontProxy::HaProxy => {
            let file = place.folder.join("front-haproxy.cfg");
            let command = ["haproxy", "-db", "-f", &text(&file)].map(str::to_owned);
            (file, haproxy_config(place, behind), command.to_vec())
        }
    };
    LaunchSpec::of_others(place, command, vec![(file, config)])
}

fn front_nginx_config(place: &ServerEnvironment, behind: u16) -> String {
    let (folder, port) = (text(&place.folder), place.port);
    let ms = |seconds| scaled_ms(seconds, place);
    let (idle, patience) = (ms(75.0), ms(60.0));
    let paths = temp_paths(&format!("{folder}/front-"));
    format!(
        "daemon off;
user root;
worker_processes 2;
pid {folder}/front-nginx.pid;
error_log stderr warn;
events {{ worker_connections 16384; }}
http {{
    access_log off;
{paths}    keepalive_timeout {idle}ms;
    keepalive_requests 1000000000;
    send_timeout {patience}ms;
    upstream server {{
        server 127.0.0.1:{behind};
        keepalive 1024;
        keepalive_requests 1000000000;
        keepalive_timeout {patience}ms;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            proxy_pass http://server;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_buffering off;
            proxy_read_timeout {patience}ms;
            proxy_next_upstream off;
        }}
    }}
}}
"
    )
}

fn haproxy_config(place: &ServerEnvironment, behind: u16) -> String {
    let port = place.port;
    let ms = |seconds| scaled_ms(seconds, place);
    let (connect, patience, idle) = (ms(5.0), ms(60.0), ms(75.0));
    format!(
        "global
    # Continue with a warning if the machine allows fewer descriptors than maxconn needs.
    no strict-limits
    maxconn 16384
defaults
    mode http
    timeout connect {connect}ms
    timeout client {patience}ms
    timeout server {patience}ms
    timeout http-keep-alive {idle}ms
frontend viewers
    bind 127.0.0.1:{port} backlog 4096
    maxconn 16384
    default_backend server
backend server
    option forwardfor
    http-reuse safe
    retry-on conn-failure
    server server 127.0.0.1:{behind}
"
    )
}

// Third-party caches on an SSD in front of a server of titles. Each is set up as its manual
// recommends for large immutable files: connections to the server are kept alive, concurrent
// misses of a file are collapsed, cached objects stay valid, and access logs are off.
//
// The server of titles sends no cache headers, so lifetimes are configured. Each cache gets as
// many bytes as headlong's tier would, on a file system of twice the size: nginx removes the
// excess only every ten seconds.

/// A year: nothing becomes stale during a run.
const VALID_DAYS: u32 = 365;
/// Share of the memory limit for Traffic Server's RAM cache. The rest is for the process, the
/// server behind it and the page cache.
const OWN_MEMORY_PART: u64 = 6;
/// RAM cache of Traffic Server without a memory limit.
const OWN_MEMORY: u64 = 256 * MIB;

/// Listens on the place's port and forwards to the server at `behind`; `None` for a pool, which is
/// not a proxy.
pub(super) fn cache(
    cache: Cache,
    space: &CacheSpace,
    place: &ServerEnvironment,
    behind: u16,
) -> Option<LaunchSpec> {
    let (command, files) = match cache.kind {
        CacheKind::Nginx => cache_nginx(cache.slice_bytes, space, place, behind),
        CacheKind::TrafficServer => traffic_server(space, place, behind),
        CacheKind::Varnish => varnish(space, place, behind),
        CacheKind::Zfs => return None,
    };
    Some(LaunchSpec::of_others(place, command, files))
}

type CommandAndFiles = (Vec<String>, ConfigFiles);

fn cache_nginx(
    slice: Option<u64>,
    space: &CacheSpace,
    place: &ServerEnvironment,
    behind: u16,
) -> CommandAndFiles {
    let file = place.folder.join("cache-nginx.conf");
    let (folder, port) = (text(&place.folder), place.port);
    let ms = |seconds| scaled_ms(seconds, place);
    let (idle, patience, lock) = (ms(75.0), ms(60.0), ms(20.0));
    let paths = temp_paths(&format!("{folder}/cache-"));
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
        cache = space.folder.display(),
        size = space.bytes,
    );
    (nginx_command(&file, place), vec![(file, config)])
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
