// The lineage graph, folded: tasks of one step of one run are one node when they are many, and so is
// content that the same nodes made and use.

import type { Lineage } from '../api';
import { NODE_H, NODE_W, type FEdge, type FNode, type Folded } from '../graph/fold';

export type LinNode = Lineage['nodes'][number];

export interface LinFolded extends Folded {
  members: Map<string, LinNode[]>;
}

const FOLD_MIN = 5;

export function foldLineage(l: Lineage, isOpen: (id: string) => boolean): LinFolded {
  const group = new Map<string, string>();
  const sizes = new Map<string, LinNode[]>();
  const put = (n: LinNode, key: string) => {
    group.set(n.id, key);
    const list = sizes.get(key);
    if (list) list.push(n);
    else sizes.set(key, [n]);
  };
  for (const n of l.nodes) if (n.kind === 'attempt') put(n, `${n.run ?? ''}/${n.step ?? ''}`);
  const into = new Map<string, Set<string>>();
  const out = new Map<string, Set<string>>();
  const add = (m: Map<string, Set<string>>, k: string, v: string) => {
    const s = m.get(k);
    if (s) s.add(v);
    else m.set(k, new Set([v]));
  };
  for (const e of l.edges) {
    add(into, e.to, group.get(e.from) ?? e.from);
    add(out, e.from, group.get(e.to) ?? e.to);
  }
  for (const n of l.nodes)
    if (n.kind === 'artifact') {
      const a = [...(into.get(n.id) ?? [])].sort().join('|');
      const b = [...(out.get(n.id) ?? [])].sort().join('|');
      put(n, n.id === l.artifact || (!a && !b) ? n.id : `content ${a} → ${b}`);
    }
  const nodeOf = new Map<string, string>();
  const nodes: FNode[] = [];
  const members = new Map<string, LinNode[]>();
  const node = (id: string, label: string, list: LinNode[], kind: FNode['kind']) => {
    members.set(id, list);
    for (const n of list) nodeOf.set(n.id, id);
    nodes.push({
      id,
      kind,
      label,
      steps: [id],
      tasks: list.length,
      open: false,
      canOpen: list.length > 1,
      critical: false,
      columns: 0,
      w: NODE_W,
      h: NODE_H,
    });
  };
  for (const [key, list] of sizes) {
    const id = `fold:${key}`;
    if (list.length >= FOLD_MIN && !isOpen(id)) {
      const first = list[0]!;
      node(
        id,
        first.kind === 'attempt' ? (first.step ?? '') : (first.name ?? first.id.slice(7, 19)),
        list,
        'alike',
      );
    } else
      for (const n of list)
        node(
          n.id,
          n.kind === 'attempt' ? (n.task ?? n.id) : (n.name ?? n.id.slice(7, 19)),
          [n],
          'step',
        );
  }
  const edges = new Map<string, FEdge>();
  for (const e of l.edges) {
    const from = nodeOf.get(e.from);
    const to = nodeOf.get(e.to);
    if (!from || !to || from === to) continue;
    const known = edges.get(`${from}\0${to}`);
    if (known) known.tasks++;
    else edges.set(`${from}\0${to}`, { from, to, data: true, tasks: 1, critical: false });
  }
  return { nodes, edges: [...edges.values()], members };
}
