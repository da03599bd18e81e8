// Drops, resumes, moves, supersede, silence: all over scripted sockets and fake time.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { dropSocket } from '../../sdk/testing.ts';
import { server } from '../fake/encode.ts';
import { TABLE } from '../fake/arena.ts';
import { Bench, HASH, TERM, fakeTime, flush, limits, number } from './harness.ts';

const POS = number(0, 'pos');

beforeEach(fakeTime);
afterEach(() => {
  vi.useRealTimers();
});

describe('after a drop', () => {
  it.each([1001, 1006, 1011, 1012, 1013, 4001, 4005, 4006, 4010])('comes back after %i with its seat', async (code) => {
    const bench = new Bench();
    const room = await bench.room();
    const log: unknown[] = [];
    room.onDrop((c) => log.push(['drop', c]));
    room.onRetry((attempt, delay) => log.push(['retry', attempt, delay]));
    room.onReconnect(() => log.push('back'));
    room.onLeave((c) => log.push(['leave', c]));
    bench.socket.give(server.frame(TERM, 120, []));
    bench.socket.lose(code);
    await vi.advanceTimersByTimeAsync(499);
    expect(bench.sockets).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    await bench.login({ generation: 2, session: 's2', tick: 130, table: null });
    expect(bench.sockets[1]!.sent.slice(0, 2)).toEqual([[1, 1, 'guest-token', HASH], [5, 3, 'arena/local/a', 's1', TERM, 120, 1, 2]]);
    expect(log).toEqual([['drop', code], ['retry', 1, 500], 'back']);
    expect([room.generation, room.savedSession.session, room.stats.reconnects]).toEqual([2, 's2', 1]);
  });

  it.each([1000, 1009, 4000, 4002, 4003, 4004, 4007, 4008, 4009, 4011, 4012])('does not come back after %i', async (code) => {
    const bench = new Bench();
    const room = await bench.room();
    const left = vi.fn();
    room.onLeave(left);
    bench.socket.lose(code, 'because');
    await vi.advanceTimersByTimeAsync(3_600_000);
    expect(bench.sockets).toHaveLength(1);
    expect(left.mock.calls).toEqual([[code, 'because']]);
    expect(bench.client.savedSession() !== undefined).toBe(code === 4004 || code === 4008);
  });

  it('spreads its attempts, grows them to a cap and gives up in the end', async () => {
    const bench = new Bench({ backoff: { attempts: 6, cap: 8000 } });
    const room = await bench.room();
    const delays: number[] = [];
    const left = vi.fn();
    room.onRetry((_, delay) => delays.push(delay));
    room.onLeave(left);
    bench.random = 1;
    bench.socket.lose(1006);
    for (let i = 0; i < 6; i++) {
      await vi.advanceTimersByTimeAsync(8000);
      bench.socket.lose(1006);
    }
    expect(delays).toEqual([1000, 2000, 4000, 8000, 8000, 8000]);
    expect(left.mock.calls).toEqual([[1006, 'no answer in 6 attempts']]);
  });

  it('starts small again only after a connection that held', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const delays: number[] = [];
    room.onRetry((_, delay) => delays.push(delay));
    bench.random = 1;
    for (const held of [0, 0, 12_000]) {
      await vi.advanceTimersByTimeAsync(held);
      bench.socket.lose(4006);
      await vi.advanceTimersByTimeAsync(8000);
      await bench.login();
    }
    expect(delays).toEqual([1000, 2000, 1000]);
  });

  it('waits as long as the server asks, also beyond what a timer holds', async () => {
    const bench = new Bench();
    await bench.room();
    bench.random = 0;
    bench.socket.give(server.error(0, 'limit', 'full', 2 ** 31 + 5000));
    bench.socket.lose(1013);
    await vi.advanceTimersByTimeAsync(2 ** 31 + 4999);
    expect(bench.sockets).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(bench.sockets).toHaveLength(2);
  });

  it('tries again when a resume may pass later, and not when it cannot', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const left = vi.fn();
    room.onLeave(left);
    bench.socket.lose(1006);
    for (const [code, retry] of [['may_retry', 700], ['resume_failed', null]] as const) {
      await vi.advanceTimersByTimeAsync(2500);
      await bench.socket.open();
      bench.socket.give(server.welcome('guest:1', null, 'node-2'));
      bench.socket.give(server.error(bench.socket.last(5)[1] as number, code, 'no', retry));
    }
    await vi.advanceTimersByTimeAsync(60_000);
    expect(bench.sockets).toHaveLength(3);
    expect(left.mock.calls).toEqual([[4003, 'no']]);
  });

  it('asks for the table again if it lost track of it', async () => {
    const bench = new Bench();
    const room = await bench.room();
    bench.socket.lose(1006);
    await vi.advanceTimersByTimeAsync(500);
    await bench.login({ table: null, hash: new Uint8Array(8) });
    expect(room.connected).toBe(false);
    await vi.advanceTimersByTimeAsync(2000);
    await bench.socket.open();
    expect(bench.socket.last(1)).toEqual([1, 1, 'guest-token', null]);
  });

  it('notices a link that died without a word', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const drops = vi.fn();
    room.onDrop(drops);
    await vi.advanceTimersByTimeAsync(20_000);
    bench.socket.give(server.heartbeat(TERM, 101));
    await vi.advanceTimersByTimeAsync(24_999);
    expect(room.connected).toBe(true);
    await vi.advanceTimersByTimeAsync(1);
    expect(drops.mock.calls).toEqual([[1006, 'silent for 25 s']]);
    expect(bench.sockets[0]!.closedByClient).toBe(true);
    await vi.advanceTimersByTimeAsync(1000);
    expect(bench.sockets).toHaveLength(2);
  });

  it('hears nothing from a socket it left', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const old = bench.socket;
    const [give, lose] = [old.onmessage!, old.onclose!];
    dropSocket(room);
    await vi.advanceTimersByTimeAsync(500);
    await bench.login({ tick: 200 });
    give({ data: server.frame(TERM, 300, []).buffer } as never);
    lose({ code: 4004, reason: '' } as never);
    expect([room.connected, room.tick]).toEqual([true, 100]);
  });
});

