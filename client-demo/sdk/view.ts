// Which frames are shown: none that is older by (term, tick) than what was shown, and no change without its base.
import type { Value } from './msgpack.ts';
import { State } from './state.ts';
import type { NameTable } from './table.ts';
import { Alarm } from './time.ts';

/** How long to wait for a snapshot before asking (again), ms. */
export const SNAPSHOT_WAIT = 2000;

/** Counts of what a player does not see. */
export interface ViewStats {
  /** Frames that were older than what is shown. */
  stale: number;
  /** Messages that could not be read. */
  unreadable: number;
  resyncs: number;
}

export class View<C, R> {
  readonly state = new State<C, R>();
  term = 0;
  tick = 0;
  private readonly stats: ViewStats;
  private readonly ask: () => boolean;
  private readonly whole: () => void;
  private readonly wait = new Alarm();
  private awaiting = true;
  private settling = false;
  /** What of the next tail counts: it belongs to the frame before it. */
  private last: 'stale' | 'skipped' | 'shown' = 'stale';

  /** `ask` sends a resync; false if there is no socket. `whole` hears of each snapshot that is shown. */
  constructor(stats: ViewStats, ask: () => boolean, whole: () => void) {
    this.stats = stats;
    this.ask = ask;
    this.whole = whole;
  }

  /** A new attachment. Only the very state that the server goes on from may take changes; otherwise they wait for a snapshot. */
  attach(term: number, tick: number): void {
    this.awaiting ||= term !== this.term || tick !== this.tick;
    this.last = 'stale';
    if (this.awaiting) this.wait.start(SNAPSHOT_WAIT, () => this.resync());
  }

  frame(term: number, tick: number, ops: readonly Value[][]): void {
    if (term < this.term || (term === this.term && tick <= this.tick)) return this.stale();
    if (this.awaiting) {
      this.last = 'skipped';
      return;
    }
    this.show(term, tick);
    if (ops.length > 0) this.change(() => this.state.apply(ops));
  }

  snapshot(term: number, tick: number, ops: readonly Value[][]): void {
    if (term < this.term || (term === this.term && tick < this.tick)) return this.stale();
    this.show(term, tick);
    this.awaiting = false;
    this.wait.stop();
    this.change(() => this.state.replace(ops));
    if (!this.awaiting) this.whole();
  }

  /** Private changes of the frame before. False if that frame was too old: then the marks beside them are too. */
  tail(ops: readonly Value[][]): boolean {
    if (this.last === 'shown' && ops.length > 0) this.change(() => this.state.apply(ops));
    return this.last !== 'stale';
  }

  /** A takeover's term starts with a snapshot; if that is not here yet, nothing may be built on the old state. */
  rolledBack(term: number): void {
    if (term > this.term) this.await();
  }

  /** What follows is numbered by another table. What is shown stays, by its names; the snapshot that comes says what of it is different. */
  renewed(table: NameTable): void {
    this.state.use(table);
    this.await();
  }

  /** Something could not be read. */
  unreadable(): void {
    this.stats.unreadable += 1;
    this.resync();
  }

  stop(): void {
    this.wait.stop();
  }

  private show(term: number, tick: number): void {
    this.last = 'shown';
    this.term = term;
    this.tick = tick;
  }

  private stale(): void {
    this.stats.stale += 1;
    this.last = 'stale';
  }

  /** The server sends a snapshot by itself; nothing is built on the state before it. */
  private await(): void {
    this.awaiting = true;
    this.last = 'stale';
    if (!this.wait.set) this.wait.start(SNAPSHOT_WAIT, () => this.resync());
  }

  /** Asks for a snapshot; while one is on its way, at most once per `SNAPSHOT_WAIT`. */
  private resync(): void {
    if (this.awaiting && this.wait.set) return;
    this.awaiting = true;
    if (!this.ask()) return;
    this.stats.resyncs += 1;
    this.wait.start(SNAPSHOT_WAIT, () => this.resync());
  }

  /** Changes the state; if that fails the base is broken. Listeners to the whole hear of it once per server message. */
  private change(apply: () => void): void {
    try {
      apply();
    } catch {
      this.unreadable();
    }
    if (this.settling) return;
    this.settling = true;
    queueMicrotask(() => {
      this.settling = false;
      this.state.settle();
    });
  }
}
