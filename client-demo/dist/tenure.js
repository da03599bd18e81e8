// sdk/codes.ts
var CloseCode = {
  Normal: 1e3,
  GoingAway: 1001,
  Abnormal: 1006,
  TooBig: 1009,
  Internal: 1011,
  Restart: 1012,
  TryLater: 1013,
  /** The player left on purpose. */
  Consented: 4e3,
  Moving: 4001,
  RoomError: 4002,
  ResumeFailed: 4003,
  Superseded: 4004,
  SlowConsumer: 4005,
  RateLimited: 4006,
  ProtocolError: 4007,
  /** Log in again: the token is missing, wrong or expired. */
  Unauthorised: 4008,
  RoomFull: 4009,
  MayRetry: 4010,
  /** The game put the player out. */
  Kicked: 4011,
  /** The game ended the room: its match is over. */
  RoomEnded: 4012
};
var CODES = {
  [CloseCode.Normal]: ["normal", "over", "You left the room."],
  [CloseCode.GoingAway]: ["unreachable", "again", "The server went away."],
  [CloseCode.Abnormal]: ["unreachable", "again", "The connection was lost."],
  [CloseCode.TooBig]: ["too_big", "held", "This page sent more than the server takes. Reload the page."],
  [CloseCode.Internal]: ["internal", "again", "The server met a fault."],
  [CloseCode.Restart]: ["restart", "again", "The server restarts."],
  [CloseCode.TryLater]: ["try_later", "again", "The server has too much to do. Come back later."],
  [CloseCode.Consented]: ["consented", "over", "You left the room."],
  [CloseCode.Moving]: ["moving", "again", "The server moves you to another one."],
  [CloseCode.RoomError]: ["room_error", "over", "The room failed and cannot go on."],
  [CloseCode.ResumeFailed]: ["resume_failed", "over", "Your seat could not be kept."],
  [CloseCode.Superseded]: ["superseded", "held", "This seat is being played in another tab."],
  [CloseCode.SlowConsumer]: ["slow_consumer", "again", "Your connection is too slow for this room."],
  [CloseCode.RateLimited]: ["rate_limited", "again", "This page sent too much in a short time."],
  [CloseCode.ProtocolError]: ["protocol_error", "held", "This page and the server do not understand each other. Reload the page."],
  [CloseCode.Unauthorised]: ["unauthorised", "held", "The server did not accept your login. Log in again."],
  [CloseCode.RoomFull]: ["room_full", "over", "The room is full."],
  [CloseCode.MayRetry]: ["may_retry", "again", "The server could not answer for a moment."],
  [CloseCode.Kicked]: ["kicked", "over", "You were put out of this room."],
  [CloseCode.RoomEnded]: ["room_ended", "over", "The room has ended."]
};
function isFinal(code) {
  return (CODES[code]?.[1] ?? "again") !== "again";
}
function isGone(code) {
  return CODES[code]?.[1] === "over";
}
function codeName(code) {
  return CODES[code]?.[0] ?? "unreachable";
}
function describe(code) {
  return CODES[code]?.[2] ?? "The connection was lost.";
}

// sdk/errors.ts
var TenureError = class _TenureError extends Error {
  name = "TenureError";
  code;
  /** The same call may succeed later. */
  retryable;
  /** Milliseconds after which to try again, when the server named them. */
  retryAfter;
  /** The socket's close code (`CloseCode`), when that is what went wrong. */
  closeCode;
  constructor(code, message2, more = {}) {
    super(message2);
    this.code = code;
    this.retryAfter = more.retryAfter ?? void 0;
    this.closeCode = more.closeCode;
    this.retryable = more.retryable ?? (more.retryAfter != null || RETRYABLE.has(code));
  }
  /** What the server said: one of its words, or one of the game's own. One that is called like one of the SDK's is not retryable for that. */
  static told(code, message2, retryAfter = null) {
    return new _TenureError(code, message2, { retryAfter, retryable: retryAfter !== null || SERVERS.has(code) });
  }
  /** A socket was closed with this code: its name is the error's. */
  static closed(closeCode, reason, retryAfter = 0) {
    const more = { closeCode, retryable: !isFinal(closeCode), retryAfter: retryAfter > 0 ? retryAfter : null };
    return new _TenureError(codeName(closeCode), reason || `closed with ${closeCode}`, more);
  }
};
var SERVERS = /* @__PURE__ */ new Set(["may_retry", "limit"]);
var RETRYABLE = /* @__PURE__ */ new Set(["unreachable", "backlog_full", ...SERVERS]);

// sdk/time.ts
var LONGEST = 2 ** 31 - 1;
function now() {
  return performance.now();
}
var Alarm = class {
  timer;
  get set() {
    return this.timer !== void 0;
  }
  /** Calls `then` once after `ms`; a wait that was set before is dropped. */
  start(ms, then) {
    this.stop();
    const due = now() + Math.max(0, ms);
    const step = () => {
      const left = due - now();
      if (left <= 0) {
        this.timer = void 0;
        then();
      } else {
        this.timer = setTimeout(step, Math.min(Math.ceil(left), LONGEST));
      }
    };
    this.timer = setTimeout(step, Math.min(Math.ceil(Math.max(0, ms)), LONGEST));
  }
  stop() {
    if (this.timer !== void 0) clearTimeout(this.timer);
    this.timer = void 0;
  }
};
var BACKOFF = { first: 1e3, cap: 8e3, attempts: 40, stable: 1e4 };
var Backoff = class {
  options;
  random;
  failed = 0;
  liveSince;
  constructor(options, random) {
    this.options = options;
    this.random = random;
  }
  /** Number of the next attempt, from 1. */
  get attempt() {
    return this.failed + 1;
  }
  /** A connection stands. Only after `stable` does that count, or a server that accepts and closes would be hammered. */
  live() {
    this.liveSince = now();
  }
  lost() {
    if (this.liveSince !== void 0 && now() - this.liveSince >= this.options.stable) this.failed = 0;
    this.liveSince = void 0;
  }
  /** Milliseconds to wait before the next attempt, or undefined when it is time to give up. */
  next(retryAfter) {
    if (this.failed >= this.options.attempts) return void 0;
    const window = Math.min(this.options.cap, this.options.first * 2 ** Math.min(this.failed, 16));
    this.failed += 1;
    return retryAfter + this.random() * window;
  }
};