describe('inputs over a drop', () => {
  it('go out again in order from the number owed, until saved', async () => {
    const bench = new Bench();
    const room = await bench.room();
    for (let i = 0; i < 4; i++) room.send('steer', [i, 0]);
    bench.socket.give(server.heartbeat(TERM, 101), server.tail(2, 1));
    bench.socket.lose(1006);
    expect(room.send('steer', [4, 0])).toBe(5);
    await vi.advanceTimersByTimeAsync(500);
    await bench.login({ owed: 4, tick: 102 });
    expect(bench.socket.last(5)[6]).toBe(2);
    expect(bench.socket.of(7).map((m) => m[1])).toEqual([4, 5]);
    // A takeover restored an older checkpoint: what was applied goes out once more.
    bench.socket.lose(1006);
    await vi.advanceTimersByTimeAsync(2000);
    await bench.login({ owed: 2, term: TERM + 1, tick: 90 });
    expect(bench.socket.of(7).map((m) => [m[1], (m[3] as number[])[0]])).toEqual([[2, 1], [3, 2], [4, 3], [5, 4]]);
    expect(room.send('steer', [9, 9])).toBe(6);
  });

  it('go on from what is kept when the server forgot a save', async () => {
    const bench = new Bench();
    const room = await bench.room();
    for (let i = 0; i < 3; i++) room.send('steer', [i, 0]);
    bench.socket.give(server.heartbeat(TERM, 101), server.tail(2, 2));
    bench.socket.lose(1006);
    await vi.advanceTimersByTimeAsync(500);
    await bench.login({ owed: 1, term: TERM + 1, tick: 10 });
    expect(bench.socket.of(7).map((m) => m[1])).toEqual([3]);
  });

  it('keep a request and its answer together', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const answer = room.request('buy', { item: 'hat' });
    const id = bench.socket.last(8)[2];
    bench.socket.lose(1006);
    await vi.advanceTimersByTimeAsync(500);
    await bench.login({ owed: 1, tick: 102 });
    expect(bench.socket.last(8).slice(0, 3)).toEqual([8, 1, id]);
    bench.socket.give(server.reply(id as number, ['hat', 3]));
    expect(await answer).toEqual(['hat', 3]);
  });

  it('follow their names when a new version numbers them anew, and are refused when gone', async () => {
    const bench = new Bench();
    const room = await bench.room();
    room.send('steer', [1, 0]);
    room.send('chat', { text: 'x' });
    bench.socket.lose(1006);
    await vi.advanceTimersByTimeAsync(500);
    const table = TABLE.filter((r) => !(r.space === 2 && r.name === 'chat')).map((r) => (r.space === 2 ? { ...r, number: 77 } : r));
    await bench.login({ owed: 1, tick: 102, table, hash: new Uint8Array([9, 9, 9, 9, 9, 9, 9, 9]) });
    expect(bench.socket.of(7).map((m) => [m[1], m[2]])).toEqual([[1, 77], [2, 0xffff]]);
  });
});

