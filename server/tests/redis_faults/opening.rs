//! Opening a store: servers that would forget by themselves are refused, one that is away is waited for.

use std::time::Duration;

use tenure::{
    config::Secret,
    runtime::Clock,
    store::{self, RedisOpenError, RedisOptions},
};

use super::redis;

fn refusal(url: &str, options: RedisOptions) -> RedisOpenError {
    match store::redis(url, Clock::system(), options) {
        Ok(_) => panic!("{url} opened"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_server_that_evicts_is_refused() {
    if !redis::available() {
        return;
    }
    let server = redis::Server::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let error = refusal(&server.url(), RedisOptions { accept_loss: true, ..RedisOptions::default() });
    assert!(matches!(&error, RedisOpenError::Unfit { text, .. } if text.contains("allkeys-lru")), "{error}");
    server.call(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    store::redis(&server.url(), Clock::system(), RedisOptions::default()).expect("opens");
}

#[tokio::test]
async fn a_failover_that_may_lose_is_refused_unless_it_is_accepted() {
    if !redis::available() {
        return;
    }
    let sentinels = redis::Sentinels::start(&[]);
    let error = refusal(&sentinels.url(), RedisOptions::default());
    assert!(matches!(&error, RedisOpenError::Unfit { text, .. } if text.contains("min-replicas-to-write")), "{error}");
    store::redis(&sentinels.url(), Clock::system(), RedisOptions { accept_loss: true, ..RedisOptions::default() })
        .expect("opens when it is accepted");
    sentinels.servers[0].call(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    store::redis(&sentinels.url(), Clock::system(), RedisOptions::default())
        .expect("opens with a replica that must answer");
}

#[tokio::test]
async fn a_server_that_is_away_a_password_that_is_wrong_and_a_newer_format_are_named() {
    if !redis::available() {
        return;
    }
    let short = || RedisOptions { open_wait: Duration::from_millis(200), ..RedisOptions::default() };
    let url = format!("redis://u:s3cret@127.0.0.1:{}", redis::free_port());
    let error = refusal(&url, short());
    assert!(matches!(error, RedisOpenError::Unreachable { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");

    let server = redis::Server::start(&["--requirepass", "s3cret"]);
    let wrong = server.url().replace("redis://", "redis://:wr0ng@");
    let error = refusal(&wrong, short());
    assert!(matches!(error, RedisOpenError::Unreachable { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error:?}");
    drop(store::redis(&server.url().replace("redis://", "redis://:s3cret@"), Clock::system(), short()).expect("opens"));
    let with = |password: &str| RedisOptions { password: Some(Secret::new(password.as_bytes())), ..short() };
    drop(store::redis(&server.url(), Clock::system(), with("s3cret")).expect("opens with the password of a file"));
    let error = refusal(&server.url(), with("wr0ng"));
    assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error:?}");

    let server = redis::Server::start(&[]);
    drop(store::redis(&server.url(), Clock::system(), short()).expect("opens"));
    // Rows are one version byte and MessagePack: format 9.
    server.call(&["HSET", "{tenure:members}:rows", "meta/format", "\u{1}\u{9}"]);
    let error = refusal(&server.url(), short());
    assert!(
        matches!(&error, RedisOpenError::Unreadable { error, .. } if error.to_string().contains("format 9")),
        "{error}"
    );
}