// sdk/msgpack.ts
var MAX_DEPTH = 32;
var DecodeError = class extends Error {
  name = "DecodeError";
};
var texts = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
var utf8 = new TextEncoder();
var Reader = class {
  bytes;
  view;
  at = 0;
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }
  /** True when all bytes are read. */
  get done() {
    return this.at >= this.bytes.length;
  }
  /** The next value. Throws `DecodeError`; the reader must not be used after that. */
  read(depth = 0) {
    if (depth > MAX_DEPTH) throw new DecodeError(`nested deeper than ${MAX_DEPTH} at byte ${this.at}`);
    const b = this.byte();
    if (b < 128) return b;
    if (b >= 224) return b - 256;
    if (b < 144) return this.map(b & 15, depth);
    if (b < 160) return this.array(b & 15, depth);
    if (b < 192) return this.text(b & 31);
    switch (b) {
      case 192:
        return null;
      case 194:
        return false;
      case 195:
        return true;
      case 196:
        return this.binary(this.uint(1));
      case 197:
        return this.binary(this.uint(2));
      case 198:
        return this.binary(this.uint(4));
      case 202:
        return this.view.getFloat32(this.skip(4));
      case 203:
        return this.view.getFloat64(this.skip(8));
      case 204:
        return this.uint(1);
      case 205:
        return this.uint(2);
      case 206:
        return this.uint(4);
      case 207:
        return exact(this.view.getBigUint64(this.skip(8)));
      case 208:
        return this.view.getInt8(this.skip(1));
      case 209:
        return this.view.getInt16(this.skip(2));
      case 210:
        return this.view.getInt32(this.skip(4));
      case 211:
        return exact(this.view.getBigInt64(this.skip(8)));
      case 217:
        return this.text(this.uint(1));
      case 218:
        return this.text(this.uint(2));
      case 219:
        return this.text(this.uint(4));
      case 220:
        return this.array(this.uint(2), depth);
      case 221:
        return this.array(this.uint(4), depth);
      case 222:
        return this.map(this.uint(2), depth);
      case 223:
        return this.map(this.uint(4), depth);
      default:
        throw new DecodeError(`unexpected byte 0x${b.toString(16)} at ${this.at - 1}`);
    }
  }
  byte() {
    const b = this.bytes[this.at];
    if (b === void 0) throw new DecodeError(`ends at byte ${this.at}`);
    this.at += 1;
    return b;
  }
  skip(n) {
    const from = this.at;
    if (n > this.bytes.length - from) throw new DecodeError(`${n} bytes wanted at byte ${from}, ${this.bytes.length - from} left`);
    this.at = from + n;
    return from;
  }
  uint(size) {
    const from = this.skip(size);
    return size === 1 ? this.view.getUint8(from) : size === 2 ? this.view.getUint16(from) : this.view.getUint32(from);
  }
  text(n) {
    const from = this.skip(n);
    if (n < 16) {
      let out = "";
      for (let i = from; i < this.at; i++) {
        const b = this.bytes[i];
        if (b >= 128) return this.utf8(from);
        out += String.fromCharCode(b);
      }
      return out;
    }
    return this.utf8(from);
  }
  utf8(from) {
    try {
      return texts.decode(this.bytes.subarray(from, this.at));
    } catch {
      throw new DecodeError(`text at byte ${from} is not UTF-8`);
    }
  }
  binary(n) {
    const from = this.skip(n);
    return this.bytes.slice(from, this.at);
  }
  array(n, depth) {
    if (n > this.bytes.length - this.at) throw new DecodeError(`array of ${n} at byte ${this.at} is longer than the message`);
    const out = [];
    for (let i = 0; i < n; i++) out.push(this.read(depth + 1));
    return out;
  }
  map(n, depth) {
    if (n * 2 > this.bytes.length - this.at) throw new DecodeError(`map of ${n} at byte ${this.at} is longer than the message`);
    const out = /* @__PURE__ */ new Map();
    for (let i = 0; i < n; i++) {
      const key = this.read(depth + 1);
      out.set(key, this.read(depth + 1));
    }
    return out;
  }
};
function exact(n) {
  return n <= BigInt(Number.MAX_SAFE_INTEGER) && n >= BigInt(Number.MIN_SAFE_INTEGER) ? Number(n) : n;
}
var Writer = class {
  bytes = new Uint8Array(64);
  view = new DataView(this.bytes.buffer);
  at = 0;
  /** What was written, as a copy. */
  finish() {
    return this.bytes.slice(0, this.at);
  }
  /** Bytes that are MessagePack already. */
  raw(bytes) {
    const from = this.room(bytes.length);
    this.bytes.set(bytes, from);
    return this;
  }
  /** Only the header of an array; `n` values must follow. */
  arrayHeader(n) {
    if (n < 16) return this.u8(144 | n);
    return n < 65536 ? this.u8(220).u16(n) : this.u8(221).u32(n);
  }
  /**
   * Any value. Integers take their shortest form, other numbers are 64-bit floats; of plain objects the own enumerable
   * fields are written as a map, fields that are `undefined` left out. Throws on cycles and on what has no form.
   */
  value(v, depth = 0) {
    if (depth > MAX_DEPTH) throw new TypeError(`payload is nested deeper than ${MAX_DEPTH}`);
    if (v === null || v === void 0) return this.u8(192);
    switch (typeof v) {
      case "boolean":
        return this.u8(v ? 195 : 194);
      case "number":
        return this.number(v);
      case "bigint":
        return this.bigint(v);
      case "string":
        return this.text(v);
      case "object":
        break;
      default:
        throw new TypeError(`a ${typeof v} cannot be sent`);
    }
    if (v instanceof Uint8Array) return this.binary(v);
    if (Array.isArray(v)) {
      this.arrayHeader(v.length);
      for (const item of v) this.value(item, depth + 1);
      return this;
    }
    const entries = v instanceof Map ? [...v] : Object.entries(v).filter(([, x]) => x !== void 0);
    this.mapHeader(entries.length);
    for (const [key, item] of entries) this.value(key, depth + 1).value(item, depth + 1);
    return this;
  }
  mapHeader(n) {
    if (n < 16) return this.u8(128 | n);
    return n < 65536 ? this.u8(222).u16(n) : this.u8(223).u32(n);
  }
  number(v) {
    if (!Number.isSafeInteger(v)) {
      const at = this.u8(203).room(8);
      this.view.setFloat64(at, v);
      return this;
    }
    if (v >= 0) {
      if (v < 128) return this.u8(v);
      if (v < 256) return this.u8(204).u8(v);
      if (v < 65536) return this.u8(205).u16(v);
      if (v < 4294967296) return this.u8(206).u32(v);
      return this.bigint(BigInt(v));
    }
    if (v >= -32) return this.u8(v + 256);
    if (v >= -128) return this.u8(208).u8(v + 256);
    if (v >= -32768) return this.u8(209).u16(v + 65536);
    if (v >= -2147483648) return this.u8(210).u32(v + 4294967296);
    return this.bigint(BigInt(v));
  }
  bigint(v) {
    if (BigInt.asUintN(64, v) === v) {
      const at = this.u8(207).room(8);
      this.view.setBigUint64(at, v);
    } else if (BigInt.asIntN(64, v) === v) {
      const at = this.u8(211).room(8);
      this.view.setBigInt64(at, v);
    } else {
      throw new TypeError("an integer of more than 64 bits cannot be sent");
    }
    return this;
  }
  text(v) {
    const bytes = utf8.encode(v);
    const n = bytes.length;
    if (n < 32) this.u8(160 | n);
    else if (n < 256) this.u8(217).u8(n);
    else if (n < 65536) this.u8(218).u16(n);
    else this.u8(219).u32(n);
    return this.raw(bytes);
  }
  binary(v) {
    const n = v.length;
    if (n < 256) this.u8(196).u8(n);
    else if (n < 65536) this.u8(197).u16(n);
    else this.u8(198).u32(n);
    return this.raw(v);
  }
  u8(v) {
    const at = this.room(1);
    this.view.setUint8(at, v);
    return this;
  }
  u16(v) {
    const at = this.room(2);
    this.view.setUint16(at, v);
    return this;
  }
  u32(v) {
    const at = this.room(4);
    this.view.setUint32(at, v);
    return this;
  }
  /** Makes room for `n` bytes and says where. The view may be another one afterwards. */
  room(n) {
    const from = this.at;
    if (from + n > this.bytes.length) {
      const bigger = new Uint8Array(Math.max(this.bytes.length * 2, from + n));
      bigger.set(this.bytes);
      this.bytes = bigger;
      this.view = new DataView(bigger.buffer);
    }
    this.at = from + n;
    return from;
  }
};
function encode(value) {
  return new Writer().value(value).finish();
}
function decode(bytes) {
  const reader = new Reader(bytes);
  const value = reader.read();
  if (!reader.done) throw new DecodeError("bytes after the value");
  return value;
}

// sdk/wire.ts
var PROTOCOL = 1;
var UNKNOWN_TYPE = 65535;
var Space = { Component: 0, Resource: 1, Message: 2, Request: 3, Event: 4 };
var WireError = class extends Error {
  name = "WireError";
};
function readServer(bytes, take) {
  const reader = new Reader(bytes);
  if (reader.done) throw new DecodeError("empty message");
  while (!reader.done) take(parse(reader.read()));
}
function parse(value) {
  const f = new Fields(value);
  const message2 = fields(f);
  f.end();
  return message2;
}
function fields(f) {
  const kind = f.int();
  switch (kind) {
    case 1:
      return {
        is: "welcome",
        protocol: f.int(),
        player: f.text(),
        token: f.optText(),
        server: f.text(),
        ping: f.int(),
        idle: f.int(),
        bytes: f.int(),
        rate: f.int()
      };
    case 2:
      return {
        is: "joined",
        id: f.int(),
        room: f.text(),
        seat: f.int(),
        generation: f.int(),
        session: f.text(),
        term: f.int(),
        tick: f.int(),
        owed: f.int(),
        tickRate: f.int(),
        hash: f.hash(),
        table: f.table()
      };
    case 3:
      return { is: "error", id: f.int(), code: f.text(), message: f.text(), retryAfter: f.optInt() };
    case 4:
      return { is: "left", id: f.int() };
    case 5:
      return { is: "frame", term: f.int(), tick: f.int(), ops: f.ops() };
    case 6:
      return { is: "tail", applied: f.int(), saved: f.int(), ops: f.ops() };
    case 7:
      return { is: "snapshot", term: f.int(), tick: f.int(), ops: f.ops() };
    case 8:
      return { is: "message", type: f.int(), payload: f.any() };
    case 9:
      return { is: "reply", id: f.int(), payload: f.any() };
    case 10:
      return { is: "pong", id: f.int(), time: f.int() };
    case 11:
      return { is: "move", urls: f.list().map(asText), after: f.int() };
    case 12:
      return { is: "rolled_back", term: f.int(), tick: f.int() };
    case 13:
      return { is: "session", session: f.text() };
    case 14:
      return { is: "granted", source: f.text(), scheduledFor: f.optInt(), grants: f.amounts(), balances: f.amounts() };
    case 15:
      return { is: "refused", seq: f.int(), code: f.text(), message: f.text() };
    case 16:
      return { is: "heartbeat", term: f.int(), tick: f.int() };
    case 17:
      return { is: "renewed", seat: f.int(), tickRate: f.int(), hash: f.hash(), table: f.table() };
    case 18:
      return { is: "rooms", id: f.int(), rooms: f.list().map(listed), next: f.optText() };
    default:
      throw new WireError(`unknown kind ${kind}`);
  }
}
function listed(row) {
  const f = new Fields(row);
  const [room, seats, maxSeats, locked, metadata] = [f.text(), f.int(), f.int(), f.flag(), f.any()];
  f.end();
  return { room, seats, maxSeats, locked, metadata: metadata instanceof Map ? metadata : /* @__PURE__ */ new Map() };
}
var Fields = class _Fields {
  items;
  at = 0;
  constructor(value) {
    this.items = asList(value);
  }
  any() {
    const value = this.items[this.at];
    if (value === void 0) throw new WireError(`field ${this.at} is missing`);
    this.at += 1;
    return value;
  }
  /** There must be no more. */
  end() {
    if (this.at !== this.items.length) throw new WireError(`${this.items.length} fields, expected ${this.at}`);
  }
  int() {
    return asInt(this.any());
  }
  optInt() {
    const value = this.any();
    return value === null ? null : asInt(value);
  }
  text() {
    return asText(this.any());
  }
  optText() {
    const value = this.any();
    return value === null ? null : asText(value);
  }
  flag() {
    const value = this.any();
    if (typeof value !== "boolean") throw new WireError(`expected true or false, got ${typeof value}`);
    return value;
  }
  list() {
    return asList(this.any());
  }
  ops() {
    return this.list().map(asList);
  }
  hash() {
    const value = this.any();
    if (!(value instanceof Uint8Array) || value.length !== 8) throw new WireError("expected 8 bytes");
    return value;
  }
  amounts() {
    return new Map(
      this.list().map((pair) => {
        const f = new _Fields(pair);
        const currency = f.text();
        const amount = f.any();
        if (!Number.isSafeInteger(amount)) throw new WireError("expected an amount");
        f.end();
        return [currency, amount];
      })
    );
  }
  table() {
    const rows = this.any();
    if (rows === null) return null;
    return asList(rows).map((row) => {
      const f = new _Fields(row);
      const [space, number, name, version] = [f.int(), f.int(), f.text(), f.int()];
      const fields2 = f.any();
      f.end();
      return { space, number, name, version, fields: fields2 === null ? null : asList(fields2).map(asText) };
    });
  }
};
function asInt(value) {
  if (!Number.isSafeInteger(value) || value < 0) throw new WireError(`expected a whole number, got ${typeof value}`);
  return value;
}
function asText(value) {
  if (typeof value !== "string") throw new WireError(`expected a text, got ${typeof value}`);
  return value;
}
function asList(value) {
  if (!Array.isArray(value)) throw new WireError(`expected an array, got ${typeof value}`);
  return value;
}
var client = {
  hello: (token, table) => message(1, PROTOCOL, token, table),
  joinOrCreate: (id, kind, region, name, options, filter) => wanted(2, id, kind, region, name, options, filter),
  create: (id, kind, region, name, options, filter) => wanted(3, id, kind, region, name, options, filter),
  join: (id, room, options) => messageWith(options, 4, id, room),
  /** `resumes`: see `Room`; 0 if it is not known. */
  resume: (id, room, session2, term, tick, first, resumes) => resumes > 0 ? message(5, id, room, session2, term, tick, first, resumes) : message(5, id, room, session2, term, tick, first),
  leave: (id) => message(6, id),
  message: (seq, type, payload) => messageWith(payload, 7, seq, type),
  request: (seq, id, type, payload) => messageWith(payload, 8, seq, id, type),
  ping: (id) => message(9, id),
  sessionAck: (session2) => message(10, session2),
  resync: () => message(11),
  table: (hash) => message(12, hash),
  rooms: (id, kind, region, filter, open, after, limit) => {
    const out = new Writer().arrayHeader(8).value(13).value(id).value(kind).value(region);
    return (filter ? out.raw(filter) : out.value(null)).value(open).value(after).value(limit).finish();
  }
};
function wanted(verb, id, kind, region, name, options, filter) {
  const out = new Writer().arrayHeader(filter ? 7 : 6).value(verb).value(id).value(kind).value(region).value(name).raw(options);
  return (filter ? out.raw(filter) : out).finish();
}
function message(...fields2) {
  return new Writer().value(fields2).finish();
}
function messageWith(last, ...fields2) {
  const out = new Writer().arrayHeader(fields2.length + 1);
  for (const field of fields2) out.value(field);
  return out.raw(last).finish();
}

