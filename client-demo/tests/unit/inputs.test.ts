// The sequence of messages by itself, and where tokens are kept.
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Inputs, Pace } from '../../sdk/inputs.ts';
import { DefaultStorage } from '../../sdk/storage.ts';

const drain = (inputs: Inputs): number[] => {
  const seqs: number[] = [];
  for (let e = inputs.unsent(); e; e = inputs.unsent()) {
    seqs.push(e.seq);
    inputs.sent(e);
  }
  return seqs;
};
const kind = { name: 'm', version: 1, fields: null };
const push = (inputs: Inputs, n: number): void => {
  for (let i = 0; i < n; i++) inputs.push(kind, undefined, new Uint8Array(3));
};

describe('the sequence', () => {
  it('counts from 1, sends in order and lets go of what is saved', () => {
    const inputs = new Inputs();
    push(inputs, 5);
    expect(drain(inputs)).toEqual([1, 2, 3, 4, 5]);
    inputs.mark(4, 2);
    expect([inputs.first, inputs.waiting]).toEqual([3, 3]);
    inputs.mark(1, 1);
    expect([inputs.applied, inputs.saved, inputs.first]).toEqual([1, 2, 3]);
    inputs.attach(4);
    expect(drain(inputs)).toEqual([4, 5]);
    inputs.mark(5, 5);
    expect([inputs.first, inputs.next, inputs.waiting]).toEqual([6, 6, 0]);
  });

  it('frees its bytes with what is saved', () => {
    const inputs = new Inputs();
    for (let round = 0; round < 50; round++) {
      for (let i = 0; i < 20; i++) inputs.push(kind, undefined, new Uint8Array(1000));
      inputs.mark(inputs.next - 1, inputs.next - 1);
    }
    expect(inputs.next).toBe(1001);
  });

  it('goes on where the server is when others used its numbers', () => {
    const inputs = new Inputs();
    push(inputs, 3);
    inputs.attach(20);
    push(inputs, 2);
    expect(drain(inputs)).toEqual([20, 21]);
  });
});

describe('the pace', () => {
  it('allows a burst of a second and then the rate', () => {
    const pace = new Pace(10, 0);
    let sent = 0;
    for (let at = 0; at < 3000; at += 1) {
      if (pace.wait(at) > 0) continue;
      pace.count();
      sent += 1;
    }
    expect(sent).toBeGreaterThanOrEqual(38);
    expect(sent).toBeLessThanOrEqual(40);
  });
});

describe('the default storage', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it('is memory where there is nothing else', () => {
    const storage = new DefaultStorage();
    storage.setItem('a', '1');
    expect([storage.getItem('a'), new DefaultStorage().getItem('a')]).toEqual(['1', null]);
    storage.removeItem('a');
    expect(storage.getItem('a')).toBeNull();
  });

  it('lives through a reload, and survives a storage that is full or forbidden', () => {
    const map = new Map<string, string>();
    let full = false;
    vi.stubGlobal('sessionStorage', {
      getItem: (k: string) => map.get(k) ?? null,
      removeItem: (k: string) => map.delete(k),
      setItem: (k: string, v: string) => {
        if (full) throw new Error('QuotaExceededError');
        map.set(k, v);
      },
    });
    const storage = new DefaultStorage();
    storage.setItem('a', '1');
    expect(new DefaultStorage().getItem('a')).toBe('1');
    full = true;
    storage.setItem('a', '2');
    expect(storage.getItem('a')).toBe('2');
    storage.removeItem('a');
    expect([storage.getItem('a'), map.size]).toEqual([null, 0]);
  });
});
