//! Methods and statuses of the file server.

/// Method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Send the representation.
    Get,
    /// Send the fields that GET would send.
    Head,
    /// Return what is allowed; browsers send it as a preflight of cross-origin requests.
    Options,
    /// Return the properties of a file, or of a folder and its entries (RFC 4918 9.1).
    Propfind,
    /// Anything else; answered with [`Status::MethodNotAllowed`].
    Other,
}

impl Method {
    /// The methods in the `allow` field.
    pub const ALLOWED: &'static str = "GET, HEAD, OPTIONS";

    /// The methods where folders are listed.
    pub const ALLOWED_WITH_LISTING: &'static str = "GET, HEAD, OPTIONS, PROPFIND";

    /// Parses a method; names are case-sensitive (RFC 9110 9.1).
    pub fn parse(name: &str) -> Self {
        match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "OPTIONS" => Self::Options,
            "PROPFIND" => Self::Propfind,
            _ => Self::Other,
        }
    }

    /// Whether the method only reads a representation, so that 304 is possible.
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Get | Self::Head)
    }
}

/// Every status this server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// 200.
    Ok,
    /// 204.
    NoContent,
    /// 206.
    PartialContent,
    /// 207.
    MultiStatus,
    /// 301.
    MovedPermanently,
    /// 304.
    NotModified,
    /// 400.
    BadRequest,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 405.
    MethodNotAllowed,
    /// 410.
    Gone,
    /// 412.
    PreconditionFailed,
    /// 416.
    RangeNotSatisfiable,
    /// 500.
    InternalError,
    /// 502.
    BadGateway,
    /// 503.
    Unavailable,
    /// 504.
    GatewayTimeout,
}

impl Status {
    /// The number on the wire.
    pub const fn code(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::NoContent => 204,
            Self::PartialContent => 206,
            Self::MultiStatus => 207,
            Self::MovedPermanently => 301,
            Self::NotModified => 304,
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::Gone => 410,
            Self::PreconditionFailed => 412,
            Self::RangeNotSatisfiable => 416,
            Self::InternalError => 500,
            Self::BadGateway => 502,
            Self::Unavailable => 503,
            Self::GatewayTimeout => 504,
        }
    }

    /// The reason phrase of RFC 9110 section 15.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::NoContent => "No Content",
            Self::PartialContent => "Partial Content",
            Self::MultiStatus => "Multi-Status",
            Self::MovedPermanently => "Moved Permanently",
            Self::NotModified => "Not Modified",
            Self::BadRequest => "Bad Request",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "Not Found",
            Self::MethodNotAllowed => "Method Not Allowed",
            Self::Gone => "Gone",
            Self::PreconditionFailed => "Precondition Failed",
            Self::RangeNotSatisfiable => "Range Not Satisfiable",
            Self::InternalError => "Internal Server Error",
            Self::BadGateway => "Bad Gateway",
            Self::Unavailable => "Service Unavailable",
            Self::GatewayTimeout => "Gateway Timeout",
        }
    }
}
