//! Bounds on time, and what to do where a program is missing.

use std::future::Future;
use std::time::{Duration, Instant};

/// Runs a future on two threads; fails the test if it takes longer than `limit`, which is there to
/// end a test that hangs and not to measure anything.
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

/// Asks until the answer is yes; fails the test with the last answer after a minute.
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

/// Whether a program that a test needs is installed; if not, the test is noted as
/// skipped, see [`headlong_testkit::skip`].
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
