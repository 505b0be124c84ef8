//! A service whose paths say how it behaves.

use std::{
    io::Write as _,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

use crate::{http, process::PATIENCE};

/// `…/pay` is answered with success, `…/part` with a part, `…/drop` not at all, and `…/hold` when it is released.
pub(crate) struct Service {
    address: SocketAddr,
    arrivals: Receiver<()>,
    releases: Sender<()>,
}

impl Service {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (arrived, arrivals) = mpsc::channel();
        let (releases, released) = mpsc::channel();
        let released = Arc::new(Mutex::new(released));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (arrived, released) = (arrived.clone(), Arc::clone(&released));
                thread::spawn(move || answer(stream, &arrived, &released));
            }
        });
        Self { address, arrivals, releases }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until a request is held.
    pub(crate) fn arrival(&self) {
        self.arrivals.recv_timeout(PATIENCE).expect("a request arrives");
    }

    /// Lets one be answered.
    pub(crate) fn release(&self) {
        self.releases.send(()).unwrap();
    }
}

fn answer(mut stream: TcpStream, arrived: &Sender<()>, released: &Mutex<Receiver<()>>) {
    let Some(request) = http::read(&mut stream) else { return };
    let path = request.first_line.split(' ').nth(1).unwrap_or_default();
    let status = match path.rsplit('/').next().unwrap_or_default() {
        "drop" => return,
        "part" => "206 Partial Content",
        "hold" => {
            // The test may be over.
            if arrived.send(()).is_err() || released.lock().unwrap().recv().is_err() {
                return;
            }
            "201 Created"
        }
        _ => "201 Created",
    };
    // The gate may have been killed meanwhile.
    let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 4\r\nConnection: close\r\n\r\npaid");
}
