// Everything on the page around the canvas. Names and texts from others are only ever set as text.
import { CloseCode, TenureError, describe, type Room } from '../sdk/index.ts';
import { drawIcon } from './figures.ts';
import type { Audit } from './audit.ts';
import { SHOP, type Arena, type ShopItem } from './game.ts';

const TOASTS = 4;
const TOAST_TIME = 3800;
const LINES = 30;

function element<T extends HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found as T;
}

export interface HudActions {
  buy(item: ShopItem): void;
  chat(text: string): void;
  rename(): void;
}

export class Hud {
  private readonly texts = new Map<string, { node: HTMLElement; text: string }>();
  private readonly buttons: [ShopItem, HTMLButtonElement][] = [];
  private readonly banner = element('banner');
  private readonly stage = element('stage');
  private bannerTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(actions: HudActions) {
    for (const id of ['gold', 'score', 'chest', 'rtt', 'rate', 'players', 'seat', 'node', 'term', 'moves', 'missed', 'lost', 'again', 'room']) this.texts.set(id, { node: element(id), text: '' });
    for (const item of SHOP) {
      const button = document.createElement('button');
      button.type = 'button';
      button.className = 'item';
      button.dataset['item'] = item.id;
      button.setAttribute('aria-label', `${item.label}, ${item.price} gold`);
      button.append(icon(item), what(item), price(item));
      button.addEventListener('click', () => actions.buy(item));
      this.buttons.push([item, button]);
      element('shop').append(button);
    }
    element('rename').addEventListener('click', () => actions.rename());
    element<HTMLFormElement>('chat').addEventListener('submit', (event) => {
      event.preventDefault();
      const input = element<HTMLInputElement>('say');
      const text = input.value.trim();
      input.value = '';
      input.blur();
      if (text) actions.chat(text);
    });
  }

  /** The figures; nodes change only when their text does. */
  show(room: Room<Arena>, own: { gold: number; score: number }, chestSeconds: number | undefined, players: number, audit: Audit): void {
    if (own.gold > Number(this.texts.get('gold')?.text || own.gold)) this.pop('gold');
    this.set('gold', String(own.gold));
    this.set('score', String(own.score));
    this.set('chest', chestSeconds === undefined ? '–' : `${Math.max(0, Math.ceil(chestSeconds))} s`);
    this.set('rtt', room.rtt === undefined ? '–' : `${Math.round(room.rtt)} ms`);
    this.set('rate', `${room.tickRate} Hz`);
    this.set('players', String(players));
    this.set('seat', String(room.seat));
    // The room's owner; what the socket is at is the gateway.
    this.set('node', room.state.resource('host') || '–', `gateway ${room.node}`);
    this.set('moves', String(audit.moves), `longest pause ${audit.pause} ms`);
    this.set('missed', String(audit.missed));
    this.set('lost', String(audit.lost + audit.doubled), `${audit.lost} lost, ${audit.doubled} doubled`);
    this.set('again', String(audit.again));
    this.set('term', `…${String(room.term).slice(-5)}`, String(room.term));
    this.set('room', room.id, room.id);
    this.stage.classList.toggle('off', !room.connected);
    for (const [item, button] of this.buttons) button.disabled = !room.connected || own.gold < item.price;
  }

  board(rows: readonly [string, number][], me: string): void {
    element('board').replaceChildren(
      ...rows.slice(0, 10).map(([name, score]) => {
        const row = document.createElement('li');
        row.append(span('', name), bold(String(score)));
        if (name === me) row.className = 'me';
        return row;
      }),
    );
  }

  line(from: string, text: string): void {
    const lines = element('lines');
    const row = document.createElement('p');
    row.append(bold(from), ` ${text}`);
    lines.append(row);
    while (lines.childElementCount > LINES) lines.firstElementChild?.remove();
    lines.scrollTop = lines.scrollHeight;
  }

