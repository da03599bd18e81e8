// Moves to another gateway: the new socket has the seat before the old one is left, and nothing that was under way is lost.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { server } from '../fake/encode.ts';
import { Bench, HASH, TERM, fakeTime, flush, limits, number } from './harness.ts';

const POS = number(0, 'pos');

beforeEach(fakeTime);
afterEach(() => {
  vi.useRealTimers();
});

describe('a move', () => {
  it('has the new socket before it leaves the old one', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const log: string[] = [];
    room.onDrop(() => log.push('drop'));
    room.onReconnect(() => log.push('back'));
    const old = bench.socket;
    room.send('steer', [1, 0]);
    old.give(server.move(['ws://other.test/ws', 'javascript:alert(1)'], 300));
    await vi.advanceTimersByTimeAsync(299);
    expect(bench.sockets).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(bench.socket.url).toBe('ws://other.test/ws');
    await bench.socket.open();
    bench.socket.give(server.welcome('guest:1', null, 'node-2', limits));
    await flush();
    // Both stand: frames still come from the old one, inputs wait for the new.
    old.give(server.frame(TERM, 130, [[2, 1, POS, [30, 0]]]));
    room.send('steer', [2, 0]);
    expect([room.tick, old.of(7).length]).toEqual([130, 1]);
    old.lose(4004, 'superseded');
    const id = bench.socket.last(5)[1] as number;
    bench.socket.give(server.joined({ id, room: room.id, seat: 3, generation: 2, session: 's2', term: TERM, tick: 131, owed: 2, tickRate: 20, hash: HASH, table: null }));
    await flush();
    expect([room.connected, room.node, bench.socket.of(7).map((m) => m[1])]).toEqual([true, 'node-2', [2]]);
    expect(log).toEqual(['back']);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(bench.sockets).toHaveLength(2);
  });

  /** A bench whose client has been told to move, and whose next socket has asked for the seat. */
  async function moving(): Promise<{ bench: Bench; room: Awaited<ReturnType<Bench['room']>>; old: Bench['socket']; taken: () => Promise<void>; drops: ReturnType<typeof vi.fn> }> {
    const bench = new Bench();
    const room = await bench.room();
    const drops = vi.fn();
    room.onDrop(drops);
    const old = bench.socket;
    old.give(server.move(['ws://other.test/ws'], 0));
    await vi.advanceTimersByTimeAsync(1);
    const taken = async (): Promise<void> => {
      const id = bench.socket.last(5)[1] as number;
      const fields = { seat: 3, generation: 2, session: 's2', term: TERM, tick: 131, tickRate: 20, hash: HASH, table: null };
      bench.socket.give(server.joined({ id, room: room.id, owed: 2, ...fields }));
      await flush();
    };
    return { bench, room, old, taken, drops };
  }
  async function asked(bench: Bench): Promise<void> {
    await bench.socket.open();
    bench.socket.give(server.welcome('guest:1', null, 'node-2', limits));
    await flush();
  }

  it('brings the answer to a request that the old socket had sent, through whichever socket it comes', async () => {
    for (const through of ['old', 'late on the old', 'new'] as const) {
      const { bench, room, old, taken, drops } = await moving();
      const answer = room.request('buy', { item: 'boots' });
      await flush();
      const request = old.last(8)[2] as number;
      await asked(bench);
      const reply = server.reply(request, { paid: 3 });
      if (through === 'old') old.give(reply);
      await taken();
      if (through === 'late on the old') old.give(reply);
      old.lose(4004, 'superseded');
      if (through === 'new') bench.socket.give(reply);
      expect(await answer).toEqual({ paid: 3 });
      // It was applied (2 is owed next): it does not go out again.
      expect([bench.socket.of(8).length, drops.mock.calls.length]).toEqual([0, 0]);
    }
  });

  it('sends a request again that was not applied, and fails it when the room refuses it', async () => {
    const { bench, room, old } = await moving();
    await asked(bench);
    const answer = room.request('buy', { item: 'boots' }).catch((error: unknown) => error);
    await flush();
    expect(old.of(8)).toHaveLength(0);
    old.lose(4004, 'superseded');
    const id = bench.socket.last(5)[1] as number;
    const fields = { seat: 3, generation: 2, session: 's2', term: TERM, tick: 131, tickRate: 20, hash: HASH, table: null };
    bench.socket.give(server.joined({ id, room: room.id, owed: 1, ...fields }));
    await flush();
    expect(bench.socket.of(8).map((m) => m[1])).toEqual([1]);
    bench.socket.give(server.refused(1, 'may_retry', 'the room is busy'));
    expect(await answer).toMatchObject({ code: 'may_retry', retryable: true });
  });

  it('tells of a drop when the old socket is gone and the new one fails, and comes back', async () => {
    const { bench, room, old, drops } = await moving();
    await asked(bench);
    old.lose(4004, 'superseded');
    expect([drops.mock.calls.length, room.connected]).toEqual([0, false]);
    bench.socket.lose(1006);
    expect(drops.mock.calls).toEqual([[4001, 'moved']]);
    await vi.advanceTimersByTimeAsync(60_000);
    await bench.login({ generation: 3, tick: 140 });
    expect(room.connected).toBe(true);
  });

  it('that it did not follow ends with 4001, and it comes back', async () => {
    const { bench, room, old, drops } = await moving();
    // The address of the move does not answer.
    bench.socket.lose(1006);
    expect(room.connected).toBe(true);
    old.lose(4001, 'this server goes away');
    expect(drops.mock.calls).toEqual([[4001, 'this server goes away']]);
    await vi.advanceTimersByTimeAsync(60_000);
    await bench.login({ generation: 2, tick: 140 });
    expect(room.connected).toBe(true);
  });

  it('costs nothing when the old socket lives on until the end', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const drops = vi.fn();
    room.onDrop(drops);
    const old = bench.socket;
    old.give(server.move([], 0));
    await vi.advanceTimersByTimeAsync(1);
    expect(bench.socket.url).toBe('ws://game.test/ws');
    await bench.login({ generation: 2, tick: 101 });
    expect([drops.mock.calls.length, old.closedByClient, room.generation]).toEqual([0, false, 2]);
    // It is read on for a while, but says nothing about the state any more.
    old.give(server.frame(TERM, 140, [[2, 1, POS, [40, 0]]]));
    expect(room.tick).toBe(100);
    await vi.advanceTimersByTimeAsync(2000);
    expect([drops.mock.calls.length, old.closedByClient, bench.sockets.length]).toEqual([0, true, 2]);
  });

  it('comes back when the new socket was lost after the server gave it the seat', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const left = vi.fn();
    room.onLeave(left);
    const old = bench.socket;
    old.give(server.move([], 0));
    await vi.advanceTimersByTimeAsync(1);
    await bench.socket.open();
    bench.socket.give(server.welcome('guest:1', null, 'node-2', limits));
    await flush();
    bench.socket.lose(1006);
    old.lose(4004, 'superseded');
    await vi.advanceTimersByTimeAsync(2000);
    await bench.login({ generation: 3, tick: 101 });
    expect([room.connected, room.generation, left.mock.calls.length]).toEqual([true, 3, 0]);
    // Another tab is another matter.
    bench.socket.lose(4004, 'superseded');
    expect(left.mock.calls).toEqual([[4004, 'superseded']]);
  });

  it('stays where it is while the new place does not answer', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const old = bench.socket;
    old.give(server.move(['ws://other.test/ws'], 0));
    await vi.advanceTimersByTimeAsync(1);
    bench.socket.lose(1006);
    room.send('steer', [1, 0]);
    expect([room.connected, old.of(7).length]).toEqual([true, 1]);
    await vi.advanceTimersByTimeAsync(2000);
    expect(bench.sockets).toHaveLength(3);
    old.lose(4001);
    await bench.login({ generation: 2, tick: 101, owed: 2 });
    expect([room.connected, room.generation]).toEqual([true, 2]);
  });
});
