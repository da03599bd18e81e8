// Keyboard, pointer and touch to one direction, sent to the room when it changes and not too often.
import type { Pos } from './game.ts';

/** At most so often, ms. */
const EVERY = 50;
/** The pointer this near to the player means "stand", world units. */
const NEAR = 14;

const KEYS = new Map<string, Pos>([
  ['KeyW', { x: 0, y: -1 }], ['ArrowUp', { x: 0, y: -1 }],
  ['KeyS', { x: 0, y: 1 }], ['ArrowDown', { x: 0, y: 1 }],
  ['KeyA', { x: -1, y: 0 }], ['ArrowLeft', { x: -1, y: 0 }],
  ['KeyD', { x: 1, y: 0 }], ['ArrowRight', { x: 1, y: 0 }],
]);

export interface SteeringWorld {
  toWorld(x: number, y: number): Pos;
  /** Where oneself is. */
  own(): Pos | undefined;
  /** False if it could not be sent now. */
  send(dx: number, dy: number): boolean;
}

export class Steering {
  /** The direction now: a unit vector or 0. */
  direction: Pos = { x: 0, y: 0 };
  private readonly held = new Set<string>();
  private pointer: { id: number; x: number; y: number } | undefined;
  private sent = '0,0';
  private sentAt = 0;

  constructor(canvas: HTMLCanvasElement, private readonly world: SteeringWorld) {
    addEventListener('keydown', (event) => {
      if (!KEYS.has(event.code) || typing(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.held.add(event.code);
    });
    addEventListener('keyup', (event) => this.held.delete(event.code));
    addEventListener('blur', () => this.release());
    document.addEventListener('visibilitychange', () => {
      if (document.hidden) this.release();
    });
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      (document.activeElement as HTMLElement | null)?.blur();
      canvas.setPointerCapture(event.pointerId);
      this.pointer = { id: event.pointerId, x: event.clientX, y: event.clientY };
      event.preventDefault();
    });
    canvas.addEventListener('pointermove', (event) => {
      if (this.pointer?.id === event.pointerId) this.pointer = { id: event.pointerId, x: event.clientX, y: event.clientY };
    });
    for (const end of ['pointerup', 'pointercancel', 'lostpointercapture'] as const) {
      canvas.addEventListener(end, (event) => {
        if (this.pointer?.id === event.pointerId) this.pointer = undefined;
      });
    }
  }

  /** Once per drawn frame. */
  step(): void {
    this.direction = this.read();
    this.tell();
  }

  /** Everything is let go, for example because the page is not seen. */
  release(): void {
    this.held.clear();
    this.pointer = undefined;
    this.sentAt = 0;
    this.step();
  }
  /** A new seat knows no direction. */
  reset(): void {
    this.sent = '0,0';
  }

  private tell(): void {
    const dx = Math.round(this.direction.x * 100);
    const dy = Math.round(this.direction.y * 100);
    const now = performance.now();
    if (`${dx},${dy}` === this.sent || now - this.sentAt < EVERY) return;
    this.sentAt = now;
    if (this.world.send(dx, dy)) this.sent = `${dx},${dy}`;
  }

  private read(): Pos {
    let [x, y] = [0, 0];
    for (const code of this.held) {
      x += KEYS.get(code)?.x ?? 0;
      y += KEYS.get(code)?.y ?? 0;
    }
    [x, y] = [Math.sign(x), Math.sign(y)];
    const own = this.world.own();
    if (x === 0 && y === 0 && this.pointer && own) {
      const to = this.world.toWorld(this.pointer.x, this.pointer.y);
      if (Math.hypot(to.x - own.x, to.y - own.y) > NEAR) [x, y] = [to.x - own.x, to.y - own.y];
    }
    const length = Math.hypot(x, y);
    if (length === 0) return { x: 0, y: 0 };
    // A pointer trembles: directions in steps of 1/64 turn keep the number of messages low.
    const angle = (Math.round((Math.atan2(y, x) / Math.PI) * 32) / 32) * Math.PI;
    return { x: Math.cos(angle), y: Math.sin(angle) };
  }
}

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.tagName === 'INPUT' || target.tagName === 'TEXTAREA' || target.isContentEditable);
}
