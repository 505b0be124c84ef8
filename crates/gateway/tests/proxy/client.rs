//! A client that sends a sample and reads the whole answer.

use std::net::SocketAddr;

use tokio::net::TcpStream;

use crate::{
    message::{Head, Wire},
    samples::{CONVERSATION, Sample},
};

/// A response as it arrived.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<String>,
}

pub(crate) async fn exchange(address: SocketAddr, number: usize, sample: &Sample) -> Got {
    let stream = TcpStream::connect(address).await.expect("it listens");
    let mut wire = Wire::new(stream);
    wire.send(&sample.request(number)).await;
    let head = wire.head().await.unwrap_or_else(|| panic!("no answer to {sample:?}"));
    let (mut body, trailers) = wire.body(head.response_framing(sample.method)).await;
    if sample.echoes {
        wire.send(CONVERSATION).await;
        body = wire.bytes(CONVERSATION.len()).await;
    }
    Got { head, body, trailers }
}