describe('sessions', () => {
  it('stores a session token before it acknowledges it', async () => {
    const bench = new Bench();
    await bench.room();
    let stored = '';
    const send = bench.socket.send.bind(bench.socket);
    bench.socket.send = (data) => {
      stored = bench.client.savedSession()?.session ?? '';
      send(data);
    };
    bench.socket.give(server.session('s9'));
    expect([bench.socket.last(10), stored]).toEqual([[10, 's9'], 's9']);
  });

  it('keeps the seat over a reload of the page', async () => {
    const bench = new Bench();
    const room = await bench.room();
    room.send('steer', [1, 0]);
    bench.socket.give(server.heartbeat(TERM, 150), server.tail(1, 1));
    await vi.advanceTimersByTimeAsync(1000);
    bench.socket.give(server.heartbeat(TERM, 170));
    // The next page has the storage and nothing else.
    const next = new Bench({ storage: bench.storage });
    const pending = next.client.reconnect();
    await next.login({ generation: 2, owed: 7, tick: 180 });
    expect(next.socket.sent.slice(0, 2)).toEqual([[1, 1, 'guest-token', null], [5, 1, 'arena/local/a', 's1', TERM, 170, 2, 2]]);
    const again = await pending;
    expect([again.seat, again.send('steer', [0, 1])]).toEqual([3, 7]);
    expect(again.state.entities.size).toBe(0);
    next.socket.give(server.frame(TERM, 181, [[2, 1, POS, [9, 9]]]));
    expect(again.state.entities.size).toBe(0);
    next.socket.give(server.snapshot(TERM, 182, [[0, 1, POS, [1, 1]]]));
    expect(again.state.entities.size).toBe(1);
  });

  it('counts its resumes above the number of its attachment, also over reloads', async () => {
    const bench = new Bench();
    const room = await bench.room({ generation: 7 });
    const count = (socket = bench.socket): unknown => socket.last(5)[7];
    // Two that are not answered: each counts, since the server may get them in any order.
    for (const expected of [8, 9]) {
      bench.socket.lose(1006);
      await vi.advanceTimersByTimeAsync(60_000);
      await bench.socket.open();
      bench.socket.give(server.welcome('guest:1', null, 'n', limits));
      await flush();
      expect(count()).toBe(expected);
    }
    expect(bench.client.savedSession()?.resumes).toBe(9);
    const next = new Bench({ storage: bench.storage });
    const pending = next.client.reconnect();
    await next.login({ generation: 3000 });
    expect([count(next.socket), (await pending).savedSession.resumes]).toEqual([10, 3000]);
    // Saved by a build that did not count: it is not said until the server has told where to begin.
    const { resumes, ...old } = room.savedSession;
    expect(resumes).toBe(9);
    const third = new Bench();
    const again = third.client.reconnect(old);
    await third.login({ generation: 5 });
    expect(third.socket.last(5)).toHaveLength(7);
    expect((await again).savedSession.resumes).toBe(5);
  });

  it('forgets a session that cannot be resumed, and keeps one that may be', async () => {
    for (const [code, kept] of [['resume_failed', false], ['may_retry', true]] as const) {
      const bench = new Bench();
      const saved = (await bench.room()).savedSession;
      const next = new Bench({ storage: bench.storage });
      const pending = next.client.reconnect(saved).catch((e: unknown) => e);
      await next.socket.open();
      next.socket.give(server.welcome('guest:1', null, 'n'), server.error(1, code, 'no'));
      expect(await pending).toMatchObject({ code, retryable: kept });
      expect(next.client.savedSession() !== undefined).toBe(kept);
    }
  });

  it.each(['', '{', 'null', '{"url":"ws://x","room":"a"}', '{"url":"ws://x","room":"a","session":"s","term":-1,"tick":0,"saved":0}'])(
    'takes no saved session from %s',
    async (text) => {
      const bench = new Bench();
      bench.storage.setItem('tenure.session', text);
      expect(bench.client.savedSession()).toBeUndefined();
      await expect(bench.client.reconnect()).rejects.toMatchObject({ code: 'closed' });
    },
  );

  it('asks for a signed token at each login', async () => {
    let n = 0;
    const bench = new Bench({ token: async () => `jwt-${(n += 1)}` });
    await bench.room();
    bench.socket.lose(1006);
    await vi.advanceTimersByTimeAsync(500);
    await bench.socket.open();
    expect(bench.sockets.map((s) => s.last(1)[2])).toEqual(['jwt-1', 'jwt-2']);
  });
});
