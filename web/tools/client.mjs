// node tools/client.mjs OPENAPI.json|URL [--check]: writes src/api/generated.ts, the types and calls of
// the API, from the server's own description. --check compares instead, and fails when they differ.

import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const OUT = fileURLToPath(new URL('../src/api/generated.ts', import.meta.url));

const name = (s) => (/^[A-Za-z_$][\w$]*$/.test(s) ? s : JSON.stringify(s));

/** The TypeScript type of a JSON Schema, as far as the API uses them. */
export function typeOf(schema, indent = '') {
  if (!schema || Object.keys(schema).length === 0) return 'unknown';
  if (schema.$ref) return schema.$ref.split('/').pop();
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((v) => JSON.stringify(v)).join(' | ');
  for (const word of ['oneOf', 'anyOf'])
    if (schema[word]) return schema[word].map((s) => typeOf(s, indent)).join(' | ');
  if (schema.allOf) return schema.allOf.map((s) => typeOf(s, indent)).join(' & ');
  if (Array.isArray(schema.type))
    return schema.type.map((t) => wrap(typeOf({ ...schema, type: t }, indent))).join(' | ');
  switch (schema.type) {
    case 'null':
      return 'null';
    case 'string':
      return 'string';
    case 'integer':
    case 'number':
      return 'number';
    case 'boolean':
      return 'boolean';
    case 'array':
      if (schema.prefixItems)
        return `[${schema.prefixItems.map((s) => typeOf(s, indent)).join(', ')}]`;
      return `${wrap(typeOf(schema.items, indent))}[]`;
    case 'object':
      return objectType(schema, indent);
    default:
      return schema.properties ? objectType(schema, indent) : 'unknown';
  }
}

const wrap = (t) => (/ [|&] /.test(t) && !t.startsWith('{') ? `(${t})` : t);

function objectType(schema, indent) {
  const required = new Set(schema.required ?? []);
  const inner = `${indent}  `;
  // A required member that isn't described is as any other.
  const properties = { ...schema.properties };
  if (typeof schema.additionalProperties === 'object')
    for (const k of required) properties[k] ??= schema.additionalProperties;
  const lines = Object.entries(properties).map(
    ([k, s]) => `${inner}${name(k)}${required.has(k) ? '' : '?'}: ${typeOf(s, inner)};`,
  );
  if (lines.length === 0)
    return typeof schema.additionalProperties === 'object'
      ? `Record<string, ${typeOf(schema.additionalProperties, indent)}>`
      : 'Record<string, unknown>';
  return `{\n${lines.join('\n')}\n${indent}}`;
}

const jsonOf = (content) => content?.['application/json']?.schema;

function operation(path, method, op, shared) {
  const params = [...shared, ...(op.parameters ?? [])];
  const inPath = params.filter((p) => p.in === 'path');
  const inQuery = params.filter((p) => p.in === 'query');
  const good = Object.entries(op.responses).find(([code]) => code.startsWith('2'))?.[1];
  const answer = jsonOf(good?.content);
  if (!answer) return null; // streams and texts are read by hand
  const body = jsonOf(op.requestBody?.content);
  const args = inPath.map((p) => `${p.name}: string`);
  if (body) args.push(`body: ${typeOf(body)}`);
  // null: not sent. A cursor is what `next` of the page before said.
  const query = inQuery
    .map((p) => `${name(p.name)}?: ${p.name === 'cursor' ? 'string' : typeOf(p.schema)} | null`)
    .join('; ');
  args.push(
    inQuery.length ? `query: { ${query} } = {}` : 'query: Query = {}',
    'signal?: AbortSignal',
  );
  const text = path.replace(/\{(\w+)\}/g, (_, p) => `\${encodeURIComponent(${p})}`);
  return `/** ${op.summary ?? op.operationId} */
export const ${op.operationId} = (${args.join(', ')}) =>
  request<${typeOf(answer)}>('${method.toUpperCase()}', \`${text}\`, query, ${body ? 'body' : 'undefined'}, signal);
`;
}

export function client(api) {
  const parts = [
    "// Made by tools/client.mjs from the server's openapi.json: don't edit.\n",
    "import { request, type Query } from './request';\n",
  ];
  // By name: a path that moves in the server's table changes nothing here.
  const byName = (o) => Object.entries(o ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  for (const [n, schema] of byName(api.components?.schemas))
    parts.push(`export type ${n} = ${typeOf(schema)};\n`);
  for (const [path, item] of byName(api.paths))
    for (const method of ['get', 'post', 'put', 'delete'])
      if (item[method]) {
        const text = operation(path, method, item[method], item.parameters ?? []);
        if (text) parts.push(text);
      }
  return parts.join('\n');
}

async function main(source, check) {
  const text = /^https?:/.test(source)
    ? await (await fetch(source)).text()
    : readFileSync(source, 'utf8');
  const made = client(JSON.parse(text));
  if (!check) {
    writeFileSync(OUT, made);
    return 0;
  }
  if (readFileSync(OUT, 'utf8') === made) return 0;
  console.error(
    'src/api/generated.ts is not what the server describes: npm run api -- URL/api/v1/openapi.json',
  );
  return 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const args = process.argv.slice(2).filter((a) => a !== '--check');
  if (args.length !== 1) {
    console.error('usage: node tools/client.mjs OPENAPI.json|URL [--check]');
    process.exitCode = 2;
  } else {
    process.exitCode = await main(args[0], process.argv.includes('--check'));
  }
}
