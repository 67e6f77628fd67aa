//! Treatment of each directive of nginx, by name.

/// Treatment of a directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// The conversion reads it, and reports values that it cannot convert.
    Converted,
    /// Headlong does this itself, or has no use for it.
    Needless,
    /// It has no place here; the remedy.
    Lost(&'static str),
}

use Treatment::{Converted, Lost, Needless};

const IN_FRONT: &str = "keep nginx in front for this (beside.md)";

/// Directives by name. A name that ends with `*` stands for all that begin with it.
const KNOWN: &[(&[&str], Treatment)] = &[
    (
        &[
            "http",
            "server",
            "location",
            "root",
            "alias",
            "listen",
            "server_name",
            "set",
            "map",
            "if",
            "autoindex",
            "autoindex_format",
            "expires",
            "add_header",
            "gzip",
            "gzip_static",
            "limit_rate",
            "secure_link",
            "secure_link_md5",
            "secure_link_secret",
            "auth_request",
            "auth_*",
            "access_by_lua*",
            "rewrite_by_lua*",
            "akamai_token_validate",
            "secure_token_validate",
            "satisfy",
            "allow",
            "deny",
            "valid_referers",
            "access_log",
            "log_format",
            "ssl_certificate",
            "ssl_certificate_key",
            "ssl_verify_client",
            "ssl_protocols",
            "client_header_timeout",
            "keepalive_timeout",
            "keepalive_requests",
            "send_timeout",
            "large_client_header_buffers",
            "set_real_ip_from",
            "real_ip_header",
            "proxy_pass",
            "proxy_cache",
            "proxy_cache_path",
            "proxy_cache_valid",
            "proxy_cache_key",
            "slice",
            "proxy_read_timeout",
            "upstream",
            "return",
            "internal",
            "try_files",
            "include",
            "fastcgi_pass",
            "uwsgi_pass",
            "scgi_pass",
            "grpc_pass",
            "memcached_pass",
        ],
        Converted,
    ),
    (
        &[
            "user",
            "pid",
            "daemon",
            "master_process",
            "worker_*",
            "events",
            "load_module",
            "env",
            "error_log",
            "pcre_jit",
            "thread_pool",
            "lock_file",
            "timer_resolution",
            "sendfile*",
            "aio*",
            "directio*",
            "tcp_nopush",
            "tcp_nodelay",
            "output_buffers",
            "read_ahead",
            "postpone_output",
            "open_file_cache*",
            "open_log_file_cache",
            "server_tokens",
            "autoindex_exact_size",
            "autoindex_localtime",
            "server_names_hash_*",
            "types_hash_*",
            "variables_hash_*",
            "map_hash_*",
            "types",
            "server_name_in_redirect",
            "port_in_redirect",
            "absolute_redirect",
            "default_type",
            "gzip_*",
            "gunzip*",
            "etag",
            "if_modified_since",
            "charset*",
            "override_charset",
            "max_ranges",
            "client_max_body_size",
            "client_body_*",
            "client_header_buffer_size",
            "ssl_ciphers",
            "ssl_prefer_server_ciphers",
            "ssl_session_*",
            "ssl_dhparam",
            "ssl_ecdh_curve",
            "ssl_buffer_size",
            "ssl_stapling*",
            "ssl_trusted_certificate",
            "ssl_conf_command",
            "ssl_early_data",
            "ssl_reject_handshake",
            "resolver*",
            "http2*",
            "log_not_found",
            "log_subrequest",
            "merge_slashes",
            "underscores_in_headers",
            "ignore_invalid_headers",
            "reset_timedout_connection",
            "lingering_*",
            "keepalive_disable",
            "keepalive_time",
            "real_ip_recursive",
            "referer_hash_*",
            "disable_symlinks",
            "auth_request_set",
            "proxy_buffer*",
            "proxy_busy_buffers_size",
            "proxy_http_version",
            "proxy_set_header",
            "proxy_redirect",
            "proxy_connect_timeout",
            "proxy_send_timeout",
            "proxy_temp_*",
            "proxy_max_temp_file_size",
            "proxy_cache_lock*",
            "proxy_cache_revalidate",
            "proxy_cache_background_update",
            "proxy_cache_use_stale",
            "proxy_cache_min_uses",
            "proxy_cache_methods",
            "proxy_force_ranges",
            "proxy_cache_max_range_offset",
            "proxy_hide_header",
            "proxy_pass_header",
            "proxy_intercept_errors",
            "proxy_socket_keepalive",
            "proxy_request_buffering",
            "proxy_pass_request_*",
            "proxy_method",
            "proxy_headers_hash_*",
            "proxy_next_upstream*",
            "proxy_ssl_server_name",
            "proxy_ssl_protocols",
            "proxy_ssl_session_reuse",
            "proxy_ssl_verify*",
            "proxy_ssl_trusted_certificate",
            "proxy_ignore_client_abort",
            "fastcgi_*",
            "uwsgi_*",
            "scgi_*",
            "grpc_*",
            "memcached_*",
            "break",
            "limit_req_zone",
            "limit_conn_zone",
            "uninitialized_variable_warn",
            "rewrite_log",
            "recursive_error_pages",
        ],
        Needless,
    ),
    (
        &["error_page"],
        Lost(
            "errors have a short text of their own; for own pages keep nginx in front \
                (beside.md)",
        ),
    ),
    (
        &["rewrite"],
        Lost(
            "URLs are the paths of files: rename the folders, or keep nginx in front \
            (beside.md)",
        ),
    ),
    (
        &["random_index", "fancyindex*"],
        Lost("folders are listed in one form: `listing` (serve.md)"),
    ),
    (
        &["index"],
        Lost("a folder is answered with 404: link to the files themselves"),
    ),
    (
        &["limit_req*"],
        Lost(
            "requests are limited by limits.requests_per_address_max at one time, not by \
                rate; for \
             a rate keep nginx in front (beside.md)",
        ),
    ),
    (
        &["limit_conn*"],
        Lost("write limits.connections_per_address_max, for all paths together"),
    ),
    (
        &["limit_rate_after"],
        Lost("write pace_percent and pace_burst, in playing time (pacing.md)"),
    ),
    (
        &["limit_except"],
        Lost("only GET, HEAD and OPTIONS are answered; remove it"),
    ),
    (
        &["mp4*", "flv"],
        Lost("`?start=` is ignored and the whole file is sent: players seek by ranges"),
    ),
    (
        &["hls*", "vod*"],
        Lost(
            "files are sent as they are: package HLS and DASH before, or serve the packager's \
                nginx \
             as the origin of an edge (edge.md)",
        ),
    ),
    (
        &["geo", "geoip*", "split_clients"],
        Lost("rules by country or share are not supported: keep nginx in front (beside.md)"),
    ),
    (
        &[
            "ssl_client_certificate",
            "ssl_crl",
            "ssl_verify_depth",
            "ssl_password_file",
        ],
        Lost(
            "client certificates and keys with a password are not supported: keep nginx in \
                front (beside.md)",
        ),
    ),
    (
        &[
            "proxy_cache_bypass",
            "proxy_no_cache",
            "proxy_ignore_headers",
            "proxy_cache_purge",
        ],
        Lost("an edge follows the origin's Cache-Control; purge by its admin address (edge.md)"),
    ),
    (
        &[
            "proxy_store*",
            "proxy_bind",
            "proxy_ssl_certificate*",
            "proxy_ssl_name",
            "proxy_cookie_*",
        ],
        Lost("an edge has no such setting: keep an nginx between edge and origin"),
    ),
    (
        &["http3*", "quic*"],
        Lost("HTTP/3 is not served: keep nginx or HAProxy in front (features.md)"),
    ),
    (
        &["dav_*", "create_full_put_path"],
        Lost("nothing is written over HTTP: upload by other means"),
    ),
    (
        &["stub_status"],
        Lost("the admin address has /metrics and /status (watch.md)"),
    ),
    (
        &[
            "mirror*",
            "post_action",
            "sub_filter*",
            "addition_*",
            "add_before_body",
            "add_after_body",
            "image_filter*",
            "ssi*",
            "xslt*",
            "js_*",
            "perl*",
            "lua_*",
            "empty_gif",
            "brotli*",
            "more_*",
        ],
        Lost(IN_FRONT),
    ),
    (
        &["stream", "mail", "rtmp"],
        Lost("not HTTP: keep nginx for it, on ports of its own"),
    ),
];

/// The treatment of the directive with this name.
pub(crate) fn treatment(name: &str) -> Treatment {
    let is_it = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => *pattern == name,
    };
    // Whole names come first: `proxy_cache` and `proxy_cache_*` differ.
    let whole = KNOWN.iter().find(|(names, _)| names.contains(&name));
    let known = whole.or_else(|| KNOWN.iter().find(|(names, _)| names.iter().any(is_it)));
    match known {
        Some((_, treatment)) => *treatment,
        None if name.contains("_by_lua") => Lost(IN_FRONT),
        None => Lost("unknown directive; if the site needs it, keep nginx in front (beside.md)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_name_comes_before_beginning() {
        assert_eq!(treatment("gzip_static"), Converted);
        assert_eq!(treatment("gzip_types"), Needless);
        assert!(matches!(treatment("limit_rate_after"), Lost(_)));
        assert!(matches!(treatment("proxy_ssl_name"), Lost(_)));
        assert!(matches!(treatment("content_by_lua_block"), Lost(_)));
        assert!(matches!(treatment("colour"), Lost(_)));
    }
}
