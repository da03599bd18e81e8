// Interpolation: no slow slide out of a rest, no jump through walls, and a clock that jitter does not shake.
import { describe, expect, it } from 'vitest';
import { Own, TickClock, Track } from '../../arena/motion.ts';

describe('a track', () => {
  it('goes between known positions and stays at the newest', () => {
    const track = new Track();
    track.push(10, { x: 0, y: 0 });
    track.push(11, { x: 10, y: 20 });
    expect(track.at(10.5)).toEqual({ x: 5, y: 10 });
    expect(track.at(9)).toMatchObject({ x: 0, y: 0 });
    expect(track.at(15)).toMatchObject({ x: 10, y: 20 });
  });

  it('rests until it moves', () => {
    const track = new Track();
    track.push(10, { x: 0, y: 0 });
    track.push(50, { x: 10, y: 0 });
    expect(track.at(30)).toMatchObject({ x: 0, y: 0 });
    expect(track.at(49.5)).toEqual({ x: 5, y: 0 });
  });

  it('jumps when it was set elsewhere, and starts anew when ticks go back', () => {
    const track = new Track();
    track.push(10, { x: 0, y: 0 });
    track.push(11, { x: 500, y: 0 });
    expect(track.at(10.5)).toMatchObject({ x: 500, y: 0 });
    track.push(5, { x: 1, y: 1 });
    expect(track.at(100)).toMatchObject({ x: 1, y: 1 });
  });

  it('keeps a bounded past', () => {
    const track = new Track();
    for (let tick = 0; tick < 1000; tick++) track.push(tick, { x: tick, y: 0 });
    expect(track.at(0)).toMatchObject({ x: 984, y: 0 });
  });
});

describe('the clock', () => {
  it('takes early arrivals for the truth and late ones for jitter', () => {
    const clock = new TickClock();
    for (let tick = 100; tick < 200; tick++) clock.arrived(tick, 20, tick * 50 + (tick % 7 === 0 ? 40 : 5));
    expect(Math.abs(clock.at(200 * 50 + 5) - 200)).toBeLessThan(0.1);
    expect(clock.shown(200 * 50 + 5)).toBeCloseTo(clock.at(200 * 50 + 5) - 2, 5);
  });

  it('follows a room that went back', () => {
    const clock = new TickClock();
    clock.arrived(1000, 20, 50_000);
    clock.arrived(100, 20, 50_050);
    expect(clock.at(50_050)).toBeCloseTo(100, 5);
  });
});

describe('oneself', () => {
  it('is shown a little ahead, within the walls', () => {
    const track = new Track();
    track.push(10, { x: 980, y: 300 });
    track.push(11, { x: 990, y: 300 });
    const own = new Own();
    let pos = own.show(track, 11, 20, { x: 0, y: 0 }, 0.016, { x: 1000, y: 600 });
    for (let i = 0; i < 100; i++) pos = own.show(track, 14, 20, { x: 1, y: 0 }, 0.016, { x: 1000, y: 600 });
    expect(pos.x).toBeGreaterThan(995);
    expect(pos.x).toBeLessThanOrEqual(1000);
  });
});
