// Small graphs are laid out at once, large ones in a worker.

import { REPORT } from '../base/mode';
import { layout, type LEdge, type LNode, type Placed } from './layout';

const AT_ONCE = 150;

let worker: Worker | null = null;
let last = 0;
const open = new Map<number, (p: Placed) => void>();

export function place(
  nodes: LNode[],
  edges: LEdge[],
  aspect: number,
  gap: number,
): Placed | Promise<Placed> {
  if (REPORT || nodes.length + edges.length <= AT_ONCE) return layout(nodes, edges, aspect, gap);
  if (!worker) {
    worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
    worker.onmessage = (e: MessageEvent<{ id: number; placed: Placed }>) => {
      open.get(e.data.id)?.(e.data.placed);
      open.delete(e.data.id);
    };
  }
  const id = ++last;
  return new Promise((done) => {
    open.set(id, done);
    worker!.postMessage({ id, nodes, edges, aspect, gap });
  });
}
