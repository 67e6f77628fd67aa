//! HTTP as RFC 9110 says.

mod conformance;
mod prop_http;
