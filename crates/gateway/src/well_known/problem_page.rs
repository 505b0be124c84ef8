//! What each problem means, what the client should do, and what the operator should do.

use bytes::Bytes;
use oncegate_tower::problem::ProblemKind;

/// The page of one problem type.
pub(super) fn of(kind: ProblemKind) -> Bytes {
    let Advice { meaning, client, operator } = advice(kind);
    let (name, status, title) = (kind.name(), kind.status().as_u16(), kind.title());
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <style>body{{font:1em/1.5 sans-serif;max-width:40em;margin:2em auto;padding:0 1em}}</style>\n\
         <h1>{title}</h1>\n<p><code>{name}</code>, status {status}</p>\n<p>{meaning}</p>\n\
         <h2>If you are the client</h2>\n<p>{client}</p>\n<h2>If you operate the service</h2>\n<p>{operator}</p>\n</html>\n"
    );
    Bytes::from(page)
}

/// Sentences; none of them has a character that HTML would read as markup.
struct Advice {
    meaning: &'static str,
    client: &'static str,
    operator: &'static str,
}

#[allow(clippy::too_many_lines, reason = "one table")]
fn advice(kind: ProblemKind) -> Advice {
    match kind {
        ProblemKind::KeyMissing => Advice {
            meaning: "This route takes no request without an idempotency key. The request was not executed.",
            client: "Make a new random key, such as a UUID, for each thing that you want done, and send the same key \
                     with every repeat of it.",
            operator: "The route has required = true. GET /.well-known/idempotency tells clients where the key goes.",
        },
        ProblemKind::KeyInvalid => Advice {
            meaning: "The idempotency key cannot be read. The request was not executed.",
            client: "Send 1 to 255 visible ASCII characters without spaces, bare or as a quoted string.",
            operator: "Look for a client library that sends something else than a random identifier, or a proxy that \
                       changes the header.",
        },
        ProblemKind::KeyRepeated => Advice {
            meaning: "The request has more than one idempotency key, and programs on the way may differ in which one \
                      they take. The request was not executed.",
            client: "Send the header once, with one key.",
            operator: "Look for a client or proxy that adds the header a second time.",
        },
        ProblemKind::ScopeMissing => Advice {
            meaning: "Nothing in the request says who sends it, and this route does not guard anonymous requests. It \
                      was not executed.",
            client: "Send the credential that the detail names.",
            operator: "The route has anonymous = reject. If a proxy in front of the gate authenticates, check that it \
                       sets the headers that scope lists.",
        },
        ProblemKind::CredentialInvalid => Advice {
            meaning: "The credential that says who sends the request does not verify. It was not executed.",
            client: "Get a new credential and send the same request with the same key.",
            operator: "Compare the issuer and the keys that the gate is configured with.",
        },
        ProblemKind::RequestTooLarge => Advice {
            meaning: "The body is longer than this route takes, as it was sent or after decompression. The request was \
                      not executed.",
            client: "Send less, with a new key.",
            operator: "The limit is max_request_body of the route.",
        },
        ProblemKind::RequestCutShort => Advice {
            meaning: "The body ended before it was whole. The request was not executed.",
            client: "Send the whole request again with the same key.",
            operator: "Usually a client that gave up or lost its connection; often, look at timeouts of proxies in front \
                       of the gate.",
        },
        ProblemKind::Mismatch => Advice {
            meaning: "The key was first used for a request that differs in method, path, query, media type or body. This \
                      request was not executed.",
            client: "For a new thing to be done take a new key. To learn what became of the first request, send exactly \
                     that one.",
            operator: "Many of these from one client mean that it reuses keys, or that something in the body changes \
                       between repeats, such as a time stamp: name it in ignore.",
        },
        ProblemKind::InFlight => Advice {
            meaning: "The first request with this key is still being executed. This repeat was not.",
            client: "Send the same request with the same key again after the seconds in Retry-After.",
            operator: "Many of these mean that clients repeat too eagerly or that the service became slow; wait holds \
                       repeats until the answer is there.",
        },
        ProblemKind::Unknown => Advice {
            meaning: "The first request with this key was sent to the service, and its outcome was lost: a timeout, a \
                      broken connection, or a process that died. Nobody can tell whether it had its effect, so this \
                      repeat was not executed.",
            client: "Do not take a new key: the effect may have happened. Ask the service's operator, or look whether it \
                     did.",
            operator: "Find out whether the effect happened, then complete or release the record. A backend that dedupes \
                       the key itself, or completes in its own transaction, can be declared with backend and heals \
                       without you.",
        },
        ProblemKind::RulesChanged => Advice {
            meaning: "The first request with this key was recorded while requests were compared by other rules, so nobody \
                      can tell whether this one is the same. It was not executed.",
            client: "Do not take a new key: the effect may have happened. Ask the service's operator.",
            operator: "fingerprint, ignore or the first of secrets was changed while records were alive. These answers \
                       end with the retention of those records.",
        },
        ProblemKind::ResponseNotKept => Advice {
            meaning: "The first request with this key was executed and answered with the status in first_status, but its \
                      response was too long to keep, or of a kind that is not kept. This repeat was not executed.",
            client: "It is done: read the result in another way. Take a new key only for a new thing to be done.",
            operator: "The limit is max_stored_body of the route; store_body = false keeps no body at all.",
        },
        ProblemKind::UpstreamUnreachable => Advice {
            meaning: "The service behind the gate could not be reached, and nothing was sent to it.",
            client: "Send the same request with the same key again later.",
            operator: "Is the service running, and is upstream its address?",
        },
        ProblemKind::UpstreamFailed => Advice {
            meaning: "The request was sent to the service, and the connection ended before the whole answer came.",
            client: "Follow the member retry: with same-key send the same request again, with later the same where it is \
                     harmless by its method; with operator nobody can tell whether it had its effect.",
            operator: "Usually a worker that died or a service that was restarted without finishing its requests.",
        },
        ProblemKind::UpstreamTimeout => Advice {
            meaning: "The request was sent to the service, and no answer came in time.",
            client: "Follow the member retry: with same-key send the same request again, with later the same where it is \
                     harmless by its method; with operator nobody can tell whether it had its effect.",
            operator: "The limit is upstream_timeout of the route. It must be longer than the service's own limit.",
        },
        ProblemKind::StoreUnavailable => Advice {
            meaning: "The gate's store of records cannot be asked, so nobody can tell whether this request is a repeat. \
                      It was not executed.",
            client: "Send the same request with the same key again after the seconds in Retry-After.",
            operator: "See oncegate_store_errors_total and the log. fail_open = true lets requests through unguarded \
                       meanwhile.",
        },
        ProblemKind::Overloaded => Advice {
            meaning: "More requests at once than the gate takes. This one was not executed.",
            client: "Send the same request with the same key again after the seconds in Retry-After.",
            operator: "Look at oncegate_claim_duration_seconds: the store is slower than requests come in.",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sentence_needs_escaping() {
        for kind in ProblemKind::ALL {
            let Advice { meaning, client, operator } = advice(kind);
            for text in [meaning, client, operator, kind.title()] {
                assert!(!text.contains(['<', '>', '&', '"']), "{text}");
            }
        }
    }
}
