//! A proxy in front of a server, set up as its manual recommends for large files: connections to
//! the server are kept alive, nothing is buffered on disk, and `X-Forwarded-For` has the client's
//! address.

use super::launch::{LaunchSpec, ServerEnvironment, scaled_ms, text};
use super::nginx::command;
use crate::experiment::FrontProxy;

/// Listens on the place's port and forwards to the server at `behind`.
pub(super) fn launch(front: FrontProxy, place: &ServerEnvironment, behind: u16) -> LaunchSpec {
    let (file, config, command) = match front {
        FrontProxy::Nginx => {
            let file = place.folder.join("front-nginx.conf");
            let command = command(&file, place);
            (file, nginx(place, behind), command)
        }
        FrontProxy::HaProxy => {
            let file = place.folder.join("front-haproxy.cfg");
            let command = ["haproxy", "-db", "-f", &text(&file)].map(str::to_owned);
            (file, haproxy(place, behind), command.to_vec())
        }
    };
    LaunchSpec::of_others(place, command, vec![(file, config)])
}

fn nginx(place: &ServerEnvironment, behind: u16) -> String {
    let (folder, port) = (text(&place.folder), place.port);
    let ms = |seconds| scaled_ms(seconds, place);
    let (idle, patience) = (ms(75.0), ms(60.0));
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let paths = paths.map(|name| format!("    {name}_temp_path {folder}/front-{name};\n"));
    let paths = paths.concat();
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

fn haproxy(place: &ServerEnvironment, behind: u16) -> String {
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
