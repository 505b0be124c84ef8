//! What is exchanged.

use std::fmt;

/// Which sample a request is; the backend answers accordingly.
pub(crate) const NUMBER: &str = "x-sample";

/// What is said after a switch of protocols, and the byte that ends it.
pub(crate) const CONVERSATION: &[u8] = b"\x81\x05hello\0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n\xff\x88";
pub(crate) const ECHO_END: [u8; 1] = [0x88];

/// A request and its response.
#[derive(Clone)]
pub(crate) struct Sample {
    pub(crate) method: &'static str,
    target: &'static str,
    /// Fields and body, from the first field on.
    request: Vec<u8>,
    pub(crate) response: Vec<u8>,
    /// What follows the response is no HTTP, and comes back as it is.
    pub(crate) echoes: bool,
    /// hyper sends 304 without `Content-Length`, as RFC 9110 15.4.5 allows.
    pub(crate) loses_length: bool,
}

const TARGETS: [&str; 4] = ["/", "/a//b/../%2Fc;d?e=%zz&e=[1]&&f", "/orders?after=2024-01-01T00:00:00%2B01:00", "*"];

/// What the client's side can look like.
const REQUESTS: [&[u8]; 6] = [
    b"Accept: a, b\r\nAccept: c\r\nCookie: a=1; b=2\r\nAuthorization: Bearer x\r\nIf-None-Match: W/\"1\"\r\n\r\n",
    b"Range: bytes=0-1,4-\r\nAccept-Encoding: gzip, br;q=0.5\r\nConnection: keep-alive\r\n\r\n",
    b"Content-Type: application/json\r\nContent-Length: 8\r\n\r\n{\"a\": 1}",
    b"Content-Type: application/octet-stream\r\nContent-Encoding: gzip\r\nContent-Length: 6\r\n\r\n\x1f\x8b\x00\xff\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\n\r\n\r\n0\r\n\r\n",
    b"Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 7\r\n\r\n",
];

/// What the backend's side can look like.
const RESPONSES: [&[u8]; 14] = [
    b"HTTP/1.1 200 OK\r\nDate: d\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nServer: s\r\nX-Empty:\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nDate: d\r\n\r\n3\r\nabc\r\n1\r\n\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nDate: d\r\n\r\ndata: 1\n\ndata: 2\n\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\nDate: d\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x00\xff",
    b"HTTP/1.1 200 OK\r\nSet-Cookie: b=2; Path=/\r\nSet-Cookie: a=1\r\nDate: d\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 201 Created\r\nLocation: /orders/7\r\nETag: \"v1\"\r\nLink: <x>; rel=next\r\nDate: d\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nDate: d\r\n\r\n",
    b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/9\r\nDate: d\r\nContent-Length: 2\r\n\r\nab",
    b"HTTP/1.1 303 See Other\r\nLocation: /done\r\nDate: d\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nDate: d\r\nContent-Length: 9\r\n\r\n",
    b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"a\"\r\nWWW-Authenticate: Bearer\r\nDate: d\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 404 Nowhere\r\nContent-Type: application/problem+json\r\nDate: d\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 500 Internal Server Error\r\nRetry-After: 3\r\nDate: d\r\nContent-Length: 4\r\n\r\noops",
];

/// Every request with every response, methods and targets in turn; and a few that go together.
pub(crate) fn all() -> Vec<Sample> {
    const METHODS: [&str; 8] = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "REPORT"];
    let mut samples = Vec::new();
    for (row, request) in REQUESTS.iter().enumerate() {
        for (column, response) in RESPONSES.iter().enumerate() {
            for turn in 0..3 {
                let method = METHODS[(row + column * 3 + turn * 5) % METHODS.len()];
                let target = TARGETS[(column + turn) % TARGETS.len()];
                let target = if target == "*" && method != "OPTIONS" { "/star" } else { target };
                samples.push(Sample::new(method, target, request, response));
            }
        }
    }
    samples.push(Sample::new("GET", "/", REQUESTS[1], &large()));
    samples.push(Sample::new("POST", "/", &large_request(), RESPONSES[0]));
    samples.push(Sample::new(
        "GET",
        "/",
        b"TE: trailers\r\nConnection: TE\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nDate: d\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 7\r\n\r\n",
    ));
    samples.push(Sample {
        echoes: true,
        ..Sample::new(
            "GET",
            "/chat",
            b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\nSec-WebSocket-Version: 13\r\n\r\n",
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\nDate: d\r\n\r\n",
        )
    });
    samples
}

fn noise() -> Vec<u8> {
    (0..1_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn large() -> Vec<u8> {
    [&b"HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 1000000\r\n\r\n"[..], &noise()].concat()
}

fn large_request() -> Vec<u8> {
    [&b"Content-Length: 1000000\r\n\r\n"[..], &noise()].concat()
}

// === impl Sample ===

impl Sample {
    fn new(method: &'static str, target: &'static str, request: &[u8], response: &[u8]) -> Self {
        Self {
            method,
            target,
            request: request.to_vec(),
            response: answer_to(method, response),
            echoes: false,
            loses_length: method != "HEAD" && response.starts_with(b"HTTP/1.1 304"),
        }
    }

    /// The request's bytes.
    pub(crate) fn request(&self, number: usize) -> Vec<u8> {
        let first =
            format!("{} {} HTTP/1.1\r\nHost: shop.example:81\r\n{NUMBER}: {number}\r\n", self.method, self.target);
        [first.as_bytes(), &self.request].concat()
    }
}

/// To HEAD there is no body.
fn answer_to(method: &str, response: &[u8]) -> Vec<u8> {
    let head = response.windows(4).position(|window| window == b"\r\n\r\n").expect("every response has a head") + 4;
    match method {
        "HEAD" => response[..head].to_vec(),
        _ => response.to_vec(),
    }
}

impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = |bytes: &[u8]| bytes.get(..300).unwrap_or(bytes).escape_ascii().to_string();
        write!(f, "{} {} {} => {}", self.method, self.target, start(&self.request), start(&self.response))
    }
}
