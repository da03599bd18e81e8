// Lists of rooms, and filters of joins, over scripted sockets.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { TenureError } from '../../sdk/index.ts';
import { server } from '../fake/encode.ts';
import { Bench, fakeTime, flush, limits } from './harness.ts';

beforeEach(fakeTime);
afterEach(() => {
  vi.useRealTimers();
});

async function welcome(bench: Bench): Promise<void> {
  await bench.socket.open();
  bench.socket.give(server.welcome('guest:1', 'guest-token', 'node-1', limits));
  await flush();
}

describe('rooms', () => {
  it('asks on a socket of its own, which it closes, and keeps the guest token', async () => {
    const bench = new Bench();
    const pending = bench.client.rooms('arena', { region: 'eu', filter: { mode: 'duel', ranked: true }, after: 'arena/eu/a', limit: 2 });
    await welcome(bench);
    expect(bench.socket.sent).toEqual([
      [1, 1, null, null],
      [13, 1, 'arena', 'eu', new Map<string, unknown>([['mode', 'duel'], ['ranked', true]]), true, 'arena/eu/a', 2],
    ]);
    bench.socket.give(server.rooms(1, [['arena/eu/b', 1, 4, false, { mode: 'duel' }], ['arena/eu/c', 0, 4, true, null]], 'arena/eu/c'));
    expect(await pending).toEqual({
      rooms: [
        { room: 'arena/eu/b', seats: 1, maxSeats: 4, locked: false, metadata: { mode: 'duel' } },
        { room: 'arena/eu/c', seats: 0, maxSeats: 4, locked: true, metadata: {} },
      ],
      next: 'arena/eu/c',
    });
    expect([bench.socket.closedByClient, bench.storage.map.get('tenure.guest')]).toEqual([true, 'guest-token']);
  });

  it('asks for all that can be joined unless told otherwise', async () => {
    const bench = new Bench();
    const pending = bench.client.rooms();
    await welcome(bench);
    expect(bench.socket.last(13)).toEqual([13, 1, null, null, null, true, null, 20]);
    bench.socket.give(server.rooms(1, [], null));
    expect(await pending).toEqual({ rooms: [], next: null });
  });

  it('rejects with the reason of the server, and when it cannot be reached', async () => {
    const bench = new Bench();
    const refused = bench.client.rooms('arena');
    const seen = expect(refused).rejects.toMatchObject({ code: 'limit', retryAfter: 400 });
    await welcome(bench);
    bench.socket.give(server.error(1, 'limit', 'too many lists of rooms', 400));
    await seen;
    const lost = bench.client.rooms('arena');
    const gone = expect(lost).rejects.toBeInstanceOf(TenureError);
    bench.socket.lose(1006);
    await gone;
    const silent = bench.client.rooms('arena');
    const late = expect(silent).rejects.toMatchObject({ code: 'unreachable', retryable: true });
    await welcome(bench);
    await vi.advanceTimersByTimeAsync(10_001);
    await late;
  });
});

describe('filters', () => {
  it('go with joinOrCreate and create, behind the options', async () => {
    const bench = new Bench();
    const filter = new Map([['mode', 'duel']]);
    void bench.client.joinOrCreate('arena', { name: 'Ada' }, { filter: { mode: 'duel' } }).catch(() => undefined);
    await welcome(bench);
    expect(bench.socket.last(2)).toEqual([2, 1, 'arena', null, null, new Map([['name', 'Ada']]), filter]);
    void bench.client.create('arena', {}, { filter: { mode: 'duel' } }).catch(() => undefined);
    await welcome(bench);
    expect(bench.socket.last(3)).toEqual([3, 1, 'arena', null, null, new Map(), filter]);
    void bench.client.joinOrCreate('arena', {}, { filter: {} }).catch(() => undefined);
    await welcome(bench);
    expect(bench.socket.last(2)).toEqual([2, 1, 'arena', null, null, new Map()]);
  });
});
