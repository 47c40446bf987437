// Drives the YAML language server as an editor does, over stdin and stdout (Language Server Protocol 3.17): node language_server.mjs SERVER SCHEMA FILE...
// prints one line a problem: FILE:LINE:COLUMN: MESSAGE. With --complete FILE:LINE:COLUMN it prints what may be written there, one label a line.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const [program, schema, ...rest] = process.argv.slice(2);
const server = spawn(process.execPath, [program, '--stdio'], { stdio: ['pipe', 'pipe', 'inherit'] });
const waiting = new Map();
const diagnostics = new Map();
let last = 0;
let buffer = Buffer.alloc(0);

function send(message) {
  const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message }));
  server.stdin.write(`Content-Length: ${body.length}\r\n\r\n`);
  server.stdin.write(body);
}
function ask(method, params) {
  const id = ++last;
  send({ id, method, params });
  return new Promise((resolve) => waiting.set(id, resolve));
}
const settings = { yaml: { schemas: { [pathToFileURL(schema).href]: '**/*.yaml' }, validate: true, completion: true, schemaStore: { enable: false } } };

function receive(message) {
  if (message.method === 'workspace/configuration') {
    send({ id: message.id, result: message.params.items.map((i) => settings[i.section] ?? null) });
  } else if (message.method === 'textDocument/publishDiagnostics') {
    diagnostics.get(message.params.uri)?.(message.params.diagnostics);
  } else if (message.id !== undefined && message.method) {
    send({ id: message.id, result: null });
  } else if (message.id !== undefined) {
    waiting.get(message.id)?.(message.result);
  }
}
server.stdout.on('data', (data) => {
  buffer = Buffer.concat([buffer, data]);
  for (;;) {
    const head = buffer.indexOf('\r\n\r\n');
    if (head < 0) return;
    const length = Number(/Content-Length: (\d+)/.exec(buffer.subarray(0, head).toString())[1]);
    if (buffer.length < head + 4 + length) return;
    const body = buffer.subarray(head + 4, head + 4 + length).toString();
    buffer = buffer.subarray(head + 4 + length);
    receive(JSON.parse(body));
  }
});

function open(file) {
  const uri = pathToFileURL(file).href;
  const done = new Promise((resolve) => diagnostics.set(uri, resolve));
  send({ method: 'textDocument/didOpen', params: { textDocument: { uri, languageId: 'yaml', version: 1, text: readFileSync(file, 'utf8') } } });
  return [uri, done];
}

await ask('initialize', { processId: process.pid, rootUri: null, capabilities: { workspace: { configuration: true } } });
send({ method: 'initialized', params: {} });
send({ method: 'workspace/didChangeConfiguration', params: { settings } });
if (rest[0] === '--complete') {
  const [, file, line, column] = /^(.*):(\d+):(\d+)$/.exec(rest[1]);
  const [uri, done] = open(file);
  await done;
  const answer = await ask('textDocument/completion', { textDocument: { uri }, position: { line: line - 1, character: column - 1 } });
  for (const item of answer.items ?? answer) console.log(item.label);
} else {
  for (const file of rest) {
    const [, done] = open(file);
    for (const d of await done) console.log(`${file}:${d.range.start.line + 1}:${d.range.start.character + 1}: ${d.message.replaceAll('\n', ' ')}`);
  }
}
server.kill();
