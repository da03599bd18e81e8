// What must stay at zero while rooms move: counted from what this page itself saw and sent.
export interface Audit {
  /** Times that the room got another owner. */
  moves: number;
  /** Ticks for which the room stood still at moves, beyond the one that was due. */
  missed: number;
  /** Longest time between two frames at a move, ms. */
  pause: number;
  /** Inputs that the room acknowledged and did not count. */
  lost: number;
  /** Inputs that the room counted more than once. */
  doubled: number;
  /** Rewards of one occurrence that came again. */
  again: number;
}

/** Occurrences that are remembered. */
const MOST_REWARDS = 1000;

export class Auditor {
  readonly counts: Audit = { moves: 0, missed: 0, pause: 0, lost: 0, doubled: 0, again: 0 };
  private last: { term: number; tick: number; at: number } | undefined;
  private rewards = new Set<string>();
  private sent = 0;
  private base: number | undefined;

  /** Another room, or this one anew: what was counted stays. */
  reset(): void {
    this.last = undefined;
    this.base = undefined;
    this.sent = 0;
  }

  /** A socket was lost: what passed until it was back is no pause of the room. */
  interrupted(): void {
    this.last = undefined;
  }

  frame(term: number, tick: number, rate: number, now: number): void {
    const last = this.last;
    this.last = { term, tick, at: now };
    if (!last || term === last.term) return;
    this.counts.moves += 1;
    const passed = now - last.at;
    this.counts.pause = Math.max(this.counts.pause, Math.round(passed));
    // Ticks that came count for the time that they stand for; half of one is what a network may vary.
    const missed = Math.floor((passed * rate) / 1000 - Math.max(0, tick - last.tick) + 0.5);
    this.counts.missed += Math.max(0, missed);
  }

  steered(): void {
    this.sent += 1;
  }

  /** `counted`: the seat's steers, by the room. With nothing on its way the room's count is the page's own. */
  inputs(counted: number | undefined, unsaved: number): void {
    if (counted === undefined || unsaved > 0) return;
    this.base ??= counted - this.sent;
    const expected = this.base + this.sent;
    this.counts.lost = Math.max(0, expected - counted);
    this.counts.doubled = Math.max(0, counted - expected);
  }

  granted(source: string, scheduledFor: number | null): void {
    if (scheduledFor === null) return;
    const key = `${source} ${scheduledFor}`;
    if (this.rewards.has(key)) this.counts.again += 1;
    this.rewards.add(key);
    const oldest = this.rewards.values().next().value;
    if (this.rewards.size > MOST_REWARDS && oldest !== undefined) this.rewards.delete(oldest);
  }
}
