//! Requests whose bytes matter, written as they stand.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use super::{Answer, PATIENCE};

/// Writes a request that ends its connection, and reads the answer.
pub(crate) async fn wire(address: &str, request: &[u8]) -> Answer {
    wire_from(Ipv4Addr::LOCALHOST, address, request).await
}

/// The same from another address of this machine.
pub(crate) async fn wire_from(from: Ipv4Addr, address: &str, request: &[u8]) -> Answer {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(IpAddr::V4(from), 0)).unwrap();
    let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
    // The gateway may refuse a head before it has all of it.
    stream.write_all(request).await.ok();
    timeout(PATIENCE, read(stream)).await.expect("the connection does not end")
}

/// Reads to the end of the connection. What came before a reset counts.
async fn read(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.ok();
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a whole head");
    let mut lines = std::str::from_utf8(&bytes[..end]).unwrap().split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let field = |line: &str| -> Option<(HeaderName, HeaderValue)> {
        let (name, value) = line.split_once(':')?;
        Some((name.parse().ok()?, value.trim().parse().ok()?))
    };
    let headers: HeaderMap = lines.map(|line| field(line).unwrap()).collect();
    assert!(!headers.contains_key("transfer-encoding"), "a body of known length");
    Answer { status, headers, body: bytes.split_off(end + 4).into(), is_cut: false }
}
