//! A cluster that replaces its room nodes: the orders of a rolling deploy, obeyed.

use super::{
    super::{
        child,
        deploy::{Order, Roll},
        members,
    },
    Control, say,
};
use crate::{cli::DeployArgs, ops::ClusterReport};

impl Control {
    /// Lets it replace its room nodes from now on.
    pub(in super::super) fn deploy(&mut self, args: &DeployArgs) -> Result<(), String> {
        if self.both {
            return Err(
                "a deploy of room nodes needs gateways of their own: players stay connected to those".to_owned()
            );
        }
        self.roll = Some(Roll::new(args, &self.settings.program)?);
        Ok(())
    }

    /// Starts one more room node; its name.
    pub(super) fn start_another(&mut self) -> Result<String, String> {
        let number = self.newest.saturating_add(1);
        let mut member = members::room_node(&self.settings, number, self.both);
        member.start(&self.settings)?;
        self.newest = number;
        let name = member.name.clone();
        say(&format!("{name} starts"));
        self.members.push(member);
        Ok(name)
    }

    /// The next step of the deploy; false when there were as many rounds as were asked for.
    pub(super) fn step_deploy(&mut self) -> bool {
        let Some(mut roll) = self.roll.take() else { return true };
        let running: Vec<_> = self.members.iter().filter(|m| m.process.is_some()).collect();
        let nodes = running.iter().filter(|m| !m.is_gateway).map(|m| (m.name.clone(), m.ready.is_some())).collect();
        let quiet = roll.waits_for_places() && self.report().is_some_and(|report| is_owned(&report));
        for order in roll.step(self.clock.now(), nodes, quiet) {
            let done = match order {
                Order::Say(text) => Ok(text),
                Order::Build { program, revision } => {
                    (self.settings.program, self.settings.revision) = (program, revision);
                    Ok(format!("deploying {}, revision {revision}", self.settings.program.display()))
                }
                Order::Start => self.start_another().map(|name| {
                    roll.started(name.clone());
                    format!("{name} is to take over")
                }),
                Order::Drain(name) => self.drain_replaced(&name),
                Order::Forget(name) => {
                    self.members.retain(|member| member.name != name);
                    continue;
                }
                Order::End => return false,
            };
            match done {
                Ok(text) => say(&text),
                Err(text) => {
                    say(&format!("{text}; this round ends here"));
                    roll.give_up(self.clock.now());
                    break;
                }
            }
        }
        self.roll = Some(roll);
        true
    }

    /// Asks a node to end as an orchestrator does, by SIGTERM.
    fn drain_replaced(&mut self, name: &str) -> Result<String, String> {
        let member = self.members.iter_mut().find(|member| member.name == name);
        let member = member.ok_or_else(|| format!("{name} is not there any more"))?;
        member.ending = true;
        member.process.iter_mut().for_each(child::Process::terminate);
        Ok(format!("{name} drains: its rooms move"))
    }
}

/// Whether every shard has an owner and none of them is leaving. In the middle of a deploy nothing moves for balance.
fn is_owned(report: &ClusterReport) -> bool {
    report.ownerless.is_empty() && report.members.iter().all(|member| member.status == "serving")
}
