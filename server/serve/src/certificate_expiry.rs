//! Reports certificates that have expired, or will soon.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headlong_net::{ReloadingCertificates, ValidityProblem};
use tokio::time::sleep;

/// Interval of the reports.
const INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// The current time, in seconds since 1970.
pub fn now_unix_s() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}

/// Logs what is wrong with the validity of the certificates now.
pub(crate) fn report(certificates: &ReloadingCertificates) {
    let now = now_unix_s();
    let validities = certificates.validities();
    for problem in validities.iter().filter_map(|one| one.problem(now)) {
        match problem {
            ValidityProblem::Expired(text) => tracing::error!("{text}"),
            ValidityProblem::Warning(text) => tracing::warn!("{text}"),
        }
    }
}

/// Logs when each certificate expires, and from then on once a day what is wrong with one.
pub(crate) async fn watch(certificates: Arc<ReloadingCertificates>) {
    for certificate in certificates.validities() {
        let (file, expires) = (certificate.file.display(), certificate.expires());
        tracing::info!(%file, expires, "certificate loaded");
    }
    loop {
        report(&certificates);
        sleep(INTERVAL).await;
    }
}
