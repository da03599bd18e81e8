//! Who a client is: signed tokens of the game's own login service, and guests with a token that the cluster signs.
//!
//! Tokens travel in `hello` alone, never in a URL, and are never logged. Times are judged by the server's clock, at login, at
//! join and at resume.

mod key;
mod provider;

use std::time::Duration;

use bytes::Bytes;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use tenure_shared::{
    PlayerId, limits,
    msgpack::{self, Bounds},
};

pub(super) use key::PublicKey;

use crate::{
    config::Guests,
    runtime::{Rng, Wall},
};

/// `iss` of guest tokens.
const GUEST_ISSUER: &str = "tenure:guest";
/// What a guest's id starts with; no signed token may claim it.
const GUEST_PREFIX: &str = "guest:";
/// How long a guest token is good for; each login renews it.
const GUEST_TIME: Duration = Duration::from_secs(30 * 24 * 3_600);
/// Shortest secret, bytes: as long as the hash it feeds.
const SECRET_BYTES: usize = 32;

/// Keys and rules for tokens, as configured.
#[derive(Clone, Default)]
pub struct AuthConfig {
    /// Secret for HS256.
    pub secret: Option<Vec<u8>>,
    /// Public key, PEM: RSA (RS256), P-256 (ES256) or Ed25519 (EdDSA).
    pub public_key: Option<String>,
    /// The `iss` that a token must carry.
    pub issuer: Option<String>,
    /// The `aud` that a token must carry.
    pub audience: Option<String>,
    /// How far clocks may differ.
    pub leeway: Duration,
}

/// A key or secret cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Both a secret and a public key are configured.
    #[error("configure a secret or a public key for tokens, not both")]
    Both,
    /// The secret is too short.
    #[error("the {what} has {found} bytes; expected at least {SECRET_BYTES}")]
    Short {
        /// Which secret.
        what: &'static str,
        /// Its length.
        found: usize,
    },
    /// The public key is not one.
    #[error("the public key for tokens: {0}")]
    Key(&'static str),
    /// The library refused a key.
    #[error("the key for tokens was refused: {0}")]
    Refused(String),
}

/// A login that succeeded.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) player: PlayerId,
    /// Seconds since 1970.
    pub(super) expires: Option<u64>,
    /// What the token says beside the claims that every token has: MessagePack, empty if nothing.
    pub(super) claims: Bytes,
    /// A guest's token, to be kept by the client.
    pub(super) keep: Option<String>,
}

/// Judges tokens.
pub(super) struct Auth {
    signed: Option<(DecodingKey, Validation)>,
    guests: Guests,
    guest_keys: (EncodingKey, DecodingKey, Validation),
    leeway: u64,
}

#[derive(Deserialize)]
struct Claims {
    sub: Option<String>,
    exp: Option<u64>,
    nbf: Option<u64>,
    /// The rest; `iss`, `aud`, `iat` and `jti` are for the login service and us.
    #[serde(flatten)]
    more: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
struct GuestClaims<'a> {
    iss: &'static str,
    sub: &'a str,
    exp: u64,
}

#[derive(Deserialize)]
struct Issuer {
    iss: Option<String>,
}

impl Auth {
    pub(super) fn new(config: &AuthConfig, guests: Guests, guest_secret: &[u8]) -> Result<Self, Error> {
        provider::install();
        let refused = |e: jsonwebtoken::errors::Error| Error::Refused(e.to_string());
        let signed = match (&config.secret, &config.public_key) {
            (Some(_), Some(_)) => return Err(Error::Both),
            (Some(secret), None) => {
                long_enough("secret for tokens", secret)?;
                Some((DecodingKey::from_secret(secret).map_err(refused)?, Algorithm::HS256))
            }
            (None, Some(pem)) => Some(PublicKey::from_pem(pem).map_err(Error::Key)?.into_decoding_key()),
            (None, None) => None,
        };
        let signed = signed.map(|(key, algorithm)| {
            let mut rules = validation(algorithm);
            if let Some(issuer) = &config.issuer {
                rules.set_issuer(&[issuer]);
                rules.required_spec_claims.insert("iss".to_owned());
            }
            match &config.audience {
                Some(audience) => {
                    rules.set_audience(&[audience]);
                    rules.required_spec_claims.insert("aud".to_owned());
                }
                // A token that names an audience is then for somebody else.
                None => rules.validate_aud = true,
            }
            (key, rules)
        });
        long_enough("cluster's guest secret", guest_secret)?;
        let mut rules = validation(Algorithm::HS256);
        rules.set_issuer(&[GUEST_ISSUER]);
        rules.required_spec_claims.insert("iss".to_owned());
        let guest_keys = (
            EncodingKey::from_secret(guest_secret).map_err(refused)?,
            DecodingKey::from_secret(guest_secret).map_err(refused)?,
            rules,
        );
        Ok(Self { signed, guests, guest_keys, leeway: config.leeway.as_secs() })
    }

