//! Answers to HAProxy's agent check: a line for each connection, without reading from it.

use std::sync::Arc;
use std::time::Duration;

use headlong_fleet::AgentAnswer;
use headlong_net::{
    ConnectionLimits, Listener, ListenerContext, Shutdown, TcpOptions, accept_reader,
};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::state::AdminState;

/// A line fits into the buffer of any new socket.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves the agent's listener until `shutdown`.
pub async fn serve_agent(listener: Listener, state: Arc<AdminState>, mut shutdown: Shutdown) {
    let context = ListenerContext::new(
        ConnectionLimits::default(),
        TcpOptions::default(),
        Arc::default(),
    );
    let answer_all = async {
        loop {
            let mut stream = accept_reader(&listener, &context).await;
            let line = match state.draining.is_draining() {
                true => AgentAnswer::Drain.to_string(),
                false => state.share.get().to_string(),
            };
            // A client that closes at once, or never reads, gets no answer.
            let _ = timeout(WRITE_TIMEOUT, stream.write_all(line.as_bytes())).await;
        }
    };
    tokio::select! {
        () = shutdown.retiring() => {}
        () = answer_all => {}
    }
}
