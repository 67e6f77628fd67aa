//! Listeners, TLS, limits and timeouts of connections.
