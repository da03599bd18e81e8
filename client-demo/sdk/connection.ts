// One socket, from its opening to its end: login, the verb that takes the seat, then messages. It never comes back.
import { CloseCode } from './codes.ts';
import { TenureError } from './errors.ts';
import { Alarm, now } from './time.ts';
import { PROTOCOL, readServer, type Joined, type ServerMessage, type Welcome } from './wire.ts';

/** The part of the browser's WebSocket that is used. */
export interface Socket {
  binaryType: string;
  readyState: number;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  send(data: Uint8Array<ArrayBuffer>): void;
  close(code?: number, reason?: string): void;
}
export type SocketFactory = (url: string) => Socket;

/** From the opening of a socket to the seat, ms. */
export const LOGIN_TIME = 10_000;
/** Undecodable messages in a row after which a socket is given up. */
export const FAULTS = 5;
/** The shortest silence that ends a socket, whatever the server says, ms. */
const LEAST_IDLE = 1000;
const OPEN = 1;

/** What the owner of a connection does. */
export interface ConnectionHandler {
  /** The first message. */
  hello(): Promise<Uint8Array<ArrayBuffer>>;
  /** The request that takes the seat; its answer must carry `id`. */
  verb(id: number): Uint8Array<ArrayBuffer>;
  /** The seat is taken; messages follow. Throws if the answer cannot be used. */
  joined(connection: Connection, welcome: Welcome, joined: Joined): void;
  /** The answer to a verb that takes no seat; nothing else follows on this socket. */
  answered?(connection: Connection, welcome: Welcome, message: ServerMessage): void;
  message(connection: Connection, message: ServerMessage): void;
  /** Something could not be read; the state needs a snapshot. */
  unreadable(connection: Connection, error: unknown): void;
  /** The end, told once. `error` is set if the server refused the verb. */
  closed(connection: Connection, code: number, reason: string, error?: TenureError): void;
}

export class Connection {
  readonly url: string;
  /** True once the verb is sent: from then on the server may give the seat to this socket. */
  asked = false;
  /** True between `joined` and the end. */
  live = false;
  private readonly id: number;
  private readonly handler: ConnectionHandler;
  private readonly socket: Socket | undefined;
  private readonly deadline = new Alarm();
  private readonly silence = new Alarm();
  private welcome: Welcome | undefined;
  private heard = now();
  private faults = 0;
  private over = false;
  private retryAfter: number | undefined;

  constructor(open: SocketFactory, url: string, id: number, handler: ConnectionHandler) {
    this.url = url;
    this.id = id;
    this.handler = handler;
    this.deadline.start(LOGIN_TIME, () => this.end(CloseCode.Abnormal, 'no answer in time'));
    let socket: Socket;
    try {
      socket = open(url);
    } catch (error) {
      queueMicrotask(() => this.end(CloseCode.Abnormal, String(error)));
      return;
    }
    this.socket = socket;
    socket.binaryType = 'arraybuffer';
    socket.onopen = () => void this.opened();
    socket.onmessage = (event: { data: unknown }) => this.received(event.data);
    socket.onclose = (event: { code: number; reason: string }) => this.end(event.code, event.reason);
    socket.onerror = () => undefined;
  }

  /** False if the socket does not take it; what must arrive is kept by the caller. */
  send(bytes: Uint8Array<ArrayBuffer>): boolean {
    if (this.over || !this.socket || this.socket.readyState !== OPEN) return false;
    this.socket.send(bytes);
    return true;
  }

  /** Milliseconds that the server asked to wait before coming back. */
  get askedToWait(): number {
    return this.retryAfter ?? 0;
  }

  /** Ends it from this side, without a word to the handler. */
  discard(): void {
    this.over = true;
    this.live = false;
    this.deadline.stop();
    this.silence.stop();
    const socket = this.socket;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = socket.onerror = null;
    try {
      socket.close();
    } catch {
      // It was closed already.
    }
  }

  /** Ends it from this side; the handler is told as if the other side had. */
  end(code: number, reason: string, error?: TenureError): void {
    if (this.over) return;
    this.discard();
    this.handler.closed(this, code, reason, error);
  }

  private async opened(): Promise<void> {
    try {
      this.send(await this.handler.hello());
    } catch (error) {
      this.end(CloseCode.Abnormal, `no login token: ${String(error)}`);
    }
  }

  private received(data: unknown): void {
    if (this.over) return;
    this.heard = now();
    try {
      if (!(data instanceof ArrayBuffer || ArrayBuffer.isView(data))) throw new TypeError('a text message');
      const bytes = data instanceof ArrayBuffer ? new Uint8Array(data) : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
      readServer(bytes, (message) => {
        if (!this.over) this.take(message);
      });
      this.faults = 0;
    } catch (error) {
      if (this.over) return;
      this.faults += 1;
      if (!this.live || this.faults >= FAULTS) this.end(CloseCode.Abnormal, `unreadable answer: ${String(error)}`);
      else this.handler.unreadable(this, error);
    }
  }

  private take(message: ServerMessage): void {
    if (message.is === 'error' && message.id === 0) this.retryAfter = message.retryAfter ?? this.retryAfter;
    if (this.live) return this.handler.message(this, message);
    switch (message.is) {
      case 'welcome':
        if (message.protocol !== PROTOCOL) return this.end(CloseCode.ProtocolError, `protocol ${message.protocol}, this page speaks ${PROTOCOL}`);
        this.welcome = message;
        this.asked = true;
        this.send(this.handler.verb(this.id));
        return;
      case 'joined':
        if (!this.welcome || message.id !== this.id) return;
        this.deadline.stop();
        this.live = true;
        this.listen(Math.max(LEAST_IDLE, this.welcome.idle));
        return this.handler.joined(this, this.welcome, message);
      case 'rooms':
        if (!this.welcome || message.id !== this.id) return;
        this.deadline.stop();
        return this.handler.answered?.(this, this.welcome, message);
      case 'error': {
        if (message.id !== this.id) return;
        this.retryAfter = message.retryAfter ?? undefined;
        const code = message.code === 'room_full' ? CloseCode.RoomFull : CloseCode.ResumeFailed;
        return this.end(code, message.message, TenureError.told(message.code, message.message, message.retryAfter));
      }
      default:
        return;
    }
  }

  /** A link that says nothing for `idle` is dead, even if nobody closed it. The server pings often enough for that. */
  private listen(idle: number): void {
    const check = (): void => {
      const quiet = now() - this.heard;
      if (quiet >= idle) this.end(CloseCode.Abnormal, `silent for ${Math.round(quiet / 1000)} s`);
      else this.silence.start(idle - quiet, check);
    };
    this.silence.start(idle, check);
  }
}
