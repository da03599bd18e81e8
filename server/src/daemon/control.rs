//! What operators do with daemons: stop and start a set, change its number, hand one over, try a parked one again, ask one.

use std::time::Duration;

use tenure_shared::IncarnationId;

use super::{
    agreed::{Agreed, Declared, agreement},
    call::read_agreed,
    handle::{DEADLINE, Daemons, Request},
    letter::Refused,
    spec::ShardedDaemonProcess,
    user::{decode, encode},
};
use crate::store::{Error, Status};

/// Why an order for daemons was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// No set of this name is in this node's build.
    #[error("there are no daemons {0:?}")]
    NoSet(String),
    /// The set has no such index.
    #[error("there is no daemon {0}/{1}")]
    NoIndex(String, u32),
    /// As things are it cannot be done; the text says why and what is to be done first.
    #[error("{0}")]
    Not(String),
    /// Its node gave no answer: it may have been done.
    #[error("{0} has it and gave no answer; ask that node itself")]
    NoAnswer(String),
    /// The store's own error.
    #[error(transparent)]
    Store(#[from] Error),
}

impl Daemons {
    /// Stops a set on **all** nodes, until [`Daemons::start`]: its daemons end, and none starts again, after restarts of nodes too.
    /// Resolves when that is agreed on; [`Daemons::survey`] shows how far it is. Gives what is agreed on now.
    ///
    /// # Errors
    /// No such set; what the store met.
    pub async fn stop(&self, name: &str) -> Result<String, OrderError> {
        self.reagree(name, |agreed| Ok(Agreed { stopped: true, ..agreed })).await
    }

    /// Starts a set that was stopped, on all nodes. Gives what is agreed on now.
    ///
    /// # Errors
    /// No such set; what the store met.
    pub async fn start(&self, name: &str) -> Result<String, OrderError> {
        self.reagree(name, |agreed| Ok(Agreed { stopped: false, ..agreed })).await
    }

    /// Changes the number of a running set: the daemons of the former number are ended for ever, each under its fence, and when all are
    /// those of the new number start. Resolves when that is agreed on. Gives what is agreed on now.
    ///
    /// # Errors
    /// No such set; a build that does not run so many ([`ShardedDaemonProcess::rescalable`]), this node's or another's; a change that is
    /// under way; what the store met.
    pub async fn rescale(&self, name: &str, count: u32) -> Result<String, OrderError> {
        self.reagree(name, |agreed| {
            let spec = self.spec(name)?;
            if agreed.count == count {
                return Ok(agreed);
            }
            self.can_all_run(spec, count)?;
            if agreed.after.is_some() {
                return Err(OrderError::Not(format!(
                    "a change of the number is under way: {agreed}; wait for its end"
                )));
            }
            Ok(agreed.rescaled(count))
        })
        .await
    }

    fn can_all_run(&self, spec: &ShardedDaemonProcess, count: u32) -> Result<(), OrderError> {
        let name = &spec.name;
        match spec.range {
            Some((first, last)) if (first..=last).contains(&count) => {}
            Some((first, last)) => return Err(OrderError::Not(format!("{name} may have {first} to {last} daemons"))),
            None => {
                let fixed = "its build does not say that the number may change while it runs (rescalable)";
                return Err(OrderError::Not(format!(
                    "{name} has {} daemons: {fixed}; deploy another number",
                    spec.count
                )));
            }
        }
        let view = self.0.ownership.view();
        let stays = view.members.iter().filter(|member| member.status != Status::Draining);
        let cannot = stays.filter_map(|member| {
            let mut declared = member.info.roles.iter().filter_map(|word| Declared::parse(word));
            let other = declared.any(|declared| declared.name == *name && !declared.runs(count));
            other.then(|| format!("{} ({})", member.info.node, member.info.version))
        });
        let cannot: Vec<String> = cannot.collect();
        match cannot.is_empty() {
            true => Ok(()),
            false => {
                Err(OrderError::Not(format!("the builds of these nodes cannot run {count}: {}", cannot.join(", "))))
            }
        }
    }

    fn spec(&self, name: &str) -> Result<&ShardedDaemonProcess, OrderError> {
        let set = self.find(name).and_then(|set| self.0.sets.get(set));
        set.ok_or_else(|| OrderError::NoSet(name.to_owned()))
    }

