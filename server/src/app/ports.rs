//! Ports of a node, bound before anybody is told of them: with port 0 the members' record could not say them otherwise.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use super::server::StartError;
use crate::{
    cli,
    config::{Config, Role},
};

/// What listens, by role. A port that is bound and not yet served keeps callers waiting instead of refusing them.
pub(super) struct Ports {
    /// Players'; role gateway.
    pub(super) play: Option<TcpListener>,
    /// Other nodes'; role room with a store that others share.
    pub(super) link: Option<TcpListener>,
}

impl Ports {
    pub(super) async fn bind(config: &Config) -> Result<Self, StartError> {
        let play = if config.node.has(Role::Gateway) {
            let listen = config.gateway.listen;
            let bound = TcpListener::bind(listen).await;
            Some(bound.map_err(|error| crate::gateway::Error::Listen { addr: listen, error })?)
        } else {
            None
        };
        let link = if config.node.has(Role::Room) && cli::is_shared(config) {
            let listen = config.link.listen;
            Some(TcpListener::bind(listen).await.map_err(|error| StartError::Link(listen, error))?)
        } else {
            None
        };
        Ok(Self { play, link })
    }

    pub(super) fn play(&self) -> Option<SocketAddr> {
        self.play.as_ref()?.local_addr().ok()
    }

    pub(super) fn link(&self) -> Option<SocketAddr> {
        self.link.as_ref()?.local_addr().ok()
    }
}
