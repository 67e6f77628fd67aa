//! Client of a running server's admin address, for the commands that ask it for something.

use std::time::Duration;

/// The server to ask.
pub(crate) struct AdminClient {
    agent: ureq::Agent,
    base: String,
}

impl AdminClient {
    /// For an address `ADDR:PORT`, also written as a URL.
    pub(crate) fn new(address: &str, timeout: Duration) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            // The server is addressed directly, whatever proxies the environment names.
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .build();
        let address = address.trim_end_matches('/');
        let address = address.strip_prefix("http://").unwrap_or(address);
        Self {
            agent: config.new_agent(),
            base: format!("http://{address}"),
        }
    }

    /// The URL of a path, for requests and messages.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// The reply to a GET of a URL of [`Self::url`].
    ///
    /// # Errors
    /// There is no server, or it does not answer in time.
    pub(crate) fn get(&self, url: &str) -> anyhow::Result<ureq::http::Response<ureq::Body>> {
        self.agent
            .get(url)
            .call()
            .map_err(|error| silent(url, &error))
    }

    /// A POST to a URL of [`Self::url`].
    pub(crate) fn post(&self, url: &str) -> ureq::RequestBuilder<ureq::typestate::WithBody> {
        self.agent.post(url)
    }
}

/// The message for a server that does not answer.
pub(crate) fn silent(url: &str, error: &ureq::Error) -> anyhow::Error {
    anyhow::anyhow!(
        "{url}: {error}; if the server runs, name its admin address by --admin (`admin` in its \
         configuration)"
    )
}
