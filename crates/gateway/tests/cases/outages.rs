//! PostgreSQL is stopped at once, at random moments under load, and started again, before a service that completes in
//! its own transaction.
//!
//! What must hold: no answer that a client received is lost; no key has two effects; what got no answer heals by being
//! repeated; outside of the outages hardly a request fails. `ONCEGATE_PG_STOPS=50` says how often.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{task::JoinSet, time::sleep};

use self::teller::Teller;
use crate::harness::{Answer, Database, Sender, Sent, Server, post};

mod teller;

/// Clients at once.
const CLIENTS: usize = 16;

/// How long an outage counts on after the first successes: connections have to be made again.
const GRACE: Duration = Duration::from_secs(1);

/// Longer than the lease, which ends a claim whose request nobody carries on.
const PATIENCE: Duration = Duration::from_secs(120);

const CONFIG: &str = "[defaults]\nbackend = \"transactional\"\nupstream_timeout = \"10s\"\n";

/// What happened, as the clients saw it.
#[derive(Default)]
struct Log {
    /// Each request: when it was sent and answered, and with which status.
    answers: Mutex<Vec<(Instant, Instant, u16)>>,
    /// For each key: the answer, if it was 201.
    keys: Mutex<HashMap<String, Option<String>>>,
    acknowledged: AtomicUsize,
    is_over: AtomicBool,
}

fn stops() -> usize {
    std::env::var("ONCEGATE_PG_STOPS").map_or(3, |stops| stops.parse().expect("ONCEGATE_PG_STOPS is a number"))
}

