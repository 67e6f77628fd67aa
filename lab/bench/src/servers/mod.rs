//! Builds configurations and command lines of servers from an experiment's settings.
//!
//! Each server runs in the foreground, as its manual recommends, with one generated file that is
//! stored in the record of the run. Its timeouts (keep-alive, send) are divided by the time scale,
//! like all times.
//!
//! Invariants: nothing is started or written here; same settings and place, same text.

mod headlong;
mod launch;
mod third_party;

pub use self::headlong::pool_memory;
use self::launch::text;
pub(crate) use self::launch::{
    ADMIN_PORT, CacheSpace, CommandBuilder, LaunchSpec, ListenAddress, PORT, PoolDevices,
    ServerEnvironment, StatusSource, pool as pool_launch,
};

use crate::experiment::{CacheKind, FrontProxy, ServerKind};

/// Port of a server with a proxy or a cache in front.
const BEHIND_PORT: u16 = 8082;

/// A server and its companion processes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServerLaunch {
    /// Its reader (a reception, a mount or a pool), started first; it shares the server's memory
    /// limit.
    pub(crate) reader: Option<LaunchSpec>,
    /// The server.
    pub(crate) server: LaunchSpec,
    /// The cache in front of it, which shares its memory limit.
    pub(crate) cache: Option<LaunchSpec>,
    /// The proxy in front of it, started last.
    pub(crate) front: Option<LaunchSpec>,
}

/// How to start a server of this kind and its companions.
pub(crate) fn launches(kind: &ServerKind, place: &ServerEnvironment) -> ServerLaunch {
    let mut own = place.clone();
    if place.front.is_some() || place.cache.is_some() {
        own.port = BEHIND_PORT;
    }
    if place.mount {
        own.root = headlong::mount_point(place);
    }
    if place.pool.is_some() {
        own.root = launch::pool_point(&place.folder);
    }
    let mut server = launch(kind, &own);
    let mut reader = place.mount.then(|| headlong::mount(place));
    if place.preload {
        server.under = headlong::preload_words(place);
        reader = Some(headlong::reception(place));
    }
    if let Some(pool) = &place.pool {
        reader = Some(launch::pool(pool, &place.folder, place.memory, false));
    }
    ServerLaunch {
        reader,
        server,
        cache: (place.cache.as_ref())
            .and_then(|(cache, space)| third_party::cache(*cache, space, place, BEHIND_PORT)),
        front: (place.front).map(|front| third_party::front_proxy(front, place, BEHIND_PORT)),
    }
}

fn launch(kind: &ServerKind, place: &ServerEnvironment) -> LaunchSpec {
    match kind {
        ServerKind::Headlong { config } => headlong::serve(config, place),
        ServerKind::Nginx(settings) => third_party::nginx(settings, place),
        ServerKind::Apache(settings) => third_party::apache(settings, place),
        ServerKind::Command { words } => {
            let words = words.iter().map(|word| filled(word, place));
            LaunchSpec::of_others(place, words.collect(), Vec::new())
        }
    }
}

/// Like [`program`], for a proxy.
pub(crate) fn front_program(front: FrontProxy) -> (&'static str, &'static str) {
    match front {
        FrontProxy::Nginx => ("nginx", "nginx-light"),
        FrontProxy::HaProxy => ("haproxy", "haproxy"),
    }
}

/// Like [`program`], for a cache.
pub(crate) fn cache_program(kind: CacheKind) -> (&'static str, &'static str) {
    match kind {
        CacheKind::Nginx => ("nginx", "nginx-light"),
        CacheKind::TrafficServer => ("traffic_server", "trafficserver"),
        CacheKind::Varnish => ("varnishd", "varnish"),
        CacheKind::Zfs => ("zfs-fuse", "zfs-fuse"),
    }
}

/// The program required by a server of this kind, and its Debian package.
pub(crate) fn program(kind: &ServerKind) -> Option<(&str, &str)> {
    match kind {
        ServerKind::Headlong { .. } => None,
        ServerKind::Nginx(_) => Some(("nginx", "nginx-light")),
        ServerKind::Apache(_) => Some(("apache2", "apache2")),
        ServerKind::Command { words } => words.first().map(|word| (word.as_str(), "")),
    }
}

