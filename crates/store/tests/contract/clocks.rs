//! Times: where they are counted from, and a server's clock that steps.

use crate::{
    answer::{KEY, claim, code, complete, end_leases, run, text},
    server::Server,
};

#[tokio::test]
async fn times_are_counted_from_the_call_and_not_from_the_beginning_of_its_transaction() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    claim(&client, "'shop', 'abandoned', 'f'").await;
    end_leases(&client).await;
    let held = claim(&client, "'shop', 'held', 'f'").await.names();
    let lease = "lease_until - lease";
    for (key, call, counted_from) in [
        ("new", "claim('shop', 'new', 'f')", lease),
        ("abandoned", "claim('shop', 'abandoned', 'f')", lease),
        ("entered", "enter('shop', 'entered', 'f')", lease),
        ("entered-new", "enter_new('shop', 'entered-new', 'f')", lease),
        ("held", &format!("extend({held}, '10 min')"), "lease_until - interval '10 min'"),
        ("held", &format!("complete({held}, 201, '[]', 'paid')"), "completed_at"),
        ("another", "claim('shop', 'another', 'f')", "expires_at - retention"),
    ] {
        run(&client, "BEGIN ISOLATION LEVEL READ COMMITTED").await.unwrap();
        // now() stands still from here on. Counted from it, a short lease would have ended before it is given.
        run(&client, "SELECT pg_sleep(0.05)").await.unwrap();
        run(&client, &format!("SELECT oncegate.{call}")).await.unwrap();
        let query =
            format!("SELECT {counted_from} >= now() + interval '50 ms' FROM oncegate.records WHERE key = '{key}'");
        assert_eq!(text(&client, &query).await, "true", "{call}");
        run(&client, "ROLLBACK").await.unwrap();
    }
}

#[tokio::test]
async fn a_clock_that_steps_ends_leases_and_lets_no_effect_happen_twice() {
    let server = Server::with_movable_clock().await;
    let client = server.connect().await;
    run(&client, "CREATE TABLE payments (key text)").await.unwrap();
    let pay = async |lease| {
        run(&client, "BEGIN; INSERT INTO payments VALUES ('k')").await.unwrap();
        let completed = complete(&client, lease).await;
        run(&client, if completed.is_ok() { "COMMIT" } else { "ROLLBACK" }).await.unwrap();
        completed
    };
    let stopped = claim(&client, KEY).await;
    let steady = claim(&client, "'shop', 'steady', 'f'").await;
    server.set_clock("+1h");
    let took_over = claim(&client, KEY).await;
    assert_eq!((&*took_over.outcome, took_over.attempt), ("acquired", Some(2)), "every lease ends at once");
    assert!(took_over.fence > stopped.fence);
    complete(&client, &steady).await.expect("late is not stale");

    server.set_clock("-1h");
    assert_eq!(claim(&client, KEY).await.outcome, "in_flight", "a lease that ends late keeps repeats away");
    assert_eq!(claim(&client, "'shop', 'steady', 'f'").await.outcome, "completed");
    let next = claim(&client, "'shop', 'next', 'f'").await;
    assert!(next.fence > took_over.fence, "fences know no clock");
    assert_eq!(code(pay(&stopped).await), "OG001");
    pay(&took_over).await.unwrap();
    assert_eq!(code(pay(&stopped).await), "OG001");
    server.set_clock("+0");
    assert_eq!(claim(&client, KEY).await.outcome, "completed");
    assert_eq!(text(&client, "SELECT count(*) FROM payments").await, "1");
}
