// Close codes of the socket: what each is called, what it means for coming back, and how people are told.

/** The close codes of `docs/wire.md`, and those of the browser. */
export const CloseCode = {
  Normal: 1000,
  GoingAway: 1001,
  Abnormal: 1006,
  TooBig: 1009,
  Internal: 1011,
  Restart: 1012,
  TryLater: 1013,
  /** The player left on purpose. */
  Consented: 4000,
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
  RoomEnded: 4012,
} as const;

/** `again`: the seat is still there, the SDK comes back by itself. `over`: the seat is gone. `held`: it may still be there, but not for this socket. */
type After = 'again' | 'over' | 'held';

const CODES: Record<number, readonly [name: string, after: After, text: string]> = {
  [CloseCode.Normal]: ['normal', 'over', 'You left the room.'],
  [CloseCode.GoingAway]: ['unreachable', 'again', 'The server went away.'],
  [CloseCode.Abnormal]: ['unreachable', 'again', 'The connection was lost.'],
  [CloseCode.TooBig]: ['too_big', 'held', 'This page sent more than the server takes. Reload the page.'],
  [CloseCode.Internal]: ['internal', 'again', 'The server met a fault.'],
  [CloseCode.Restart]: ['restart', 'again', 'The server restarts.'],
  [CloseCode.TryLater]: ['try_later', 'again', 'The server has too much to do. Come back later.'],
  [CloseCode.Consented]: ['consented', 'over', 'You left the room.'],
  [CloseCode.Moving]: ['moving', 'again', 'The server moves you to another one.'],
  [CloseCode.RoomError]: ['room_error', 'over', 'The room failed and cannot go on.'],
  [CloseCode.ResumeFailed]: ['resume_failed', 'over', 'Your seat could not be kept.'],
  [CloseCode.Superseded]: ['superseded', 'held', 'This seat is being played in another tab.'],
  [CloseCode.SlowConsumer]: ['slow_consumer', 'again', 'Your connection is too slow for this room.'],
  [CloseCode.RateLimited]: ['rate_limited', 'again', 'This page sent too much in a short time.'],
  [CloseCode.ProtocolError]: ['protocol_error', 'held', 'This page and the server do not understand each other. Reload the page.'],
  [CloseCode.Unauthorised]: ['unauthorised', 'held', 'The server did not accept your login. Log in again.'],
  [CloseCode.RoomFull]: ['room_full', 'over', 'The room is full.'],
  [CloseCode.MayRetry]: ['may_retry', 'again', 'The server could not answer for a moment.'],
  [CloseCode.Kicked]: ['kicked', 'over', 'You were put out of this room.'],
  [CloseCode.RoomEnded]: ['room_ended', 'over', 'The room has ended.'],
};

/** After these coming back by oneself is no use, or would loop. All others are worth a resume. */
export function isFinal(code: number): boolean {
  return (CODES[code]?.[1] ?? 'again') !== 'again';
}

/** After these this player has no seat in the room any more. */
export function isGone(code: number): boolean {
  return CODES[code]?.[1] === 'over';
}

/** The stable word for a close code: `unauthorised`, `kicked`, …; `unreachable` for those that say only that the connection is lost. */
export function codeName(code: number): string {
  return CODES[code]?.[0] ?? 'unreachable';
}

/** One short sentence for people. */
export function describe(code: number): string {
  return CODES[code]?.[2] ?? 'The connection was lost.';
}
