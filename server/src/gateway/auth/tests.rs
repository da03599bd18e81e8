//! Tokens: signatures, times, claims, guests.

use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::json;

use super::*;
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};

const NOW: Wall = Wall(1_764_446_400_000_000);
const SECRET: &[u8] = b"a secret of thirty-two bytes or more";
const GUEST_SECRET: &[u8] = b"another secret that has enough bytes";

fn auth(change: impl FnOnce(&mut AuthConfig), guests: Guests) -> Auth {
    let mut config =
        AuthConfig { secret: Some(SECRET.to_vec()), leeway: Duration::from_secs(30), ..AuthConfig::default() };
    change(&mut config);
    Auth::new(&config, guests, GUEST_SECRET).expect("usable")
}

fn signed(claims: &serde_json::Value, secret: &[u8]) -> String {
    provider::install();
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(secret).expect("key"))
        .expect("signed")
}

fn seconds_now() -> u64 {
    seconds(NOW)
}

fn login(auth: &Auth, token: Option<&str>) -> Result<Login, &'static str> {
    auth.login(token, true, NOW, &Rng::seeded(1))
}

#[test]
fn a_signed_token_names_the_player() {
    let auth = auth(|_| (), Guests::Never);
    let exp = seconds_now() + 60;
    let good = login(&auth, Some(&signed(&json!({"sub": "anna", "exp": exp}), SECRET))).expect("good");
    assert_eq!((good.player.as_str(), good.expires, good.keep), ("anna", Some(exp), None));
    assert!(!auth.is_past(exp, NOW));
    assert!(auth.is_past(exp, NOW.plus(Duration::from_secs(91))), "leeway is 30 s");

    for (why, token) in [
        ("another secret", signed(&json!({"sub": "anna", "exp": exp}), GUEST_SECRET)),
        ("expired", signed(&json!({"sub": "anna", "exp": seconds_now() - 31}), SECRET)),
        ("no exp", signed(&json!({"sub": "anna"}), SECRET)),
        ("no sub", signed(&json!({"exp": exp}), SECRET)),
        ("not yet", signed(&json!({"sub": "anna", "exp": exp, "nbf": seconds_now() + 31}), SECRET)),
        ("sub is no id", signed(&json!({"sub": "a b", "exp": exp}), SECRET)),
        ("a guest's name", signed(&json!({"sub": "guest:1", "exp": exp}), SECRET)),
        ("for another audience", signed(&json!({"sub": "anna", "exp": exp, "aud": "shop"}), SECRET)),
        ("no token at all", "x.y.z".to_owned()),
        ("empty", String::new()),
    ] {
        assert!(login(&auth, Some(&token)).is_err(), "{why} was accepted");
    }
    assert!(login(&auth, None).is_err());
}

#[test]
fn what_a_token_claims_beside_the_usual_is_for_the_game() {
    let auth = auth(|_| (), Guests::Always);
    let exp = seconds_now() + 60;
    let claims = |more: serde_json::Value| {
        let mut all = json!({"sub": "anna", "exp": exp, "iat": exp - 90, "nbf": exp - 90, "jti": "7"});
        all.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        login(&auth, Some(&signed(&all, SECRET))).map(|login| login.claims)
    };
    assert_eq!(claims(json!({})).expect("good"), Bytes::new());
    let bytes = claims(json!({"name": "Anna", "level": 7, "roles": ["mod"], "team": {"id": 3}})).expect("good");
    let read: serde_json::Value = rmp_serde::from_slice(&bytes).expect("MessagePack");
    assert_eq!(read, json!({"name": "Anna", "level": 7, "roles": ["mod"], "team": {"id": 3}}));
    assert_eq!(login(&auth, None).expect("a guest").claims, Bytes::new());

    let mut deep = json!(1);
    for _ in 0..40 {
        deep = json!([deep]);
    }
    assert!(claims(json!({"deep": deep})).is_err());
    assert!(claims(json!({"list": vec![0; 1_025]})).is_err());
    assert!(claims(json!({"text": "x".repeat(limits::CLAIMS_BYTES)})).is_err());
    assert!(claims(json!({"text": "x".repeat(limits::CLAIMS_BYTES - 16)})).is_ok());
}

