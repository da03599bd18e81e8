// A small server that speaks the client protocol: seats with sessions and generations, one sequence of messages per seat,
// frames by tick. It stands in for the real one in unit tests and while working on the page.
import { Reader, type Value } from '../../sdk/msgpack.ts';
import type { TableRow } from '../../sdk/wire.ts';
import { join, server as out } from './encode.ts';
import { Numbering } from './numbering.ts';

/** One socket, seen from the server. */
export interface Peer {
  send(bytes: Uint8Array<ArrayBuffer>): void;
  close(code: number, reason: string): void;
}

/** What the fake server calls of a game. */
export interface Game {
  table: readonly TableRow[];
  hash: Uint8Array;
  joined(seat: number, options: Value): void;
  connected(seat: number, connected: boolean): void;
  left(seat: number): void;
  message(seat: number, type: string, payload: Value): void;
  /** Throws a text to refuse. */
  request(seat: number, type: string, payload: Value): unknown;
  snapshot(seat: number): unknown[];
  /** Advances one tick. */
  tick(): { ops: unknown[]; private: Map<number, unknown[]>; events: [number | null, Uint8Array<ArrayBuffer>][] };
}

interface Seat {
  number: number;
  player: string;
  generation: number;
  /** Highest count of resumes seen. */
  resumes: number;
  session: string;
  /** The one that the client came with: it counts until the client was seen to have the current one. */
  before: string;
  next: string | undefined;
  owed: number;
  applied: number;
  saved: number;
  /** What is applied and not saved, in order. */
  unsaved: { seq: number; type: string; run(): void }[];
  socket: FakeSocket | undefined;
}

export class FakeServer {
  readonly room: string;
  readonly game: Game;
  readonly seats: Seat[] = [];
  term = 1_764_446_400_123_456;
  tickNumber = 0;
  tickRate = 20;
  /** Sockets stay open, nothing is answered. */
  silent = false;
  /** All messages applied and not rolled back, in order: seat, number and name. */
  log: [number, number, string][] = [];
  names: Numbering;
  /** Every numbering that was told. */
  readonly told: Numbering[] = [];
  private count = 0;
  private readonly sockets = new Set<FakeSocket>();

  constructor(game: Game, room = 'arena/local/fake') {
    this.game = game;
    this.room = room;
    this.told.push((this.names = new Numbering(game, 0)));
  }

  accept(peer: Peer): FakeSocket {
    const socket = new FakeSocket(this, peer);
    this.sockets.add(socket);
    return socket;
  }
  gone(socket: FakeSocket): void {
    this.sockets.delete(socket);
    if (socket.seat?.socket !== socket) return;
    socket.seat.socket = undefined;
    this.game.connected(socket.seat.number, false);
  }

  fresh(what: string): string {
    this.count += 1;
    return `${what}-${this.count}`;
  }

  /** One tick: everyone gets what changed. */
  tick(): void {
    this.tickNumber += 1;
    const { ops, private: own, events } = this.game.tick();
    const saves = this.tickNumber % this.tickRate === 0;
    const body = ops.length > 0 ? out.frame(this.term, this.tickNumber, this.names.ops(ops)) : out.heartbeat(this.term, this.tickNumber);
    for (const seat of this.seats) {
      if (saves) [seat.saved, seat.unsaved] = [seat.applied, []];
      if (this.silent) continue;
      seat.socket?.peer.send(join(body, out.tail(seat.applied, seat.saved, this.names.ops(own.get(seat.number) ?? []))));
      for (const [to, bytes] of events) if (to === null || to === seat.number) seat.socket?.peer.send(this.names.event(bytes));
    }
  }

  /** The process dies and comes back from its last checkpoint of the seats' marks; sockets are cut. */
  restart(): void {
    for (const socket of this.sockets) socket.cut(1006, '');
    this.term += 1_000_000;
    for (const seat of this.seats) seat.owed = seat.applied + 1;
  }

  /** Another server goes on with the room, as a build that numbers `by` more; sockets stay. With `rollback` from the last save. */
  takeover(by: number, rollback: boolean): void {
    const before = this.names;
    this.term += 1_000_000;
    if (by !== before.by) this.told.push((this.names = new Numbering(this.game, by)));
    if (rollback) this.tickNumber = Math.max(1, this.tickNumber - 7);
    for (const seat of this.seats) {
      const again = rollback ? seat.unsaved.splice(0) : [];
      if (rollback) {
        this.log = this.log.filter(([number, seq]) => number !== seat.number || seq <= seat.saved);
        [seat.applied, seat.owed] = [seat.saved, seat.saved + 1];
      }
      const { socket } = seat;
      // Without a socket nobody but the client has it: it sends again what is owed.
      if (!socket) continue;
      const told = [
        ...(rollback ? [out.rolledBack(this.term, this.tickNumber)] : []),
        ...(this.names === before ? [] : [out.renewed(seat.number, this.tickRate, this.names.hash, this.names.table)]),
      ];
      if (told.length > 0) socket.peer.send(join(...told));
      socket.snapshot();
      for (const { seq, type, run } of again) this.apply(seat, seq, type, run);
    }
  }

  /** Asks every socket to come to `urls`. */
  move(urls: string[], after: number): void {
    for (const socket of this.sockets) socket.peer.send(out.move(urls, after));
  }
  /** A next session token for all. */
  rotate(): void {
    for (const seat of this.seats) {
      seat.next ??= this.fresh('session');
      seat.socket?.peer.send(out.session(seat.next));
    }
  }

  apply(seat: Seat, seq: number, type: string, run: () => void): void {
    seat.owed = seq + 1;
    seat.applied = seq;
    this.log.push([seat.number, seq, type]);
    seat.unsaved.push({ seq, type, run });
    run();
  }
}