fn payment(key: &str) -> Sent {
    post("/payments", r#"{"amount":100}"#).key(key)
}

impl Log {
    /// Sends new keys, each once, until it is over.
    async fn send(self: Arc<Self>, client: usize, sender: Sender, address: String) {
        for number in 0.. {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            let key = format!("client-{client}-payment-{number}");
            let sent = Instant::now();
            let answer = sender.send(&address, payment(&key)).await;
            self.answers.lock().unwrap().push((sent, Instant::now(), answer.status));
            let paid = paid(&answer);
            let is_paid = paid.is_some();
            self.keys.lock().unwrap().insert(key, paid);
            if is_paid {
                self.acknowledged.fetch_add(1, Ordering::SeqCst);
            } else {
                // As clients do that are told when to try again.
                sleep(Duration::from_millis(100)).await;
            }
        }
    }

    /// Waits until so many more were acknowledged.
    async fn more(&self, count: usize) {
        let (until, deadline) = (self.acknowledged.load(Ordering::SeqCst) + count, Instant::now() + PATIENCE);
        while self.acknowledged.load(Ordering::SeqCst) < until {
            assert!(Instant::now() < deadline, "nothing succeeds any more");
            sleep(Duration::from_micros(200)).await;
        }
    }
}

/// The payment that an answer speaks of.
fn paid(answer: &Answer) -> Option<String> {
    (answer.status == 201 && !answer.is_cut).then(|| answer.text().to_owned())
}

/// Stops and starts the server; answers when it was away.
async fn outages(database: &mut Database, log: &Log) -> Vec<(Instant, Instant)> {
    let mut outages = Vec::new();
    let mut random = 0x9e37_79b9_u32;
    for _ in 0..stops() {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        log.more(usize::try_from(random >> 25).unwrap() + 20).await;
        // Anywhere between two answers.
        sleep(Duration::from_micros(u64::from(random >> 8 & 0xfff))).await;
        let begin = Instant::now();
        database.stop();
        database.start_again();
        log.more(CLIENTS).await;
        let end = Instant::now() + GRACE;
        outages.push((begin, end));
        tokio::time::sleep_until(end.into()).await;
    }
    log.more(50).await;
    outages
}

/// Of the requests that no outage touched: how many there were, and how many succeeded.
fn outside(answers: &[(Instant, Instant, u16)], outages: &[(Instant, Instant)]) -> (usize, usize) {
    let untouched = |(sent, answered, _): &&(Instant, Instant, u16)| {
        outages.iter().all(|(begin, end)| answered < begin || sent > end)
    };
    let untouched: Vec<_> = answers.iter().filter(untouched).collect();
    (untouched.len(), untouched.iter().filter(|(.., status)| *status == 201).count())
}

/// Repeats keys until all are paid, with no more callers than before; answers with their payments.
async fn heal(keys: VecDeque<String>, sender: &Sender, address: &str) -> HashMap<String, String> {
    let (left, deadline) = (Arc::new(Mutex::new(keys)), Instant::now() + PATIENCE);
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (left, sender, address) = (Arc::clone(&left), sender.clone(), address.to_owned());
        clients.spawn(async move {
            let mut healed = Vec::new();
            loop {
                let Some(key) = left.lock().unwrap().pop_front() else { return healed };
                let answer = sender.send(&address, payment(&key)).await;
                if let Some(payment) = paid(&answer) {
                    healed.push((key, payment));
                    continue;
                }
                assert!(Instant::now() < deadline, "{key} does not heal: {answer:?}");
                left.lock().unwrap().push_back(key);
                sleep(Duration::from_millis(50)).await;
            }
        });
    }
    clients.join_all().await.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_acknowledged_survives_a_server_that_is_stopped_at_any_moment() {
    let mut database = Database::start();
    database.execute("CREATE TABLE payments (key text NOT NULL, payment uuid NOT NULL)");
    let teller = Teller::start(&database.address()).await;
    let server = Server::start(&database.address(), &teller, CONFIG, &[("ONCEGATE_LOG", "error")]).await;
    let (log, sender) = (Arc::new(Log::default()), Sender::new());
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(Arc::clone(&log).send(client, sender.clone(), server.address.clone()));
    }
    let outages = outages(&mut database, &log).await;
    log.is_over.store(true, Ordering::SeqCst);
    clients.join_all().await;

    let answers = std::mem::take(&mut *log.answers.lock().unwrap());
    let keys = std::mem::take(&mut *log.keys.lock().unwrap());
    let healed = heal(keys.keys().cloned().collect(), &sender, &server.address).await;
    let paid = database.execute("SELECT key, payment FROM payments");
    let paid: Vec<_> = paid.lines().filter_map(|line| line.split_once('|')).collect();
    let lost = keys.iter().filter(|(key, first)| first.as_ref().is_some_and(|first| *first != healed[*key])).count();
    let unpaid = healed.iter().filter(|(key, payment)| !paid.contains(&(key.as_str(), payment.as_str()))).count();
    let (untouched, succeeded) = outside(&answers, &outages);
    let count = |status| answers.iter().filter(|(.., answered)| *answered == status).count();
    eprintln!(
        "{} stops, {} keys: answered 201 {}, 409 {}, 503 {}; {} keys healed; {} payments, {lost} answers lost, {unpaid} \
         answers without a payment; outside of the outages {succeeded} of {untouched} succeeded",
        outages.len(),
        keys.len(),
        count(201),
        count(409),
        count(503),
        keys.values().filter(|first| first.is_none()).count(),
        paid.len(),
    );
    let strange: Vec<_> =
        answers.iter().map(|(.., status)| status).filter(|status| ![201, 409, 503].contains(*status)).collect();
    assert_eq!(strange, Vec::<&u16>::new(), "nobody may get such an answer");
    assert_eq!((lost, unpaid), (0, 0));
    assert_eq!(paid.len(), keys.len(), "a key has another number of effects than one");
    assert!(succeeded * 10 >= untouched * 9 && untouched > 0, "{succeeded} of {untouched} succeeded");
    let open = "SELECT count(*) FROM oncegate.records WHERE state <> 'completed'";
    assert_eq!(database.execute(open), "0", "records stay open");
}