// sdk/connection.ts
var LOGIN_TIME = 1e4;
var FAULTS = 5;
var LEAST_IDLE = 1e3;
var OPEN = 1;
var Connection = class {
  url;
  /** True once the verb is sent: from then on the server may give the seat to this socket. */
  asked = false;
  /** True between `joined` and the end. */
  live = false;
  id;
  handler;
  socket;
  deadline = new Alarm();
  silence = new Alarm();
  welcome;
  heard = now();
  faults = 0;
  over = false;
  retryAfter;
  constructor(open, url, id, handler) {
    this.url = url;
    this.id = id;
    this.handler = handler;
    this.deadline.start(LOGIN_TIME, () => this.end(CloseCode.Abnormal, "no answer in time"));
    let socket;
    try {
      socket = open(url);
    } catch (error) {
      queueMicrotask(() => this.end(CloseCode.Abnormal, String(error)));
      return;
    }
    this.socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => void this.opened();
    socket.onmessage = (event) => this.received(event.data);
    socket.onclose = (event) => this.end(event.code, event.reason);
    socket.onerror = () => void 0;
  }
  /** False if the socket does not take it; what must arrive is kept by the caller. */
  send(bytes) {
    if (this.over || !this.socket || this.socket.readyState !== OPEN) return false;
    this.socket.send(bytes);
    return true;
  }
  /** Milliseconds that the server asked to wait before coming back. */
  get askedToWait() {
    return this.retryAfter ?? 0;
  }
  /** Ends it from this side, without a word to the handler. */
  discard() {
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
    }
  }
  /** Ends it from this side; the handler is told as if the other side had. */
  end(code, reason, error) {
    if (this.over) return;
    this.discard();
    this.handler.closed(this, code, reason, error);
  }
  async opened() {
    try {
      this.send(await this.handler.hello());
    } catch (error) {
      this.end(CloseCode.Abnormal, `no login token: ${String(error)}`);
    }
  }
  received(data) {
    if (this.over) return;
    this.heard = now();
    try {
      if (!(data instanceof ArrayBuffer || ArrayBuffer.isView(data))) throw new TypeError("a text message");
      const bytes = data instanceof ArrayBuffer ? new Uint8Array(data) : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
      readServer(bytes, (message2) => {
        if (!this.over) this.take(message2);
      });
      this.faults = 0;
    } catch (error) {
      if (this.over) return;
      this.faults += 1;
      if (!this.live || this.faults >= FAULTS) this.end(CloseCode.Abnormal, `unreadable answer: ${String(error)}`);
      else this.handler.unreadable(this, error);
    }
  }
  take(message2) {
    if (message2.is === "error" && message2.id === 0) this.retryAfter = message2.retryAfter ?? this.retryAfter;
    if (this.live) return this.handler.message(this, message2);
    switch (message2.is) {
      case "welcome":
        if (message2.protocol !== PROTOCOL) return this.end(CloseCode.ProtocolError, `protocol ${message2.protocol}, this page speaks ${PROTOCOL}`);
        this.welcome = message2;
        this.asked = true;
        this.send(this.handler.verb(this.id));
        return;
      case "joined":
        if (!this.welcome || message2.id !== this.id) return;
        this.deadline.stop();
        this.live = true;
        this.listen(Math.max(LEAST_IDLE, this.welcome.idle));
        return this.handler.joined(this, this.welcome, message2);
      case "rooms":
        if (!this.welcome || message2.id !== this.id) return;
        this.deadline.stop();
        return this.handler.answered?.(this, this.welcome, message2);
      case "error": {
        if (message2.id !== this.id) return;
        this.retryAfter = message2.retryAfter ?? void 0;
        const code = message2.code === "room_full" ? CloseCode.RoomFull : CloseCode.ResumeFailed;
        return this.end(code, message2.message, TenureError.told(message2.code, message2.message, message2.retryAfter));
      }
      default:
        return;
    }
  }
  /** A link that says nothing for `idle` is dead, even if nobody closed it. The server pings often enough for that. */
  listen(idle) {
    const check = () => {
      const quiet = now() - this.heard;
      if (quiet >= idle) this.end(CloseCode.Abnormal, `silent for ${Math.round(quiet / 1e3)} s`);
      else this.silence.start(idle - quiet, check);
    };
    this.silence.start(idle, check);
  }
};

// sdk/table.ts
var NameTable = class {
  hash;
  byNumber = /* @__PURE__ */ new Map();
  byName = /* @__PURE__ */ new Map();
  constructor(hash, rows) {
    this.hash = hash;
    for (const { space, number, name, version, fields: fields2 } of rows) {
      if (space > Space.Event || number > 65535) continue;
      const named2 = { number, name, version, fields: fields2 };
      this.byNumber.set(space * 65536 + number, named2);
      this.byName.set(`${space}:${name}`, named2);
    }
  }
  find(space, number) {
    return this.byNumber.get(space * 65536 + number);
  }
  named(space, name) {
    return this.byName.get(`${space}:${name}`);
  }
};
var TABLES = 8;
var Tables = class {
  known = [];
  /** The server need not send this one again. */
  get newest() {
    return this.known[0];
  }
  /** The table that the server means: what it sent, or with null the one of this hash. Undefined, and all are forgotten, if there is none. */
  take(hash, rows) {
    const table = rows ? new NameTable(hash, rows) : this.known.find((known) => sameHash(known.hash, hash));
    this.known = table ? [table, ...this.known.filter((known) => !sameHash(known.hash, hash))].slice(0, TABLES) : [];
    return table;
  }
};
function sameHash(a, b) {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}
function shape(value, fields2) {
  if (!fields2 || !Array.isArray(value)) return named(value);
  const out = /* @__PURE__ */ Object.create(null);
  for (let i = 0; i < fields2.length && i < value.length; i++) out[fields2[i]] = named(value[i]);
  return out;
}
function named(value) {
  if (Array.isArray(value)) return value.map(named);
  if (!(value instanceof Map)) return value;
  const entries = [...value];
  if (!entries.every(([key]) => typeof key === "string")) return new Map(entries.map(([key, item]) => [key, named(item)]));
  const out = /* @__PURE__ */ Object.create(null);
  for (const [key, item] of entries) out[key] = named(item);
  return out;
}
function flatten(payload, fields2) {
  if (!fields2 || typeof payload !== "object" || payload === null) return payload;
  if (Array.isArray(payload) || payload instanceof Map || payload instanceof Uint8Array) return payload;
  return fields2.map((field) => Object.hasOwn(payload, field) ? payload[field] ?? null : null);
}
function same(a, b) {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) || a instanceof Uint8Array) {
    if (!(Array.isArray(b) || b instanceof Uint8Array) || a.length !== b.length) return false;
    return a.every((item, i) => same(item, b[i]));
  }
  if (a instanceof Map) {
    if (!(b instanceof Map) || a.size !== b.size) return false;
    return [...a].every(([key, item]) => b.has(key) && same(item, b.get(key)));
  }
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && same(a[key], b[key]));
}

