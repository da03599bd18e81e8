// A room that goes on at another server, maybe as another build of the game: the socket stays, and everything keeps its name.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { TenureError } from '../../sdk/index.ts';
import type { TableRow } from '../../sdk/wire.ts';
import { server } from '../fake/encode.ts';
import { TABLE } from '../fake/arena.ts';
import { Bench, HASH, TERM, fakeTime, flush, limits, number } from './harness.ts';

const NEXT = TERM + 5;
const OTHER = new Uint8Array([9, 9, 9, 9, 9, 9, 9, 9]);
/** Another build: all numbers differ, and so may rows by name. */
function build(change: (row: TableRow) => Partial<TableRow> | undefined = () => ({})): TableRow[] {
  return TABLE.flatMap((row) => {
    const changed = change(row);
    return changed ? [{ ...row, number: row.number + 40, ...changed }] : [];
  });
}
const [POS, PLAYER, WALLET] = ['pos', 'player', 'wallet'].map((name) => number(0, name)) as [number, number, number];
/** What was sent after hello, join and the first ping, without pings. */
const sent = (bench: Bench): unknown[][] => bench.socket.sent.slice(3).filter((m) => m[0] !== 9);

beforeEach(fakeTime);
afterEach(() => {
  vi.useRealTimers();
});

describe('a takeover', () => {
  it('changes seat, rate and numbers, and is answered before anything is numbered anew', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const log: unknown[] = [];
    room.onRolledBack(({ term, tick }) => log.push(['rolled back', term > room.term, tick]));
    room.onDrop(() => log.push('drop'));
    room.send('steer', [1, 0]);
    bench.socket.give(server.rolledBack(NEXT, 90), server.renewed(8, 10, OTHER, build()), server.snapshot(NEXT, 90, [[0, 1, POS + 40, [5, 5]]]), server.tail(0, 0));
    room.send('steer', [2, 0]);
    expect([room.seat, room.tickRate, room.term, room.tick, room.connected]).toEqual([8, 10, NEXT, 90, true]);
    expect(log).toEqual([['rolled back', true, 90]]);
    // What was sent is given to the new owner by the server.
    expect(sent(bench)).toEqual([[7, 1, number(2, 'steer'), [1, 0]], [12, OTHER], [7, 2, number(2, 'steer') + 40, [2, 0]]]);
    const chat = vi.fn();
    room.onMessage('chat', chat);
    bench.socket.give(server.message(number(4, 'chat') + 40, ['Bram', 'hi']), server.frame(NEXT, 91, [[2, 1, POS + 40, [6, 6]]]));
    expect([{ ...(chat.mock.calls[0]?.[0] as object) }, { ...(room.state.entities.get(1)?.get('pos') as object) }]).toEqual([{ from: 'Bram', text: 'hi' }, { x: 6, y: 6 }]);
  });

  it('shows listeners what is different, not what is only numbered or ordered differently', async () => {
    const bench = new Bench();
    const room = await bench.room();
    bench.socket.give(server.frame(TERM, 101, [[0, 2, POS, [3, 4], PLAYER, ['Ada', 1, 0, 0], WALLET, [60]], [0, 3, POS, [7, 7]], [4, number(1, 'board'), [['Ada', 0]]]]));
    const ada = room.state.entities.get(2);
    const log: unknown[] = [];
    for (const name of ['pos', 'player', 'wallet']) {
      room.onAdd(name, (entity) => log.push(['add', name, entity.id]));
      room.onChange(name, (entity) => log.push(['change', name, entity.id]));
      room.onRemove(name, (entity) => log.push(['remove', name, entity.id]));
    }
    room.listen('board', (board) => log.push(board));
    log.length = 0;
    const table = build((row) => (row.name === 'pos' ? { fields: ['y', 'x'] } : row.name === 'wallet' ? undefined : {}));
    bench.socket.give(
      server.renewed(3, 20, OTHER, table),
      server.snapshot(NEXT, 102, [[0, 2, POS + 40, [4, 3], PLAYER + 40, ['Ada', 1, 5, 0]], [0, 1, POS + 40, [1, 1]], [4, number(1, 'board') + 40, [['Ada', 0]]]]),
    );
    expect(log).toEqual([['remove', 'pos', 3], ['remove', 'wallet', 2], ['change', 'player', 2]]);
    expect(room.state.entities.get(2)).toBe(ada);
  });

  it('builds on nothing until its snapshot is there', async () => {
    const bench = new Bench();
    const room = await bench.room();
    bench.socket.give(server.renewed(3, 20, OTHER, build()), server.tail(9, 9, [[2, 1, POS + 40, [9, 9]]]), server.frame(TERM, 101, [[2, 1, POS + 40, [9, 9]]]));
    expect([{ ...(room.state.entities.get(1)?.get('pos') as object) }, room.tick, room.applied]).toEqual([{ x: 1, y: 1 }, 100, 0]);
    expect(bench.socket.of(11)).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(2000);
    expect(bench.socket.of(11)).toHaveLength(1);
    bench.socket.give(server.snapshot(TERM, 102, [[0, 1, POS + 40, [2, 2]]]));
    expect({ ...(room.state.entities.get(1)?.get('pos') as object) }).toEqual({ x: 2, y: 2 });
  });

  it('without a table goes on by the one of this hash', async () => {
    const bench = new Bench();
    const room = await bench.room();
    bench.socket.give(server.renewed(4, 20, OTHER, build()), server.snapshot(NEXT, 101, []));
    bench.socket.give(server.renewed(5, 30, HASH, null), server.snapshot(NEXT + 1, 102, [[0, 1, POS, [2, 2]]]));
    room.send('steer', [1, 0]);
    expect([room.seat, room.tickRate, room.state.entities.get(1)?.has('pos')]).toEqual([5, 30, true]);
    expect(sent(bench)).toEqual([[12, OTHER], [12, HASH], [7, 1, number(2, 'steer'), [1, 0]]]);
  });

  it('with a table that the client does not have is a reason to come back and ask for it', async () => {
    const bench = new Bench();
    const room = await bench.room();
    bench.socket.give(server.renewed(4, 30, OTHER, null), server.snapshot(NEXT, 101, [[0, 1, POS + 40, [2, 2]]]));
    expect([room.connected, room.seat, room.tick, bench.socket.of(12).length]).toEqual([false, 3, 100, 0]);
    await vi.advanceTimersByTimeAsync(500);
    await bench.login({ seat: 4, generation: 2, hash: OTHER, table: build() });
    expect([bench.socket.last(1)[3], room.connected, room.seat]).toEqual([null, true, 4]);
  });
});

