// Packs the SDK for other projects, without a registry: pack/tenure-sdk-<version>.tgz with one ES module and its types.
import { execFileSync } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { sdk } from './build.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const out = join(root, 'pack');
const work = await mkdtemp(join(tmpdir(), 'tenure-sdk-'));
const stage = join(work, 'tenure-sdk');
const { version, license } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));

await rm(out, { recursive: true, force: true });
await mkdir(out);
await mkdir(stage);
await sdk(stage);
const tsc = join(root, 'node_modules', '.bin', 'tsc');
execFileSync(tsc, ['-p', 'tsconfig.pack.json', '--outDir', join(stage, 'types')], { cwd: root, stdio: 'inherit' });
for (const name of await readdir(join(stage, 'types'))) {
  const file = join(stage, 'types', name);
  await writeFile(file, (await readFile(file, 'utf8')).replaceAll(/(from '\.\/\w+)\.ts'/g, "$1.js'"));
}
const about = {
  name: 'tenure-sdk',
  version,
  description: 'The browser SDK of Tenure.',
  license,
  type: 'module',
  exports: { '.': { types: './types/index.d.ts', default: './tenure.js' } },
  types: './types/index.d.ts',
  sideEffects: false,
};
await writeFile(join(stage, 'package.json'), `${JSON.stringify(about, null, 2)}\n`);
await copyFile(join(root, 'README.md'), join(stage, 'README.md'));

// What a project sees that installed it: the types hold together without the sources, and know the game's names.
const user = join(work, 'user');
await mkdir(join(user, 'node_modules'), { recursive: true });
await symlink(stage, join(user, 'node_modules', 'tenure-sdk'));
await writeFile(
  join(user, 'game.ts'),
  `import { Client, TenureError, describe, type Room } from 'tenure-sdk';
interface Game { components: { pos: { x: number } }; resources: object; messages: { steer: [number, number] }; requests: object; events: { chat: { text: string } } }
const room: Room<Game> = await new Client('ws://localhost:7777').joinOrCreate<Game>('arena');
room.onMessage('chat', ({ text }) => console.log(text.length));
room.onMessage('*', (type, payload) => console.log(type, payload));
room.onAdd('pos', (entity, pos) => console.log(entity.id, pos.x.toFixed()));
room.onLeave((code) => console.log(describe(code)));
room.onError((error: TenureError) => console.log(error.closeCode));
// @ts-expect-error There is no such message.
room.send('fly', 1);
await room.leave();
export {};
`,
);
await writeFile(join(user, 'package.json'), '{ "type": "module" }');
const options = { noEmit: true, strict: true, target: 'es2022', module: 'nodenext', lib: ['es2022', 'dom', 'dom.iterable'], types: [] };
await writeFile(join(user, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, files: ['game.ts'] }));
execFileSync(tsc, ['-p', user], { cwd: root, stdio: 'inherit' });
execFileSync('npm', ['pack', '--silent', '--pack-destination', out], { cwd: stage, stdio: 'inherit' });
await rm(work, { recursive: true });