    async fn reagree(
        &self,
        name: &str,
        change: impl Fn(Agreed) -> Result<Agreed, OrderError>,
    ) -> Result<String, OrderError> {
        let spec = self.spec(name)?;
        // Somebody may change it at the same moment: then it is read and tried once more.
        let mut last = false;
        let agreed = loop {
            let now = read_agreed(&self.0.store, spec).await?;
            let to = change(now)?;
            match self.0.store.reagree(&agreement(name), &now.to_string(), &to.to_string()).await {
                Err(Error::Disagreement { .. }) if !last => last = true,
                done => break done.map(|()| to)?,
            }
        };
        self.agreement_changed(name);
        self.0.post.tell_changed(&self.0, name);
        tracing::info!(set = name, %agreed, "somebody changed what is agreed on about daemons");
        Ok(agreed.to_string())
    }

    /// What was agreed on about a set is read anew. When the mailbox is full it is read at the next look.
    pub(super) fn agreement_changed(&self, name: &str) {
        if let Some(set) = self.find(name) {
            drop(self.0.requests.try_send(Request::Agreement { set }));
        }
    }

    /// Hands one over to another node: it is stopped, and its claim given to that node. `false`: there is no such set or no such member.
    pub async fn hand_over(&self, name: &str, index: u32, node: &str) -> bool {
        let view = self.0.ownership.view();
        let to = view.members.iter().find(|member| member.info.node == node).map(|member| member.incarnation.clone());
        let (Some(set), Some(to)) = (self.find(name), to) else { return false };
        self.0.requests.send(Request::HandOver { set, index, to }).await.is_ok()
    }

    /// Tries a daemon again that is parked, on whatever node it is; its budget begins anew.
    ///
    /// # Errors
    /// No such set or index; it is not parked; its node cannot be reached.
    pub async fn unpark(&self, name: &str, index: u32) -> Result<(), OrderError> {
        let set = self.find(name).ok_or_else(|| OrderError::NoSet(name.to_owned()))?;
        let row = self.0.table.load().get(set).and_then(|table| table.rows.get(index as usize).cloned());
        let row = row.ok_or_else(|| OrderError::NoIndex(name.to_owned(), index))?;
        let not = |stage: &str| OrderError::Not(format!("{name}/{index} is not parked: it is {stage}"));
        let stage = match row.owner.filter(|_| row.stage == "elsewhere") {
            Some(life) => {
                let deadline = self.0.clock.now().plus(DEADLINE);
                let told = self.0.post.unpark(&self.0, &life, (name, index), deadline).await;
                told.map_err(|refused| match refused {
                    Refused::Unanswered | Refused::Moving => OrderError::NoAnswer(self.node_of(&life)),
                    // It answered, and says why not.
                    said => OrderError::Not(format!("{} says: {said}", self.node_of(&life))),
                })?
            }
            None => self.unpark_here(name, index).await.map_err(|refused| OrderError::Not(refused.to_string()))?,
        };
        if stage == "parked" { Ok(()) } else { Err(not(&stage)) }
    }

    fn node_of(&self, life: &IncarnationId) -> String {
        let view = self.0.ownership.view();
        let member = view.members.iter().find(|member| member.incarnation == *life);
        member.map_or_else(|| life.to_string(), |member| member.info.node.clone())
    }

    /// Tries one of this node again, if it is parked; what it was doing.
    pub(super) async fn unpark_here(&self, name: &str, index: u32) -> Result<String, Refused> {
        let set = self.find(name).ok_or_else(|| Refused::Unknown(name.to_owned(), index))?;
        let row = self.0.table.load().get(set).and_then(|table| table.rows.get(index as usize).cloned());
        let stage = row.ok_or_else(|| Refused::Unknown(name.to_owned(), index))?.stage;
        if stage == "parked" {
            self.0.requests.send(Request::Unpark { set, index }).await.map_err(|_| Refused::Moving)?;
        }
        Ok(stage.to_owned())
    }

    /// Asks a daemon what [`Daemons::ask`] does, with message and answer as JSON: for operators and tools. An enum is written as serde has
    /// it: `"Report"`, `{"Add": 3}`.
    ///
    /// # Errors
    /// As for [`Daemons::ask`]; [`Refused::Unreadable`] too for an answer that is no JSON.
    pub async fn ask_json(
        &self,
        name: &str,
        index: u32,
        message: &serde_json::Value,
        deadline: Duration,
    ) -> Result<serde_json::Value, Refused> {
        let body = encode(message).map_err(Refused::Unreadable)?;
        let answer = self.deliver(name, index, body, true, self.0.clock.now().plus(deadline)).await?;
        decode(&answer).map_err(Refused::Unreadable)
    }
}