// sdk/lobby.ts
var ID = 1;
var PAGE = 20;
function packFilter(filter) {
  return filter && Object.keys(filter).length > 0 ? encode(filter) : void 0;
}
function listRooms(context, url, kind, wanted2) {
  const filter = packFilter(wanted2.filter) ?? null;
  return new Promise((resolve, reject) => {
    const handler = {
      hello: async () => client.hello(await context.token() ?? null, null),
      verb: (id) => client.rooms(id, kind ?? null, wanted2.region ?? null, filter, wanted2.open ?? true, wanted2.after ?? null, wanted2.limit ?? PAGE),
      answered: (connection, welcome, message2) => {
        if (message2.is !== "rooms") return;
        if (welcome.token !== null) context.keepToken(welcome.token);
        connection.discard();
        const rooms = message2.rooms.map((row) => ({ ...row, metadata: named(row.metadata) }));
        resolve({ rooms, next: message2.next });
      },
      joined: (connection) => connection.end(CloseCode.ProtocolError, "a seat that nobody asked for"),
      message: () => void 0,
      unreadable: (connection, error) => connection.end(CloseCode.Abnormal, String(error)),
      closed: (_connection, code, reason, error) => reject(error ?? new TenureError("unreachable", `no list of rooms: ${code} ${reason}`))
    };
    new Connection(context.socket, url, ID, handler);
  });
}

// sdk/leaving.ts
var Leaving = class {
  done;
  settle = () => void 0;
  deadline = new Alarm();
  /** `late` is called when no answer came within `timeout` ms; `done` rejects then. */
  constructor(timeout, late) {
    this.done = new Promise((resolve, reject) => {
      this.settle = (error) => error ? reject(error) : resolve();
    });
    this.deadline.start(timeout, () => {
      late();
      this.settle(new TenureError("unreachable", `the server did not confirm the leave within ${timeout} ms; it is told as soon as it can be reached`));
    });
  }
  /** It is over: the seat is given up, or `error` says why it may not be. */
  end(error) {
    this.deadline.stop();
    this.settle(error);
  }
};

