// What a game hears from its room: every `on…` of `Room`, each of which returns its own end.
import { Emitter, Messages, type Unsubscribe } from './emitter.ts';
import type { TenureError } from './errors.ts';
import type { Names, Schema } from './schema.ts';
import type { Entity, State } from './state.ts';
import type { ViewStats } from './view.ts';
import type { Granted } from './wire.ts';

/** Messages (of each name), grants and errors that nobody listens to yet wait; older ones make room. */
const HELD = 32;

/** Counts of one room's troubles. */
export interface RoomStats extends ViewStats {
  drops: number;
  reconnects: number;
  /** Messages that `send` did not take, and those that the room refused. */
  refused: number;
  /** Messages, grants and errors from the room that nobody listened to in time. */
  lost: number;
}

export abstract class Listening<S extends Schema> {
  readonly stats: RoomStats = { drops: 0, reconnects: 0, stale: 0, unreadable: 0, resyncs: 0, refused: 0, lost: 0 };
  private readonly lost = (): void => void (this.stats.lost += 1);
  protected readonly messages = new Messages(HELD, this.lost);
  protected readonly grants = new Emitter<[Granted]>(HELD, this.lost);
  protected readonly errors = new Emitter<[TenureError]>(HELD, this.lost);
  protected readonly rolledBack = new Emitter<[{ term: number; tick: number }]>();
  protected readonly drops = new Emitter<[number, string]>();
  protected readonly retries = new Emitter<[number, number]>();
  protected readonly reconnects = new Emitter<[]>();
  protected readonly leaves = new Emitter<[number, string]>();

  /** What this seat sees. Empty until the first snapshot: see `ready`. */
  abstract get state(): State<S['components'], S['resources']>;

  /**
   * Messages from the room, of one name or with `'*'` all. Those that came before the first listener wait, at most 32 of a
   * name; `stats.lost` counts what had to make room.
   */
  onMessage(type: '*', listener: (type: string, payload: unknown) => void): Unsubscribe;
  onMessage<K extends Names<S['events']>>(type: K, listener: (payload: S['events'][K]) => void): Unsubscribe;
  onMessage(type: string, listener: ((payload: never) => void) | ((type: string, payload: unknown) => void)): Unsubscribe {
    if (type === '*') return this.messages.onAny(listener as (type: string, payload: unknown) => void);
    return this.messages.on(type, listener as (payload: unknown) => void);
  }
  /** After all changes of a server message. */
  onStateChange(listener: (state: State<S['components'], S['resources']>) => void): Unsubscribe {
    return this.state.onStateChange(listener);
  }
  /** A resource: now, if it is there, and whenever it changes. */
  listen<K extends Names<S['resources']>>(resource: K, listener: (value: S['resources'][K] | undefined, before: S['resources'][K] | undefined) => void): Unsubscribe {
    return this.state.listen(resource, listener);
  }
  /** Entities that have this component: those there now, then each that gets it. */
  onAdd<K extends Names<S['components']>>(component: K, listener: (entity: Entity<S['components']>, value: S['components'][K]) => void): Unsubscribe {
    return this.state.onAdd(component, listener);
  }
  onChange<K extends Names<S['components']>>(component: K, listener: (entity: Entity<S['components']>, value: S['components'][K], before: S['components'][K]) => void): Unsubscribe {
    return this.state.onChange(component, listener);
  }
  /** Entities that lose this component or are despawned, with its last value. */
  onRemove<K extends Names<S['components']>>(component: K, listener: (entity: Entity<S['components']>, value: S['components'][K]) => void): Unsubscribe {
    return this.state.onRemove(component, listener);
  }
  /** The socket is lost; the room comes back by itself. */
  onDrop(listener: (code: number, reason: string) => void): Unsubscribe {
    return this.drops.on(listener);
  }
  /** An attempt to come back starts in `delay` ms. */
  onRetry(listener: (attempt: number, delay: number) => void): Unsubscribe {
    return this.retries.on(listener);
  }
  /** The seat is held by a socket again. */
  onReconnect(listener: () => void): Unsubscribe {
    return this.reconnects.on(listener);
  }
  /** The end: see `CloseCode`, `codeName` and `describe`. The room does not come back. */
  onLeave(listener: (code: number, reason: string) => void): Unsubscribe {
    return this.leaves.on(listener);
  }
  /** A reward or charge, told only after the ledger has it. */
  onGranted(listener: (granted: Granted) => void): Unsubscribe {
    return this.grants.on(listener);
  }
  /**
   * The room was restored to an earlier tick; messages after it are applied again, and a snapshot follows. A term above
   * `room.term` is that of another owner: the room goes on at another server.
   */
  onRolledBack(listener: (to: { term: number; tick: number }) => void): Unsubscribe {
    return this.rolledBack.on(listener);
  }
  /** Messages that the room refused, and other errors that belong to no request. */
  onError(listener: (error: TenureError) => void): Unsubscribe {
    return this.errors.on(listener);
  }
}
