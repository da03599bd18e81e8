//! The file that says a node is ready, and where: with port 0 nobody knows before.

use std::{io, io::Write as _, net::SocketAddr, path::Path};

use serde::{Deserialize, Serialize};

/// Content of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyFile {
    /// Players' port, as `http://ADDRESS`.
    #[serde(with = "url")]
    pub play: Option<SocketAddr>,
    /// Admin port, as `http://ADDRESS`.
    #[serde(with = "url")]
    pub admin: Option<SocketAddr>,
    /// Links' port; absent while links are a channel within the process.
    pub link: Option<SocketAddr>,
    /// Process id.
    pub pid: u32,
}

/// Addresses as URLs: a script opens them as they are.
mod url {
    use std::net::SocketAddr;

    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(address: &Option<SocketAddr>, to: S) -> Result<S::Ok, S::Error> {
        match address {
            Some(address) => to.collect_str(&format_args!("http://{address}")),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
        let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
        let address = text.trim_start_matches("http://").trim_end_matches('/');
        address.parse().map(Some).map_err(|_| D::Error::custom(format!("{text:?}; expected http://ADDRESS:PORT")))
    }
}

/// Writes the file whole or not at all: who waits for it never reads half of it.
///
/// # Errors
/// What the operating system says.
pub fn write(path: &Path, content: &ReadyFile) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}.tmp", content.pid));
    let draft = path.with_file_name(name);
    let mut text = serde_json::to_string(content)?;
    text.push('\n');
    let written = std::fs::File::create(&draft)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&draft, path));
    if written.is_err() {
        // The first error is the one to report.
        drop(std::fs::remove_file(&draft));
    }
    written
}

pub(super) fn read(path: &Path) -> io::Result<ReadyFile> {
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_whole_and_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ready.json");
        let mut content =
            ReadyFile { play: "127.0.0.1:7777".parse().ok(), admin: "[::1]:7778".parse().ok(), link: None, pid: 7 };
        write(&path, &content).expect("written");
        let text = std::fs::read_to_string(&path).expect("read");
        assert_eq!(
            text,
            "{\"play\":\"http://127.0.0.1:7777\",\"admin\":\"http://[::1]:7778\",\"link\":null,\"pid\":7}\n"
        );
        content.pid = 8;
        write(&path, &content).expect("replaced");
        assert_eq!(read(&path).expect("read"), content);
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 1, "no draft is left");
        assert!(write(Path::new("/nowhere/ready.json"), &content).is_err());
        assert!(write(Path::new("/"), &content).is_err());
    }
}
