//! The routes of the admin port.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request, Response, StatusCode, body::Incoming, header};
use serde::Serialize;
use tenure_shared::{PlayerId, RoomId};

use super::{
    DaemonOrder, ReloadError, ReportError,
    access::{self, Refusal},
    check_history, check_ledger, daemons, list_done, list_work, retry_work,
    server::Shared,
    show_ledger,
};
use crate::store::WorkId;

/// The admin page: one file, no other is loaded.
const PAGE: &str = include_str!("admin.html");
/// Events on the page.
const EVENTS: usize = 100;
/// Ledger lines unless the request names a number.
const LINES: usize = 100;
/// What the page may do: run its own script and style, ask its own origin.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

type Answer = Response<Full<Bytes>>;

/// Answers a request. Its body is never read.
pub(super) async fn answer(shared: &Shared, request: &Request<Incoming>) -> Answer {
    let (method, path) = (request.method(), request.uri().path());
    let reads = method == Method::GET || method == Method::HEAD;
    // Probes first: they are asked without a token, under any name, also of a node in trouble.
    match path {
        "/live" if reads => return bare(StatusCode::OK),
        "/ready" if reads => {
            let ready = shared.source.readiness().ready();
            return bare(if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE });
        }
        _ => {}
    }
    if let Err(refusal) = access::check(method, request.headers(), shared.token.as_ref()) {
        return refuse(refusal);
    }
    let query = Query(request.uri().query().unwrap_or_default());
    let known = [
        "/metrics",
        "/admin",
        "/admin/state",
        "/status",
        "/admin/ledger",
        "/admin/ledger/check",
        "/admin/work",
        "/admin/work/done",
        "/admin/history",
        "/admin/cluster",
        "/admin/daemons",
    ];
    match (reads, path) {
        (true, "/metrics") => plain("text/plain; version=0.0.4", shared.metrics.render()),
        (true, "/admin" | "/admin/") => plain("text/html; charset=utf-8", PAGE.to_owned()),
        (true, "/admin/state" | "/status") => {
            let mut status = shared.source.status();
            status.events = shared.recent.newest(EVENTS);
            json(StatusCode::OK, &status)
        }
        (true, "/admin/cluster") => json(StatusCode::OK, &shared.source.cluster()),
        (true, "/admin/daemons") => json(StatusCode::OK, &shared.source.daemons().await),
        (true, "/admin/ledger") => ledger(shared, &query).await,
        (true, "/admin/ledger/check") => match player(&query) {
            Ok(player) => {
                let check = check_ledger(shared.source.store(), shared.source.shards(), &player).await;
                report(check.map_err(ReportError::from))
            }
            Err(answer) => *answer,
        },
        (true, "/admin/work") => {
            let parked_only = query.get("parked").as_deref() == Some("true");
            report(list_work(shared.source.store(), shared.source.shards(), parked_only).await)
        }
        (true, "/admin/work/done") => done(shared, &query).await,
        (true, "/admin/history") => {
            let source = &shared.source;
            let checked = check_history(source.store(), source.shards(), source.keep_identities()).await;
            report(checked.map_err(ReportError::from))
        }
        (false, "/admin/work/retry") if method == Method::POST => retry(shared, &query).await,
        (false, "/admin/drain") if method == Method::POST => {
            tracing::info!("told by the admin port to drain");
            shared.source.drain();
            json(StatusCode::OK, &Done { done: true })
        }
        (false, "/admin/room/unpark") if method == Method::POST => unpark(shared, &query),
        (false, "/admin/schedule/reload") if method == Method::POST => reload(shared).await,
        (
            _,
            "/live" | "/ready" | "/admin/drain" | "/admin/schedule/reload" | "/admin/work/retry" | "/admin/room/unpark",
        ) => bare(StatusCode::METHOD_NOT_ALLOWED),
        (_, path) if path.strip_prefix("/admin/daemons/").is_some_and(daemons::is_verb) => {
            let verb = path.trim_start_matches("/admin/daemons/");
            if method == Method::POST {
                order(shared, verb, &query).await
            } else {
                bare(StatusCode::METHOD_NOT_ALLOWED)
            }
        }
        (false, path) if known.contains(&path) => bare(StatusCode::METHOD_NOT_ALLOWED),
        _ => error(StatusCode::NOT_FOUND, "no such page; see /admin"),
    }
}

fn player(query: &Query<'_>) -> Result<PlayerId, Box<Answer>> {
    PlayerId::new(&query.get("player").unwrap_or_default())
        .map_err(|mistake| Box::new(error(StatusCode::BAD_REQUEST, &format!("?player=: {mistake}"))))
}

async fn ledger(shared: &Shared, query: &Query<'_>) -> Answer {
    let player = match player(query) {
        Ok(player) => player,
        Err(answer) => return *answer,
    };
    let limit = match query.get("limit").map(|text| text.parse()) {
        None => LINES,
        Some(Ok(limit)) => limit,
        Some(Err(_)) => return error(StatusCode::BAD_REQUEST, "?limit= is a number of lines"),
    };
    report(show_ledger(shared.source.store(), &player, limit).await.map_err(ReportError::from))
}

async fn done(shared: &Shared, query: &Query<'_>) -> Answer {
    let room = match query.get("room").map(|room| RoomId::new(&room)).transpose() {
        Ok(room) => room,
        Err(mistake) => return error(StatusCode::BAD_REQUEST, &format!("?room=: {mistake}")),
    };
    let job = query.get("job");
    report(list_done(shared.source.store(), shared.source.shards(), room.as_ref(), job.as_deref()).await)
}

