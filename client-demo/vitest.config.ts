// Unit tests only; the browser tests have a runner of their own.
import { defineConfig } from 'vitest/config';

export default defineConfig({ test: { include: ['tests/unit/**/*.test.ts'], pool: 'threads', maxWorkers: 2 } });