// sdk/link.ts
var isOwed = (m) => m.is === "reply" || m.is === "refused" || m.is === "message" || m.is === "granted" || m.is === "error" && m.id !== 0;
var LINGER = 2e3;
var PASSING = /* @__PURE__ */ new Set(["may_retry", "limit"]);
var Link = class {
  owner;
  open;
  random;
  backoff;
  retry = new Alarm();
  current;
  next;
  /** The one that the seat was moved from. */
  former;
  farewell = new Alarm();
  /** The server took the seat for the next socket, as it was asked to: not worth a word unless that one fails. */
  handing = false;
  urls = [];
  home;
  seated = false;
  /** A socket asked for the seat and was lost before the answer: the server may have taken the seat from the current one for it. */
  unanswered = false;
  over = false;
  constructor(owner, open, url, backoff, random) {
    this.owner = owner;
    this.open = open;
    this.home = url;
    this.random = random;
    this.backoff = new Backoff(backoff, random);
  }
  /** True while a socket holds the seat. */
  get live() {
    return this.current !== void 0;
  }
  /** Where the seat was taken last. */
  get url() {
    return this.current?.url ?? this.urls[0] ?? this.home;
  }
  /** The first attempt. A failure is the end: whoever asked hears it and decides. */
  start() {
    this.attempt(this.home);
  }
  /** Sends on the socket that holds the seat. While a new one asks for it, nothing goes to the old: it might get lost. */
  send(bytes) {
    if (!this.current || this.next?.asked) return false;
    return this.current.send(bytes);
  }
  /** Make before break: the old socket serves until the new one has the seat. */
  move(urls, after) {
    this.urls = urls.filter((url) => /^wss?:\/\//.test(url));
    if (!this.next) this.retry.start(after, () => this.attempt(this.pick()));
  }
  /** Tries at once, for example because the browser says it is online again. */
  hurry() {
    if (this.over || !this.seated || this.current || this.next) return;
    this.retry.stop();
    this.attempt(this.pick());
  }
  /** The socket is lost, the seat is not. */
  drop(reason) {
    this.current?.end(CloseCode.Abnormal, reason);
  }
  /** Ends everything from this side; nobody is told. */
  stop() {
    this.over = true;
    this.retry.stop();
    this.leaveFormer();
    this.next?.discard();
    this.current?.discard();
    this.next = this.current = void 0;
  }
  pick() {
    if (this.urls.length === 0 || this.backoff.attempt % 3 === 0) return this.home;
    return this.urls[Math.min(this.urls.length - 1, Math.floor(this.random() * this.urls.length))];
  }
  attempt(url) {
    if (this.over || this.next) return;
    const handler = {
      hello: () => this.owner.hello(),
      verb: (id) => this.owner.verb(id),
      joined: (connection, welcome, joined) => {
        const old = this.current;
        this.next = void 0;
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
      message: (connection, message2) => {
        if (connection === this.current) this.owner.message(message2);
        else if (connection === this.former && isOwed(message2)) this.owner.message(message2);
      },
      unreadable: (connection, error) => {
        if (connection === this.current) this.owner.unreadable(error);
      },
      closed: (connection, code, reason, error) => this.closed(connection, code, reason, error)
    };
    this.next = new Connection(this.open, url, this.owner.nextId(), handler);
  }
  leaveFormer() {
    this.farewell.stop();
    this.former?.discard();
    this.former = void 0;
  }
  closed(connection, code, reason, error) {
    if (this.over) return;
    if (connection === this.former) {
      this.leaveFormer();
    } else if (connection === this.current) {
      this.current = void 0;
      this.backoff.lost();
      const own = this.unanswered && code === CloseCode.Superseded;
      if (this.next?.asked) {
        this.handing = true;
      } else if (isFinal(code) && !own) {
        this.finish(code, reason, TenureError.closed(code, reason));
      } else {
        this.owner.dropped(code, reason);
        if (!this.next) this.later(connection.askedToWait);
      }
    } else if (connection === this.next) {
      this.next = void 0;
      this.unanswered ||= connection.asked && !error;
      if (this.handing) {
        this.handing = false;
        this.owner.dropped(CloseCode.Moving, "moved");
      }
      const final = error ? !PASSING.has(error.code) : isFinal(code);
      if (!this.seated || final && !this.current) this.finish(code, reason, error ?? TenureError.closed(code, reason, connection.askedToWait));
      else this.later(connection.askedToWait);
    }
  }
  later(retryAfter) {
    const attempt2 = this.backoff.attempt;
    const delay = this.backoff.next(retryAfter);
    if (delay === void 0) {
      const reason = `no answer in ${attempt2 - 1} attempts`;
      if (!this.current) this.finish(CloseCode.Abnormal, reason, TenureError.closed(CloseCode.Abnormal, reason));
      return;
    }
    if (!this.current) this.owner.retrying(attempt2, delay);
    this.retry.start(delay, () => this.attempt(this.pick()));
  }
  finish(code, reason, error) {
    this.stop();
    this.owner.ended(code, reason, error);
  }
};

// sdk/emitter.ts
var Emitter = class {
  listeners = /* @__PURE__ */ new Set();
  held = [];
  hold;
  lost;
  /** `lost` hears of each held event that had to make room, oldest first. */
  constructor(hold = 0, lost = () => void 0) {
    this.hold = hold;
    this.lost = lost;
  }
  get heard() {
    return this.listeners.size > 0;
  }
  on(listener) {
    const own = (...args) => listener(...args);
    this.listeners.add(own);
    for (const args of this.take()) guard(own, args);
    return () => void this.listeners.delete(own);
  }
  emit(...args) {
    if (this.listeners.size === 0 && this.hold > 0) {
      this.held.push(args);
      if (this.held.length > this.hold) {
        this.held.shift();
        this.lost();
      }
      return;
    }
    for (const listener of Array.from(this.listeners)) guard(listener, args);
  }
  /** What was held, for somebody else. */
  take() {
    return this.held.splice(0);
  }
};
var Emitters = class {
  byName = /* @__PURE__ */ new Map();
  on(name, listener) {
    let found = this.byName.get(name);
    if (!found) this.byName.set(name, found = new Emitter());
    return found.on(listener);
  }
  emit(name, ...args) {
    this.byName.get(name)?.emit(...args);
  }
};
var Messages = class {
  byName = /* @__PURE__ */ new Map();
  all = new Emitter();
  hold;
  lost;
  constructor(hold, lost) {
    this.hold = hold;
    this.lost = lost;
  }
  on(name, listener) {
    return this.get(name).on(listener);
  }
  onAny(listener) {
    const stop = this.all.on(listener);
    for (const [name, emitter] of this.byName) for (const [payload] of emitter.take()) guard(listener, [name, payload]);
    return stop;
  }
  emit(name, payload) {
    const heard = this.all.heard;
    this.all.emit(name, payload);
    if (!heard || this.byName.get(name)?.heard) this.get(name).emit(payload);
  }
  get(name) {
    let found = this.byName.get(name);
    if (!found) this.byName.set(name, found = new Emitter(this.hold, this.lost));
    return found;
  }
};
function guard(listener, args) {
  try {
    listener(...args);
  } catch (error) {
    if (typeof reportError === "function") reportError(error);
    else console.error(error);
  }
}

// sdk/listening.ts
var HELD = 32;
var Listening = class {
  stats = { drops: 0, reconnects: 0, stale: 0, unreadable: 0, resyncs: 0, refused: 0, lost: 0 };
  lost = () => void (this.stats.lost += 1);
  messages = new Messages(HELD, this.lost);
  grants = new Emitter(HELD, this.lost);
  errors = new Emitter(HELD, this.lost);
  rolledBack = new Emitter();
  drops = new Emitter();
  retries = new Emitter();
  reconnects = new Emitter();
  leaves = new Emitter();
  onMessage(type, listener) {
    if (type === "*") return this.messages.onAny(listener);
    return this.messages.on(type, listener);
  }
  /** After all changes of a server message. */
  onStateChange(listener) {
    return this.state.onStateChange(listener);
  }
  /** A resource: now, if it is there, and whenever it changes. */
  listen(resource, listener) {
    return this.state.listen(resource, listener);
  }
  /** Entities that have this component: those there now, then each that gets it. */
  onAdd(component, listener) {
    return this.state.onAdd(component, listener);
  }
  onChange(component, listener) {
    return this.state.onChange(component, listener);
  }
  /** Entities that lose this component or are despawned, with its last value. */
  onRemove(component, listener) {
    return this.state.onRemove(component, listener);
  }
  /** The socket is lost; the room comes back by itself. */
  onDrop(listener) {
    return this.drops.on(listener);
  }
  /** An attempt to come back starts in `delay` ms. */
  onRetry(listener) {
    return this.retries.on(listener);
  }
  /** The seat is held by a socket again. */
  onReconnect(listener) {
    return this.reconnects.on(listener);
  }
  /** The end: see `CloseCode`, `codeName` and `describe`. The room does not come back. */
  onLeave(listener) {
    return this.leaves.on(listener);
  }
  /** A reward or charge, told only after the ledger has it. */
  onGranted(listener) {
    return this.grants.on(listener);
  }
  /**
   * The room was restored to an earlier tick; messages after it are applied again, and a snapshot follows. A term above
   * `room.term` is that of another owner: the room goes on at another server.
   */
  onRolledBack(listener) {
    return this.rolledBack.on(listener);
  }
  /** Messages that the room refused, and other errors that belong to no request. */
  onError(listener) {
    return this.errors.on(listener);
  }
};

// sdk/pings.ts
var DEADLINE = 5e3;
var SHARE = 0.3;
var Pings = class {
  /** Smoothed round trip, ms; undefined until measured. */
  rtt;
  open = /* @__PURE__ */ new Map();
  /** Waits for the answer to ping `id`, which `send` sends, and says how long it took, ms. Rejects with `closed` or `timeout`. */
  measure(id, send) {
    return new Promise((resolve, reject) => {
      const at = now();
      if (!send()) return reject(new TenureError("closed", "not connected"));
      const deadline = new Alarm();
      deadline.start(DEADLINE, () => {
        this.open.delete(id);
        reject(new TenureError("timeout", "no answer to a ping"));
      });
      this.open.set(id, () => {
        deadline.stop();
        const taken = now() - at;
        this.rtt = this.rtt === void 0 ? taken : this.rtt * (1 - SHARE) + taken * SHARE;
        resolve(taken);
      });
    });
  }
  answered(id) {
    this.open.get(id)?.();
    this.open.delete(id);
  }
};

// sdk/requests.ts
var OPEN_REQUESTS = 256;
var Requests = class {
  open = /* @__PURE__ */ new Map();
  last = 0;
  /** Ids count up and are never used twice. */
  nextId() {
    this.last = this.last >= 4294967295 ? 1 : this.last + 1;
    return this.last;
  }
  /** Throws a retryable error if too many are open already. */
  check() {
    if (this.open.size >= OPEN_REQUESTS) throw new TenureError("backlog_full", `${OPEN_REQUESTS} requests wait for an answer`);
  }
  wait(id, seq, name, timeout) {
    return new Promise((resolve, reject) => {
      const deadline = new Alarm();
      deadline.start(timeout, () => {
        this.open.delete(id);
        reject(new TenureError("timeout", `no answer to ${name} within ${timeout} ms; it may still have been done`));
      });
      this.open.set(id, { seq, resolve, reject, deadline });
    });
  }
  /** False if nobody waits (any more). */
  answer(id, value) {
    const open = this.take(id);
    open?.resolve(value);
    return open !== void 0;
  }
  fail(id, error) {
    const open = this.take(id);
    open?.reject(error);
    return open !== void 0;
  }
  /** The request with this message number was refused. */
  failSeq(seq, error) {
    for (const [id, open] of this.open) if (open.seq === seq) return this.fail(id, error);
    return false;
  }
  failAll(error) {
    for (const id of this.open.keys()) this.fail(id, error);
  }
  take(id) {
    const open = this.open.get(id);
    this.open.delete(id);
    open?.deadline.stop();
    return open;
  }
};

// sdk/inputs.ts
var KEPT_COUNT = 512;
var KEPT_BYTES = 32 * 1024;
var OVERHEAD = 24;
var Inputs = class {
  kept = [];
  bytes = 0;
  cursor = 1;
  /** The number that the next message gets. */
  next = 1;
  /** Last message that the room applied. */
  applied = 0;
  /** Last message in a stored checkpoint. */
  saved = 0;
  /** Messages that were not taken because too many wait. */
  refused = 0;
  /** First number that is still kept, or the next one. */
  get first() {
    return this.kept[0]?.seq ?? this.next;
  }
  get waiting() {
    return this.kept.length;
  }
  /** How full it is, from 0 to 1; at 1 nothing more is taken. */
  get full() {
    return Math.max(this.kept.length / KEPT_COUNT, this.bytes / KEPT_BYTES);
  }
  /** Takes a message into the sequence. Throws a retryable `backlog_full` when the bounds are reached. */
  push(kind, request, payload) {
    const size = payload.length + OVERHEAD;
    if (this.kept.length >= KEPT_COUNT || this.bytes + size > KEPT_BYTES) {
      this.refused += 1;
      throw new TenureError("backlog_full", `${this.kept.length} messages wait for the server, no more can be kept`);
    }
    const seq = this.next++;
    this.kept.push({ seq, kind, request, payload });
    this.bytes += size;
    return seq;
  }
  /** The marks of a tail. `saved` never goes back; `applied` may, after a takeover. */
  mark(applied, saved) {
    this.applied = applied;
    if (saved <= this.saved) return;
    this.saved = saved;
    let done = 0;
    for (const entry of this.kept) {
      if (entry.seq > saved) break;
      this.bytes -= entry.payload.length + OVERHEAD;
      done += 1;
    }
    this.kept.splice(0, done);
    this.next = Math.max(this.next, saved + 1);
    this.cursor = Math.max(this.cursor, this.first);
  }
  /** A new attachment wants `owed` next. What is kept goes out again from there, in order. */
  attach(owed) {
    if (owed > this.next) {
      this.kept = [];
      this.bytes = 0;
      this.next = owed;
    }
    this.cursor = Math.max(owed, this.first);
  }
  /** For a page that was loaded anew: what was sent before is gone here, only its numbers count. */
  forget(saved) {
    this.saved = saved;
    this.next = saved + 1;
    this.cursor = this.next;
  }
  /** The next message that this attachment has not sent, or undefined. */
  unsent() {
    const first = this.kept[0];
    return first ? this.kept[Math.max(0, this.cursor - first.seq)] : void 0;
  }
  sent(entry) {
    this.cursor = entry.seq + 1;
  }
};
var Pace = class {
  rate;
  tokens;
  at;
  constructor(rate, at) {
    this.rate = Math.max(1, rate);
    this.tokens = this.rate;
    this.at = at;
  }
  /** 0 when a message may go now, else milliseconds to wait. */
  wait(at) {
    this.tokens = Math.min(this.rate, this.tokens + (at - this.at) * this.rate / 1e3);
    this.at = at;
    return this.tokens < 1 ? Math.ceil((1 - this.tokens) * 1e3 / this.rate) : 0;
  }
  /** One message went. */
  count() {
    this.tokens -= 1;
  }
};

// sdk/sender.ts
var RATE_SHARE = 0.8;
var NOTHING = encode(null);
var Sender = class {
  inputs = new Inputs();
  send;
  table;
  /** The table by which the server takes what it gets: what it named in `joined`, then what it was answered. */
  told;
  maxBytes = 0;
  pace = new Pace(1, 0);
  pump = new Alarm();
  /** The leave: it goes out behind everything else, once for each attachment. */
  last;
  lastSent = false;
  constructor(send) {
    this.send = send;
  }
  /** A new attachment: its names, its limits, and the number it wants next. */
  attach(table, owed, limits) {
    this.table = this.told = table;
    this.maxBytes = limits.bytes;
    this.pace = new Pace(limits.rate * RATE_SHARE, now());
    this.pump.stop();
    this.lastSent = false;
    this.inputs.attach(owed);
    this.flush();
  }
  /** The room numbers by this table now. The server hears of it before anything that is numbered so. */
  renew(table) {
    this.table = table;
    this.told = void 0;
    this.answer();
    this.flush();
  }
  /** The payload as the type's struct. Throws `unknown_name` or `too_large`. */
  pack(space, name, payload) {
    const named2 = this.table?.named(space, name);
    if (!named2) throw new TenureError("unknown_name", `this server knows no ${space === Space.Request ? "request" : "message"} ${name}`);
    const bytes = encode(flatten(payload, named2.fields));
    if (bytes.length + OVERHEAD > this.maxBytes) {
      throw new TenureError("too_large", `${name} has ${bytes.length} bytes, the server takes ${this.maxBytes}`);
    }
    return { kind: named2, bytes };
  }
  /** Sends what this attachment has not sent, in order. */
  flush() {
    if (this.pump.set || !this.answer()) return;
    for (let entry = this.inputs.unsent(); entry; entry = this.inputs.unsent()) {
      const wait = this.pace.wait(now());
      if (wait > 0) return this.pump.start(wait, () => this.flush());
      if (!this.send(this.message(entry))) return;
      this.pace.count();
      this.inputs.sent(entry);
    }
    if (this.last && !this.lastSent) this.lastSent = this.send(this.last());
  }
  /** Sends `message` behind all that waits. If the socket is lost before its answer, the next one gets it again. */
  end(message2) {
    this.last = message2;
    this.flush();
  }
  stop() {
    this.pump.stop();
  }
  /** Tells the server by which table this client numbers. False if no socket takes it; then nothing may go out before it. */
  answer() {
    if (!this.table || this.told === this.table) return true;
    if (!this.send(client.table(this.table.hash))) return false;
    this.told = this.table;
    return true;
  }
  /** As this server's table has it. What that does not know (any more) is sent as unknown, so that the server refuses it by its number. */
  message({ seq, kind, request, payload }) {
    const named2 = this.table?.named(request === void 0 ? Space.Message : Space.Request, kind.name);
    const bytes = named2 && repack(payload, kind, named2);
    const fits = bytes !== void 0 && bytes.length + OVERHEAD <= this.maxBytes;
    const [type, body] = fits ? [named2?.number ?? UNKNOWN_TYPE, bytes] : [UNKNOWN_TYPE, NOTHING];
    return request === void 0 ? client.message(seq, type, body) : client.request(seq, request, type, body);
  }
};
function repack(payload, from, to) {
  if (from === to) return payload;
  const { fields: fields2 } = from;
  if (!fields2 || !to.fields) return from.version === to.version ? payload : void 0;
  if (fields2.length === to.fields.length && fields2.every((field, i) => field === to.fields?.[i])) return payload;
  const values = decode(payload);
  if (!Array.isArray(values)) return payload;
  return encode(to.fields.map((field) => values[fields2.indexOf(field)] ?? null));
}

// sdk/state.ts
var MAX_ENTITIES = 1e5;
var Entity = class {
  id;
  /** Components by name. Treat as read-only. */
  components = /* @__PURE__ */ new Map();
  constructor(id) {
    this.id = id;
  }
  get(component) {
    return this.components.get(component);
  }
  has(component) {
    return this.components.has(component);
  }
};
var State = class _State {
  entities = /* @__PURE__ */ new Map();
  resources = /* @__PURE__ */ new Map();
  added = new Emitters();
  changed = new Emitters();
  removed = new Emitters();
  set = new Emitters();
  any = new Emitter();
  pending = [];
  touched = false;
  table = new NameTable(new Uint8Array(8), []);
  /** A resource's value, undefined if the room has none of this name. */
  resource(name) {
    return this.resources.get(name);
  }
  /** Entities that have this component, with it. */
  *with(component) {
    for (const entity of this.entities.values()) {
      if (entity.components.has(component)) yield [entity, entity.components.get(component)];
    }
  }
  onAdd(name, listener) {
    const stop = this.added.on(name, listener);
    for (const entity of this.entities.values()) {
      if (entity.components.has(name)) guard(listener, [entity, entity.components.get(name)]);
    }
    return stop;
  }
  onChange(name, listener) {
    return this.changed.on(name, listener);
  }
  onRemove(name, listener) {
    return this.removed.on(name, listener);
  }
  listen(name, listener) {
    const stop = this.set.on(name, listener);
    if (this.resources.has(name)) guard(listener, [this.resources.get(name), void 0]);
    return stop;
  }
  onStateChange(listener) {
    return this.any.on(listener);
  }
  /** Numbers of ops that follow are of this table. */
  use(table) {
    this.table = table;
  }
  /** Applies the ops of a frame or tail in order, then tells listeners. Throws `WireError` at a bad op: a snapshot is needed then. */
  apply(ops) {
    try {
      for (const op of ops) this.op(op);
    } finally {
      this.tell();
    }
  }
  /** Everything is replaced; listeners hear only what differs. On a throw the old state stands. */
  replace(ops) {
    const fresh = new _State();
    fresh.use(this.table);
    for (const op of ops) fresh.op(op);
    for (const entity of this.entities.values()) if (!fresh.entities.has(entity.id)) this.despawn(entity.id);
    for (const [id, next] of fresh.entities) {
      const entity = this.entity(id);
      for (const name of entity.components.keys()) if (!next.components.has(name)) this.drop(entity, name);
      for (const [name, value] of next.components) this.put(entity, name, value);
    }
    for (const name of this.resources.keys()) if (!fresh.resources.has(name)) this.setResource(name, void 0);
    for (const [name, value] of fresh.resources) this.setResource(name, value);
    this.touched = true;
    this.tell();
  }
  /** Tells `onStateChange`, once, if anything was applied since it last did. */
  settle() {
    if (!this.touched) return;
    this.touched = false;
    this.any.emit(this);
  }
  op(op) {
    const wanted2 = op[0] === 1 || op[0] === 5 ? 2 : op[0] === 4 ? 3 : op.length;
    if (op.length < 2 || op.length !== wanted2) throw new WireError(`op ${String(op[0])} of ${op.length} elements`);
    switch (op[0]) {
      case 0:
      case 2: {
        const entity = this.entity(asInt(op[1]));
        if (op.length % 2 !== 0) throw new WireError("a component without a value");
        for (let i = 2; i < op.length; i += 2) {
          const named2 = this.table.find(Space.Component, asInt(op[i]));
          if (named2) this.put(entity, named2.name, shape(op[i + 1], named2.fields));
        }
        return;
      }
      case 1:
        return this.despawn(asInt(op[1]));
      case 3: {
        const entity = this.entities.get(asInt(op[1]));
        for (let i = 2; i < op.length; i++) {
          const named2 = this.table.find(Space.Component, asInt(op[i]));
          if (entity && named2) this.drop(entity, named2.name);
        }
        return;
      }
      case 4: {
        const named2 = this.table.find(Space.Resource, asInt(op[1]));
        if (named2) this.setResource(named2.name, shape(op[2], named2.fields));
        return;
      }
      case 5: {
        const named2 = this.table.find(Space.Resource, asInt(op[1]));
        if (named2) this.setResource(named2.name, void 0);
        return;
      }
      default:
        throw new WireError(`unknown op ${String(op[0])}`);
    }
  }
  entity(id) {
    let entity = this.entities.get(id);
    if (!entity) {
      if (this.entities.size >= MAX_ENTITIES) throw new WireError(`more than ${MAX_ENTITIES} entities`);
      this.entities.set(id, entity = new Entity(id));
      this.touched = true;
    }
    return entity;
  }
  put(entity, name, value) {
    const known = entity.components.has(name);
    const before = entity.components.get(name);
    if (known && same(before, value)) return;
    entity.components.set(name, value);
    this.pending.push({ is: known ? "change" : "add", entity, name, value, before });
  }
  drop(entity, name) {
    if (!entity.components.has(name)) return;
    const value = entity.components.get(name);
    entity.components.delete(name);
    this.pending.push({ is: "remove", entity, name, value });
  }
  despawn(id) {
    const entity = this.entities.get(id);
    if (!entity) return;
    this.entities.delete(id);
    this.touched = true;
    for (const [name, value] of entity.components) this.pending.push({ is: "remove", entity, name, value });
  }
  setResource(name, value) {
    const before = this.resources.get(name);
    if (value === void 0 ? !this.resources.delete(name) : this.resources.has(name) && same(before, value)) return;
    if (value !== void 0) this.resources.set(name, value);
    this.pending.push({ is: "resource", name, value, before });
  }
  tell() {
    const changes = this.pending;
    if (changes.length === 0) return;
    this.pending = [];
    this.touched = true;
    for (const c of changes) {
      if (c.is === "resource") this.set.emit(c.name, c.value, c.before);
      else if (c.is === "add") this.added.emit(c.name, c.entity, c.value);
      else if (c.is === "change") this.changed.emit(c.name, c.entity, c.value, c.before);
      else this.removed.emit(c.name, c.entity, c.value);
    }
  }
};

// sdk/view.ts
var SNAPSHOT_WAIT = 2e3;
var View = class {
  state = new State();
  term = 0;
  tick = 0;
  stats;
  ask;
  whole;
  wait = new Alarm();
  awaiting = true;
  settling = false;
  /** What of the next tail counts: it belongs to the frame before it. */
  last = "stale";
  /** `ask` sends a resync; false if there is no socket. `whole` hears of each snapshot that is shown. */
  constructor(stats, ask, whole) {
    this.stats = stats;
    this.ask = ask;
    this.whole = whole;
  }
  /** A new attachment. Only the very state that the server goes on from may take changes; otherwise they wait for a snapshot. */
  attach(term, tick) {
    this.awaiting ||= term !== this.term || tick !== this.tick;
    this.last = "stale";
    if (this.awaiting) this.wait.start(SNAPSHOT_WAIT, () => this.resync());
  }
  frame(term, tick, ops) {
    if (term < this.term || term === this.term && tick <= this.tick) return this.stale();
    if (this.awaiting) {
      this.last = "skipped";
      return;
    }
    this.show(term, tick);
    if (ops.length > 0) this.change(() => this.state.apply(ops));
  }
  snapshot(term, tick, ops) {
    if (term < this.term || term === this.term && tick < this.tick) return this.stale();
    this.show(term, tick);
    this.awaiting = false;
    this.wait.stop();
    this.change(() => this.state.replace(ops));
    if (!this.awaiting) this.whole();
  }
  /** Private changes of the frame before. False if that frame was too old: then the marks beside them are too. */
  tail(ops) {
    if (this.last === "shown" && ops.length > 0) this.change(() => this.state.apply(ops));
    return this.last !== "stale";
  }
  /** A takeover's term starts with a snapshot; if that is not here yet, nothing may be built on the old state. */
  rolledBack(term) {
    if (term > this.term) this.await();
  }
  /** What follows is numbered by another table. What is shown stays, by its names; the snapshot that comes says what of it is different. */
  renewed(table) {
    this.state.use(table);
    this.await();
  }
  /** Something could not be read. */
  unreadable() {
    this.stats.unreadable += 1;
    this.resync();
  }
  stop() {
    this.wait.stop();
  }
  show(term, tick) {
    this.last = "shown";
    this.term = term;
    this.tick = tick;
  }
  stale() {
    this.stats.stale += 1;
    this.last = "stale";
  }
  /** The server sends a snapshot by itself; nothing is built on the state before it. */
  await() {
    this.awaiting = true;
    this.last = "stale";
    if (!this.wait.set) this.wait.start(SNAPSHOT_WAIT, () => this.resync());
  }
  /** Asks for a snapshot; while one is on its way, at most once per `SNAPSHOT_WAIT`. */
  resync() {
    if (this.awaiting && this.wait.set) return;
    this.awaiting = true;
    if (!this.ask()) return;
    this.stats.resyncs += 1;
    this.wait.start(SNAPSHOT_WAIT, () => this.resync());
  }
  /** Changes the state; if that fails the base is broken. Listeners to the whole hear of it once per server message. */
  change(apply) {
    try {
      apply();
    } catch {
      this.unreadable();
    }
    if (this.settling) return;
    this.settling = true;
    queueMicrotask(() => {
      this.settling = false;
      this.state.settle();
    });
  }
};

// sdk/room.ts
var PING_EVERY = 2e3;
var LEAVE_DEADLINE = 12e3;
var SAVE_EVERY = 1e3;
var KEPT = /* @__PURE__ */ new Set([CloseCode.Superseded, CloseCode.Unauthorised]);
var links = /* @__PURE__ */ new WeakMap();
var Room = class extends Listening {
  /** Full id, `kind/region/name`. */
  id = "";
  seat = 0;
  generation = 0;
  /** Who the server takes this client for. */
  player = "";
  tickRate = 20;
  /** Name of the node that this client's socket is at. */
  node = "";
  /**
   * The state is there: the first snapshot was shown. It comes right behind the answer that takes the seat. Rejects with the
   * room's end, if that is sooner; nobody needs to wait for it.
   */
  ready;
  context;
  view;
  sender;
  requests = new Requests();
  link;
  verb;
  table;
  session = "";
  /** Counts resumes of this seat, above the number of its last attachment; 0: not known. See docs/wire.md. */
  resumes = 0;
  savedAt = 0;
  closed = false;
  first;
  /** No more is sent: a leave is on its way. */
  parting = false;
  leaving;
  whole;
  pings = new Pings();
  pinger = new Alarm();
  unhook;
  /** Use `Client`. */
  constructor(context, url, from) {
    super();
    this.context = context;
    this.ready = new Promise((resolve, reject) => this.whole = { resolve, reject });
    this.ready.catch(() => void 0);
    const send = (bytes) => this.link.send(bytes);
    this.view = new View(this.stats, () => send(client.resync()), () => this.whole.resolve());
    this.sender = new Sender(send);
    if (typeof from === "function") {
      this.verb = from;
    } else {
      ({ room: this.id, session: this.session, resumes: this.resumes = 0 } = from);
      ({ term: this.view.term, tick: this.view.tick } = from);
      this.sender.inputs.forget(from.saved);
    }
    this.link = new Link(this.owner(), context.socket, url, context.backoff, context.random);
    links.set(this, this.link);
    const save = () => this.save();
    const online = () => this.link.hurry();
    globalThis.addEventListener?.("pagehide", save);
    globalThis.addEventListener?.("online", online);
    this.unhook = () => {
      globalThis.removeEventListener?.("pagehide", save);
      globalThis.removeEventListener?.("online", online);
    };
  }
  /** Takes the seat. Called once, by `Client`. */
  open() {
    return new Promise((resolve, reject) => {
      this.first = { resolve, reject };
      this.link.start();
    });
  }
  /** What this seat sees. Empty until `ready`. */
  get state() {
    return this.view.state;
  }
  /** Term of the room's owner. */
  get term() {
    return this.view.term;
  }
  /** Newest tick shown. */
  get tick() {
    return this.view.tick;
  }
  /** Smoothed round trip, ms; undefined until measured. */
  get rtt() {
    return this.pings.rtt;
  }
  /** True while a socket holds the seat; without one, messages wait. */
  get connected() {
    return this.link.live;
  }
  /** Number of the last message that the room applied. */
  get applied() {
    return this.sender.inputs.applied;
  }
  /** Messages that are not yet in a stored checkpoint. */
  get unsaved() {
    return this.sender.inputs.waiting;
  }
  /** How full the place for unsaved messages is, from 0 to 1; at 1 `send` throws `backlog_full`. */
  get backlog() {
    return this.sender.inputs.full;
  }
  /** What `Client.reconnect` needs to take this seat again. Secret. */
  get savedSession() {
    const { id: room, session: session2, term, tick, resumes } = this;
    return { url: this.link.url, room, session: session2, term, tick, saved: this.sender.inputs.saved, resumes };
  }
  /**
   * Sends a message to the room and returns its number. It arrives exactly once and in order, also over a reconnect, and
   * before a later `leave`. What the server has not saved is kept, at most 512 messages and 32 KiB: without a socket, or when
   * the store is slow, that fills up (`backlog`), so a render loop must expect the throw.
   * Throws `TenureError`: `backlog_full` (retryable), `too_large`, `unknown_name`, `closed`.
   */
  send(type, payload) {
    const seq = this.push(this.sender.pack(Space.Message, type, payload), void 0);
    this.sender.flush();
    return seq;
  }
  /** Asks the room and waits for its answer. Rejects with the room's error, or `timeout` when its fate is not known. */
  async request(type, payload, options = {}) {
    const packed = this.sender.pack(Space.Request, type, payload);
    this.requests.check();
    const id = this.requests.nextId();
    const seq = this.push(packed, id);
    const answer = this.requests.wait(id, seq, type, options.timeout ?? this.context.requestTimeout);
    this.sender.flush();
    return await answer;
  }
  /** Measures the round trip, ms. */
  ping() {
    const id = this.requests.nextId();
    return this.pings.measure(id, () => this.link.send(client.ping(id)));
  }
  /**
   * Gives the seat up for good, after all that was sent before. Resolves when the server has confirmed it or the seat is gone
   * for another reason; at once if the room is over. Without a socket the room comes back first, to say so. Rejects with
   * `unreachable` if that is not done within `timeout` ms: the room goes on trying, and `leave` may be called again.
   * Called twice, it is one leave.
   */
  leave(options = {}) {
    if (this.closed) return Promise.resolve();
    if (this.leaving) return this.leaving.done;
    const leaving = new Leaving(options.timeout ?? LEAVE_DEADLINE, () => this.leaving = void 0);
    this.leaving = leaving;
    if (!this.parting) {
      this.parting = true;
      this.context.forget(this.id);
      this.sender.end(() => client.leave(this.requests.nextId()));
    }
    this.link.hurry();
    return leaving.done;
  }
  owner() {
    return {
      hello: async () => client.hello(await this.context.token(), this.context.tables.newest?.hash ?? null),
      verb: (id) => this.verb?.(id) ?? this.resume(id),
      nextId: () => this.requests.nextId(),
      joined: (connection, welcome, joined) => this.joined(connection, welcome, joined),
      message: (message2) => this.take(message2),
      unreadable: () => this.view.unreadable(),
      dropped: (code, reason) => {
        this.quiet();
        this.stats.drops += 1;
        this.drops.emit(code, reason);
      },
      retrying: (attempt2, delay) => this.retries.emit(attempt2, delay),
      ended: (code, reason, error) => this.finish(code, reason, error)
    };
  }
  resume(id) {
    if (this.resumes > 0) this.resumes += 1;
    this.save();
    return client.resume(id, this.id, this.session, this.term, this.tick, this.sender.inputs.first, this.resumes);
  }
  joined(connection, welcome, joined) {
    const table = this.context.tables.take(joined.hash, joined.table);
    if (!table) return connection.end(CloseCode.Abnormal, "the server sent no name table");
    this.table = table;
    this.state.use(table);
    if (welcome.token) this.context.keepToken(welcome.token);
    const back = this.verb === void 0;
    this.verb = void 0;
    this.player = welcome.player;
    this.node = welcome.server;
    ({ room: this.id, seat: this.seat, generation: this.generation, session: this.session, tickRate: this.tickRate } = joined);
    this.resumes = Math.max(this.resumes, joined.generation);
    this.view.attach(joined.term, joined.tick);
    this.save(!back);
    this.sender.attach(table, joined.owed, welcome);
    this.measure();
    if (this.first) {
      this.first.resolve();
      this.first = void 0;
    } else if (back) {
      this.stats.reconnects += 1;
      this.reconnects.emit();
    }
  }
  renewed({ seat, tickRate, hash, table: rows }) {
    const table = this.context.tables.take(hash, rows);
    if (!table) return this.link.drop("the server sent no name table");
    ({ seat: this.seat, tickRate: this.tickRate, table: this.table } = { seat, tickRate, table });
    this.view.renewed(table);
    this.sender.renew(table);
  }
  take(m) {
    switch (m.is) {
      case "frame":
        return this.shown(() => this.view.frame(m.term, m.tick, m.ops));
      case "heartbeat":
        return this.shown(() => this.view.frame(m.term, m.tick, []));
      case "snapshot":
        return this.shown(() => this.view.snapshot(m.term, m.tick, m.ops));
      case "tail":
        if (this.view.tail(m.ops)) this.sender.inputs.mark(m.applied, m.saved);
        return;
      case "message": {
        const event = this.table?.find(Space.Event, m.type);
        if (event) this.messages.emit(event.name, shape(m.payload, event.fields));
        return;
      }
      case "reply":
        return void this.requests.answer(m.id, named(m.payload));
      case "error": {
        const error = TenureError.told(m.code, m.message, m.retryAfter);
        if (m.id === 0 || !this.requests.fail(m.id, error)) this.errors.emit(error);
        return;
      }
      case "refused": {
        const error = TenureError.told(m.code, `message ${m.seq}: ${m.message}`);
        this.stats.refused += 1;
        if (!this.requests.failSeq(m.seq, error)) this.errors.emit(error);
        return;
      }
      case "pong":
        return this.pings.answered(m.id);
      case "move":
        return this.link.move(m.urls, m.after);
      case "rolled_back":
        this.view.rolledBack(m.term);
        return this.rolledBack.emit({ term: m.term, tick: m.tick });
      case "renewed":
        return this.renewed(m);
      case "session":
        this.session = m.session;
        this.save();
        return void this.link.send(client.sessionAck(m.session));
      case "granted":
        return this.grants.emit({ source: m.source, scheduledFor: m.scheduledFor, grants: m.grants, balances: m.balances });
      case "left":
        return this.finish(CloseCode.Consented, "left", TenureError.closed(CloseCode.Consented, "left"));
      case "welcome":
      case "joined":
        return;
    }
  }
  shown(change) {
    change();
    if (now() - this.savedAt >= SAVE_EVERY) this.save();
  }
  push({ kind, bytes }, request) {
    if (this.closed || this.parting) throw new TenureError("closed", "the room was left");
    try {
      return this.sender.inputs.push(kind, request, bytes);
    } catch (error) {
      this.stats.refused += 1;
      throw error;
    }
  }
  measure() {
    if (!this.link.live) return;
    this.ping().catch(() => void 0);
    this.sender.flush();
    this.pinger.start(PING_EVERY, () => this.measure());
  }
  quiet() {
    this.sender.stop();
    this.view.stop();
    this.pinger.stop();
    this.save();
  }
  /** `taken`: the seat was just taken by a join. */
  save(taken = false) {
    if (this.closed || this.parting || this.session === "") return;
    this.savedAt = now();
    this.context.save(this.savedSession, taken);
  }
  finish(code, reason, error) {
    if (this.closed) return;
    this.quiet();
    const gone = isGone(code);
    if (this.parting && gone) [code, reason] = [CloseCode.Consented, "left"];
    if (isFinal(code) && !KEPT.has(code) && !error.retryable) this.context.forget(this.id);
    this.closed = true;
    this.unhook();
    this.link.stop();
    const closed = new TenureError("closed", `the room was left: ${reason}`, { closeCode: code });
    this.requests.failAll(closed);
    this.whole.reject(closed);
    if (this.first) return this.first.reject(error);
    this.leaves.emit(code, reason);
    this.leaving?.end(gone || code === CloseCode.Superseded ? void 0 : error);
  }
};

// sdk/storage.ts
var DefaultStorage = class {
  memory = /* @__PURE__ */ new Map();
  getItem(key) {
    return this.memory.get(key) ?? attempt(() => session()?.getItem(key)) ?? null;
  }
  setItem(key, value) {
    const stored = attempt(() => {
      const place = session();
      place?.setItem(key, value);
      return place;
    });
    if (stored) this.memory.delete(key);
    else this.memory.set(key, value);
  }
  removeItem(key) {
    this.memory.delete(key);
    attempt(() => session()?.removeItem(key));
  }
};
function session() {
  return typeof sessionStorage === "undefined" ? void 0 : sessionStorage;
}
function attempt(call) {
  try {
    return call();
  } catch {
    return void 0;
  }
}
function parseSaved(text) {
  if (!text) return void 0;
  try {
    const value = JSON.parse(text);
    if (typeof value !== "object" || value === null) return void 0;
    const s = value;
    const texts2 = [s["url"], s["room"], s["session"]].every((x) => typeof x === "string" && x !== "");
    const counts = [s["term"], s["tick"], s["saved"]].every((x) => Number.isSafeInteger(x) && x >= 0);
    if (!texts2 || !counts) return void 0;
    const resumes = Number.isSafeInteger(s["resumes"]) && s["resumes"] > 0 ? s["resumes"] : 0;
    return { ...value, resumes };
  } catch {
    return void 0;
  }
}

// sdk/sessions.ts
var MOST = 16;
var Sessions = class {
  storage;
  prefix;
  constructor(storage, prefix) {
    this.storage = storage;
    this.prefix = prefix;
  }
  /** Those that can be read, the seat taken last first. */
  all() {
    return this.rooms().flatMap((room) => parseSaved(this.storage.getItem(this.key(room))) ?? []);
  }
  /** `first`: the seat was just taken, it counts as the last one. */
  save(session2, first) {
    this.storage.setItem(this.key(session2.room), JSON.stringify(session2));
    const rooms = this.rooms();
    if (rooms.includes(session2.room) && !(first && rooms[0] !== session2.room)) return;
    this.list([session2.room, ...rooms.filter((room) => room !== session2.room)]);
  }
  forget(room) {
    this.storage.removeItem(this.key(room));
    const rooms = this.rooms();
    if (rooms.includes(room)) this.list(rooms.filter((known) => known !== room));
  }
  key(room) {
    return `${this.prefix}.session.${room}`;
  }
  list(rooms) {
    for (const room of rooms.splice(MOST)) this.storage.removeItem(this.key(room));
    if (rooms.length > 0) this.storage.setItem(`${this.prefix}.sessions`, JSON.stringify(rooms));
    else this.storage.removeItem(`${this.prefix}.sessions`);
  }
  /** Ids of rooms. What an earlier build kept under one key for all is taken over. */
  rooms() {
    const old = this.storage.getItem(`${this.prefix}.session`);
    if (old !== null) {
      this.storage.removeItem(`${this.prefix}.session`);
      const saved = parseSaved(old);
      if (saved) this.save(saved, true);
    }
    try {
      const rooms = JSON.parse(this.storage.getItem(`${this.prefix}.sessions`) ?? "[]");
      return Array.isArray(rooms) ? rooms.filter((room) => typeof room === "string") : [];
    } catch {
      return [];
    }
  }
};

// sdk/client.ts
var Client = class {
  url;
  sessions;
  context;
  /** `url`: the server's socket, `ws://host:port/ws`; by default the host of this page. */
  constructor(url, options = {}) {
    this.url = socketUrl(url);
    const { token, storage = new DefaultStorage(), prefix = "tenure" } = options;
    this.sessions = new Sessions(storage, prefix);
    this.context = {
      socket: options.socket ?? ((to) => new WebSocket(to)),
      backoff: { ...BACKOFF, ...options.backoff },
      random: options.random ?? Math.random,
      requestTimeout: options.requestTimeout ?? 1e4,
      tables: new Tables(),
      token: async () => typeof token === "function" ? token() : token ?? storage.getItem(`${prefix}.guest`),
      keepToken: (guest) => storage.setItem(`${prefix}.guest`, guest),
      save: (session2, taken) => this.sessions.save(session2, taken),
      forget: (room) => this.sessions.forget(room)
    };
  }
  /** Any room of the kind with a free seat, else a new one; with a name: that room. Rejects with `TenureError`. */
  joinOrCreate(kind, options = {}, wanted2 = {}) {
    const packed = encode(options);
    return this.open(this.url, (id) => client.joinOrCreate(id, kind, wanted2.region ?? null, wanted2.name ?? null, packed, packFilter(wanted2.filter)));
  }
  /** A room that must be new. */
  create(kind, options = {}, wanted2 = {}) {
    const packed = encode(options);
    return this.open(this.url, (id) => client.create(id, kind, wanted2.region ?? null, wanted2.name ?? null, packed, packFilter(wanted2.filter)));
  }
  /** A page of the rooms that are not private: those that can be joined, unless `open` is false. Rejects with `TenureError`. */
  rooms(kind, wanted2 = {}) {
    return listRooms(this.context, this.url, kind, wanted2);
  }
  /** A room that exists. */
  join(room, options = {}) {
    const packed = encode(options);
    return this.open(this.url, (id) => client.join(id, room, packed));
  }
  /**
   * A seat that this player still has, for example after a reload of the page: the one taken last, that of a room or kind
   * (`'lobby'`, `'lobby/eu/1'`), or the one of this session.
   */
  reconnect(which) {
    const saved = typeof which === "object" ? which : this.savedSession(which);
    if (!saved) return Promise.reject(new TenureError("closed", "no saved session", { retryable: false }));
    return this.open(this.url, saved);
  }
  /** The session of the seat taken last and not left, of any room or of a kind or room. */
  savedSession(which) {
    return this.savedSessions().find(({ room }) => which === void 0 || room === which || room.startsWith(`${which}/`));
  }
  /** All seats that were taken and not left, the last one first: a lobby and a match are two. */
  savedSessions() {
    return this.sessions.all();
  }
  async open(url, from) {
    const room = new Room(this.context, url, from);
    await room.open();
    return room;
  }
};
function socketUrl(url) {
  if (url === void 0) return `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}/ws`;
  const full = new URL(url.replace(/^http/, "ws"));
  if (full.pathname === "/") full.pathname = "/ws";
  return full.href;
}
export {
  Client,
  CloseCode,
  DefaultStorage,
  Entity,
  Room,
  State,
  TenureError,
  codeName,
  describe,
  isFinal
};