describe('what waits when the build changes', () => {
  /** As much as the socket may take at once and one more, `from - 1`: what is sent now waits. */
  async function waiting(): Promise<{ bench: Bench; room: Awaited<ReturnType<Bench['room']>>; from: number }> {
    const bench = new Bench();
    const room = await bench.room();
    let from = 0;
    while (bench.socket.of(7).length === from) from = room.send('steer', [0, 0]);
    return { bench, room, from: from + 1 };
  }

  it('goes out by its names, with the fields in their new order', async () => {
    const { bench, room, from } = await waiting();
    room.send('chat', { text: 'x' });
    const answer = room.request('buy', { item: 'hat' });
    const table = build((row) => (row.name === 'chat' && row.space === 2 ? { version: 2, fields: ['to', 'text'] } : row.name === 'buy' ? { fields: ['item'] } : {}));
    bench.socket.give(server.renewed(3, 20, OTHER, table), server.snapshot(NEXT, 101, []));
    const before = sent(bench).length;
    await vi.advanceTimersByTimeAsync(1000);
    const [steer, chat, buy] = sent(bench).slice(before);
    expect(sent(bench)[before - 1]).toEqual([12, OTHER]);
    expect([steer, chat]).toEqual([[7, from - 1, number(2, 'steer') + 40, [0, 0]], [7, from, number(2, 'chat') + 40, [null, 'x']]]);
    expect([buy?.[1], buy?.[3], buy?.[4]]).toEqual([from + 1, number(3, 'buy') + 40, ['hat']]);
    bench.socket.give(server.reply(buy?.[2] as number, 'ok'));
    expect(await answer).toBe('ok');
  });

  it('is refused to its sender when the build does not know it, and the rest goes on', async () => {
    const { bench, room, from } = await waiting();
    const errors: TenureError[] = [];
    room.onError((error) => errors.push(error));
    room.send('chat', { text: 'x' });
    const answer = room.request('buy', { item: 'hat' }).catch((error: unknown) => error);
    const table = build((row) => (row.name === 'chat' || row.name === 'buy' ? undefined : row.name === 'steer' ? { version: 2 } : {}));
    bench.socket.give(server.renewed(3, 20, OTHER, table), server.snapshot(NEXT, 101, []));
    expect(() => room.send('chat', { text: 'y' })).toThrow(expect.objectContaining({ code: 'unknown_name' }));
    expect(room.send('steer', [7, 7])).toBe(from + 2);
    const before = sent(bench).length;
    await vi.advanceTimersByTimeAsync(1000);
    // A steer of the version before is an array without names of its fields: nobody can say what it means now.
    expect(sent(bench).slice(before).map((m) => [m[0], m[1], m.at(-2), m.at(-1)])).toEqual([
      [7, from - 1, 0xffff, null],
      [7, from, 0xffff, null],
      [8, from + 1, 0xffff, null],
      [7, from + 2, number(2, 'steer') + 40, [7, 7]],
    ]);
    bench.socket.give(server.refused(from, 'unknown_message', 'gone'), server.refused(from + 1, 'unknown_message', 'gone'));
    expect(errors).toMatchObject([{ code: 'unknown_message', message: `message ${from}: gone` }]);
    expect(await answer).toMatchObject({ code: 'unknown_message' });
  });

  it('is packed for the build of the moment, also when the old one comes back', async () => {
    const bench = new Bench();
    const room = await bench.room();
    room.send('chat', { text: 'x' });
    const narrow = build((row) => (row.name === 'chat' ? { version: 2, fields: ['loud'] } : {}));
    bench.socket.give(server.renewed(3, 20, OTHER, narrow), server.snapshot(NEXT, 101, []));
    for (const [hash, table, expected] of [[OTHER, null, [number(2, 'chat') + 40, [null]]], [HASH, TABLE, [number(2, 'chat'), ['x']]]] as const) {
      bench.socket.lose(1006);
      await vi.advanceTimersByTimeAsync(2000);
      await bench.login({ owed: 1, tick: 102, term: NEXT, hash, table });
      expect(bench.socket.last(7)).toEqual([7, 1, ...expected]);
    }
    expect(bench.sockets.map((s) => s.last(1)[3])).toEqual([null, OTHER, OTHER]);
  });

  it('is refused when it became too large for the socket', async () => {
    const bench = new Bench();
    const room = await bench.room();
    room.send('chat', { text: 'x'.repeat(3000) });
    bench.socket.lose(1006);
    await vi.advanceTimersByTimeAsync(500);
    await bench.socket.open();
    bench.socket.give(server.welcome('guest:1', null, 'node-2', { ...limits, bytes: 2048 }));
    await flush();
    const id = bench.socket.last(5)[1] as number;
    bench.socket.give(server.joined({ id, room: room.id, seat: 3, generation: 2, session: 's2', term: TERM, tick: 101, owed: 1, tickRate: 20, hash: HASH, table: null }));
    expect(bench.socket.of(7)).toEqual([[7, 1, 0xffff, null]]);
  });

  it('waits with the answer while another socket asks for the seat', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const old = bench.socket;
    old.give(server.move(['ws://other.test/ws'], 0));
    await vi.advanceTimersByTimeAsync(1);
    await bench.socket.open();
    bench.socket.give(server.welcome('guest:1', null, 'node-2', limits));
    await flush();
    old.give(server.renewed(3, 20, OTHER, build()), server.snapshot(NEXT, 101, []));
    room.send('steer', [1, 0]);
    expect([old.of(12).length, old.of(7).length]).toEqual([0, 0]);
    bench.socket.lose(1006);
    // The old socket kept the seat after all; nobody has to send anew for that.
    await vi.advanceTimersByTimeAsync(2000);
    expect(old.sent.filter((m) => m[0] === 12 || m[0] === 7)).toEqual([[12, OTHER], [7, 1, number(2, 'steer') + 40, [1, 0]]]);
  });
});
