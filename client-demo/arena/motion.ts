// Smooth movement from 20 positions a second: others are shown a little in the past, between two known positions; oneself
// is shown a little ahead, so that steering feels direct.
import type { Pos } from './game.ts';

/** How far in the past others are shown, ms: two ticks, so that one late frame is not seen. */
export const DELAY = 100;
/** Positions kept per thing. */
const KEPT = 16;
/** Longest guess ahead, ms. */
const AHEAD = 120;
/** A jump beyond this is shown as a jump, units. */
const JUMP = 160;

interface Sample extends Pos {
  tick: number;
}

/** The server's ticks against the page's clock: the earliest arrivals count, late ones are jitter. */
export class TickClock {
  private offset: number | undefined;
  private rate = 20;

  /** A frame of `tick` arrived at `now`, ms. */
  arrived(tick: number, rate: number, now: number): void {
    this.rate = rate;
    const offset = now - (tick * 1000) / rate;
    if (this.offset === undefined || Math.abs(offset - this.offset) > 1000) this.offset = offset;
    else this.offset = offset < this.offset ? offset : this.offset + (offset - this.offset) * 0.02;
  }

  /** The tick that the server is at, with fractions, as seen from here. */
  at(now: number): number {
    return this.offset === undefined ? 0 : ((now - this.offset) * this.rate) / 1000;
  }
  /** The tick to show. */
  shown(now: number): number {
    return this.at(now) - (DELAY * this.rate) / 1000;
  }
  reset(): void {
    this.offset = undefined;
  }
}

/** The way of one thing. */
export class Track {
  private samples: Sample[] = [];
  private speed = 0;

  push(tick: number, pos: Pos): void {
    const last = this.samples.at(-1);
    if (last && tick <= last.tick) {
      this.samples = [{ tick, x: pos.x, y: pos.y }];
      return;
    }
    if (last) {
      const distance = Math.hypot(pos.x - last.x, pos.y - last.y);
      // It stood still until just now, or it was set somewhere else: neither is a slow walk.
      if (tick - last.tick > 1) this.samples.push({ ...last, tick: tick - 1 });
      if (distance > JUMP) this.samples = [];
      else if (tick - last.tick === 1) this.speed = Math.max(distance, this.speed * 0.9);
    }
    this.samples.push({ tick, x: pos.x, y: pos.y });
    if (this.samples.length > KEPT) this.samples.shift();
  }

  /** Where it was at `tick`. */
  at(tick: number): Pos {
    const { samples } = this;
    for (let i = samples.length - 1; i > 0; i--) {
      const [a, b] = [samples[i - 1] as Sample, samples[i] as Sample];
      if (a.tick <= tick && tick <= b.tick) {
        const part = (tick - a.tick) / (b.tick - a.tick);
        return { x: a.x + (b.x - a.x) * part, y: a.y + (b.y - a.y) * part };
      }
    }
    const first = samples[0];
    const last = samples.at(-1);
    if (!first || !last) return { x: 0, y: 0 };
    return tick < first.tick ? first : last;
  }

  get newest(): Sample | undefined {
    return this.samples.at(-1);
  }
  /** Units per tick when it last walked. */
  get pace(): number {
    return this.speed;
  }
}

/** Where oneself is shown. */
export class Own {
  private pos: Pos | undefined;

  /** `toward`: the direction that is steered now, a unit vector or 0. */
  show(track: Track, tick: number, rate: number, toward: Pos, seconds: number, bounds: Pos): Pos {
    const newest = track.newest;
    if (!newest) return this.pos ?? { x: 0, y: 0 };
    const ahead = Math.min((AHEAD * rate) / 1000, Math.max(0, tick - newest.tick)) * track.pace;
    const target = { x: clamp(newest.x + toward.x * ahead, bounds.x), y: clamp(newest.y + toward.y * ahead, bounds.y) };
    if (!this.pos || Math.hypot(target.x - this.pos.x, target.y - this.pos.y) > JUMP) this.pos = target;
    const part = 1 - Math.exp(-seconds * 16);
    this.pos = { x: this.pos.x + (target.x - this.pos.x) * part, y: this.pos.y + (target.y - this.pos.y) * part };
    return this.pos;
  }
}

function clamp(value: number, max: number): number {
  return Math.min(max, Math.max(0, value));
}
