use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

async fn listen() -> (TcpListener, Target) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target::new(listener.local_addr().unwrap(), Duration::from_secs(30));
    (listener, target)
}

fn repeats(number: usize, body: &'static [u8]) -> Vec<Repeat> {
    let request = Request::post("/").header("host", "h").body(Full::from(body)).unwrap();
    (0..number).map(|_| Repeat { request: request.clone(), hang_up_after: None }).collect()
}

async fn accept(listener: &TcpListener) -> TcpStream {
    listener.accept().await.unwrap().0
}

/// Reads a request up to the end of its body and answers it.
async fn serve(connection: &mut TcpStream, body: &[u8]) {
    let mut request = Vec::new();
    while !request.ends_with(body) {
        assert_ne!(connection.read_buf(&mut request).await.unwrap(), 0, "the request is not whole");
    }
    connection.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
}

/// One connection is opened at a time, so when the third one is accepted the first two are loaded. The release takes
/// several more steps of this one thread, so if they have a byte now, they did not wait for it.
#[tokio::test]
async fn nothing_is_sent_before_every_connection_is_open() {
    let (listener, target) = listen().await;
    let others = target.opening.clone().acquire_many_owned(OPENING_MAX as u32 - 1).await.unwrap();
    let burst = tokio::spawn(async move { burst(&target, &mut Vec::new(), repeats(3, b"body")).await });

    let connections = [accept(&listener).await, accept(&listener).await, accept(&listener).await];
    let connections = connections.map(|connection| connection.into_std().unwrap());
    for connection in &connections {
        assert_eq!(connection.peek(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
    for connection in connections {
        serve(&mut TcpStream::from_std(connection).unwrap(), b"body").await;
    }

    let attempts = burst.await.unwrap();
    assert!(attempts.iter().all(|attempt| !attempt.is_late && matches!(attempt.ending, Ending::Answered(_))));
    drop(others);
}

#[tokio::test]
async fn a_connection_that_is_too_slow_does_not_hold_up_the_others() {
    let (listener, mut target) = listen().await;
    target.warm_up = Duration::from_millis(10);
    let mut idle = vec![Connection::open(target.address).await.unwrap()];
    let mut open = accept(&listener).await;
    let opening = target.opening.clone().acquire_many_owned(OPENING_MAX as u32).await.unwrap();
    let burst = tokio::spawn(async move { burst(&target, &mut idle, repeats(2, b"body")).await });

    serve(&mut open, b"body").await;
    drop(opening);
    serve(&mut accept(&listener).await, b"body").await;

    let mut late: Vec<bool> = burst.await.unwrap().iter().map(|attempt| attempt.is_late).collect();
    late.sort_unstable();
    assert_eq!(late, [false, true]);
}

#[tokio::test]
async fn a_kept_connection_that_the_server_closed_is_replaced() {
    let (listener, target) = listen().await;
    let mut idle = vec![Connection::open(target.address).await.unwrap()];
    drop(accept(&listener).await);
    while !idle[0].is_closed() {
        tokio::task::yield_now().await;
    }
    let burst = tokio::spawn(async move { burst(&target, &mut idle, repeats(1, b"body")).await });

    serve(&mut accept(&listener).await, b"body").await;

    assert!(matches!(burst.await.unwrap()[..], [Attempt { ending: Ending::Answered(_), is_late: false, .. }]));
}

#[tokio::test]
async fn a_request_larger_than_the_buffers_of_the_system_arrives_whole() {
    static BODY: [u8; 32 * 1024 * 1024] = [b'x'; 32 * 1024 * 1024];
    let (listener, target) = listen().await;
    let burst = tokio::spawn(async move { burst(&target, &mut Vec::new(), repeats(1, &BODY)).await });

    let mut connection = accept(&listener).await;
    serve(&mut connection, &BODY).await;

    assert!(matches!(burst.await.unwrap()[..], [Attempt { ending: Ending::Answered(_), .. }]));
}

#[tokio::test]
async fn an_answer_that_is_cut_is_a_failure() {
    let (listener, target) = listen().await;
    let burst = tokio::spawn(async move { burst(&target, &mut Vec::new(), repeats(1, b"body")).await });

    let mut connection = accept(&listener).await;
    let mut request = [0; 1024];
    assert_ne!(connection.read(&mut request).await.unwrap(), 0);
    connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").await.unwrap();
    drop(connection);

    assert!(matches!(burst.await.unwrap()[..], [Attempt { ending: Ending::Failed(_), .. }]));
}
