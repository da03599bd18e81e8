//! The members of a cluster: what each is started with, and what is known of it.

use std::{ffi::OsString, path::PathBuf};

use super::{
    Settings,
    child::{self, Process},
};
use crate::{
    cli::{ReadyFile, ready_file, stores},
    config::DrainConfig,
};

/// A member, running or not.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) is_gateway: bool,
    roles: &'static str,
    play: String,
    admin: String,
    pub(super) process: Option<Process>,
    /// What its ready-file says, once it is ready.
    pub(super) ready: Option<ReadyFile>,
    /// It was told to end.
    pub(super) ending: bool,
    /// It is to be started again when it has ended.
    pub(super) again: bool,
}

/// Members for so many room nodes and gateways; without gateways the nodes have both roles.
pub(super) fn plan(settings: &Settings, nodes: u16, gateways: u16) -> Vec<Member> {
    let mut members = Vec::new();
    for number in 1..=nodes {
        members.push(room_node(settings, number, gateways == 0));
    }
    for number in 1..=gateways {
        members.push(Member::new(format!("gateway-{number}"), "gateway", ports(settings, number)));
    }
    members
}

/// A room node of this number.
pub(super) fn room_node(settings: &Settings, number: u16, both: bool) -> Member {
    let (roles, ports) = if both { ("gateway,room", ports(settings, number)) } else { ("room", free()) };
    Member::new(format!("node-{number}"), roles, ports)
}

/// The first gateway has the ports of the configuration, so that players and commands find it.
fn ports(settings: &Settings, number: u16) -> (String, String) {
    let config = &settings.config;
    if number == 1 { (config.gateway.listen.to_string(), config.admin.listen.to_string()) } else { free() }
}

fn free() -> (String, String) {
    ("127.0.0.1:0".to_owned(), "127.0.0.1:0".to_owned())
}

impl Member {
    fn new(name: String, roles: &'static str, (play, admin): (String, String)) -> Self {
        let is_gateway = roles == "gateway";
        Self { name, is_gateway, roles, play, admin, process: None, ready: None, ending: false, again: false }
    }

    pub(super) fn log(&self, settings: &Settings) -> PathBuf {
        settings.folder.join(format!("{}.log", self.name))
    }

    fn ready_file(&self, settings: &Settings) -> PathBuf {
        settings.folder.join(format!("{}.json", self.name))
    }

    /// Whether people call it so: by its name, or a room node by its number.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.name.strip_prefix("node-") == Some(name)
    }

    /// Starts it. Whether it gets ready is seen later.
    pub(super) fn start(&mut self, settings: &Settings) -> Result<(), String> {
        let file = self.ready_file(settings);
        // A file of a former life would tell where it was.
        if let Err(error) = std::fs::remove_file(&file)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(format!("{}: {error}", file.display()));
        }
        let line = self.line(settings, file);
        self.process = Some(child::start(&settings.program, &line, &self.log(settings), false)?);
        (self.ready, self.ending, self.again) = (None, false, false);
        Ok(())
    }

    /// Reads the ready-file, if it is there now.
    pub(super) fn look(&mut self, settings: &Settings) -> Option<ReadyFile> {
        if self.ready.is_none() && self.process.is_some() {
            self.ready = ready_file::read(&self.ready_file(settings)).ok();
            return self.ready;
        }
        None
    }

    fn line(&self, settings: &Settings, ready_file: PathBuf) -> Vec<OsString> {
        let common = &settings.common;
        let mut line: Vec<OsString> = vec![settings.program.clone().into(), "serve".into()];
        for (flag, file) in [("--config", &common.config), ("--rewards", &common.rewards)] {
            if let Some(file) = file {
                line.extend([flag.into(), file.clone().into()]);
            }
        }
        line.extend(["--ready-file".into(), ready_file.into()]);
        let mut set = common.set.clone();
        // What a load balancer needs has no use here, unless somebody wants to see it.
        if settings.config.drain.endpoint_lag == DrainConfig::default().endpoint_lag {
            set.push("drain.endpoint_lag=0s".to_owned());
        }
        set.extend([
            format!("node.name={}", self.name),
            format!("node.roles={}", self.roles),
            format!("store.url={}", settings.store),
            "link.listen=127.0.0.1:0".to_owned(),
            "link.advertise=".to_owned(),
            format!("gateway.listen={}", self.play),
            format!("admin.listen={}", self.admin),
        ]);
        if settings.revision > 0 {
            set.push(format!("node.revision={}", settings.config.node.revision.saturating_add(settings.revision)));
        }
        if !stores::is_shared(&settings.config) {
            // The private store has no password.
            set.push("store.password_file=".to_owned());
        }
        for setting in set {
            line.extend(["--set".into(), setting.into()]);
        }
        line
    }
}
