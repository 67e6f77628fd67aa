//! The server's life cycle: start, serve, hand over to a new process, stop.
//!
//! [`Prepared`] opens everything that may fail, before the first request is accepted; [`Running`]
//! owns what runs, and stops it in the reverse order of its start. Signals at run time: HUP reloads,
//! USR1 reopens the logs, USR2 upgrades to the installed program, TERM and INT drain and stop.

use crate::core_dumps;
use crate::prepared::Prepared;
pub use crate::reload::ReadConfig;
pub use crate::run_error::RunError;
use crate::running::Running;
use crate::signals::{ServerExit, Signals};
use crate::upgrade::{InheritedSockets, Program, Successor};
use headlong_config::Config;

/// Serves until it is stopped. `config` comes from [`Config::load`], which checked it for this
/// machine; `read_config` returns the next one on SIGHUP.
///
/// # Errors
/// If the server cannot start. Once it runs, it ends only when it is stopped.
pub fn run(config: Config, read_config: ReadConfig) -> Result<(), RunError> {
    // Must come first, before this process opens a descriptor.
    let of_manager = InheritedSockets::of_manager()?;
    let program = Program::of_this_process()?;
    let daemon_log = headlong_telemetry::init_daemon_log(config.log.level.name())?;
    core_dumps::disable();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let flush = daemon_log.clone();
    let result = runtime.block_on(async {
        let signals = Signals::listen()?;
        let prepared = Prepared::open(&config, of_manager).await?;
        let running = Running::start(prepared, config, read_config, daemon_log).await?;
        Ok(serve(running, signals, program).await)
    });
    // A lookup that hangs in a dead file system must not keep the process alive.
    runtime.shutdown_background();
    flush.flush();
    // The last act: it closes the channel to the new process, which ends only after this one, as a
    // service manager kills all others once its main process has ended.
    result.map(drop)
}

/// Returns the process that has taken over, if one has.
async fn serve(mut running: Running, mut signals: Signals, program: Program) -> Option<Successor> {
    let successor = match running.until_end(&mut signals, program).await {
        ServerExit::Stop => {
            running.begin_stop();
            running.drain().await;
            running.save_state().await;
            None
        }
        // The new process has its own state by now.
        ServerExit::Replaced(successor, pieces) => {
            running.hand_over(&mut signals, &successor, pieces).await;
            running.drain().await;
            Some(successor)
        }
    };
    running.close().await;
    successor
}
