//! From a request on a socket to a reply made of pieces.
