// Starts the fake server with a fresh build: node scripts/dev-fake.mjs [--port 8080] [--bots 6] [--every 30] [--ready-file F]
import { build } from 'esbuild';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { bundle } from './build.mjs';

const { values } = parseArgs({
  strict: false,
  options: { port: { type: 'string', default: '8080' }, bots: { type: 'string', default: '6' }, every: { type: 'string', default: '30' }, 'ready-file': { type: 'string' } },
});
const root = fileURLToPath(new URL('..', import.meta.url));
const out = await mkdtemp(join(tmpdir(), 'arena-fake-'));
await bundle(join(out, 'dist'));
await build({ absWorkingDir: root, entryPoints: ['tests/fake/serve.ts'], outfile: join(out, 'serve.mjs'), bundle: true, platform: 'node', format: 'esm', logLevel: 'warning', banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" } });
const { serve } = await import(pathToFileURL(join(out, 'serve.mjs')).href);
serve({ dist: join(out, 'dist'), port: Number(values.port), bots: Number(values.bots), every: Number(values.every), readyFile: values['ready-file'] });
