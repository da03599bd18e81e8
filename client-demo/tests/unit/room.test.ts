// A room over scripted sockets: joining, messages, requests, and which frames are shown.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { TenureError } from '../../sdk/index.ts';
import { KEPT_COUNT } from '../../sdk/inputs.ts';
import { server } from '../fake/encode.ts';
import { Bench, HASH, TERM, fakeTime, flush, number } from './harness.ts';

const POS = number(0, 'pos');
const x = (bench: { state: { entities: Map<number, { get(c: string): unknown }> } }): unknown =>
  (bench.state.entities.get(1)?.get('pos') as { x: number } | undefined)?.x;

beforeEach(fakeTime);
afterEach(() => {
  vi.useRealTimers();
});

describe('join', () => {
  it('says hello, asks for the room and has its seat', async () => {
    const bench = new Bench();
    const room = await bench.room();
    expect(bench.socket.sent.slice(0, 2)).toEqual([
      [1, 1, null, null],
      [2, 1, 'arena', 'local', 'a', new Map([['name', 'Ada']])],
    ]);
    expect([room.id, room.seat, room.player, room.node, room.term, room.tick, room.tickRate]).toEqual(['arena/local/a', 3, 'guest:1', 'node-1', TERM, 100, 20]);
    expect(bench.storage.map.get('tenure.guest')).toBe('guest-token');
    expect(room.savedSession).toEqual({ url: 'ws://game.test/ws', room: 'arena/local/a', session: 's1', term: TERM, tick: 100, saved: 0, resumes: 1 });
  });

  it('keeps the guest token and the name table for the next room', async () => {
    const bench = new Bench();
    await bench.room();
    const second = bench.client.create('arena');
    await bench.socket.open();
    expect(bench.socket.last(1)).toEqual([1, 1, 'guest-token', HASH]);
    await bench.login({ table: null });
    expect((await second).seat).toBe(3);
  });

  it('rejects with the server\'s reason', async () => {
    const bench = new Bench();
    const pending = bench.client.join('arena/local/none').catch((error: unknown) => error);
    await bench.socket.open();
    bench.socket.give(server.welcome('guest:1', null, 'node-1'));
    bench.socket.give(server.error(1, 'limit', 'too many rooms', 1500));
    expect(await pending).toMatchObject({ code: 'limit', retryable: true, retryAfter: 1500 });
    expect(bench.socket.closedByClient).toBe(true);
  });

  it('rejects with the word of a game that does not let the player in', async () => {
    const bench = new Bench();
    const pending = bench.client.joinOrCreate('arena').catch((error: unknown) => error);
    await bench.socket.open();
    bench.socket.give(server.welcome('guest:1', null, 'node-1'));
    bench.socket.give(server.error(1, 'not_invited', 'this match is for others'));
    expect(await pending).toMatchObject({ code: 'not_invited', message: 'this match is for others', retryable: false });
  });

  it('rejects when nobody answers, and when the socket closes', async () => {
    const bench = new Bench();
    const silent = bench.client.join('arena/local/a').catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await silent).toMatchObject({ code: 'unreachable', retryable: true });
    const closed = bench.client.join('arena/local/a').catch((error: unknown) => error);
    bench.socket.lose(4008, 'expired');
    expect(await closed).toMatchObject({ code: 'unauthorised', closeCode: 4008, message: 'expired', retryable: false });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(bench.sockets).toHaveLength(2);
  });

  it('hears what came in the same message as the answer', async () => {
    const bench = new Bench();
    const pending = bench.client.joinOrCreate('arena');
    await bench.socket.open();
    bench.socket.give(server.welcome('guest:1', null, 'n'));
    await flush();
    const { TABLE } = await import('../fake/arena.ts');
    bench.socket.give(
      server.joined({ id: 1, room: 'arena/local/a', seat: 1, generation: 1, session: 's', term: 5, tick: 9, owed: 1, tickRate: 20, hash: HASH, table: TABLE }),
      server.snapshot(5, 9, [[0, 1, POS, [4, 4]], [4, number(1, 'board'), [['Ada', 3]]]]),
      server.message(number(4, 'chat'), ['Bram', 'hello']),
      server.granted('chest', 5, [['gold', 25]], [['gold', 25]]),
    );
    const room = await pending;
    const heard: unknown[] = [];
    room.onMessage('chat', (m) => heard.push({ ...(m as object) }));
    room.onGranted((g) => heard.push(g.grants.get('gold')));
    room.onAdd('pos', (entity) => heard.push(entity.id));
    room.listen('board', (board) => heard.push(board));
    expect(heard).toEqual([{ from: 'Bram', text: 'hello' }, 25, 1, [['Ada', 3]]]);
  });
});

