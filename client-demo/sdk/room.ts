// A seat in a room: what the game's code holds. It survives lost sockets, moves and server restarts.
import { CloseCode, isFinal, isGone } from './codes.ts';
import type { Connection } from './connection.ts';
import { TenureError } from './errors.ts';
import { Leaving } from './leaving.ts';
import { Link, type LinkOwner } from './link.ts';
import { Listening } from './listening.ts';
import { Pings } from './pings.ts';
import { Requests } from './requests.ts';
import type { Answer, AnySchema, Ask, Context, Names, Schema } from './schema.ts';
import { Sender, type Packed } from './sender.ts';
import type { State } from './state.ts';
import type { SavedSession } from './storage.ts';
import { named, shape, type NameTable } from './table.ts';
import { Alarm, now } from './time.ts';
import { View } from './view.ts';
import { Space, client, type Joined, type Renewed, type ServerMessage, type Welcome } from './wire.ts';

/** How often the round trip is measured, ms. */
const PING_EVERY = 2000;
/** How long `leave` waits for the server's word, ms: time enough for all messages that may wait to go out before it. */
const LEAVE_DEADLINE = 12_000;
/** The saved session is written at most this often (and when the page goes away), ms. */
const SAVE_EVERY = 1000;
/** After these the saved session is kept although the room is over: another tab may be closed again, and who logs in again has the seat still. */
const KEPT = new Set<number>([CloseCode.Superseded, CloseCode.Unauthorised]);

/** @internal The links of rooms, for `testing.ts`. */
export const links = new WeakMap<object, Link>();

/** A room as this client's seat sees it. Made by `Client`. */
export class Room<S extends Schema = AnySchema> extends Listening<S> {
  /** Full id, `kind/region/name`. */
  id = '';
  seat = 0;
  generation = 0;
  /** Who the server takes this client for. */
  player = '';
  tickRate = 20;
  /** Name of the node that this client's socket is at. */
  node = '';
  /**
   * The state is there: the first snapshot was shown. It comes right behind the answer that takes the seat. Rejects with the
   * room's end, if that is sooner; nobody needs to wait for it.
   */
  readonly ready: Promise<void>;

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
  /** No more is sent: a leave is on its way. */
  private parting = false;
  private leaving: Leaving | undefined;
  private whole!: { resolve(): void; reject(error: TenureError): void };
  private readonly pings = new Pings();
  private readonly pinger = new Alarm();
  private readonly unhook: () => void;

  /** Use `Client`. */
  constructor(context: Context, url: string, from: ((id: number) => Uint8Array<ArrayBuffer>) | SavedSession) {
    super();
    this.context = context;
    this.ready = new Promise((resolve, reject) => (this.whole = { resolve, reject }));
    this.ready.catch(() => undefined);
    const send = (bytes: Uint8Array<ArrayBuffer>): boolean => this.link.send(bytes);
    this.view = new View(this.stats, () => send(client.resync()), () => this.whole.resolve());
    this.sender = new Sender(send);
    if (typeof from === 'function') {
      this.verb = from;
    } else {
      ({ room: this.id, session: this.session, resumes: this.resumes = 0 } = from);
      ({ term: this.view.term, tick: this.view.tick } = from);
      this.sender.inputs.forget(from.saved);
    }
    this.link = new Link(this.owner(), context.socket, url, context.backoff, context.random);
    links.set(this, this.link);
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

  /** What this seat sees. Empty until `ready`. */
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
  /** How full the place for unsaved messages is, from 0 to 1; at 1 `send` throws `backlog_full`. */
  get backlog(): number {
    return this.sender.inputs.full;
  }
  /** What `Client.reconnect` needs to take this seat again. Secret. */
  get savedSession(): SavedSession {
    const { id: room, session, term, tick, resumes } = this;
    return { url: this.link.url, room, session, term, tick, saved: this.sender.inputs.saved, resumes };
  }

  /**
   * Sends a message to the room and returns its number. It arrives exactly once and in order, also over a reconnect, and
   * before a later `leave`. What the server has not saved is kept, at most 512 messages and 32 KiB: without a socket, or when
   * the store is slow, that fills up (`backlog`), so a render loop must expect the throw.
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

  /** Measures the round trip, ms. */
  ping(): Promise<number> {
    const id = this.requests.nextId();
    return this.pings.measure(id, () => this.link.send(client.ping(id)));
  }

  /**
   * Gives the seat up for good, after all that was sent before. Resolves when the server has confirmed it or the seat is gone
   * for another reason; at once if the room is over. Without a socket the room comes back first, to say so. Rejects with
   * `unreachable` if that is not done within `timeout` ms: the room goes on trying, and `leave` may be called again.
   * Called twice, it is one leave.
   */
  leave(options: { timeout?: number } = {}): Promise<void> {
    if (this.closed) return Promise.resolve();
    if (this.leaving) return this.leaving.done;
    const leaving = new Leaving(options.timeout ?? LEAVE_DEADLINE, () => (this.leaving = undefined));
    this.leaving = leaving;
    if (!this.parting) {
      this.parting = true;
      this.context.forget(this.id);
      this.sender.end(() => client.leave(this.requests.nextId()));
    }
    this.link.hurry();
    return leaving.done;
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
    this.save(!back);
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
        const event = this.table?.find(Space.Event, m.type);
        if (event) this.messages.emit(event.name, shape(m.payload, event.fields));
        return;
      }
      case 'reply':
        return void this.requests.answer(m.id, named(m.payload));
      case 'error': {
        const error = TenureError.told(m.code, m.message, m.retryAfter);
        if (m.id === 0 || !this.requests.fail(m.id, error)) this.errors.emit(error);
        return;
      }
      case 'refused': {
        const error = TenureError.told(m.code, `message ${m.seq}: ${m.message}`);
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
        return this.finish(CloseCode.Consented, 'left', TenureError.closed(CloseCode.Consented, 'left'));
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
    if (this.closed || this.parting) throw new TenureError('closed', 'the room was left');
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

  /** `taken`: the seat was just taken by a join. */
  private save(taken = false): void {
    if (this.closed || this.parting || this.session === '') return;
    this.savedAt = now();
    this.context.save(this.savedSession, taken);
  }

  private finish(code: number, reason: string, error: TenureError): void {
    if (this.closed) return;
    this.quiet();
    const gone = isGone(code);
    // Whoever leaves is to hear that he has left, also if the answer to it was lost with a socket.
    if (this.parting && gone) [code, reason] = [CloseCode.Consented, 'left'];
    if (isFinal(code) && !KEPT.has(code) && !error.retryable) this.context.forget(this.id);
    this.closed = true;
    this.unhook();
    this.link.stop();
    const closed = new TenureError('closed', `the room was left: ${reason}`, { closeCode: code });
    this.requests.failAll(closed);
    this.whole.reject(closed);
    if (this.first) return this.first.reject(error);
    this.leaves.emit(code, reason);
    this.leaving?.end(gone || code === CloseCode.Superseded ? undefined : error);
  }
}
