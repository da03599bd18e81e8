//! Every backend of the store passes the conformance suite: H1, H2, H3, H6 and H11 as far as a store keeps them.

use tenure::{
    runtime::{Clock, Wall},
    store::{self, conformance},
};

const START: Wall = Wall(1_764_446_400_123_456);

#[tokio::test]
async fn the_store_in_memory_conforms() {
    let make = || {
        let (clock, hand) = Clock::manual(START);
        conformance::Subject::new(store::memory(clock), move |by| {
            hand.advance(by);
            Box::pin(async {})
        })
    };
    conformance::run(make).await.expect("conforms");
}

#[tokio::test]
async fn the_embedded_store_conforms() {
    let folder = tempfile::tempdir().expect("folder");
    let count = std::cell::Cell::new(0);
    let make = || {
        let (clock, hand) = Clock::manual(START);
        count.set(count.get() + 1);
        let store = store::embedded(&folder.path().join(count.get().to_string()), clock, store::Options::default());
        conformance::Subject::new(store.expect("opens"), move |by| {
            hand.advance(by);
            Box::pin(async {})
        })
    };
    conformance::run(make).await.expect("conforms");
}
