//! Formats known by name, as data. The manual has a line of each, which a test reads.

/// Formats of text, as patterns with our own field names. More fields may follow each of them; an
/// unused field is `$x`. The most informative come first.
pub(crate) const PATTERNS: [(&str, &str); 11] = [
    // Apache, and Debian's other_vhosts_access.log.
    (
        "vhost_combined",
        "$x $address $x $x [$time] \"$request\" $status $bytes \"$x\" \"$agent\"",
    ),
    // nginx, Apache, lighttpd, Varnish, Traefik.
    (
        "combined",
        "$address $x $x [$time] \"$request\" $status $bytes \"$x\" \"$agent\"",
    ),
    // Apache, Traffic Server, Fastly.
    (
        "common",
        "$address $x $x [$time] \"$request\" $status $bytes",
    ),
    // Squid.
    (
        "squid",
        "$epoch $service_ms $address $status $bytes_all $method $target",
    ),
    // Traffic Server's `squid`: its time is that of arrival.
    (
        "ats",
        "$epoch_start $service_ms $address $status $bytes_all $method $target",
    ),
    // HAProxy's `option httplog`.
    (
        "haproxy",
        "$client [$start] $x $x $timers $status $bytes_all $x $x $x $x $x",
    ),
    (
        "envoy",
        "[$start] \"$request\" $status $x $x $bytes $service_ms $x \"$address\" \"$agent\"",
    ),
    // Server access logs of Amazon S3.
    (
        "s3",
        "$x $x [$start] $address $x $x $x $x \"$request\" $status $x $bytes $file_bytes \
         $service_ms $x \"$x\" \"$agent\"",
    ),
    // AWS Application Load Balancer; the last is the time of arrival.
    (
        "alb",
        "$x $time $x $client $x $x $x $x $status $x $x $bytes_all \"$request\" \"$agent\" $x $x \
         $x \"$x\" \"$x\" \"$x\" $x $start",
    ),
    // AWS Classic Load Balancer.
    (
        "elb",
        "$start $x $client $x $x $x $x $status $x $x $bytes_all \"$request\" \"$agent\"",
    ),
    // Bunny CDN.
    (
        "bunny",
        "$x|$status|$ts_ms|$bytes|$x|$address|$x|$target|$x|$agent|$x|$x",
    ),
];

/// Formats with columns and without a header, as the header that they lack.
pub(crate) const HEADERS: [(&str, &str); 1] = [(
    // CloudFront's real-time logs with all fields, in the order of its documentation.
    "cloudfront-realtime",
    "#Fields: timestamp c-ip time-to-first-byte sc-status sc-bytes cs-method cs-protocol cs-host \
     cs-uri-stem cs-bytes x-edge-location x-edge-request-id x-host-header time-taken \
     cs-protocol-version c-ip-version cs-user-agent cs-referer cs-cookie cs-uri-query \
     x-edge-response-result-type x-forwarded-for ssl-protocol ssl-cipher x-edge-result-type \
     fle-encrypted-fields fle-status sc-content-type sc-content-len sc-range-start sc-range-end",
)];

/// Apache's own formats.
pub(crate) const APACHE: [(&str, &str); 4] = [
    ("common", "%h %l %u %t \"%r\" %>s %b"),
    (
        "combined",
        "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"",
    ),
    (
        "combinedio",
        "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\" %I %O",
    ),
    (
        "vhost_combined",
        "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"",
    ),
];

/// Other names of formats.
pub(crate) const ALIASES: [(&str, &str); 9] = [
    ("plain", "csv"),
    ("nginx:combined", "combined"),
    // Its list of addresses behind `combined` is recognised.
    ("nginx:main", "combined"),
    ("cloudfront", "w3c"),
    ("iis", "w3c"),
    ("lighttpd", "combined"),
    ("varnish", "combined"),
    ("traefik", "combined"),
    ("fastly", "common"),
];
