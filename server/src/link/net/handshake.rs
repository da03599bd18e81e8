//! Before anything else both ends say who they are, and prove that they hold the cluster's secret.
//!
//! Each says `hello` with its version, role, name, cluster and a nonce. Then the gateway proves, and after it the node:
//! HMAC-SHA256 with the secret over the role of the one who proves and all that both said. So neither a recorded proof nor the
//! other's own can be sent back, and who cannot prove gets no proof of a node to try guesses on. The secret keeps strangers out; the
//! stream itself is not encrypted.

use bytes::Bytes;
use ring::hmac;
use tenure_shared::wire::{Error, Fault};
use tokio::io::{AsyncWriteExt as _, WriteHalf};

use super::{
    codec::{Fields, Out, TooLong},
    inbound::{Inbound, Oversize},
    site::{NAME_BYTES, Peer, Site},
};
use crate::runtime::net::Stream;

/// Version of the protocol between processes. Another version is refused: a deploy that raises it moves all seats once.
pub const PROTOCOL: u32 = 4;
/// Longest packet before both have proved.
pub(super) const HANDSHAKE_BYTES: usize = 512;
/// Bytes of a nonce, and of a proof.
const NONCE: usize = 32;
const PROOF: usize = 32;
/// First in what is signed, so that a proof is good for nothing else.
const CONTEXT: &[u8] = b"tenure link";

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Opened the stream; players' sockets are there.
    Gateway = 1,
    /// Accepted it; rooms are there.
    Node = 2,
    /// Opened it; rooms are there too.
    Peer = 3,
}

impl Role {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Role::Gateway => "gateway",
            Role::Node => "node",
            Role::Peer => "peer",
        }
    }

    /// Whether a stream joins these two: nodes accept what gateways and other nodes open.
    const fn meets(self, other: Role) -> bool {
        matches!((self, other), (Role::Node, Role::Gateway | Role::Peer) | (Role::Gateway | Role::Peer, Role::Node))
    }
}

