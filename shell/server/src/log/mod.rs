//! Access log, session log and the daemon's own log.
