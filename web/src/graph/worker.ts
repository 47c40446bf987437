// Large graphs are laid out here, so that the page stays fluid meanwhile.

import { layout, type LEdge, type LNode } from './layout';

self.onmessage = (
  e: MessageEvent<{ id: number; nodes: LNode[]; edges: LEdge[]; aspect: number; gap: number }>,
) => {
  const { id, nodes, edges, aspect, gap } = e.data;
  self.postMessage({ id, placed: layout(nodes, edges, aspect, gap) });
};
