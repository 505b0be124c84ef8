//! The whole path of a request, in its order:
//!
//! ```text
//! key + scope → fingerprint → claim → execute → complete → replay
//! ```

use std::{marker::PhantomData, sync::Arc};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body::Body;
use tower_service::Service;

use crate::{
    Account, BoxError, RequestBody, ResponseBody, Route,
    claim::{Claimed, Guarded, Patience, claim},
    enter::{Entered, enter, under_the_recorded_rules},
    execute::{Call, Execution, pass},
    layer::Gate,
    local::Join,
    replay,
    reply::{Led, detach},
};

/// Answers one request. The future may be dropped at any point: before the claim nothing has
/// happened; from the claim on the rest happens in a task of its own, to its end.
pub(crate) async fn answer<S, B, RB>(
    gate: &Arc<Gate>,
    route: &Arc<Route>,
    inner: S,
    request: Request<B>,
) -> Result<Response<ResponseBody<RB>>, S::Error>
where
    S: Service<Request<RequestBody<B>>, Response = Response<RB>> + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    RB: Body<Data = Bytes> + Send + 'static,
    RB::Error: Into<BoxError>,
{
    let (mut parts, body) = request.into_parts();
    Execution::remove_copies(&mut parts.headers);

    // key + scope → fingerprint
    let (request, received) = match enter(gate, route, &parts, body).await {
        Entered::Unguarded(body) => return pass(inner, Request::from_parts(parts, body.on(route))).await,
        Entered::Refused(problem) => return Ok(problem.into_response()),
        Entered::Guarded(request, received) => (request, received),
    };
    let accepted = parts.headers.get(header::ACCEPT_ENCODING).cloned();
    let account = parts.extensions.remove::<Account>();
    let mut guarded = Guarded { route: Arc::clone(route), request, accepted, account };
    guarded.note(|entries| entries.record = Some(guarded.request.id.clone()));
    let mut call = Call { inner, parts, received, body: PhantomData };
    let mut patience = Patience::new(gate, route);

    let told = loop {
        // claim: at most one repeat of a key in this process asks the store
        let told = match gate.local.join(&guarded.request) {
            Join::Answer(claim) => gate.coalesced(claim),
            Join::Wait(waiting) => match patience.follow(waiting, &guarded.request).await {
                Some(told) => told,
                None => continue,
            },
            Join::Lead(turn) => {
                let leader = (Arc::clone(gate), guarded.clone());
                let route = Arc::clone(route);
                let led = detach(&gate.executions, async move |mut reply| {
                    let (gate, guarded) = leader;
                    let execution = match claim(gate, turn, guarded).await {
                        Claimed::Execute(execution) => execution,
                        Claimed::Unguarded(gate) => return reply.send(&gate, call.unguarded(&gate, &route).await),
                        Claimed::Told(told) => return reply.told(told, call),
                    };
                    // execute → complete, as long as the lease is ours
                    execution.run(call, reply).await;
                });
                match led.await {
                    Led::Answered(answered) => return answered,
                    Led::Told(told, returned) => {
                        call = *returned;
                        told
                    }
                }
            }
        };
        // Whoever was told by the leader that the store failed.
        if told.is_err() && route.fail_open {
            return call.unguarded(gate, route).await;
        }
        let compared = under_the_recorded_rules(gate, &guarded, &told, (&call.parts, &call.received)).await;
        if let Some(fingerprint) = compared {
            guarded.request.fingerprint = fingerprint;
        } else if !patience.pause(guarded.request.id.digest(), &told).await {
            break told;
        }
    };

    // replay
    Ok(replay::answer(told, guarded.accepted.as_ref()))
}