fn filled(word: &str, place: &ServerEnvironment) -> String {
    let memory = place
        .memory
        .map_or_else(String::new, |bytes| bytes.to_string());
    word.replace("{root}", &text(&place.root))
        .replace("{port}", &place.port.to_string())
        .replace("{folder}", &text(&place.folder))
        .replace("{memory}", &memory)
        .replace("{time_scale}", &place.time_scale.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{ApacheSettings, Cache, NginxSettings};

    impl ServerLaunch {
        /// All of them in starting order.
        fn all(&self) -> impl Iterator<Item = &LaunchSpec> {
            let server = std::iter::once(&self.server);
            let before = self.reader.iter().chain(server);
            before.chain(&self.cache).chain(&self.front)
        }
    }

    fn place() -> ServerEnvironment {
        ServerEnvironment {
            root: "/mnt/titles".into(),
            folder: "/run/bench/server".into(),
            port: 8080,
            admin_port: 8081,
            memory: Some(4 << 30),
            time_scale: 5,
            headlong: "/usr/bin/headlong".into(),
            front: None,
            preload: false,
            mount: false,
            reader: String::new(),
            flash: None,
            pool: None,
            cache: None,
        }
    }

    /// `UPDATE=1 cargo test -p headlong-bench` rewrites the golden file.
    #[test]
    fn configurations_match_golden_file() {
        let nginx = NginxSettings {
            aio_threads: true,
            threads: 64,
            workers: 2,
            sendfile: true,
            output_buffers: None,
            directio_bytes: None,
            directives: String::new(),
        };
        let blocking = NginxSettings {
            aio_threads: false,
            workers: 64,
            sendfile: false,
            output_buffers: Some((2, 2 << 20)),
            directio_bytes: Some(1 << 20),
            directives: "open_file_cache max=30000;".into(),
            ..nginx.clone()
        };
        let apache = ApacheSettings {
            mmap: true,
            sendfile: false,
            workers: 2048,
            directives: String::new(),
        };
        let kinds = [
            (
                "headlong",
                ServerKind::Headlong {
                    config: "policy = \"fixed\"\n".into(),
                },
            ),
            ("nginx", ServerKind::Nginx(nginx)),
            ("nginx with blocking workers", ServerKind::Nginx(blocking)),
            ("apache", ServerKind::Apache(apache)),
            (
                "a command",
                ServerKind::Command {
                    words: ["caddy", "file-server", "--root={root}", "--listen=:{port}"]
                        .map(str::to_owned)
                        .to_vec(),
                },
            ),
        ];
        let plain = kinds.iter().map(|(name, kind)| (*name, kind, place()));
        let (headlong, nginx) = (&kinds[0].1, &kinds[1].1);
        let behind = |front| ServerEnvironment {
            front: Some(front),
            ..place()
        };
        let cached = |kind, slice_bytes| ServerEnvironment {
            cache: Some((
                Cache { kind, slice_bytes },
                CacheSpace {
                    folder: "/run/bench/ssd".into(),
                    bytes: 1 << 30,
                },
            )),
            ..place()
        };
        let beside = [
            ("headlong behind nginx", headlong, behind(FrontProxy::Nginx)),
            (
                "headlong behind HAProxy",
                headlong,
                behind(FrontProxy::HaProxy),
            ),
            (
                "nginx under preload",
                nginx,
                ServerEnvironment {
                    preload: true,
                    ..place()
                },
            ),
            (
                "nginx behind a cache of nginx",
                nginx,
                cached(CacheKind::Nginx, None),
            ),
            (
                "nginx behind a cache of nginx in slices",
                nginx,
                cached(CacheKind::Nginx, Some(1 << 20)),
            ),
            (
                "nginx behind Traffic Server",
                nginx,
                cached(CacheKind::TrafficServer, None),
            ),
            (
                "nginx behind Varnish",
                nginx,
                cached(CacheKind::Varnish, None),
            ),
            (
                "nginx over a ZFS pool",
                nginx,
                ServerEnvironment {
                    pool: Some(PoolDevices {
                        device: "/dev/loop1".into(),
                        ssd: Some("/dev/loop2".into()),
                    }),
                    ..place()
                },
            ),
            (
                "nginx over a mount",
                nginx,
                ServerEnvironment {
                    mount: true,
                    reader: "page_cache = false".into(),
                    ..place()
                },
            ),
        ];
        let mut shown = String::new();
        for (name, kind, place) in plain.chain(beside) {
            shown += &format!("== {name}\n");
            for launch in launches(kind, &place).all() {
                shown += &format!("$ {}\n", launch.line());
                for (path, text) in &launch.files {
                    shown += &format!("-- {}\n{text}", path.display());
                }
            }
            shown.push('\n');
        }
        crate::golden_tests::compare("servers.txt", &shown);
    }

    #[test]
    fn memory_limit_reserves_space_for_process() {
        let config = |config: &str, memory| {
            let kind = ServerKind::Headlong {
                config: config.into(),
            };
            let launch = launch(&kind, &ServerEnvironment { memory, ..place() });
            launch.files[0].1.clone()
        };
        assert!(config("", Some(4 << 30)).contains("memory = \"3584MiB\""));
        assert!(config("memory = \"1GiB\"", Some(4 << 30)).contains("memory = \"1GiB\""));
        assert!(!config("", None).contains("memory"));
        assert!(config("", Some(64 << 20)).contains("memory = \"32MiB\""));
    }
}
