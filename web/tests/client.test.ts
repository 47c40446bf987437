import { describe, expect, it } from 'vitest';
import { join, smoothed } from '../src/charts/curves';
import { numeric } from '../src/pages/compare';
import { foldLineage } from '../src/pages/lineagefold';
import { paramsOf, wrong } from '../src/pages/start';
import type { Lineage } from '../src/api';
// @ts-expect-error a script without types
import { client, typeOf } from '../tools/client.mjs';

describe('the generator', () => {
  it('writes the types that schemas say', () => {
    expect(typeOf({ type: ['string', 'null'] })).toBe('string | null');
    expect(typeOf({ enum: ['a', null] })).toBe('"a" | null');
    expect(typeOf({ type: 'array', items: { type: ['integer', 'null'] } })).toBe(
      '(number | null)[]',
    );
    expect(
      typeOf({ type: 'object', additionalProperties: { $ref: '#/components/schemas/X' } }),
    ).toBe('Record<string, X>');
    expect(
      typeOf({ type: 'object', required: ['a'], properties: { a: { type: 'string' }, 'b-c': {} } }),
    ).toBe('{\n  a: string;\n  "b-c"?: unknown;\n}');
  });
  it('writes calls with their paths, queries and bodies', () => {
    const text = client({
      paths: {
        '/api/v1/runs/{run}/x': {
          post: {
            operationId: 'doX',
            parameters: [
              { name: 'run', in: 'path', schema: { type: 'string' } },
              { name: 'limit', in: 'query', schema: { type: 'integer' } },
            ],
            requestBody: {
              content: { 'application/json': { schema: { $ref: '#/components/schemas/Y' } } },
            },
            responses: {
              202: {
                content: { 'application/json': { schema: { $ref: '#/components/schemas/X' } } },
              },
            },
          },
        },
      },
      components: { schemas: { X: { type: 'object' }, Y: { type: 'object' } } },
    }) as string;
    expect(text).toContain(
      'export const doX = (run: string, body: Y, query: { limit?: number | null } = {}, signal?: AbortSignal)',
    );
    expect(text).toContain(
      "request<X>('POST', `/api/v1/runs/${encodeURIComponent(run)}/x`, query, body, signal)",
    );
  });
});

describe('curves', () => {
  it('share one axis', () => {
    expect(
      join(
        [
          {
            name: 'a',
            points: [
              [0, 1],
              [2, 3],
            ],
          },
          { name: 'b', points: [[1, 5, 9e9]] },
        ],
        false,
      ),
    ).toEqual([
      [0, 1, 2],
      [1, null, 3],
      [null, 5, null],
    ]);
  });
  it('are smoothed over gaps', () => {
    expect(smoothed([1, null, 3], 0.5)).toEqual([1, null, 2]);
    expect(smoothed([1, 2], 0)).toEqual([1, 2]);
  });
});

describe('a form', () => {
  const p = {
    name: 'lr',
    type: 'float',
    default: 0.1 as unknown,
    min: 0,
    max: 1,
    enum: null,
    help: null,
    required: false,
  };
  it('says what is wrong', () => {
    expect(wrong(p, '0.5')).toBeNull();
    expect(wrong(p, 'x')).not.toBeNull();
    expect(wrong(p, '-1')).not.toBeNull();
    expect(wrong({ ...p, type: 'int' }, '0.5')).not.toBeNull();
  });
  it('sends only what differs, typed', () => {
    expect(
      paramsOf(
        [
          p,
          { ...p, name: 'b', type: 'bool', default: false },
          { ...p, name: 's', type: 'string', default: 'x' },
        ],
        { lr: '0.1', b: 'true', s: 'y' },
      ),
    ).toEqual({ b: true, s: 'y' });
  });
});

describe('comparison', () => {
  it('plots only numbers that differ', () => {
    expect(numeric({ a: [1, 1], b: [1, '2'], c: ['x', 'y'] })).toEqual({ b: [1, 2] });
  });
});

describe('lineage', () => {
  it('folds tasks of one step and content between the same neighbours', () => {
    const nodes: Lineage['nodes'] = [
      { id: 'in', kind: 'artifact' },
      { id: 'out', kind: 'artifact' },
    ];
    const edges: Lineage['edges'] = [];
    for (let i = 0; i < 20; i++) {
      nodes.push(
        { id: `t${i}`, kind: 'attempt', task: `aug[${i}]`, step: 'aug', run: 'r' },
        { id: `o${i}`, kind: 'artifact', name: `o${i}` },
      );
      edges.push(
        { from: 'in', to: `t${i}`, name: '' },
        { from: `t${i}`, to: `o${i}`, name: '' },
        { from: `o${i}`, to: 'train', name: '' },
      );
    }
    nodes.push({ id: 'train', kind: 'attempt', task: 'train', step: 'train', run: 'r' });
    edges.push({ from: 'train', to: 'out', name: '' });
    const l = { artifact: 'out', nodes, edges, truncated: false } as Lineage;
    const f = foldLineage(l, () => false);
    expect(f.nodes).toHaveLength(5);
    expect(f.edges).toHaveLength(4);
    const open = foldLineage(l, (id) => id.includes('aug') && !id.includes('content'));
    expect(open.nodes).toHaveLength(24);
  });
});
