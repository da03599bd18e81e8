//! Where the store is: one server, a primary that Sentinels name, or a Cluster. Passwords are kept out of everything that is shown.

use std::fmt;

use ::redis::{ConnectionInfo, IntoConnectionInfo as _, RedisConnectionInfo, io::tcp::TcpSettings};

/// What a URL names.
#[derive(Clone)]
pub(super) enum Topology {
    /// One server, which is the primary or stays a refused one.
    Single(Box<ConnectionInfo>),
    /// A primary that these Sentinels know by a name.
    Sentinel {
        sentinels: Vec<ConnectionInfo>,
        master: String,
        /// User, password and database of the servers themselves.
        settings: Box<RedisConnectionInfo>,
    },
    /// A Cluster, found through any of these.
    Cluster(Vec<ConnectionInfo>),
}

const FORMS: &str = "redis://host:port/db, redis+sentinel://h1:p,h2:p/master or redis+cluster://h1:p,h2:p, each with USER@ before the first host if there is one (its password is in store.password_file)";

/// Most hosts in a URL.
const HOSTS: usize = 64;

impl Topology {
    /// Reads a URL; the refusal names what is wrong, and no password.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let odd = |why: &str| format!("{why}; expected {FORMS}");
        let Some((scheme, rest)) = url.split_once("://") else { return Err(odd("no URL")) };
        if matches!(scheme, "rediss" | "valkeys") {
            return Err(odd("this build speaks no TLS to Redis"));
        }
        if scheme == "redis" {
            return server(rest).map(|info| Self::Single(Box::new(info))).map_err(|why| odd(&why));
        }
        // The last `@` ends user and password, which may be percent-encoded and hold no other.
        let (login, rest) = rest.rsplit_once('@').map_or(("", rest), |(login, rest)| (login, rest));
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let login = if login.is_empty() { String::new() } else { format!("{login}@") };
        let hosts: Vec<&str> = hosts.split(',').map(str::trim).filter(|host| !host.is_empty()).collect();
        if hosts.is_empty() || hosts.len() > HOSTS {
            return Err(odd(&format!("{} hosts; from 1 to {HOSTS}", hosts.len())));
        }
        match scheme {
            "redis+cluster" if path.is_empty() => {
                let nodes = hosts.iter().map(|host| server(&format!("{login}{host}")));
                nodes.collect::<Result<_, _>>().map(Self::Cluster).map_err(|why| odd(&why))
            }
            "redis+cluster" => Err(odd("a Cluster has no databases")),
            "redis+sentinel" => {
                let (master, db) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return Err(odd("the name by which the Sentinels know the primary is missing"));
                }
                let first = hosts.first().copied().unwrap_or_default();
                let settings = server(&format!("{login}{first}/{db}")).map_err(|why| odd(&why))?;
                let sentinels = hosts.iter().map(|host| server(host)).collect::<Result<_, _>>();
                let settings = Box::new(settings.redis_settings().clone());
                Ok(Self::Sentinel {
                    sentinels: sentinels.map_err(|why| odd(&why))?,
                    master: master.to_owned(),
                    settings,
                })
            }
            _ => Err(odd("another scheme")),
        }
    }

    /// The same with a password for the servers that hold data; whoever it belongs to stands in the URL, or is the default user.
    pub(super) fn with_password(self, password: &str) -> Self {
        let settings = |info: &ConnectionInfo| info.redis_settings().clone().set_password(password);
        let with = |info: ConnectionInfo| info.clone().set_redis_settings(settings(&info));
        match self {
            Self::Single(info) => Self::Single(Box::new(with(*info))),
            Self::Sentinel { sentinels, master, settings } => {
                Self::Sentinel { sentinels, master, settings: Box::new((*settings).set_password(password)) }
            }
            Self::Cluster(nodes) => Self::Cluster(nodes.into_iter().map(with).collect()),
        }
    }

    /// Whether another server may take over with what it has: asynchronous failover can lose acknowledged writes.
    pub(super) fn fails_over(&self) -> bool {
        !matches!(self, Self::Single(_))
    }
}

/// `[user:password@]host:port[/db]`
fn server(rest: &str) -> Result<ConnectionInfo, String> {
    let info = format!("redis://{rest}").into_connection_info().map_err(|error| error.category().to_owned())?;
    Ok(info.set_tcp_settings(tcp()))
}

/// A command is one small write: it must not wait for the acknowledgement of the one before.
pub(super) fn tcp() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

fn names(nodes: &[ConnectionInfo]) -> String {
    nodes.iter().map(|node| node.addr().to_string()).collect::<Vec<_>>().join(",")
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(info) => write!(f, "redis://{}/{}", info.addr(), info.redis_settings().db()),
            Self::Sentinel { sentinels, master, .. } => write!(f, "redis+sentinel://{}/{master}", names(sentinels)),
            Self::Cluster(nodes) => write!(f, "redis+cluster://{}", names(nodes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_shown_without_passwords() {
        for (url, shown) in [
            ("redis://127.0.0.1:7000/2", "redis://127.0.0.1:7000/2"),
            ("redis://u:s3cret@h:7000", "redis://h:7000/0"),
            ("redis+sentinel://:s3cret@a:1,b:2/m1", "redis+sentinel://a:1,b:2/m1"),
            ("redis+cluster://u:s3cret@a:1,b:2", "redis+cluster://a:1,b:2"),
        ] {
            let topology = Topology::parse(url).expect(url);
            assert_eq!(topology.to_string(), shown);
        }
        let Ok(Topology::Sentinel { settings, sentinels, .. }) = Topology::parse("redis+sentinel://u:p%40@a:1/m/3")
        else {
            panic!("no Sentinel");
        };
        assert_eq!((settings.password(), settings.db()), (Some("p@"), 3));
        assert_eq!(sentinels[0].redis_settings().password(), None);

        for url in ["redis://u@h:1", "redis+sentinel://u@a:1/m/3", "redis+cluster://u@a:1,b:2"] {
            let topology = Topology::parse(url).expect(url).with_password("p@:/");
            let settings = match &topology {
                Topology::Single(info) => info.redis_settings(),
                Topology::Sentinel { settings, .. } => settings,
                Topology::Cluster(nodes) => nodes[1].redis_settings(),
            };
            assert_eq!((settings.username(), settings.password()), (Some("u"), Some("p@:/")), "{url}");
            assert!(!topology.to_string().contains("p@"), "{topology}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for url in
            ["", "redis+sentinel://a:1", "redis+cluster://", "redis+cluster://a:1/3", "http://a", "rediss://s3cret@a"]
        {
            let text = Topology::parse(url).err().expect(url);
            assert!(text.contains("expected redis://") && !text.contains("s3cret"), "{url}: {text}");
        }
    }
}
