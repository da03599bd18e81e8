//! x
use crate::args::RunArgs;
pub(crate) async fn run(_a: &RunArgs) -> anyhow::Result<u8> {
    Ok(2)
}