export class FakeSocket {
  readonly peer: Peer;
  seat: Seat | undefined;
  private readonly server: FakeServer;
  private player = '';
  private table: Value = null;
  /** How the client numbers. */
  private spoken: Numbering;

  constructor(server: FakeServer, peer: Peer) {
    this.server = server;
    this.spoken = server.names;
    this.peer = peer;
  }

  /** The socket is closed from the server's side. */
  cut(code: number, reason: string): void {
    this.server.gone(this);
    this.peer.close(code, reason);
  }
  closed(): void {
    this.server.gone(this);
  }

  receive(bytes: Uint8Array): void {
    if (this.server.silent) return;
    const reader = new Reader(bytes);
    while (!reader.done) this.take(reader.read() as Value[]);
  }

  private take(m: Value[]): void {
    const id = m[1] as number;
    switch (m[0]) {
      case 1: {
        const token = (m[2] as string | null) ?? this.server.fresh('guest-token');
        this.player = `guest:${token}`;
        this.table = m[3] as Value;
        return this.peer.send(out.welcome(this.player, m[2] === null ? token : null, 'fake-1'));
      }
      case 2: return this.join(id, m[5] as Value);
      case 3: return this.join(id, m[5] as Value);
      case 4: return m[2] === this.server.room ? this.join(id, m[3] as Value) : this.peer.send(out.error(id, 'no_such_room', 'no such room'));
      case 5: return this.resume(id, m[3] as string, m[6] as number, (m[7] as number | undefined) ?? 0);
      case 6: {
        this.peer.send(out.left(id));
        if (this.seat) {
          this.server.seats.splice(this.server.seats.indexOf(this.seat), 1);
          this.server.game.left(this.seat.number);
        }
        return this.cut(4000, 'left');
      }
      case 7: {
        const type = this.spoken.name(2, m[2] as number);
        return this.input(m[1] as number, type, () => this.server.game.message(this.number, type, m[3] as Value));
      }
      case 8: {
        const type = this.spoken.name(3, m[3] as number);
        return this.input(m[1] as number, type, () => {
          try {
            this.peer.send(out.reply(m[2] as number, this.server.game.request(this.number, type, m[4] as Value)));
          } catch (error) {
            this.peer.send(out.error(m[2] as number, 'request_failed', String(error instanceof Error ? error.message : error)));
          }
        });
      }
      case 9: return this.peer.send(out.pong(id, 1_764_446_400_000));
      case 10:
        if (this.seat?.next === m[1]) {
          this.seat!.session = m[1] as string;
          this.seat!.next = undefined;
        }
        return;
      case 11: return this.snapshot();
      case 12: {
        const spoken = this.server.told.find((names) => names.is(m[1] as Value));
        if (!spoken) return this.cut(4007, 'a table that was not told');
        this.spoken = spoken;
        return;
      }
      default: return this.cut(4007, `kind ${String(m[0])}`);
    }
  }

  private get number(): number {
    return this.seat?.number ?? -1;
  }
  private input(seq: number, type: string, run: () => void): void {
    const seat = this.seat;
    if (!seat || seat.socket !== this) return;
    // What the room has already is not applied again; a gap breaks the protocol.
    if (seq < seat.owed) return;
    if (seq > seat.owed) return this.cut(4007, `message ${seq}, expected ${seat.owed}`);
    this.server.apply(seat, seq, type, run);
  }

  private join(id: number, options: Value): void {
    const server = this.server;
    let seat = server.seats.find((s) => s.player === this.player);
    if (!seat) {
      const number = server.seats.reduce((max, s) => Math.max(max, s.number + 1), 1);
      seat = { number, player: this.player, generation: 0, resumes: 0, session: '', before: '', next: undefined, owed: 1, applied: 0, saved: 0, unsaved: [], socket: undefined };
      server.seats.push(seat);
      server.game.joined(number, options);
    }
    this.attach(id, seat);
  }

  private resume(id: number, session: string, first: number, resumes: number): void {
    const seat = this.server.seats.find((s) => s.player === this.player && [s.session, s.next, s.before].includes(session));
    if (!seat) return this.peer.send(out.error(id, 'resume_failed', 'no such session'));
    if (resumes > 0 && resumes < seat.resumes) return this.peer.send(out.error(id, 'may_retry', 'the seat was resumed again since'));
    seat.owed = Math.max(seat.owed, first);
    this.attach(id, seat, session, resumes);
  }

  private attach(id: number, seat: Seat, session = '', resumes = 0): void {
    const { server } = this;
    const old = seat.socket;
    seat.generation = Math.max(seat.generation, resumes) + 1;
    seat.resumes = resumes === 0 ? seat.generation : Math.max(seat.resumes, resumes);
    seat.before = session;
    seat.session = server.fresh('session');
    seat.next = undefined;
    seat.socket = this;
    this.seat = seat;
    this.spoken = server.names;
    old?.cut(4004, 'superseded');
    server.game.connected(seat.number, true);
    const { hash, table } = server.names;
    this.peer.send(
      out.joined({
        id, room: server.room, seat: seat.number, generation: seat.generation, session: seat.session, term: server.term,
        tick: server.tickNumber, owed: seat.owed, tickRate: server.tickRate, hash, table: server.names.is(this.table) ? null : table,
      }),
    );
    this.snapshot();
  }

  snapshot(): void {
    const { term, tickNumber, game, names } = this.server;
    this.peer.send(join(out.snapshot(term, tickNumber, names.ops(game.snapshot(this.number))), out.tail(this.seat?.applied ?? 0, this.seat?.saved ?? 0)));
  }
}
