//! Property: random command sequences get equal answers from the store in memory and from the embedded one, also when its file is
//! closed and opened between commands.

use std::{cell::Cell, path::Path};

use proptest::prelude::*;

use super::{
    conformance::random::{self, Op},
    *,
};
use crate::runtime::{Clock, Wall};

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => Just(Op::Reopen),
        2 => (0..5_u64).prop_map(Op::Advance),
        3 => (0..4_u8).prop_map(Op::Register),
        2 => (0..4_u8).prop_map(Op::Beat),
        1 => (0..4_u8).prop_map(Op::Expire),
        6 => (0..2_u8, 0..4_u8, prop::bool::weighted(0.2)).prop_map(|(shard, caller, stale)| Op::Acquire { shard, caller, stale }),
        1 => (0..3_u8, 0..4_u8).prop_map(|(fence, to)| Op::Transfer { fence, to }),
        1 => (0..3_u8).prop_map(Op::Release),
        12 => (0..3_u8, 0..3_u8, any::<u16>(), 0..3_u8, 0..6_u8)
            .prop_map(|(fence, number, parts, room, n)| Op::Commit { fence, number, parts, room, n }),
        1 => (0..2_u8, 0..6_u8).prop_map(|(fence, n)| Op::Retry { fence, n }),
        4 => (0..6_u8, 0..2_u8, -20..50_i64, any::<bool>()).prop_map(|(n, player, gold, capped)| Op::Apply { n, player, gold, capped }),
        2 => (0..3_u8, 0..3_u8, 0..2_u8).prop_map(|(fence, seen, n)| Op::State { fence, seen, n }),
        2 => (0..2_u8, 0..4_u8, any::<bool>()).prop_map(|(player, seen, delete)| Op::Session { player, seen, delete }),
    ]
}

async fn compare(ops: &[Op]) -> Result<usize, String> {
    let folder = tempfile::tempdir().expect("folder");
    let (clock, hand) = Clock::manual(Wall(1_764_446_400_123_456));
    let open = |folder: &Path| embedded(folder, clock.clone(), Options::default()).expect("opens");
    let (memory, file) = (memory(clock.clone()), open(folder.path()));
    let reopen = |memory: Store, file: Store| -> BoxFuture<'_, Store> {
        Box::pin(async {
            drop(file);
            // Opening the file is the proof that former members are gone; in memory it is said in words.
            for member in memory.members().await.expect("members") {
                memory.deregister(&member.incarnation).await.expect("deregisters");
            }
            drop(memory);
            open(folder.path())
        })
    };
    random::compare(ops, &memory, file, |by| hand.advance(by), Some(&reopen)).await
}

#[test]
fn memory_and_file_give_equal_answers() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases: 32, ..ProptestConfig::default() });
    let (total, good) = (Cell::new(0), Cell::new(0));
    let result = runner.run(&prop::collection::vec(op(), 1..80), |ops| {
        total.set(total.get() + ops.len());
        let granted = runtime.block_on(compare(&ops)).map_err(TestCaseError::fail)?;
        good.set(good.get() + granted);
        Ok(())
    });
    result.expect("equal answers");
    assert!(good.get() * 4 > total.get(), "hardly anything was granted: {} of {}", good.get(), total.get());
}