describe('ready', () => {
  it('comes with the first snapshot, also after a reload', async () => {
    const bench = new Bench();
    for (const open of [() => bench.client.joinOrCreate('arena'), () => bench.client.reconnect()]) {
      const pending = open();
      await bench.login();
      const room = await pending;
      let ready = false;
      void room.ready.then(() => (ready = true));
      bench.socket.give(server.heartbeat(TERM, 101));
      await flush();
      expect([ready, room.state.entities.size]).toEqual([false, 0]);
      bench.socket.give(server.snapshot(TERM, 102, [[0, 1, POS, [4, 4]]]));
      await flush();
      expect([ready, room.state.entities.size]).toEqual([true, 1]);
    }
  });

  it('rejects when the room ends before, and is nobody\'s trouble who does not ask', async () => {
    const bench = new Bench();
    const pending = bench.client.joinOrCreate('arena');
    await bench.login();
    const room = await pending;
    bench.socket.lose(4002, 'broken');
    await expect(room.ready).rejects.toMatchObject({ code: 'closed', closeCode: 4002 });
  });
});

describe('frames', () => {
  it('shows none that is older than what was shown', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const s = bench.socket;
    s.give(server.frame(TERM, 101, [[2, 1, POS, [2, 0]]]));
    s.give(server.frame(TERM, 101, [[2, 1, POS, [99, 0]]]), server.tail(9, 9, [[2, 1, POS, [99, 0]]]));
    s.give(server.frame(TERM - 1, 500, [[2, 1, POS, [99, 0]]]));
    s.give(server.snapshot(TERM, 100, [[0, 1, POS, [99, 0]]]));
    expect([x(room), room.tick, room.stats.stale, room.applied]).toEqual([2, 101, 3, 0]);
    s.give(server.frame(TERM + 1, 40, [[2, 1, POS, [3, 0]]]), server.tail(7, 4, [[2, 1, number(0, 'wallet'), [50]]]));
    expect([x(room), room.term, room.tick, room.applied]).toEqual([3, TERM + 1, 40, 7]);
    s.give(server.heartbeat(TERM + 1, 60));
    expect(room.tick).toBe(60);
  });

  it('tells onStateChange once per message', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const heard = vi.fn();
    room.onStateChange(heard);
    bench.socket.give(server.frame(TERM, 101, [[2, 1, POS, [2, 0]], [2, 1, POS, [3, 0]]]), server.tail(0, 0, [[2, 1, number(0, 'wallet'), [1]]]));
    await flush();
    expect(heard).toHaveBeenCalledTimes(1);
    bench.socket.give(server.heartbeat(TERM, 102));
    await flush();
    expect(heard).toHaveBeenCalledTimes(1);
  });

  it('asks for a snapshot after what it cannot read, and builds on nothing before it', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const s = bench.socket;
    s.give(server.frame(TERM, 101, [[2, 1, POS]]));
    expect(s.of(11)).toHaveLength(1);
    s.give(server.frame(TERM, 102, [[2, 1, POS, [50, 0]]]), server.tail(5, 3, [[2, 1, POS, [51, 0]]]));
    expect([x(room), room.applied]).toEqual([1, 5]);
    s.give(Uint8Array.of(0xc1));
    expect([s.of(11).length, room.stats.unreadable]).toEqual([1, 2]);
    await vi.advanceTimersByTimeAsync(2000);
    expect(s.of(11)).toHaveLength(2);
    s.give(server.snapshot(TERM, 103, [[0, 1, POS, [7, 0]]]));
    s.give(server.frame(TERM, 104, [[2, 1, POS, [8, 0]]]));
    expect([x(room), room.stats.resyncs]).toEqual([8, 2]);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(s.of(11)).toHaveLength(2);
  });

  it('gives up a socket that keeps sending what it cannot read', async () => {
    const bench = new Bench();
    const room = await bench.room();
    for (let i = 0; i < 5; i++) bench.socket.give(Uint8Array.of(0xc1));
    expect([room.connected, room.stats.drops]).toEqual([false, 1]);
  });

  it('waits for the snapshot of a takeover, whichever comes first', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const heard = vi.fn();
    room.onRolledBack(heard);
    bench.socket.give(server.rolledBack(TERM + 9, 80), server.frame(TERM + 9, 81, [[2, 1, POS, [99, 0]]]));
    expect(x(room)).toBe(1);
    bench.socket.give(server.snapshot(TERM + 9, 82, [[0, 1, POS, [5, 0]]]));
    bench.socket.give(server.snapshot(TERM + 20, 82, [[0, 1, POS, [6, 0]]]), server.rolledBack(TERM + 20, 82));
    bench.socket.give(server.frame(TERM + 20, 83, [[2, 1, POS, [7, 0]]]));
    expect([x(room), heard.mock.calls]).toEqual([7, [[{ term: TERM + 9, tick: 80 }], [{ term: TERM + 20, tick: 82 }]]]);
  });
});

