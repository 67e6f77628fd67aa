//! The virtual world: engine, player and drive on one queue of events.
