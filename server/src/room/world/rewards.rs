//! Occurrences of reward schedules: who is meant, the hook, and the pages of a large decision.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use tenure_shared::PlayerId;

use super::RoomWorld;
use crate::{
    plugin::{Audience, Recipient, Reward, RewardDue, decode, encode, params, run},
    store::{Cap, Grant, GrantId, WorkItem},
};

impl RoomWorld {
    /// One page of an occurrence. The cursor, the last player of the page before, lives in the item.
    pub(super) fn reward(&mut self, item: &WorkItem, reward: &Reward) {
        let cursor: Option<PlayerId> = if item.payload.is_empty() { None } else { decode(&item.payload).ok() };
        let page = self.settings.max_grants_per_step.min(reward.max_grants_per_step).max(1);
        let mut players = self.audience(reward, cursor.as_ref(), page + 1);
        let more = players.len() > page;
        players.truncate(page);
        let last = players.last().cloned();
        let recipients = players.into_iter().map(|player| self.recipient(player, reward)).collect();
        let recipients = self.decide(reward, recipients, cursor.is_none());
        self.grant_all(reward, recipients);
        match last.filter(|_| more) {
            None => self.effects.completed.push(item.id.clone()),
            Some(last) => {
                let mut cursor = Vec::new();
                match encode(&mut cursor, &last) {
                    Ok(()) => self.effects.advanced.push((item.id.clone(), Bytes::from(cursor))),
                    Err(e) => self.effects.failed.push((item.id.clone(), e)),
                }
            }
        }
    }

    /// Players of the audience after `cursor`, by id, at most `limit`.
    fn audience(&self, reward: &Reward, cursor: Option<&PlayerId>, limit: usize) -> Vec<PlayerId> {
        let after = |player: &&PlayerId| cursor.is_none_or(|cursor| *player > cursor);
        let present: BTreeSet<&PlayerId> = self.present().collect();
        match reward.audience {
            Audience::Present => present.into_iter().filter(after).take(limit).cloned().collect(),
            Audience::Active(within) => {
                let active: BTreeSet<&PlayerId> = self.known.active(self.wall, within).chain(present).collect();
                active.into_iter().filter(after).take(limit).cloned().collect()
            }
            Audience::AllKnown => {
                let known = self.known.all().map(|(player, _)| player).take(reward.max_known);
                known.filter(after).take(limit).cloned().collect()
            }
        }
    }

    fn recipient(&self, player: PlayerId, reward: &Reward) -> Recipient {
        let seat = self.seat_of(&player).and_then(|id| self.seats.get(&id)).map(|seat| seat.entity);
        Recipient { player, seat, amounts: reward.amounts.clone() }
    }

    fn decide(&mut self, reward: &Reward, recipients: Vec<Recipient>, first: bool) -> Vec<Recipient> {
        let Some(hook) = self.handlers.rewards.get_mut(&reward.id) else { return recipients };
        let due = RewardDue {
            id: reward.id.clone(),
            scheduled_for: reward.scheduled_for,
            amounts: reward.amounts.clone(),
            recipients: recipients.clone(),
            first,
        };
        match run(hook, &mut self.world, due) {
            Ok(decided) => decided,
            Err(e) => {
                self.error(format!("reward hook {:?}: {e}", reward.id));
                recipients
            }
        }
    }

    /// Decided grants. The identity names schedule, occurrence, room and player: the ledger takes it once, for ever.
    fn grant_all(&mut self, reward: &Reward, recipients: Vec<Recipient>) {
        let mut seen = BTreeSet::new();
        for recipient in recipients {
            let mut amounts = recipient.amounts;
            amounts.retain(|_, amount| *amount > 0);
            if amounts.is_empty() || !seen.insert(recipient.player.clone()) {
                continue;
            }
            let Reward { id, scheduled_for, cap, .. } = reward;
            if let Some(fault) = params::amounts_fault(amounts.iter().map(|(currency, amount)| (&**currency, *amount)))
            {
                self.error(format!("reward {id:?} for {}: {fault}", recipient.player));
                continue;
            }
            let name = format!("schedule/{id}/{}/{}/{}", scheduled_for.0, self.room, recipient.player);
            self.effects.grants.push(Grant {
                id: GrantId(Arc::from(name)),
                player: recipient.player,
                source: id.clone(),
                scheduled_for: Some(*scheduled_for),
                amounts,
                cap: cap.as_ref().map(|(since, limits)| Cap { since: *since, limits: limits.clone() }),
                token: Bytes::new(),
            });
        }
    }
}
