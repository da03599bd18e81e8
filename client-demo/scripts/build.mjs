// Builds the page and the SDK as one module (tenure.js) into dist/: the same input gives the same bytes. `--check` fails if dist/ differs from what it would be.
import { build } from 'esbuild';
import { copyFile, mkdir, mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const MOST_JS = 68 * 1024;
const root = fileURLToPath(new URL('..', import.meta.url));

const module = {
  absWorkingDir: root,
  bundle: true,
  format: 'esm',
  target: ['es2022', 'chrome100', 'firefox100', 'safari16'],
  legalComments: 'none',
  charset: 'utf8',
  logLevel: 'warning',
};

/** The SDK for pages that are built without a bundler, and for those who want to read it. */
export async function sdk(out) {
  await build({ ...module, entryPoints: { tenure: 'sdk/index.ts' }, outdir: out });
}

export async function bundle(out) {
  await mkdir(out, { recursive: true });
  await build({ ...module, entryPoints: { arena: 'arena/main.ts' }, outdir: out, minify: true });
  await sdk(out);
  await build({ absWorkingDir: root, entryPoints: { arena: 'arena/style.css' }, outdir: out, minify: true, target: ['chrome111', 'firefox113', 'safari16.4'], logLevel: 'warning' });
  for (const file of ['index.html', 'icon.svg']) await copyFile(join(root, 'arena', file), join(out, file));
}

async function files(folder) {
  return new Map(await Promise.all((await readdir(folder)).sort().map(async (name) => [name, await readFile(join(folder, name))])));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const dist = join(root, 'dist');
  const check = process.argv.includes('--check');
  const out = check ? await mkdtemp(join(tmpdir(), 'arena-')) : dist;
  if (!check) await rm(dist, { recursive: true, force: true });
  await bundle(out);
  const built = await files(out);
  const size = built.get('arena.js').length;
  if (size > MOST_JS) throw new Error(`arena.js has ${size} bytes, at most ${MOST_JS}`);
  if (check) {
    const there = await files(dist);
    const differs = [...new Set([...built.keys(), ...there.keys()])].filter((name) => !built.get(name)?.equals(there.get(name) ?? Buffer.alloc(0)));
    await rm(out, { recursive: true });
    if (differs.length > 0) throw new Error(`dist/ is not what the sources build: ${differs.join(', ')} (npm run build)`);
  }
  console.log([...built].map(([name, data]) => `${name} ${data.length}`).join('  '));
}