#[test]
fn a_token_without_a_signature_is_refused() {
    let auth = auth(|_| (), Guests::Always);
    for alg in ["none", "HS512", "RS256"] {
        let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let token = format!(
            "{}.{}.",
            part(json!({"alg": alg, "typ": "JWT"})),
            part(json!({"sub": "a", "exp": 99_999_999_999_u64}))
        );
        assert!(login(&auth, Some(&token)).is_err(), "{alg}");
    }
}

#[test]
fn issuer_and_audience_are_required_when_configured() {
    let auth = auth(
        |c| {
            c.issuer = Some("login".into());
            c.audience = Some("arena".into());
        },
        Guests::Never,
    );
    let exp = seconds_now() + 60;
    assert!(
        login(&auth, Some(&signed(&json!({"sub": "a", "exp": exp, "iss": "login", "aud": "arena"}), SECRET))).is_ok()
    );
    for claims in [
        json!({"sub": "a", "exp": exp, "iss": "login"}),
        json!({"sub": "a", "exp": exp, "aud": "arena"}),
        json!({"sub": "a", "exp": exp, "iss": "other", "aud": "arena"}),
        json!({"sub": "a", "exp": exp, "iss": "login", "aud": "shop"}),
    ] {
        assert!(login(&auth, Some(&signed(&claims, SECRET))).is_err(), "{claims}");
    }
}

#[test]
fn a_guest_comes_back_as_the_same_guest() {
    let auth = auth(|_| (), Guests::Loopback);
    let first = login(&auth, None).expect("a guest");
    assert!(first.player.as_str().starts_with("guest:"));
    let token = first.keep.expect("a token");
    let again = login(&auth, Some(&token)).expect("known");
    assert_eq!(again.player, first.player);
    assert!(auth.login(Some(&token), false, NOW, &Rng::seeded(2)).is_err(), "not from this machine");
    assert!(auth.login(None, false, NOW, &Rng::seeded(2)).is_err());

    let forged = signed(&json!({"iss": GUEST_ISSUER, "sub": first.player.as_str(), "exp": seconds_now() + 60}), SECRET);
    let stranger = auth.login(Some(&forged), true, NOW, &Rng::seeded(3)).expect("a new guest");
    assert_ne!(stranger.player, first.player, "a forged token opened a guest's seat");
    let late = NOW.plus(Duration::from_secs(31 * 24 * 3_600));
    assert_ne!(auth.login(Some(&token), true, late, &Rng::seeded(4)).expect("a new guest").player, first.player);
}

#[test]
fn public_keys_verify() {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("seed");
    let mut der = vec![0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    der.extend_from_slice(pair.public_key().as_ref());
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der));
    let auth = auth(
        |c| {
            c.secret = None;
            c.public_key = Some(pem);
        },
        Guests::Never,
    );
    let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message =
        format!("{}.{}", part(json!({"alg": "EdDSA"})), part(json!({"sub": "eve", "exp": seconds_now() + 60})));
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(pair.sign(message.as_bytes())));
    assert_eq!(login(&auth, Some(&token)).expect("good").player.as_str(), "eve");
    let other = Ed25519KeyPair::from_seed_unchecked(&[8; 32]).expect("seed");
    let forged = format!("{message}.{}", URL_SAFE_NO_PAD.encode(other.sign(message.as_bytes())));
    assert!(login(&auth, Some(&forged)).is_err());
    // The key confusion attack: the public key used as an HMAC secret.
    let confused = signed(&json!({"sub": "eve", "exp": seconds_now() + 60}), pair.public_key().as_ref());
    assert!(login(&auth, Some(&confused)).is_err());
}

#[test]
fn weak_or_double_keys_are_refused_at_start() {
    let short = AuthConfig { secret: Some(b"short".to_vec()), ..AuthConfig::default() };
    assert!(matches!(Auth::new(&short, Guests::Never, GUEST_SECRET), Err(Error::Short { .. })));
    let both = AuthConfig { secret: Some(SECRET.to_vec()), public_key: Some(String::new()), ..AuthConfig::default() };
    assert!(matches!(Auth::new(&both, Guests::Never, GUEST_SECRET), Err(Error::Both)));
}
