//! The folder of a cluster: one command at a time, since a private store in it belongs to one.

use std::{fs, fs::File, path::Path};

/// Keeps the folder; let go when dropped, and by the system when the process ends.
pub(super) struct Lock {
    _file: File,
}

/// Makes the folder and takes it.
pub(super) fn take(folder: &Path) -> Result<Lock, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    let file = File::options().create(true).truncate(false).write(true).open(folder.join("lock")).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(Lock { _file: file }),
        Err(fs::TryLockError::WouldBlock) => {
            Err(format!("{} is in use by another `cluster`: stop that one, or name another --dir", folder.display()))
        }
        Err(fs::TryLockError::Error(error)) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_belongs_to_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new/cluster");
        let lock = take(&path).expect("taken");
        assert!(take(&path).is_err_and(|text| text.contains("in use")));
        drop(lock);
        assert!(take(&path).is_ok());
    }
}
