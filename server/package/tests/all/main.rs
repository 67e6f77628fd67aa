//! Titles that are made from files built byte by byte, and read back as a player would.

mod bad_files;
mod film;
mod fragments;
mod long_films;
mod playback;
mod playlists;
mod properties;
mod sets;