describe('messages', () => {
  it('numbers messages and requests in one sequence', async () => {
    const bench = new Bench();
    const room = await bench.room();
    expect(room.send('steer', [100, 0])).toBe(1);
    const answer = room.request('buy', { item: 'hat' });
    expect(room.send('chat', { text: 'hi' })).toBe(3);
    const id = bench.socket.last(8)[2] as number;
    expect(bench.socket.sent.slice(3)).toEqual([[7, 1, number(2, 'steer'), [100, 0]], [8, 2, id, number(3, 'buy'), ['hat']], [7, 3, number(2, 'chat'), ['hi']]]);
    bench.socket.give(server.reply(id, { item: 'hat', gold: 30 }));
    expect({ ...((await answer) as object) }).toEqual({ item: 'hat', gold: 30 });
  });

  it('rejects a request by the room\'s error, a refusal or its deadline', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const [poor, refused, late] = [room.request('buy', { item: 'hat' }), room.request('buy', {}), room.request('buy', {}, { timeout: 3000 })].map((p) => p.catch((e: unknown) => e));
    bench.socket.give(server.error(bench.socket.of(8)[0]![2] as number, 'request_failed', 'not enough gold'), server.refused(2, 'bad_payload', 'item is missing'));
    await vi.advanceTimersByTimeAsync(3000);
    expect(await poor).toMatchObject({ code: 'request_failed', message: 'not enough gold' });
    expect(await refused).toMatchObject({ code: 'bad_payload' });
    expect(await late).toMatchObject({ code: 'timeout' });
  });

  it('takes a word of the game for what it is', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const asked = [room.request('buy', { item: 'hat' }), room.request('buy', {})].map((p) => p.catch((e: unknown) => e));
    const ids = bench.socket.of(8).map((m) => m[2] as number);
    bench.socket.give(server.error(ids[0]!, 'not_enough', 'not enough gold'), server.error(ids[1]!, 'unreachable', 'nobody comes here'));
    expect(await Promise.all(asked)).toMatchObject([{ code: 'not_enough', retryable: false }, { code: 'unreachable', retryable: false }]);
  });

  it('tells a refused message to onError', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const errors: TenureError[] = [];
    room.send('steer', [1, 1]);
    bench.socket.give(server.refused(1, 'unknown_message', 'steer is gone'));
    room.onError((error) => errors.push(error));
    expect(errors).toMatchObject([{ code: 'unknown_message', message: 'message 1: steer is gone' }]);
  });

  it('hears messages of all names, and counts those that nobody heard in time', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const CHAT = number(4, 'chat');
    for (let i = 0; i < 34; i++) bench.socket.give(server.message(CHAT, ['Ada', `${i}`]));
    expect(room.stats.lost).toBe(2);
    const heard: string[] = [];
    const stop = room.onMessage('*', (type, payload) => heard.push(`${type} ${(payload as { text: string }).text}`));
    expect([heard.length, heard[0]]).toEqual([32, 'chat 2']);
    bench.socket.give(server.message(CHAT, ['Ada', 'more']));
    expect(heard.at(-1)).toBe('chat more');
    // Who hears all hears it; nothing waits for another listener then.
    const named: unknown[] = [];
    room.onMessage('chat', (payload) => named.push(payload));
    bench.socket.give(server.message(CHAT, ['Ada', 'both']));
    stop();
    bench.socket.give(server.message(CHAT, ['Ada', 'one']));
    expect([heard.length, heard.at(-1), named.length, room.stats.lost]).toEqual([34, 'chat both', 2, 2]);
  });

  it('refuses names and sizes that the server does not take, without using a number', async () => {
    const bench = new Bench();
    const room = await bench.room();
    expect(() => room.send('fly', 1)).toThrow(expect.objectContaining({ code: 'unknown_name' }));
    expect(() => room.send('chat', { text: 'x'.repeat(5000) })).toThrow(expect.objectContaining({ code: 'too_large', retryable: false }));
    expect(room.send('steer', [0, 0])).toBe(1);
  });

  it('keeps what is not saved, within bounds, and stays below the server\'s rate', async () => {
    const bench = new Bench();
    const room = await bench.room();
    for (let i = 0; i < KEPT_COUNT; i++) room.send('steer', [i % 100, 0]);
    expect(() => room.send('steer', [0, 0])).toThrow(expect.objectContaining({ code: 'backlog_full', retryable: true }));
    expect([room.stats.refused, room.backlog]).toEqual([1, 1]);
    expect(bench.socket.of(7).length).toBeLessThanOrEqual(60);
    await vi.advanceTimersByTimeAsync(1000);
    expect(bench.socket.of(7).length).toBeLessThanOrEqual(120);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(bench.socket.of(7).map((m) => m[1])).toEqual(Array.from({ length: KEPT_COUNT }, (_, i) => i + 1));
    bench.socket.give(server.heartbeat(TERM, 101), server.tail(512, 500));
    expect(room.unsaved).toBe(12);
    expect(room.send('steer', [0, 0])).toBe(513);
  });

  it('bounds the bytes too', async () => {
    const bench = new Bench();
    const room = await bench.room();
    let sent = 0;
    expect(() => {
      for (;;) {
        room.send('chat', { text: 'x'.repeat(3000) });
        sent += 1;
      }
    }).toThrow(expect.objectContaining({ code: 'backlog_full' }));
    expect(sent).toBe(10);
  });

  it('measures the round trip', async () => {
    const bench = new Bench();
    const room = await bench.room();
    await vi.advanceTimersByTimeAsync(40);
    bench.socket.give(server.pong(bench.socket.last(9)[1] as number));
    expect(room.rtt).toBe(40);
    const lost = room.ping().catch((e: unknown) => e);
    await vi.advanceTimersByTimeAsync(5000);
    expect(await lost).toMatchObject({ code: 'timeout' });
  });
});
