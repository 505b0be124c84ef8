//! A service that does what the test says, and counts.

use std::{
    io::Write as _,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

use crate::{
    http::{self, Message},
    process::PATIENCE,
};

/// A service in front of which a gate stands. Each execution is answered with its number.
pub(crate) struct Backend {
    address: SocketAddr,
    arrivals: Receiver<Message>,
    releases: Sender<()>,
}

impl Backend {
    /// Answers every request at once.
    pub(crate) fn prompt() -> Self {
        Self::start(false)
    }

    /// Holds every request until it is released.
    pub(crate) fn holding() -> Self {
        Self::start(true)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until a request has arrived whole that was not waited for before.
    pub(crate) fn arrival(&self) -> Message {
        self.arrivals.recv_timeout(PATIENCE).expect("a request arrives")
    }

    /// How many requests arrived that were not waited for.
    pub(crate) fn executions(&self) -> usize {
        self.arrivals.try_iter().count()
    }

    /// Lets one held request be answered.
    pub(crate) fn release(&self) {
        self.releases.send(()).unwrap();
    }

    fn start(is_holding: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (arrived, arrivals) = mpsc::channel();
        let (releases, released) = mpsc::channel();
        let released = Arc::new(Mutex::new(released));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let arrived = arrived.clone();
                let released = is_holding.then(|| Arc::clone(&released));
                thread::spawn(move || answer(stream, &arrived, released.as_deref()));
            }
        });
        Self { address, arrivals, releases }
    }
}

fn answer(mut stream: TcpStream, arrived: &Sender<Message>, released: Option<&Mutex<Receiver<()>>>) {
    // A connection without a request is a check.
    let Some(request) = http::read(&mut stream) else { return };
    if arrived.send(request).is_err() {
        return;
    }
    if let Some(released) = released {
        // Nothing will be released any more when the test has ended.
        let _ = released.lock().unwrap().recv();
    }
    // The gate may have been stopped meanwhile.
    let _ = stream.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\nConnection: close\r\n\r\npaid");
}
