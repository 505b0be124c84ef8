//! The claim: the front, and PostgreSQL where the front does not know.

use std::{sync::Arc, time::Duration};

use oncegate_core::{Claim, ClaimRequest, ErrorKind, Fence, Owner, StoreError};
use tokio::time::{Instant, sleep};

use super::{
    Tiers, generation, mode,
    outbox::{
        settle::Closing,
        take::{self, Way},
    },
};
use crate::{
    postgres::Judged,
    redis::front::{Entry, Look, Looked},
};

// === types ===

/// A token that may stand in the front. It goes when this is dropped, so that the next claim does not wait for one that
/// nobody answers any more.
struct Token {
    tiers: Arc<Tiers>,
    look: Look,
    is_left: bool,
    /// What PostgreSQL may not have yet stands in the front.
    was_taken: bool,
}

/// What the front had to say.
enum Asked {
    /// This is the answer.
    Answer(Claim),
    /// PostgreSQL is to be asked, and the front to be told.
    Placed(Token),
    /// PostgreSQL is to be asked, and there is no front.
    Without { has_failed: bool },
}

/// How often a claim begins anew: its token was taken away, or the mode was another one. Each time something was written.
const ROUNDS_MAX: usize = 16;

/// Between two looks at an entry that somebody else is asking for; it doubles.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(32);

// === claim ===

pub(super) async fn claim(tiers: &Arc<Tiers>, request: &ClaimRequest) -> Result<Claim, StoreError> {
    // Something is left for the answer's own way.
    let until = Instant::now() + tiers.options.timeout * 9 / 10;
    for _ in 0..ROUNDS_MAX {
        let (mut token, has_failed) = match ask_front(tiers, request, until).await {
            Asked::Answer(claim) => return Ok(claim),
            Asked::Placed(token) => (Some(token), false),
            Asked::Without { has_failed } => (None, has_failed),
        };
        if token.as_ref().is_some_and(|token| token.was_taken) {
            // However long ago that was: PostgreSQL judges what it knows.
            let settled = tiers.back_breaker.run(until, tiers.settle(request.id.digest(), Closing::No)).await;
            settled.flatten().map_err(StoreError::unapplied)?;
        }
        if let Some(placed) = token.as_mut().filter(|_| tiers.mode.is_open()) {
            match take::claim(tiers, &placed.look, request, until).await? {
                Way::Acquired(claim) => {
                    tiers.mode.took();
                    placed.is_left = false;
                    return Ok(claim);
                }
                Way::Again => {
                    placed.is_left = false;
                    continue;
                }
                Way::Small => {
                    placed.leave().await;
                    continue;
                }
                Way::Back => {}
            }
        }
        match tiers.back_breaker.run(until, tiers.back.judge(request)).await? {
            Judged::Here { claim, fence } => {
                if let Some(token) = token {
                    token.fill(request, (&claim, fence), until).await;
                }
                return Ok(claim);
            }
            Judged::Elsewhere => elsewhere(tiers, token, has_failed).await?,
            Judged::Quiet => return Err(Judged::quiet()),
        }
    }
    let text = "others kept changing who may say that the key is new";
    Err(StoreError::new(ErrorKind::Unavailable, text).unapplied())
}

/// PostgreSQL says that the front is to take the claim, which has not tried to, or found something else a moment ago.
async fn elsewhere(tiers: &Arc<Tiers>, token: Option<Token>, has_failed: bool) -> Result<(), StoreError> {
    let Some(mut token) = token else {
        if tiers.generation.get().is_none() || tiers.front_breaker.is_open() || has_failed && tiers.mode.missed() {
            mode::close(tiers, "the front cannot be reached").await;
        }
        let text = "new keys are claimed by way of the front, which cannot be asked";
        return Err(StoreError::new(ErrorKind::Unavailable, text).unapplied());
    };
    token.leave().await;
    if !tiers.mode.is_open() {
        generation::look_together(tiers).await.map_err(StoreError::unapplied)?;
    }
    Ok(())
}

/// Looks until there is an answer, or it is this claim's turn to ask PostgreSQL.
async fn ask_front(tiers: &Arc<Tiers>, request: &ClaimRequest, until: Instant) -> Asked {
    let Some(generation) = tiers.generation.get() else { return Asked::Without { has_failed: false } };
    let look = Look { record: request.id.digest(), generation, token: Owner::random() };
    let mut token = Token { tiers: Arc::clone(tiers), look, is_left: true, was_taken: false };
    let patience = Instant::now() + tiers.options.wait;
    let mut pause = PAUSE_MIN;
    loop {
        // Who cannot be asked is not waited for.
        let place = (!tiers.back_breaker.is_open()).then_some(tiers.options.timeout);
        let until = until.min(Instant::now() + tiers.options.front_timeout);
        let looking = tiers.front.look(&token.look, request, place);
        match tiers.front_breaker.run(until, looking).await {
            Ok(Looked::Answer(claim)) => {
                token.is_left = false;
                return Asked::Answer(claim);
            }
            Ok(Looked::Placed { was_taken }) => {
                token.was_taken = was_taken;
                return Asked::Placed(token);
            }
            Ok(Looked::Absent) => {
                token.is_left = false;
                return Asked::Without { has_failed: false };
            }
            Ok(Looked::Held(left)) if Instant::now() >= patience => {
                token.is_left = false;
                return Asked::Answer(Claim::InFlight { retry_after: left });
            }
            Ok(Looked::Held(_)) => {
                sleep(jittered(pause)).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
            // The token may stand all the same.
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "the front was asked in vain");
                return Asked::Without { has_failed: true };
            }
        }
    }
}

/// Between half of it and all of it, so that those who began to wait together do not ask together.
fn jittered(pause: Duration) -> Duration {
    let [random, ..] = *uuid::Uuid::new_v4().as_bytes();
    pause / 2 + pause * u32::from(random) / 512
}

// === impl Token ===

impl Token {
    /// Takes it away before the next look, which would wait for it.
    async fn leave(&mut self) {
        self.is_left = !self.tiers.tell("leave", self.tiers.front.leave(&self.look)).await;
    }

    /// Tells the front what PostgreSQL answered.
    async fn fill(mut self, request: &ClaimRequest, (claim, fence): (&Claim, Option<Fence>), until: Instant) {
        let entry = match claim {
            Claim::Acquired(lease) => Some(Entry::Acquired(request, lease)),
            Claim::Completed(completed) => Some(Entry::Completed(request, completed)),
            Claim::InFlight { retry_after } => Some(Entry::InFlight(*retry_after)),
            // Of these PostgreSQL does not say all that an answer to others needs.
            Claim::Mismatch(_) | Claim::Unknown(_) | Claim::RulesChanged { .. } => None,
        };
        // Without a fence nobody knows how old it is.
        let Some((entry, fence)) = entry.zip(fence) else { return };
        let until = until.min(Instant::now() + self.tiers.options.front_timeout);
        let filling = self.tiers.front.fill(&self.look, fence, &entry);
        if self.tiers.front_breaker.run(until, filling).await.is_ok() {
            self.is_left = false;
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.is_left {
            let (tiers, look) = (Arc::clone(&self.tiers), self.look.clone());
            runtime.spawn(async move { tiers.tell("leave", tiers.front.leave(&look)).await });
        }
    }
}
