// Keeps a room reached: comes back after drops, moves to another gateway before leaving the old one, and knows when not to.
import { CloseCode, isFinal } from './codes.ts';
import { Connection, type ConnectionHandler, type SocketFactory } from './connection.ts';
import { TenureError } from './errors.ts';
import { Alarm, Backoff, type BackoffOptions } from './time.ts';
import type { Joined, ServerMessage, Welcome } from './wire.ts';

export interface LinkOwner {
  hello(): Promise<Uint8Array<ArrayBuffer>>;
  /** The verb of the first attachment, later the resume. */
  verb(id: number): Uint8Array<ArrayBuffer>;
  nextId(): number;
  joined(connection: Connection, welcome: Welcome, joined: Joined): void;
  message(message: ServerMessage): void;
  unreadable(error: unknown): void;
  /** The socket is gone and the seat waits for us. */
  dropped(code: number, reason: string): void;
  /** Attempt `attempt` starts in `delay` ms. */
  retrying(attempt: number, delay: number): void;
  /** No way back. */
  ended(code: number, reason: string, error: TenureError): void;
}

/** What counts of a socket that the seat has left in a move: answers, and what is said once. State comes through the new one. */
const isOwed = (m: ServerMessage): boolean =>
  m.is === 'reply' || m.is === 'refused' || m.is === 'message' || m.is === 'granted' || (m.is === 'error' && m.id !== 0);

/** How long the former socket is read on after a move: answers may be on their way through it, ms. */
const LINGER = 2000;

/** Refusals of a resume that may pass. */
const PASSING = new Set(['may_retry', 'limit']);

export class Link {
  private readonly owner: LinkOwner;
  private readonly open: SocketFactory;
  private readonly random: () => number;
  private readonly backoff: Backoff;
  private readonly retry = new Alarm();
  private current: Connection | undefined;
  private next: Connection | undefined;
  /** The one that the seat was moved from. */
  private former: Connection | undefined;
  private readonly farewell = new Alarm();
  /** The server took the seat for the next socket, as it was asked to: not worth a word unless that one fails. */
  private handing = false;
  private urls: string[] = [];
  private readonly home: string;
  private seated = false;
  /** A socket asked for the seat and was lost before the answer: the server may have taken the seat from the current one for it. */
  private unanswered = false;
  private over = false;

  constructor(owner: LinkOwner, open: SocketFactory, url: string, backoff: BackoffOptions, random: () => number) {
    this.owner = owner;
    this.open = open;
    this.home = url;
    this.random = random;
    this.backoff = new Backoff(backoff, random);
  }

  /** True while a socket holds the seat. */
  get live(): boolean {
    return this.current !== undefined;
  }
  /** Where the seat was taken last. */
  get url(): string {
    return this.current?.url ?? this.urls[0] ?? this.home;
  }

  /** The first attempt. A failure is the end: whoever asked hears it and decides. */
  start(): void {
    this.attempt(this.home);
  }

  /** Sends on the socket that holds the seat. While a new one asks for it, nothing goes to the old: it might get lost. */
  send(bytes: Uint8Array<ArrayBuffer>): boolean {
    if (!this.current || this.next?.asked) return false;
    return this.current.send(bytes);
  }

  /** Make before break: the old socket serves until the new one has the seat. */
  move(urls: string[], after: number): void {
    this.urls = urls.filter((url) => /^wss?:\/\//.test(url));
    if (!this.next) this.retry.start(after, () => this.attempt(this.pick()));
  }

  /** Tries at once, for example because the browser says it is online again. */
  hurry(): void {
    if (this.over || !this.seated || this.current || this.next) return;
    this.retry.stop();
    this.attempt(this.pick());
  }

  /** The socket is lost, the seat is not. */
  drop(reason: string): void {
    this.current?.end(CloseCode.Abnormal, reason);
  }

  /** Ends everything from this side; nobody is told. */
  stop(): void {
    this.over = true;
    this.retry.stop();
    this.leaveFormer();
    this.next?.discard();
    this.current?.discard();
    this.next = this.current = undefined;
  }

  private pick(): string {
    // Every third attempt goes home: the addresses of a move may be gone.
    if (this.urls.length === 0 || this.backoff.attempt % 3 === 0) return this.home;
    return this.urls[Math.min(this.urls.length - 1, Math.floor(this.random() * this.urls.length))] as string;
  }

  private attempt(url: string): void {
    if (this.over || this.next) return;
    const handler: ConnectionHandler = {
      hello: () => this.owner.hello(),
      verb: (id) => this.owner.verb(id),
      joined: (connection, welcome, joined) => {
        const old = this.current;
        this.next = undefined;
        this.current = connection;
        this.seated = true;
        this.unanswered = this.handing = false;
        this.leaveFormer();
        if (old) {
          this.former = old;
          this.farewell.start(LINGER, () => this.leaveFormer());
        }
        this.backoff.live();
        this.owner.joined(connection, welcome, joined);
      },
      message: (connection, message) => {
        if (connection === this.current) this.owner.message(message);
        else if (connection === this.former && isOwed(message)) this.owner.message(message);
      },
      unreadable: (connection, error) => {
        if (connection === this.current) this.owner.unreadable(error);
      },
      closed: (connection, code, reason, error) => this.closed(connection, code, reason, error),
    };
    this.next = new Connection(this.open, url, this.owner.nextId(), handler);
  }

  private leaveFormer(): void {
    this.farewell.stop();
    this.former?.discard();
    this.former = undefined;
  }

  private closed(connection: Connection, code: number, reason: string, error?: TenureError): void {
    if (this.over) return;
    if (connection === this.former) {
      this.leaveFormer();
    } else if (connection === this.current) {
      this.current = undefined;
      this.backoff.lost();
      const own = this.unanswered && code === CloseCode.Superseded;
      if (this.next?.asked) {
        // The server took the seat from the old socket because the new one asked for it, or the old one went before it could.
        this.handing = true;
      } else if (isFinal(code) && !own) {
        this.finish(code, reason, TenureError.closed(code, reason));
      } else {
        this.owner.dropped(code, reason);
        if (!this.next) this.later(connection.askedToWait);
      }
    } else if (connection === this.next) {
      this.next = undefined;
      this.unanswered ||= connection.asked && !error;
      if (this.handing) {
        this.handing = false;
        this.owner.dropped(CloseCode.Moving, 'moved');
      }
      const final = error ? !PASSING.has(error.code) : isFinal(code);
      if (!this.seated || (final && !this.current)) this.finish(code, reason, error ?? TenureError.closed(code, reason, connection.askedToWait));
      else this.later(connection.askedToWait);
    }
  }

  private later(retryAfter: number): void {
    const attempt = this.backoff.attempt;
    const delay = this.backoff.next(retryAfter);
    if (delay === undefined) {
      const reason = `no answer in ${attempt - 1} attempts`;
      if (!this.current) this.finish(CloseCode.Abnormal, reason, TenureError.closed(CloseCode.Abnormal, reason));
      return;
    }
    if (!this.current) this.owner.retrying(attempt, delay);
    this.retry.start(delay, () => this.attempt(this.pick()));
  }

  private finish(code: number, reason: string, error: TenureError): void {
    this.stop();
    this.owner.ended(code, reason, error);
  }
}
