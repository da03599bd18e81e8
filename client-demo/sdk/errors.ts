// What can go wrong, as one error type: whose fault it is and whether it may be tried again.

/** Codes that the SDK itself raises, beside the server's (`docs/wire.md`). */
export type LocalCode = 'unreachable' | 'timeout' | 'closed' | 'backlog_full' | 'too_large' | 'unknown_name' | 'bad_answer';

/** Every error that the SDK throws or rejects with. `code` is a stable word, `message` is for people. */
export class TenureError extends Error {
  override name = 'TenureError';
  readonly code: string;
  /** The same call may succeed later. */
  readonly retryable: boolean;
  /** Milliseconds after which to try again, when the server named them. */
  readonly retryAfter: number | undefined;

  constructor(code: string, message: string, more: { retryable?: boolean; retryAfter?: number | null } = {}) {
    super(message);
    this.code = code;
    this.retryAfter = more.retryAfter ?? undefined;
    this.retryable = more.retryable ?? (more.retryAfter != null || RETRYABLE.has(code));
  }
}

const RETRYABLE = new Set(['unreachable', 'backlog_full', 'may_retry', 'limit']);
