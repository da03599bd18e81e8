//! x
use crate::args::CompareArgs;
pub(crate) async fn run(_a: &CompareArgs) -> anyhow::Result<u8> {
    Ok(2)
}