fn unpark(shared: &Shared, query: &Query<'_>) -> Answer {
    let room = match RoomId::new(&query.get("room").unwrap_or_default()) {
        Ok(room) => room,
        Err(mistake) => return error(StatusCode::BAD_REQUEST, &format!("?room=: {mistake}")),
    };
    if !shared.source.unpark(&room) {
        return error(
            StatusCode::CONFLICT,
            &format!("{room} is not parked on this node; `status` of the node that has it says so"),
        );
    }
    tracing::info!(%room, "told by the admin port to run a parked room again");
    json(StatusCode::OK, &Done { done: true })
}

async fn retry(shared: &Shared, query: &Query<'_>) -> Answer {
    let room = match RoomId::new(&query.get("room").unwrap_or_default()) {
        Ok(room) => room,
        Err(mistake) => return error(StatusCode::BAD_REQUEST, &format!("?room=: {mistake}")),
    };
    let (Some(job), Some(key)) = (query.get("job"), query.get("key")) else {
        return error(StatusCode::BAD_REQUEST, "room, job and key name a work item");
    };
    let shard = room.shard(shared.source.shards());
    let id = WorkId { room, job: job.into(), key: key.into() };
    let fence = shared.source.fence(shard);
    report(retry_work(shared.source.store(), shard, fence, &id).await.map(|()| Done { done: true }))
}

async fn order(shared: &Shared, verb: &str, query: &Query<'_>) -> Answer {
    let order = match daemons::read(verb, |name| query.get(name)) {
        Some(Ok(order)) => order,
        Some(Err(mistake)) => return error(StatusCode::BAD_REQUEST, mistake),
        None => return error(StatusCode::NOT_FOUND, "no such order"),
    };
    // What is asked may be a secret of the game.
    if !matches!(order, DaemonOrder::Ask(..)) {
        tracing::info!(?order, "told by the admin port");
    }
    match shared.source.order(order).await {
        Ok(answer) => json(StatusCode::OK, &answer),
        Err(failure) => {
            let status = StatusCode::from_u16(failure.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            error(status, &failure.to_string())
        }
    }
}

async fn reload(shared: &Shared) -> Answer {
    match shared.source.reload().await {
        Ok(done) => json(StatusCode::OK, &done),
        Err(failure @ ReloadError::Mistakes(_)) => error(StatusCode::UNPROCESSABLE_ENTITY, &failure.to_string()),
        Err(failure) => error(StatusCode::CONFLICT, &failure.to_string()),
    }
}

/// The answer to a change.
#[derive(Serialize)]
struct Done {
    done: bool,
}

#[derive(Serialize)]
struct Failure<'a> {
    error: &'a str,
}

fn report<T: Serialize>(result: Result<T, ReportError>) -> Answer {
    use crate::store::Error;
    match result {
        Ok(value) => json(StatusCode::OK, &value),
        Err(failure) => {
            let status = match &failure {
                ReportError::NotHere(_) | ReportError::Store(Error::Conflict(_) | Error::Fenced { .. }) => {
                    StatusCode::CONFLICT
                }
                ReportError::Store(Error::Invalid(_)) => StatusCode::BAD_REQUEST,
                ReportError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            };
            error(status, &failure.to_string())
        }
    }
}

fn refuse(refusal: Refusal) -> Answer {
    match refusal {
        Refusal::Token => {
            let mut answer = error(StatusCode::UNAUTHORIZED, "the token of admin.token_file is needed");
            let ask = header::HeaderValue::from_static("Basic realm=\"tenure admin\", Bearer");
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, ask);
            answer
        }
        Refusal::Host => error(StatusCode::FORBIDDEN, "without a token this port answers to loopback names only"),
        Refusal::Origin => error(StatusCode::FORBIDDEN, "changes are taken from the admin page itself only"),
    }
}

fn bare(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = status;
    answer
}

fn error(status: StatusCode, text: &str) -> Answer {
    json(status, &Failure { error: text })
}

fn json<T: Serialize>(status: StatusCode, value: &T) -> Answer {
    match serde_json::to_string(value) {
        Ok(text) => {
            let mut answer = plain("application/json", text);
            *answer.status_mut() = status;
            answer
        }
        Err(failure) => {
            tracing::error!(error = %failure, "a report cannot be written as JSON");
            bare(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

fn plain(kind: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    let rows = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in rows {
        answer.headers_mut().insert(name, header::HeaderValue::from_static(value));
    }
    answer
}

/// The part after `?`.
struct Query<'a>(&'a str);

impl Query<'_> {
    /// The first value of a name, decoded; `None` too when it is not UTF-8.
    fn get(&self, name: &str) -> Option<String> {
        let mut pairs = self.0.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let (_, value) = pairs.find(|(key, _)| *key == name)?;
        let mut bytes = Vec::with_capacity(value.len());
        let mut rest = value.as_bytes();
        while let Some((first, tail)) = rest.split_first() {
            let code =
                tail.first_chunk::<2>().and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
            (rest, _) = match (first, code) {
                (b'%', Some(byte)) => (tail.get(2..).unwrap_or_default(), bytes.push(byte)),
                (b'+', _) => (tail, bytes.push(b' ')),
                (other, _) => (tail, bytes.push(*other)),
            };
        }
        String::from_utf8(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let query = Query("player=guest%3A1&x=a+b%2&empty&bad=%ff&player=second");
        assert_eq!(query.get("player").as_deref(), Some("guest:1"));
        assert_eq!(query.get("x").as_deref(), Some("a b%2"));
        assert_eq!(query.get("empty").as_deref(), Some(""));
        assert_eq!(query.get("bad"), None);
        assert_eq!(query.get("none"), None);
    }
}
