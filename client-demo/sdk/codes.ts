// Close codes of the socket and what each means for coming back.

/** The close codes of `docs/wire.md`. */
export const CloseCode = {
  Normal: 1000,
  GoingAway: 1001,
  Abnormal: 1006,
  TooBig: 1009,
  Internal: 1011,
  Restart: 1012,
  TryLater: 1013,
  Consented: 4000,
  Moving: 4001,
  RoomError: 4002,
  ResumeFailed: 4003,
  Superseded: 4004,
  SlowConsumer: 4005,
  RateLimited: 4006,
  ProtocolError: 4007,
  Unauthorised: 4008,
  RoomFull: 4009,
  MayRetry: 4010,
  Kicked: 4011,
  RoomEnded: 4012,
} as const;

const FINAL = new Set<number>([
  CloseCode.Normal,
  CloseCode.TooBig,
  CloseCode.Consented,
  CloseCode.RoomError,
  CloseCode.ResumeFailed,
  CloseCode.Superseded,
  CloseCode.ProtocolError,
  CloseCode.Unauthorised,
  CloseCode.RoomFull,
  CloseCode.Kicked,
  CloseCode.RoomEnded,
]);

/** After these the seat is gone, or somebody else has it: coming back by oneself would loop. All others are worth a resume. */
export function isFinal(code: number): boolean {
  return FINAL.has(code);
}

/** One short sentence for people. */
export function describe(code: number): string {
  switch (code) {
    case CloseCode.Normal:
    case CloseCode.Consented: return 'You left the room.';
    case CloseCode.RoomError: return 'The room failed and cannot go on.';
    case CloseCode.ResumeFailed: return 'Your seat could not be kept.';
    case CloseCode.Superseded: return 'This seat is being played in another tab.';
    case CloseCode.ProtocolError: return 'This page and the server do not understand each other. Reload the page.';
    case CloseCode.Unauthorised: return 'The server did not accept your login.';
    case CloseCode.RoomFull: return 'The room is full.';
    case CloseCode.Kicked: return 'You were removed from the room.';
    case CloseCode.RoomEnded: return 'The room has ended.';
    default: return 'The connection was lost.';
  }
}
