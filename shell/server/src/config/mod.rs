//! What an operator may say, in a file and in flags, checked as a whole.
