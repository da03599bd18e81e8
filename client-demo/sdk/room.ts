// A seat in a room: what the game's code holds. It survives lost sockets, moves and server restarts.
import { CloseCode, isFinal } from './codes.ts';
import type { Connection } from './connection.ts';
import { Emitter, Emitters, type Unsubscribe } from './emitter.ts';
import { TenureError } from './errors.ts';
import { Link, type LinkOwner } from './link.ts';
import { Pings } from './pings.ts';
import { Requests } from './requests.ts';
import type { Answer, AnySchema, Ask, Context, Names, Schema } from './schema.ts';
import { Sender, type Packed } from './sender.ts';
import type { Entity, State } from './state.ts';
import type { SavedSession } from './storage.ts';
import { answerShape, shape, type NameTable } from './table.ts';
import { Alarm, now } from './time.ts';
import { View, type ViewStats } from './view.ts';
import { Space, client, type Granted, type Joined, type Renewed, type ServerMessage, type Welcome } from './wire.ts';

/** How often the round trip is measured, ms. */
const PING_EVERY = 2000;
/** How long `leave` waits for the server's word, ms. */
const LEAVE_DEADLINE = 3000;
/** The saved session is written at most this often (and when the page goes away), ms. */
const SAVE_EVERY = 1000;
/** Messages, grants and errors that nobody listens to yet wait; older ones make room. */
const HELD = 32;

/** Counts of one room's troubles. */
export interface RoomStats extends ViewStats {
  drops: number;
  reconnects: number;
  /** Messages that `send` did not take. */
  refused: number;
}

/** A room as this client's seat sees it. Made by `Client`. */
export class Room<S extends Schema = AnySchema> {
  /** Full id, `kind/region/name`. */
  id = '';
  seat = 0;
  generation = 0;
  /** Who the server takes this client for. */
  player = '';
  tickRate = 20;
  /** Name of the node that this client's socket is at. */
  node = '';
  readonly stats: RoomStats = { drops: 0, reconnects: 0, stale: 0, unreadable: 0, resyncs: 0, refused: 0 };

  private readonly context: Context;
  private readonly view: View<S['components'], S['resources']>;
  private readonly sender: Sender;
  private readonly requests = new Requests();
  private readonly link: Link;
  private verb: ((id: number) => Uint8Array<ArrayBuffer>) | undefined;
  private table: NameTable | undefined;
  private session = '';
  /** Counts resumes of this seat, above the number of its last attachment; 0: not known. See docs/wire.md. */
  private resumes = 0;
  private savedAt = 0;
  private closed = false;
  private first: { resolve(): void; reject(error: TenureError): void } | undefined;
  private leaving: (() => void) | undefined;
  private readonly pings = new Pings();
  private readonly pinger = new Alarm();
  private readonly unhook: () => void;

  private readonly messages = new Emitters<[unknown]>(HELD);
  private readonly grants = new Emitter<[Granted]>(HELD);
  private readonly errors = new Emitter<[TenureError]>(HELD);
  private readonly rolledBack = new Emitter<[{ term: number; tick: number }]>();
  private readonly drops = new Emitter<[number, string]>();
  private readonly retries = new Emitter<[number, number]>();
  private readonly reconnects = new Emitter<[]>();
  private readonly leaves = new Emitter<[number, string]>();

  /** Use `Client`. */
  constructor(context: Context, url: string, from: ((id: number) => Uint8Array<ArrayBuffer>) | SavedSession) {
    this.context = context;
    const send = (bytes: Uint8Array<ArrayBuffer>): boolean => this.link.send(bytes);
    this.view = new View(this.stats, () => send(client.resync()));
    this.sender = new Sender(send);
    if (typeof from === 'function') {
      this.verb = from;
    } else {
      ({ room: this.id, session: this.session, resumes: this.resumes = 0 } = from);
      ({ term: this.view.term, tick: this.view.tick } = from);
      this.sender.inputs.forget(from.saved);
    }
    this.link = new Link(this.owner(), context.socket, url, context.backoff, context.random);
    const save = (): void => this.save();
    const online = (): void => this.link.hurry();
    globalThis.addEventListener?.('pagehide', save);
    globalThis.addEventListener?.('online', online);
    this.unhook = () => {
      globalThis.removeEventListener?.('pagehide', save);
      globalThis.removeEventListener?.('online', online);
    };
  }

