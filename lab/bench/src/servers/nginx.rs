//! nginx, set up as its manual recommends for large files.

use std::fmt::Write as _;
use std::path::Path;

use super::launch::{LaunchSpec, ServerEnvironment, scaled_ms, text};
use crate::command_builder::CommandBuilder;
use crate::experiment::NginxSettings;

pub(super) fn launch(settings: &NginxSettings, place: &ServerEnvironment) -> LaunchSpec {
    let file = place.folder.join("nginx.conf");
    let command = command(&file, place);
    LaunchSpec::of_others(place, command, vec![(file, config(settings, place))])
}

/// nginx with this configuration, and no files outside the place's folder.
pub(super) fn command(file: &Path, place: &ServerEnvironment) -> Vec<String> {
    let words = CommandBuilder::default()
        .plain("nginx")
        .option("-c", file.display());
    let words = words.option("-p", place.folder.display());
    words.plain("-e stderr").0
}

fn config(settings: &NginxSettings, place: &ServerEnvironment) -> String {
    let folder = text(&place.folder);
    let on = |flag| if flag { "on" } else { "off" };
    let ms = |seconds| scaled_ms(seconds, place);
    let mut text = String::new();
    // Writing to a String cannot fail.
    let mut line = |line: &str| {
        let _ = writeln!(text, "{line}");
    };
    line("daemon off;");
    line("user root;");
    line(&format!("worker_processes {};", settings.workers));
    line(&format!("pid {folder}/nginx.pid;"));
    line("error_log stderr warn;");
    if settings.aio_threads {
        let threads = settings.threads;
        line(&format!(
            "thread_pool titles threads={threads} max_queue=65536;"
        ));
    }
    line("events { worker_connections 16384; }");
    line("http {");
    line("    include /etc/nginx/mime.types;");
    line("    access_log off;");
    for name in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        line(&format!("    {name}_temp_path {folder}/{name};"));
    }
    line(&format!("    sendfile {};", on(settings.sendfile)));
    line("    tcp_nopush on;");
    line(&format!("    keepalive_timeout {}ms;", ms(75.0)));
    line("    keepalive_requests 1000000000;");
    line(&format!("    keepalive_time {}ms;", ms(3600.0)));
    line(&format!("    send_timeout {}ms;", ms(60.0)));
    line(&format!("    client_header_timeout {}ms;", ms(60.0)));
    if settings.aio_threads {
        line("    aio threads=titles;");
    }
    if let Some((number, size)) = settings.output_buffers {
        line(&format!("    output_buffers {number} {size};"));
    }
    if let Some(size) = settings.directio_bytes {
        line(&format!("    directio {size};"));
    }
    line("    server {");
    line(&format!(
        "        listen 127.0.0.1:{} backlog=4096;",
        place.port
    ));
    line(&format!("        root '{}';", place.root.display()));
    for directive in settings.directives.lines() {
        line(&format!("        {directive}"));
    }
    line("    }");
    line("}");
    text
}
