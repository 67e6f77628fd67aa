//! Drive models against published figures and their own properties.

mod properties;
mod published;
mod validation;
