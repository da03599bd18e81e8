// The page's own counts of what a move must not do: zero when all is well, and not when something is wrong.
import { expect, test } from 'vitest';
import { Auditor } from '../../arena/audit.ts';

test('ticks that come as they should are no loss, and a pause at a move is', () => {
  const audit = new Auditor();
  audit.frame(1, 10, 20, 1000);
  audit.frame(1, 11, 20, 1900);
  expect(audit.counts).toMatchObject({ moves: 0, missed: 0, pause: 0 });
  audit.frame(2, 12, 20, 1950);
  expect(audit.counts).toMatchObject({ moves: 1, missed: 0, pause: 50 });
  audit.frame(3, 13, 20, 2200);
  expect(audit.counts).toMatchObject({ moves: 2, missed: 4, pause: 250 });
});

test('a rollback counts what it took back, and a lost socket is no pause of the room', () => {
  const audit = new Auditor();
  audit.frame(1, 40, 20, 1000);
  audit.frame(2, 20, 20, 1100);
  expect(audit.counts.missed).toBe(2);
  audit.interrupted();
  audit.frame(3, 21, 20, 9000);
  expect(audit.counts).toMatchObject({ moves: 1, missed: 2 });
});

test('inputs count once each when nothing is on its way', () => {
  const audit = new Auditor();
  audit.inputs(100, 0);
  for (let i = 0; i < 5; i += 1) audit.steered();
  audit.inputs(102, 3);
  expect(audit.counts).toMatchObject({ lost: 0, doubled: 0 });
  audit.inputs(105, 0);
  expect(audit.counts).toMatchObject({ lost: 0, doubled: 0 });
  audit.inputs(104, 0);
  expect(audit.counts.lost).toBe(1);
  audit.inputs(107, 0);
  expect(audit.counts).toMatchObject({ lost: 0, doubled: 2 });
});

test('a reward of an occurrence counts once, and one without an occurrence always', () => {
  const audit = new Auditor();
  audit.granted('chest', 1);
  audit.granted('chest', 2);
  audit.granted('gift', null);
  audit.granted('gift', null);
  expect(audit.counts.again).toBe(0);
  audit.granted('chest', 1);
  expect(audit.counts.again).toBe(1);
});
