//! Chains and phases against simple references.

mod joining;
mod naive;
mod phases;
mod survival;
