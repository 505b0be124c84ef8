//! Named points at which a test makes the process die as by `kill -9`.
//!
//! Without the feature `crash-points` they are nothing. With it, `ONCEGATE_CRASH_AT=claimed:7` kills
//! the process when it passes the point *claimed* for the seventh time.

#[cfg(not(feature = "crash-points"))]
pub(crate) fn point(_name: &str) {}

#[cfg(not(feature = "crash-points"))]
pub(crate) async fn during<T>(_name: &str, work: impl Future<Output = T>) -> T {
    work.await
}

#[cfg(feature = "crash-points")]
pub(crate) use self::armed::{during, point};

#[cfg(feature = "crash-points")]
mod armed {
    use std::{
        sync::{
            LazyLock,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    struct Armed {
        name: String,
        passings: AtomicUsize,
    }

    /// One for the whole process, which ends by it.
    static ARMED: LazyLock<Option<Armed>> = LazyLock::new(|| {
        let text = std::env::var("ONCEGATE_CRASH_AT").ok()?;
        let (name, passings) = text.split_once(':')?;
        Some(Armed { name: name.to_owned(), passings: AtomicUsize::new(passings.parse().ok()?) })
    });

    /// Dies here, if the test says so.
    pub(crate) fn point(name: &str) {
        let Some(armed) = ARMED.as_ref().filter(|armed| armed.name == name) else { return };
        if armed.passings.fetch_sub(1, Ordering::SeqCst) == 1 {
            let myself = rustix::process::getpid();
            rustix::process::kill_process(myself, rustix::process::Signal::KILL)
                .expect("a process may always signal itself");
            // SIGKILL cannot be handled, but it may arrive a moment later: nothing must happen in it.
            loop {
                std::thread::park();
            }
        }
    }

    /// Dies while `work` goes on: soon after it began, if it takes that long.
    pub(crate) async fn during<T>(name: &str, work: impl Future<Output = T>) -> T {
        let dies = async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            point(name);
            std::future::pending().await
        };
        tokio::select! {
            biased;
            done = work => done,
            never = dies => never,
        }
    }
}
