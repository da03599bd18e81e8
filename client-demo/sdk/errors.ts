// What can go wrong, as one error type: whose fault it is and whether it may be tried again.
import { codeName, isFinal } from './codes.ts';

/** Codes that the SDK itself raises, beside the server's (`docs/wire.md`: error codes, and the names of close codes). */
export type LocalCode = 'unreachable' | 'timeout' | 'closed' | 'backlog_full' | 'too_large' | 'unknown_name';

export interface ErrorMore {
  retryable?: boolean;
  retryAfter?: number | null;
  closeCode?: number;
}

/** Every error that the SDK throws or rejects with. `code` is a stable word, `message` is for people. */
export class TenureError extends Error {
  override name = 'TenureError';
  readonly code: string;
  /** The same call may succeed later. */
  readonly retryable: boolean;
  /** Milliseconds after which to try again, when the server named them. */
  readonly retryAfter: number | undefined;
  /** The socket's close code (`CloseCode`), when that is what went wrong. */
  readonly closeCode: number | undefined;

  constructor(code: string, message: string, more: ErrorMore = {}) {
    super(message);
    this.code = code;
    this.retryAfter = more.retryAfter ?? undefined;
    this.closeCode = more.closeCode;
    this.retryable = more.retryable ?? (more.retryAfter != null || RETRYABLE.has(code));
  }

  /** What the server said: one of its words, or one of the game's own. One that is called like one of the SDK's is not retryable for that. */
  static told(code: string, message: string, retryAfter: number | null = null): TenureError {
    return new TenureError(code, message, { retryAfter, retryable: retryAfter !== null || SERVERS.has(code) });
  }

  /** A socket was closed with this code: its name is the error's. */
  static closed(closeCode: number, reason: string, retryAfter = 0): TenureError {
    const more = { closeCode, retryable: !isFinal(closeCode), retryAfter: retryAfter > 0 ? retryAfter : null };
    return new TenureError(codeName(closeCode), reason || `closed with ${closeCode}`, more);
  }
}

/** Of the server's words. */
const SERVERS = new Set(['may_retry', 'limit']);
const RETRYABLE = new Set(['unreachable', 'backlog_full', ...SERVERS]);
