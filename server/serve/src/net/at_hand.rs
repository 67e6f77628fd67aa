//! Replies that are at hand: asked for with a head as it came, before anything is made of it.
//!
//! The one idea: what is asked for again and again, and is in memory, needs no table of fields, no
//! future and no plan of its own; a service that knows such a reply says so, and everything else is
//! asked as always.
//!
//! Invariant: a service that says nothing here answers the same request as well, and alike.

use std::fmt;
use std::sync::Arc;

use http::{Request, Response};
use hyper::service::Service;

use super::NoBody;
use super::info::{ActiveRequest, ConnectionInfo};

/// A GET of HTTP/1.1 as it came; only where its parts end is known.
#[derive(Debug, Clone, Copy)]
pub struct RawHead<'a> {
    /// The target of the request line.
    pub target: &'a str,
    /// The fields, in order.
    pub fields: &'a [httparse::Header<'a>],
}

impl<'a> RawHead<'a> {
    /// The fields as pairs of name and value.
    pub fn pairs(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + Clone {
        self.fields.iter().map(|field| (field.name, field.value))
    }
}

/// A reply that is at hand.
pub struct AtHand<B> {
    /// Its head from the status line on, without date, without what is said of the connection, and
    /// without the empty line.
    pub head: Vec<u8>,
    /// Its body, of a length that the head says.
    pub body: B,
    /// Its request counts as in progress.
    pub active: ActiveRequest,
}

impl<B> fmt::Debug for AtHand<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = self.head.len();
        f.debug_struct("AtHand")
            .field("head", &head)
            .finish_non_exhaustive()
    }
}

/// A service that may have replies at hand.
pub trait Answers<B>: Service<Request<NoBody>, Response = Response<B>> {
    /// The reply to a request of this connection, if it is at hand.
    fn at_hand(&self, head: &RawHead<'_>, info: &Arc<ConnectionInfo>) -> Option<AtHand<B>>;
}

/// A service that has nothing at hand.
#[derive(Debug, Clone)]
pub struct NothingAtHand<S>(pub S);

impl<S: Service<Request<NoBody>>> Service<Request<NoBody>> for NothingAtHand<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, request: Request<NoBody>) -> S::Future {
        self.0.call(request)
    }
}

impl<S, B> Answers<B> for NothingAtHand<S>
where
    S: Service<Request<NoBody>, Response = Response<B>>,
{
    fn at_hand(&self, _: &RawHead<'_>, _: &Arc<ConnectionInfo>) -> Option<AtHand<B>> {
        None
    }
}
