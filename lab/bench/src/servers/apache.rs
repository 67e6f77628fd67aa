//! Apache with its event MPM, with Debian's defaults unless set here.

use super::launch::{LaunchSpec, ServerEnvironment, scaled_ms};
use crate::command_builder::CommandBuilder;
use crate::experiment::ApacheSettings;

/// Debian's folder of modules.
const MODULES: &str = "/usr/lib/apache2/modules";
const THREADS_PER_CHILD: u32 = 64;

pub(super) fn launch(settings: &ApacheSettings, place: &ServerEnvironment) -> LaunchSpec {
    let file = place.folder.join("apache.conf");
    let CommandBuilder(command) = CommandBuilder::default()
        .plain("apache2 -D FOREGROUND")
        .option("-f", file.display());
    LaunchSpec::of_others(place, command, vec![(file, config(settings, place))])
}

fn config(settings: &ApacheSettings, place: &ServerEnvironment) -> String {
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
