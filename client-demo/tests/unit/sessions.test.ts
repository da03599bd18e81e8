// Which seats a page finds again after a reload: each room has its own.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { server } from '../fake/encode.ts';
import { Bench, TERM, fakeTime, Storage } from './harness.ts';

beforeEach(fakeTime);
afterEach(() => {
  vi.useRealTimers();
});

const rooms = (bench: Bench): string[] => bench.client.savedSessions().map(({ room }) => room);

async function lobbyAndMatch(storage = new Storage()): Promise<Bench> {
  const bench = new Bench({ storage });
  for (const [room, session] of [['lobby/eu/1', 'l1'], ['match/eu/7', 'm1']] as const) {
    const pending = bench.client.joinOrCreate(room.split('/')[0] as string);
    await bench.login({ room, session });
    await pending;
  }
  return bench;
}

describe('saved sessions', () => {
  it('are one for each room, the seat taken last first', async () => {
    const bench = await lobbyAndMatch();
    const [lobby, match] = bench.sockets;
    for (const socket of bench.sockets) socket.give(server.snapshot(TERM, 100, []));
    // Both write, again and again; what was written last says nothing.
    for (let tick = 101; tick < 140; tick++) {
      await vi.advanceTimersByTimeAsync(1000);
      match!.give(server.heartbeat(TERM, tick));
      lobby!.give(server.heartbeat(TERM, tick));
    }
    const next = new Bench({ storage: bench.storage });
    expect(rooms(next)).toEqual(['match/eu/7', 'lobby/eu/1']);
    expect(next.client.savedSession()).toMatchObject({ room: 'match/eu/7', session: 'm1', tick: 139 });
    expect(next.client.savedSession('lobby')).toMatchObject({ room: 'lobby/eu/1', session: 'l1' });
    expect(next.client.savedSession('lobby/eu/1')?.session).toBe('l1');
    expect(next.client.savedSession('lob')).toBeUndefined();
  });

  it('resume the room that is asked for, and keep their order', async () => {
    const bench = await lobbyAndMatch();
    const next = new Bench({ storage: bench.storage });
    const pending = next.client.reconnect('lobby');
    await next.login({ room: 'lobby/eu/1', generation: 2 });
    expect([(await pending).id, next.socket.last(5).slice(2, 4)]).toEqual(['lobby/eu/1', ['lobby/eu/1', 'l1']]);
    expect(rooms(next)).toEqual(['match/eu/7', 'lobby/eu/1']);
    const joined = next.client.join('lobby/eu/1');
    await next.login({ room: 'lobby/eu/1', generation: 3 });
    await joined;
    expect(rooms(next)).toEqual(['lobby/eu/1', 'match/eu/7']);
    await expect(next.client.reconnect('shop')).rejects.toMatchObject({ code: 'closed' });
  });

  it('are forgotten one by one', async () => {
    const bench = await lobbyAndMatch();
    bench.sockets[1]!.lose(4012, 'over');
    expect(rooms(bench)).toEqual(['lobby/eu/1']);
    bench.sockets[0]!.lose(4011, 'out');
    expect(rooms(bench)).toEqual([]);
    expect([...bench.storage.map.keys()]).toEqual(['tenure.guest']);
  });

  it('are bounded', async () => {
    const bench = new Bench();
    for (let i = 0; i < 20; i++) {
      const pending = bench.client.create('lobby');
      await bench.login({ room: `lobby/eu/${i}` });
      await pending;
    }
    expect([rooms(bench).length, rooms(bench)[0], [...bench.storage.map.keys()].filter((key) => key.startsWith('tenure.session.')).length]).toEqual([16, 'lobby/eu/19', 16]);
  });

  it('are taken over from a build that kept one for all', async () => {
    const old = { url: 'ws://game.test/ws', room: 'match/eu/7', session: 'm1', term: TERM, tick: 9, saved: 3, resumes: 2 };
    const storage = new Storage();
    storage.setItem('tenure.session', JSON.stringify(old));
    const bench = new Bench({ storage });
    expect(bench.client.savedSessions()).toEqual([old]);
    expect(storage.map.has('tenure.session')).toBe(false);
    expect(new Bench({ storage }).client.savedSession('match')).toEqual(old);
  });

  it('survive what a stranger put there', () => {
    const storage = new Storage();
    for (const text of ['{', '7', '[1,{"a":2},"lobby/eu/1"]', 'null']) {
      storage.setItem('tenure.sessions', text);
      storage.setItem('tenure.session', text);
      expect(new Bench({ storage }).client.savedSessions()).toEqual([]);
    }
  });
});
