//! Apache with its event MPM: Debian's defaults for what is not named.

use std::fmt::Write as _;

use super::launch::{Launch, Place, scaled_ms, text};
use crate::experiment::Apache;

/// Where Debian keeps them.
const MODULES: &str = "/usr/lib/apache2/modules";
const THREADS_PER_CHILD: u32 = 64;

pub(super) fn launch(settings: &Apache, place: &Place) -> Launch {
    let file = place.folder.join("apache.conf");
    let command = ["apache2", "-D", "FOREGROUND", "-f", &text(&file)];
    Launch {
        command: command.map(str::to_owned).to_vec(),
        files: vec![(file, config(settings, place))],
        status_path: None,
    }
}

fn config(settings: &Apache, place: &Place) -> String {
    let on = |flag| if flag { "On" } else { "Off" };
    let children = settings.workers.div_ceil(THREADS_PER_CHILD).max(1);
    let mut text = String::new();
    // Writing to a String cannot fail.
    let mut line = |line: &str| {
        let _ = writeln!(text, "{line}");
    };
    for module in ["mpm_event", "authz_core", "mime"] {
        line(&format!(
            "LoadModule {module}_module {MODULES}/mod_{module}.so"
        ));
    }
    let folder = place.folder.display();
    line(&format!("ServerRoot \"{folder}\""));
    line(&format!("DefaultRuntimeDir \"{folder}\""));
    line(&format!("PidFile \"{folder}/apache.pid\""));
    line("ServerName 127.0.0.1");
    line("User www-data");
    line("Group www-data");
    line("ErrorLog /proc/self/fd/2");
    line("LogLevel warn");
    line("TypesConfig /etc/mime.types");
    line(&format!("Listen 127.0.0.1:{}", place.port));
    line("ListenBacklog 4096");
    line(&format!("ServerLimit {children}"));
    line(&format!("StartServers {children}"));
    line(&format!("ThreadsPerChild {THREADS_PER_CHILD}"));
    line(&format!("ThreadLimit {THREADS_PER_CHILD}"));
    line(&format!(
        "MaxRequestWorkers {}",
        children * THREADS_PER_CHILD
    ));
    line(&format!("MaxSpareThreads {}", children * THREADS_PER_CHILD));
    // Whole seconds.
    line(&format!(
        "Timeout {}",
        scaled_ms(300.0, place).div_ceil(1000)
    ));
    line("KeepAlive On");
    line("MaxKeepAliveRequests 0");
    line(&format!("KeepAliveTimeout {}ms", scaled_ms(5.0, place)));
    line(&format!("EnableMMAP {}", on(settings.mmap)));
    line(&format!("EnableSendfile {}", on(settings.sendfile)));
    line(&format!("DocumentRoot \"{}\"", place.root.display()));
    line(&format!("<Directory \"{}\">", place.root.display()));
    line("    AllowOverride None");
    line("    Require all granted");
    line("</Directory>");
    for directive in settings.directives.lines() {
        line(directive);
    }
    text
}