  /** Takes the seat. Called once, by `Client`. */
  open(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.first = { resolve, reject };
      this.link.start();
    });
  }

  /** What this seat sees. */
  get state(): State<S['components'], S['resources']> {
    return this.view.state;
  }
  /** Term of the room's owner. */
  get term(): number {
    return this.view.term;
  }
  /** Newest tick shown. */
  get tick(): number {
    return this.view.tick;
  }
  /** Smoothed round trip, ms; undefined until measured. */
  get rtt(): number | undefined {
    return this.pings.rtt;
  }
  /** True while a socket holds the seat; without one, messages wait. */
  get connected(): boolean {
    return this.link.live;
  }
  /** Number of the last message that the room applied. */
  get applied(): number {
    return this.sender.inputs.applied;
  }
  /** Messages that are not yet in a stored checkpoint. */
  get unsaved(): number {
    return this.sender.inputs.waiting;
  }
  /** What `Client.reconnect` needs to take this seat again. Secret. */
  get savedSession(): SavedSession {
    const { id: room, session, term, tick, resumes } = this;
    return { url: this.link.url, room, session, term, tick, saved: this.sender.inputs.saved, resumes };
  }

  /**
   * Sends a message to the room and returns its number. It arrives exactly once and in order, also over a reconnect.
   * Throws `TenureError`: `backlog_full` (retryable), `too_large`, `unknown_name`, `closed`.
   */
  send<K extends Names<S['messages']>>(type: K, payload: S['messages'][K]): number {
    const seq = this.push(this.sender.pack(Space.Message, type, payload), undefined);
    this.sender.flush();
    return seq;
  }

  /** Asks the room and waits for its answer. Rejects with the room's error, or `timeout` when its fate is not known. */
  async request<K extends Names<S['requests']>>(type: K, payload: Ask<S['requests'], K>, options: { timeout?: number } = {}): Promise<Answer<S['requests'], K>> {
    const packed = this.sender.pack(Space.Request, type, payload);
    this.requests.check();
    const id = this.requests.nextId();
    const seq = this.push(packed, id);
    const answer = this.requests.wait(id, seq, type, options.timeout ?? this.context.requestTimeout);
    this.sender.flush();
    return (await answer) as Answer<S['requests'], K>;
  }

  /** Messages from the room. Those that came before the first listener are not lost. */
  onMessage<K extends Names<S['events']>>(type: K, listener: (payload: S['events'][K]) => void): Unsubscribe {
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
  onReconnect(listener: () => void): Unsubscribe {
    return this.reconnects.on(listener);
  }
  /** The end: see `CloseCode`. The room does not come back. */
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

  /** Measures the round trip, ms. */
  ping(): Promise<number> {
    const id = this.requests.nextId();
    return this.pings.measure(id, () => this.link.send(client.ping(id)));
  }

  /** Gives the seat up for good. */
  leave(): Promise<void> {
    if (this.closed) return Promise.resolve();
    return new Promise((resolve) => {
      const deadline = new Alarm();
      this.leaving = () => {
        deadline.stop();
        resolve();
      };
      deadline.start(LEAVE_DEADLINE, () => this.finish(CloseCode.Consented, 'left'));
      if (!this.link.send(client.leave(this.requests.nextId()))) this.finish(CloseCode.Consented, 'left');
    });
  }

  /** Loses the socket as a bad network would. For tests. */
  dropForTest(): void {
    this.link.drop('dropped for a test');
  }

  private owner(): LinkOwner {
    return {
      hello: async () => client.hello(await this.context.token(), this.context.tables.newest?.hash ?? null),
      verb: (id) => this.verb?.(id) ?? this.resume(id),
      nextId: () => this.requests.nextId(),
      joined: (connection, welcome, joined) => this.joined(connection, welcome, joined),
      message: (message) => this.take(message),
      unreadable: () => this.view.unreadable(),
      dropped: (code, reason) => {
        this.quiet();
        this.stats.drops += 1;
        this.drops.emit(code, reason);
      },
      retrying: (attempt, delay) => this.retries.emit(attempt, delay),
      ended: (code, reason, error) => this.finish(code, reason, error),
    };
  }

  private resume(id: number): Uint8Array<ArrayBuffer> {
    if (this.resumes > 0) this.resumes += 1;
    this.save();
    return client.resume(id, this.id, this.session, this.term, this.tick, this.sender.inputs.first, this.resumes);
  }

  private joined(connection: Connection, welcome: Welcome, joined: Joined): void {
    const table = this.context.tables.take(joined.hash, joined.table);
    if (!table) return connection.end(CloseCode.Abnormal, 'the server sent no name table');
    this.table = table;
    this.state.use(table);
    if (welcome.token) this.context.keepToken(welcome.token);
    const back = this.verb === undefined;
    this.verb = undefined;
    this.player = welcome.player;
    this.node = welcome.server;
    ({ room: this.id, seat: this.seat, generation: this.generation, session: this.session, tickRate: this.tickRate } = joined);
    this.resumes = Math.max(this.resumes, joined.generation);
    this.view.attach(joined.term, joined.tick);
    this.save();
    this.sender.attach(table, joined.owed, welcome);
    this.measure();
    if (this.first) {
      this.first.resolve();
      this.first = undefined;
    } else if (back) {
      this.stats.reconnects += 1;
      this.reconnects.emit();
    }
  }

  private renewed({ seat, tickRate, hash, table: rows }: Renewed): void {
    const table = this.context.tables.take(hash, rows);
    if (!table) return this.link.drop('the server sent no name table');
    ({ seat: this.seat, tickRate: this.tickRate, table: this.table } = { seat, tickRate, table });
    this.view.renewed(table);
    this.sender.renew(table);
  }

  private take(m: ServerMessage): void {
    switch (m.is) {
      case 'frame':
        return this.shown(() => this.view.frame(m.term, m.tick, m.ops));
      case 'heartbeat':
        return this.shown(() => this.view.frame(m.term, m.tick, []));
      case 'snapshot':
        return this.shown(() => this.view.snapshot(m.term, m.tick, m.ops));
      case 'tail':
        if (this.view.tail(m.ops)) this.sender.inputs.mark(m.applied, m.saved);
        return;
      case 'message': {
        const named = this.table?.find(Space.Event, m.type);
        if (named) this.messages.emit(named.name, shape(m.payload, named.fields));
        return;
      }
      case 'reply':
        return void this.requests.answer(m.id, answerShape(m.payload));
      case 'error': {
        const error = new TenureError(m.code, m.message, { retryAfter: m.retryAfter });
        if (m.id === 0 || !this.requests.fail(m.id, error)) this.errors.emit(error);
        return;
      }
      case 'refused': {
        const error = new TenureError(m.code, `message ${m.seq}: ${m.message}`);
        this.stats.refused += 1;
        if (!this.requests.failSeq(m.seq, error)) this.errors.emit(error);
        return;
      }
      case 'pong':
        return this.pings.answered(m.id);
      case 'move':
        return this.link.move(m.urls, m.after);
      case 'rolled_back':
        this.view.rolledBack(m.term);
        return this.rolledBack.emit({ term: m.term, tick: m.tick });
      case 'renewed':
        return this.renewed(m);
      case 'session':
        this.session = m.session;
        this.save();
        return void this.link.send(client.sessionAck(m.session));
      case 'granted':
        return this.grants.emit({ source: m.source, scheduledFor: m.scheduledFor, grants: m.grants, balances: m.balances });
      case 'left':
        return this.finish(CloseCode.Consented, 'left');
      case 'welcome':
      case 'joined':
        return;
    }
  }

  private shown(change: () => void): void {
    change();
    if (now() - this.savedAt >= SAVE_EVERY) this.save();
  }

  private push({ kind, bytes }: Packed, request: number | undefined): number {
    if (this.closed) throw new TenureError('closed', 'the room was left');
    try {
      return this.sender.inputs.push(kind, request, bytes);
    } catch (error) {
      this.stats.refused += 1;
      throw error;
    }
  }

  private measure(): void {
    if (!this.link.live) return;
    this.ping().catch(() => undefined);
    // What a new socket held up that asked for the seat and did not get it.
    this.sender.flush();
    this.pinger.start(PING_EVERY, () => this.measure());
  }

  private quiet(): void {
    this.sender.stop();
    this.view.stop();
    this.pinger.stop();
    this.save();
  }

  private save(): void {
    if (this.closed || this.session === '') return;
    this.savedAt = now();
    this.context.save(this.savedSession);
  }

  private finish(code: number, reason: string, error?: TenureError): void {
    if (this.closed) return;
    this.quiet();
    // Another tab may be closed again: a superseded page keeps what it needs to ask for the seat.
    if (isFinal(code) && code !== CloseCode.Superseded && !error?.retryable) this.context.forget(this.id);
    this.closed = true;
    this.unhook();
    this.link.stop();
    const why = error ?? new TenureError(code >= 4000 ? 'closed' : 'unreachable', reason || `closed with ${code}`);
    this.requests.failAll(new TenureError('closed', `the room was left: ${reason}`));
    if (this.first) return this.first.reject(why);
    this.leaves.emit(code, reason);
    this.leaving?.();
  }
}
