//! Time limits, waiting for what a server does, and the handling of missing programs.

use std::future::Future;
use std::path::Path;
use std::time::{Duration, Instant};

use headlong_testkit::Server;
use serde_json::Value;

/// Runs a future on two threads; fails the test after `limit`. The limit ends a hung test and
/// measures nothing.
pub fn bounded<F: Future>(limit: Duration, future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let result = runtime.block_on(async { tokio::time::timeout(limit, future).await });
    runtime.shutdown_background();
    result.unwrap_or_else(|_| panic!("not done after {limit:?}"))
}

/// Polls until the condition holds; after a minute fails the test with the last value.
pub fn eventually<T: std::fmt::Debug>(
    what: &str,
    mut ask: impl FnMut() -> T,
    is_it: impl Fn(&T) -> bool,
) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = ask();
        if is_it(&answer) {
            return answer;
        }
        assert!(Instant::now() < end, "{what}: still {answer:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the log of a server has this text: it passes a pipe, so that an effect can be seen
/// before its line.
///
/// # Panics
/// If it is missing after a minute.
pub fn until_logged(server: &Server, text: &str) {
    eventually(text, || server.output(), |output| output.contains(text));
}

/// The complete lines of an access log in JSON, as soon as it has this many.
///
/// # Panics
/// If they are not there after a minute, or a line is not JSON.
pub fn logged_lines(log: &Path, count: usize) -> Vec<Value> {
    let whole = || {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let whole = text.split_inclusive('\n').filter(|l| l.ends_with('\n'));
        whole
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    };
    eventually("the lines of a log", whole, |lines: &Vec<Value>| {
        lines.len() >= count
    })
}

/// Command lines that name a path below `folder`, such as those of servers and cleanup processes.
pub fn processes_naming(folder: &Path) -> Vec<String> {
    let folder = folder.to_string_lossy();
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(&*folder)).collect()
}

/// Whether a program that a test needs is installed; if not, records the test as skipped, see
/// [`headlong_testkit::skip`].
pub fn have_or_skip(test: &str, program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    if folders
        .map(|folder| folder.join(program))
        .any(|file| file.is_file())
    {
        return true;
    }
    headlong_testkit::skip(test, &format!("{program} is not installed"));
    false
}