    /// Judges the token of a `hello`.
    ///
    /// # Errors
    /// Why, for people; nothing of the token is in it.
    pub(super) fn login(
        &self,
        token: Option<&str>,
        loopback: bool,
        wall: Wall,
        rng: &Rng,
    ) -> Result<Login, &'static str> {
        let guests = match self.guests {
            Guests::Never => false,
            Guests::Loopback => loopback,
            Guests::Always => true,
        };
        let Some(token) = token else {
            return if guests { self.guest(None, wall, rng) } else { Err("a token is needed") };
        };
        if issuer(token).as_deref() == Some(GUEST_ISSUER) {
            if !guests {
                return Err("guests may not play here");
            }
            let (_, key, rules) = &self.guest_keys;
            // A guest whose token is no longer good (expired, or of a cluster that was set up anew) is a new guest: that is what he
            // would be without it.
            let known = self.verify(token, key, rules, wall).ok();
            return self.guest(known.and_then(|known| PlayerId::new(&known.sub).ok()), wall, rng);
        }
        let (key, rules) = self.signed.as_ref().ok_or("tokens are not configured here")?;
        let Verified { sub, expires, claims } = self.verify(token, key, rules, wall)?;
        if sub.starts_with(GUEST_PREFIX) {
            return Err("the token claims to be a guest");
        }
        let player = PlayerId::new(&sub).map_err(|_| "the token's sub is no player id")?;
        Ok(Login { player, expires: Some(expires), claims: for_game(claims)?, keep: None })
    }

    /// Whether a token that runs until `expires` opens nothing more.
    pub(super) fn is_past(&self, expires: u64, wall: Wall) -> bool {
        seconds(wall) > expires.saturating_add(self.leeway)
    }

    fn guest(&self, known: Option<PlayerId>, wall: Wall, rng: &Rng) -> Result<Login, &'static str> {
        let fault = "the server could not sign a guest token";
        let player = match known {
            Some(player) => player,
            None => PlayerId::new(&format!("{GUEST_PREFIX}{}", rng.uuid())).map_err(|_| fault)?,
        };
        let claims = GuestClaims { iss: GUEST_ISSUER, sub: player.as_str(), exp: seconds(wall) + GUEST_TIME.as_secs() };
        let keep =
            jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.guest_keys.0).map_err(|_| fault)?;
        Ok(Login { player, expires: None, claims: Bytes::new(), keep: Some(keep) })
    }

    fn verify(&self, token: &str, key: &DecodingKey, rules: &Validation, wall: Wall) -> Result<Verified, &'static str> {
        let data = jsonwebtoken::decode::<Claims>(token, key, rules).map_err(|_| "the token is not valid")?;
        let expires = data.claims.exp.ok_or("the token has no exp")?;
        if self.is_past(expires, wall) {
            return Err("the token has expired");
        }
        if data.claims.nbf.is_some_and(|from| from > seconds(wall).saturating_add(self.leeway)) {
            return Err("the token is not valid yet");
        }
        let sub = data.claims.sub.ok_or("the token has no sub")?;
        Ok(Verified { sub, expires, claims: data.claims.more })
    }
}

/// What a token says, its signature and times judged.
struct Verified {
    sub: String,
    expires: u64,
    claims: serde_json::Map<String, serde_json::Value>,
}

/// The claims that a game may want, as MessagePack. Bounded, since rooms and session records keep them.
fn for_game(mut claims: serde_json::Map<String, serde_json::Value>) -> Result<Bytes, &'static str> {
    for known in ["iss", "aud", "iat", "jti"] {
        claims.remove(known);
    }
    if claims.is_empty() {
        return Ok(Bytes::new());
    }
    let bytes = rmp_serde::to_vec(&claims).map_err(|_| "the token's claims cannot be kept")?;
    if bytes.len() > limits::CLAIMS_BYTES {
        return Err("the token's claims are too long");
    }
    msgpack::check(&bytes, &Bounds::CLIENT).map_err(|_| "the token's claims are nested too deep or too long")?;
    Ok(bytes.into())
}

// Times are judged by our own clock, in `verify`: the library asks the machine's.
fn validation(algorithm: Algorithm) -> Validation {
    let mut rules = Validation::new(algorithm);
    rules.validate_exp = false;
    rules.validate_nbf = false;
    rules.set_required_spec_claims(&["exp", "sub"]);
    rules
}

/// The `iss` of a token that nobody has verified yet: only decides which key to verify it with.
fn issuer(token: &str) -> Option<String> {
    jsonwebtoken::dangerous::insecure_decode_claims::<Issuer>(token).ok()?.iss
}

fn seconds(wall: Wall) -> u64 {
    wall.0 / 1_000_000
}

fn long_enough(what: &'static str, secret: &[u8]) -> Result<(), Error> {
    if secret.len() < SECRET_BYTES { Err(Error::Short { what, found: secret.len() }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