  toast(text: string, kind: '' | 'gold' | 'bad' = '', strong = ''): void {
    const toasts = element('toasts');
    const said = `${strong} ${text}`;
    const last = toasts.lastElementChild as HTMLElement | null;
    if (kind === 'bad' && last?.dataset['said'] === said) return;
    const node = document.createElement('div');
    node.className = `toast ${kind}`;
    node.dataset['said'] = said;
    if (strong) node.append(bold(strong), ' ');
    node.append(text);
    toasts.append(node);
    while (toasts.childElementCount > TOASTS) toasts.firstElementChild?.remove();
    setTimeout(() => node.classList.add('away'), TOAST_TIME);
    setTimeout(() => node.remove(), TOAST_TIME + 400);
  }

  /** The state of the connection; `hold`: milliseconds until it goes away by itself. */
  status(text: string | undefined, kind: 'wait' | 'good' | 'note' | 'bad' = 'wait', hold?: number, action?: { label: string; run: () => void }): void {
    clearTimeout(this.bannerTimer);
    this.banner.hidden = text === undefined;
    if (text === undefined) return;
    this.banner.className = `banner ${kind}`;
    this.banner.replaceChildren(text);
    if (action) {
      const button = document.createElement('button');
      button.textContent = action.label;
      button.addEventListener('click', action.run);
      this.banner.append(button);
    }
    if (hold !== undefined) this.bannerTimer = setTimeout(() => this.status(undefined), hold);
  }

  /** The room is over. */
  over(code: number, reason: string, again: () => void): void {
    const own = code === CloseCode.Consented || code === CloseCode.Superseded || code === CloseCode.RoomEnded || code < 4000;
    const label = code === CloseCode.Superseded ? 'Play here' : code === CloseCode.RoomEnded ? 'Play on' : 'Join again';
    const kind = code === CloseCode.Consented || code === CloseCode.RoomEnded ? 'note' : 'bad';
    this.status(describe(code) + (reason && !own ? ` (${reason})` : ''), kind, undefined, { label, run: again });
  }

  hintSeen(): void {
    element('hint').classList.add('away');
  }

  private set(id: string, text: string, title?: string): void {
    const known = this.texts.get(id);
    if (!known || known.text === text) return;
    known.text = text;
    known.node.textContent = text;
    if (title !== undefined) known.node.title = title;
  }
  private pop(id: string): void {
    const chip = this.texts.get(id)?.node.parentElement;
    chip?.classList.remove('pop');
    requestAnimationFrame(() => chip?.classList.add('pop'));
  }
}

/** Why something failed, for people. */
export function why(error: unknown): string {
  if (error instanceof TenureError && error.closeCode !== undefined) return `${describe(error.closeCode)} (${error.message})`;
  return error instanceof Error ? error.message : String(error);
}

/** The start card: resolves with a name. */
export function askName(proposal: string, label = 'Play'): Promise<string> {
  const dialog = element<HTMLDialogElement>('start');
  const input = element<HTMLInputElement>('name');
  const form = element<HTMLFormElement>('enter');
  element('enter-go').textContent = label;
  input.value = proposal;
  if (!dialog.open) dialog.showModal();
  input.select();
  dialog.oncancel = (event) => event.preventDefault();
  return new Promise((resolve) => {
    form.onsubmit = () => resolve(input.value.trim() || proposal);
  });
}

function span(className: string, text: string): HTMLElement {
  const node = document.createElement('span');
  if (className) node.className = className;
  node.textContent = text;
  return node;
}
function bold(text: string): HTMLElement {
  const node = document.createElement('b');
  node.textContent = text;
  return node;
}
function icon(item: ShopItem): HTMLElement {
  const node = document.createElement('canvas');
  node.className = 'icon';
  node.width = node.height = 78;
  node.setAttribute('aria-hidden', 'true');
  const g = node.getContext('2d');
  if (g) drawIcon(g, item.id, 78);
  return node;
}
function what(item: ShopItem): HTMLElement {
  const node = span('what', item.label);
  const small = document.createElement('small');
  small.textContent = item.detail;
  node.append(small);
  return node;
}
function price(item: ShopItem): HTMLElement {
  const node = span('price', '');
  const coin = document.createElement('i');
  coin.className = 'coin';
  node.append(coin, String(item.price));
  return node;
}
