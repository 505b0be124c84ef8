//! What an application may do, and what it cannot put in the way.

use crate::{
    answer::{KEY, claim, code, complete, run, text},
    server::Server,
};

#[tokio::test]
async fn an_application_needs_no_right_on_a_table() {
    let server = Server::migrated().await;
    let owner = server.connect().await;
    run(&owner, "CREATE ROLE shop LOGIN IN ROLE oncegate_app; CREATE ROLE stranger LOGIN").await.unwrap();
    let shop = server.connect_as("shop").await;
    let lease = claim(&shop, KEY).await;
    assert_eq!(text(&shop, &format!("oncegate.extend({}, '1 min')", lease.names())).await, "true");
    complete(&shop, &lease).await.unwrap();
    assert_eq!(claim(&shop, KEY).await.outcome, "completed");
    run(&shop, "BEGIN").await.unwrap();
    let entered = crate::answer::ask(&shop, "enter", "'shop', 'entered', 'f'").await.unwrap();
    complete(&shop, &entered).await.unwrap();
    run(&shop, "COMMIT; BEGIN; SELECT oncegate.enter_new('shop', 'new', 'f'); ROLLBACK").await.unwrap();
    run(&shop, "SELECT oncegate.reap(10); SELECT * FROM oncegate.abandoned, oncegate.suspected").await.unwrap();
    run(&shop, "SELECT key, state FROM oncegate.records").await.unwrap();
    for forbidden in [
        "UPDATE oncegate.records SET state = state",
        "DELETE FROM oncegate.records",
        "SELECT fingerprint FROM oncegate.records",
        "SELECT * FROM oncegate.responses",
        "SELECT nextval('oncegate.fences')",
        "INSERT INTO oncegate.audit DEFAULT VALUES",
        &format!("SELECT oncegate.purge({}, 'why')", lease.names()),
        "SELECT oncegate.acquire(NULL)",
    ] {
        assert_eq!(code(run(&shop, forbidden).await), "42501", "{forbidden}");
    }
    let stranger = server.connect_as("stranger").await;
    assert_eq!(code(run(&stranger, "SELECT * FROM oncegate.claim('s', 'k', 'f')").await), "42501");
}

#[tokio::test]
async fn a_commit_without_a_completion_fails_for_an_application_too() {
    let server = Server::migrated().await;
    let owner = server.connect().await;
    run(&owner, "CREATE ROLE shop LOGIN IN ROLE oncegate_app").await.unwrap();
    let shop = server.connect_as("shop").await;
    assert_eq!(code(run(&shop, "SELECT * FROM oncegate.enter('s', 'k', 'f')").await), "OG004");
}

#[tokio::test]
async fn a_hostile_search_path_changes_nothing() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    run(
        &client,
        "CREATE SCHEMA evil;
         CREATE TABLE evil.records (LIKE oncegate.records);
         CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql RETURN timestamptz '1970-01-01';
         CREATE FUNCTION evil.same(uuid, uuid) RETURNS boolean LANGUAGE sql RETURN true;
         CREATE OPERATOR evil.= (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = evil.same);
         CREATE TEMPORARY TABLE records (LIKE oncegate.records);
         SET search_path = evil, pg_temp, oncegate, pg_catalog",
    )
    .await
    .unwrap();
    let first = claim(&client, KEY).await;
    assert_eq!(claim(&client, KEY).await.outcome, "in_flight");
    assert_eq!(claim(&client, "'shop', 'another', 'f'").await.outcome, "acquired");
    complete(&client, &first).await.unwrap();
    assert_eq!(claim(&client, KEY).await.outcome, "completed");
}

#[tokio::test]
async fn every_function_that_runs_with_its_owners_rights_has_a_path_of_its_own() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    // The invariants are checked for each row that is written, with the path of who writes it: our functions, or the owner.
    let without = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'oncegate'::regnamespace
                   AND (prosecdef OR prosqlbody IS NULL AND proname <> 'is_sound')
                   AND NOT coalesce(proconfig @> '{\"search_path=oncegate, pg_temp\"}', false)";
    assert_eq!(text(&client, without).await, "0");
    let open = "SELECT string_agg(proname, ' ') FROM pg_proc WHERE pronamespace = 'oncegate'::regnamespace
                AND has_function_privilege('public', oid, 'EXECUTE')";
    assert_eq!(text(&client, open).await, "NULL", "nothing is everybody's");
}
