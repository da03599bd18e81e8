//! The cluster's secret for guests' tokens: agreed on in the store, and proposed again, in case the store forgets it.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::{Error, StoreCalls};
use crate::{
    runtime::{Clock, Rng, Shutdown},
    store::{Command, Reply},
};

/// Name of the agreement that holds the cluster's secret for guest tokens.
const GUEST_SECRET: &str = "guest-secret";
/// How often it is proposed again: a store that forgot it gets it back, so that guests' tokens go on being worth something.
const GUEST_SECRET_EVERY: Duration = Duration::from_secs(10);

/// The secret that all gateways of the cluster sign guest tokens with: the first to start decides.
pub(super) async fn agree(store: &StoreCalls, rng: &Rng) -> Result<String, Error> {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&rng.next_u128().to_be_bytes());
    bytes[16..].copy_from_slice(&rng.next_u128().to_be_bytes());
    propose(store, URL_SAFE_NO_PAD.encode(bytes)).await
}

async fn propose(store: &StoreCalls, value: String) -> Result<String, Error> {
    match store(Command::AgreeOrGet { name: GUEST_SECRET.to_owned(), value }).await.reply {
        Ok(Reply::Agreed(secret)) => Ok(secret),
        Ok(_) => Err(Error::Store("an answer of another verb came".to_owned())),
        Err(error) => Err(Error::Store(error.to_string())),
    }
}

/// Proposes the secret that this gateway signs with again and again, until the signal.
pub(super) async fn keep(store: StoreCalls, secret: String, clock: Clock, stop: Shutdown) {
    let mut another = false;
    loop {
        tokio::select! {
            biased;
            () = stop.stopped() => return,
            () = clock.sleep(GUEST_SECRET_EVERY) => {}
        }
        let answer = tokio::select! {
            biased;
            () = stop.stopped() => return,
            answer = propose(&store, secret.clone()) => answer,
        };
        match answer {
            Ok(agreed) if agreed != secret => {
                if !std::mem::replace(&mut another, true) {
                    tracing::error!(
                        "the store forgot the guest secret and another gateway made a new one: guests of this gateway are strangers to \
                         others until it is started anew"
                    );
                }
            }
            Ok(_) => another = false,
            Err(error) => tracing::debug!(%error, "the guest secret is proposed again later"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::{runtime::Wall, store::Stamped};

    #[tokio::test]
    async fn a_store_that_forgot_the_secret_gets_it_back() {
        let agreed: Arc<Mutex<Option<String>>> = Arc::default();
        let shown = agreed.clone();
        let store: StoreCalls = Arc::new(move |command| {
            let Command::AgreeOrGet { value, .. } = command else { panic!("another verb") };
            let reply = Ok(Reply::Agreed(shown.lock().get_or_insert(value).clone()));
            Box::pin(std::future::ready(Stamped { at: Wall(0), reply }))
        });
        let (clock, hand) = Clock::manual(Wall(1));
        let stop = Shutdown::new();
        let secret = agree(&store, &Rng::seeded(1)).await.expect("agreed");
        let keeping = keep(store.clone(), secret.clone(), clock, stop.clone());
        let test = async {
            *agreed.lock() = None;
            while agreed.lock().is_none() {
                hand.advance(Duration::from_secs(1));
                tokio::task::yield_now().await;
            }
            assert_eq!(agreed.lock().as_ref(), Some(&secret), "the same one");
            stop.stop();
        };
        tokio::join!(keeping, test);
    }
}