/// Why no link came about.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error(
        "the stream leaves this machine and this process has no cluster secret (link.secret_file): without one links stay on loopback"
    )]
    NotLoopback,
    #[error("the peer speaks version {theirs} of the link protocol, this process version {PROTOCOL}")]
    Version { theirs: u32 },
    #[error("the peer is a {}, this end is a {}: no stream joins these", .0.name(), .1.name())]
    Role(Role, Role),
    #[error("the peer belongs to another cluster, or agreed on other constants")]
    Cluster,
    #[error("the peer asks for the cluster's secret and this process has none (link.secret_file)")]
    NoSecretHere,
    #[error("the peer has no cluster secret (link.secret_file) and this process has one")]
    NoSecretThere,
    #[error(
        "the peer did not prove that it has this process's cluster secret: link.secret_file must hold the same everywhere"
    )]
    SecretThere,
    #[error("the peer did not accept this process's cluster secret: link.secret_file must hold the same everywhere")]
    SecretHere,
    #[error("the peer sent what is no handshake: {0}")]
    Garbage(#[from] Error),
    #[error("the peer sent what is no handshake: {0}")]
    Oversize(#[from] Oversize),
    #[error("the peer closed the stream during the handshake; its log says why")]
    End,
    #[error("the handshake failed: {0}")]
    Io(#[from] std::io::Error),
    #[error("no handshake in time")]
    Late,
    #[error("there are as many links as this node may have")]
    Crowded,
    #[error("a name too long for a handshake: {0}")]
    TooLong(#[from] TooLong),
}

impl Refusal {
    /// A word for metrics.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Refusal::NotLoopback => "not_loopback",
            Refusal::Version { .. } => "version",
            Refusal::Cluster => "cluster",
            Refusal::NoSecretHere | Refusal::NoSecretThere | Refusal::SecretThere | Refusal::SecretHere => "secret",
            Refusal::Role(..) | Refusal::Garbage(_) | Refusal::Oversize(_) | Refusal::TooLong(_) => "garbage",
            Refusal::End | Refusal::Io(_) => "io",
            Refusal::Late => "late",
            Refusal::Crowded => "crowded",
        }
    }

    /// Whether a person must change something before it can work.
    pub(super) const fn is_mistake(&self) -> bool {
        !matches!(self, Refusal::End | Refusal::Io(_) | Refusal::Late)
    }
}

/// What one end says first.
struct Hello {
    role: Role,
    name: String,
    cluster: u64,
    has_secret: bool,
    nonce: [u8; NONCE],
}

impl Hello {
    fn of(site: &Site) -> Self {
        let mut nonce = [0; NONCE];
        let (left, right) = nonce.split_at_mut(NONCE / 2);
        left.copy_from_slice(&site.common.rng.next_u128().to_be_bytes());
        right.copy_from_slice(&site.common.rng.next_u128().to_be_bytes());
        let common = &site.common;
        let (name, cluster, has_secret) = (common.name.clone(), common.cluster, common.secret.is_some());
        Self { role: site.role, name, cluster, has_secret, nonce }
    }

    fn write(&self) -> Out {
        let mut out = Out::new(1, 6);
        out.uint(PROTOCOL);
        out.uint(self.role as u8);
        out.text(&self.name, NAME_BYTES);
        out.hash(self.cluster);
        out.flag(self.has_secret);
        out.slice(&self.nonce);
        out
    }

    fn read(packet: &Bytes) -> Result<Self, Refusal> {
        let (mut f, number) = Fields::open(packet)?;
        if number != 1 {
            return Err(f.unknown(number).into());
        }
        // Another version may say other things behind its number.
        match f.u32("version")? {
            PROTOCOL => {}
            theirs => return Err(Refusal::Version { theirs }),
        }
        f.expect("hello", 6)?;
        let role = match f.u8("role")? {
            1 => Role::Gateway,
            2 => Role::Node,
            3 => Role::Peer,
            _ => return Err(f.fault("role", Fault::Value("1 to 3")).into()),
        };
        let name = f.text("name", NAME_BYTES)?.to_owned();
        let (cluster, has_secret, nonce) = (f.hash("cluster")?, f.flag("has_secret")?, f.fixed("nonce")?);
        f.end()?;
        Ok(Self { role, name, cluster, has_secret, nonce })
    }
}

/// What is signed: the role of who proves, and all that both said.
fn signed(role: Role, gateway: &Hello, node: &Hello) -> Vec<u8> {
    let mut all = CONTEXT.to_vec();
    all.extend_from_slice(&PROTOCOL.to_be_bytes());
    all.push(role as u8);
    for hello in [gateway, node] {
        all.extend_from_slice(&hello.nonce);
        all.extend_from_slice(&hello.cluster.to_be_bytes());
        all.extend_from_slice(&(hello.name.len() as u64).to_be_bytes());
        all.extend_from_slice(hello.name.as_bytes());
    }
    all
}

/// Runs the handshake within its time, and gives the name of the peer and what it is.
pub(super) async fn shake<S: Stream>(
    site: &Site,
    peer: &Peer,
    from: &mut tokio::io::ReadHalf<S>,
    to: &mut WriteHalf<S>,
    inbound: &mut Inbound,
) -> Result<(String, Role), Refusal> {
    let limits = site.limits();
    let time = match site.role {
        Role::Gateway | Role::Peer => limits.handshake_time,
        // Whoever comes takes a place until then.
        Role::Node => limits.prove_time,
    };
    let deadline = site.common.clock.sleep(time);
    tokio::select! {
        biased;
        name = steps(site, peer, from, to, inbound) => name,
        () = deadline => Err(Refusal::Late),
    }
}

async fn steps<S: Stream>(
    site: &Site,
    peer: &Peer,
    from: &mut tokio::io::ReadHalf<S>,
    to: &mut WriteHalf<S>,
    inbound: &mut Inbound,
) -> Result<(String, Role), Refusal> {
    let secret = site.common.secret.as_ref();
    let own = Hello::of(site);
    let stays = secret.is_some() || peer.loopback;
    if stays || site.role == Role::Node {
        // A node that is about to refuse says so: the peer's own log then names the missing secret.
        send(to, own.write()).await?;
    }
    if !stays {
        return Err(Refusal::NotLoopback);
    }
    let theirs = Hello::read(&receive(from, inbound).await?)?;
    if !site.role.meets(theirs.role) {
        return Err(Refusal::Role(theirs.role, site.role));
    }
    if theirs.cluster != own.cluster {
        return Err(Refusal::Cluster);
    }
    let Some(secret) = secret else {
        return if theirs.has_secret { Err(Refusal::NoSecretHere) } else { Ok((theirs.name, theirs.role)) };
    };
    if !theirs.has_secret {
        return Err(Refusal::NoSecretThere);
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose());
    match site.role {
        Role::Gateway | Role::Peer => {
            prove(to, &key, site.role, &own, &theirs).await?;
            // A node that does not accept it closes the stream.
            let answer = receive(from, inbound).await.map_err(|refusal| match refusal {
                Refusal::End => Refusal::SecretHere,
                other => other,
            })?;
            verify(&answer, &key, Role::Node, &own, &theirs)?;
        }
        Role::Node => {
            let proof = receive(from, inbound).await?;
            verify(&proof, &key, theirs.role, &theirs, &own)?;
            prove(to, &key, Role::Node, &theirs, &own).await?;
        }
    }
    Ok((theirs.name, theirs.role))
}

async fn prove<S: Stream>(
    to: &mut WriteHalf<S>,
    key: &hmac::Key,
    role: Role,
    gateway: &Hello,
    node: &Hello,
) -> Result<(), Refusal> {
    let mut out = Out::new(2, 1);
    out.slice(hmac::sign(key, &signed(role, gateway, node)).as_ref());
    send(to, out).await
}

fn verify(packet: &Bytes, key: &hmac::Key, role: Role, gateway: &Hello, node: &Hello) -> Result<(), Refusal> {
    let (mut f, number) = Fields::open(packet)?;
    if number != 2 {
        return Err(f.unknown(number).into());
    }
    f.expect("proof", 1)?;
    let proof = f.fixed::<PROOF>("proof")?;
    f.end()?;
    // In a time that does not depend on where they differ.
    hmac::verify(key, &signed(role, gateway, node), &proof).map_err(|_| Refusal::SecretThere)
}

async fn send<S: Stream>(to: &mut WriteHalf<S>, out: Out) -> Result<(), Refusal> {
    for segment in out.done()?.segments {
        to.write_all(&segment).await?;
    }
    to.flush().await?;
    Ok(())
}

async fn receive<S: Stream>(from: &mut tokio::io::ReadHalf<S>, inbound: &mut Inbound) -> Result<Bytes, Refusal> {
    loop {
        if let Some(packet) = inbound.next()? {
            return Ok(packet);
        }
        if inbound.fill(from).await? == 0 {
            return Err(Refusal::End);
        }
    }
}
