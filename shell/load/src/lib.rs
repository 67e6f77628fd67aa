//! Plays viewers over sockets against any HTTP server.
