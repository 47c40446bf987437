// A drawn graph in its place on a page: as large as its host, panned and zoomed by pointer, wheel and
// keys; what the pointer is over is lit.

import { GraphCanvas, type Hit, type Source } from './canvas';

/** The view, and the way out. */
export function mountGraph(
  host: HTMLElement,
  canvas: HTMLCanvasElement,
  source: Source,
  on: {
    click: (hit: Hit | null) => void;
    over?: (at: { x: number; y: number; hit: Hit } | null) => void;
  },
): [GraphCanvas, () => void] {
  const view = new GraphCanvas(canvas, source);
  const watch = new ResizeObserver(() => view.resize());
  watch.observe(host);
  view.resize();
  const light = (id: string | null) => {
    if (view.hovered === id) return;
    view.hovered = id;
    view.request();
  };
  const out = attachGestures(host, view, {
    click: (x, y) => on.click(view.at(x, y)),
    hover: (x, y) => {
      const hit = view.at(x, y);
      host.style.cursor = hit ? 'pointer' : '';
      light(hit?.box.node.id ?? null);
      on.over?.(hit ? { x, y, hit } : null);
    },
    leave: () => {
      light(null);
      on.over?.(null);
    },
  });
  return [
    view,
    () => {
      watch.disconnect();
      out();
    },
  ];
}

/** Pointer, wheel and keys of a canvas that pans and zooms. Returns the way out. */
function attachGestures(
  host: HTMLElement,
  view: GraphCanvas,
  on: {
    click: (x: number, y: number) => void;
    hover: (x: number, y: number) => void;
    leave: () => void;
  },
): () => void {
  const pointers = new Map<number, { x: number; y: number }>();
  let moved = 0;
  const at = (e: { clientX: number; clientY: number }) => {
    const r = host.getBoundingClientRect();
    return { x: e.clientX - r.left, y: e.clientY - r.top };
  };
  const down = (e: PointerEvent) => {
    if (e.button !== 0 || (e.target as Element).closest('button')) return;
    pointers.set(e.pointerId, at(e));
    moved = 0;
    host.setPointerCapture(e.pointerId);
  };
  const move = (e: PointerEvent) => {
    const p = at(e);
    const before = pointers.get(e.pointerId);
    if (!before) {
      on.hover(p.x, p.y);
      return;
    }
    if (pointers.size === 2) {
      const other = [...pointers.entries()].find(([id]) => id !== e.pointerId)![1];
      const was = Math.hypot(before.x - other.x, before.y - other.y);
      const is = Math.hypot(p.x - other.x, p.y - other.y);
      if (was > 0) view.zoom(is / was, (p.x + other.x) / 2, (p.y + other.y) / 2);
    } else view.pan(p.x - before.x, p.y - before.y);
    moved += Math.abs(p.x - before.x) + Math.abs(p.y - before.y);
    pointers.set(e.pointerId, p);
  };
  const up = (e: PointerEvent) => {
    if (!pointers.delete(e.pointerId)) return;
    const p = at(e);
    if (moved < 4 && pointers.size === 0) on.click(p.x, p.y);
  };
  const wheel = (e: WheelEvent) => {
    e.preventDefault();
    const p = at(e);
    const unit = e.deltaMode === 1 ? 16 : 1;
    if (e.ctrlKey || e.metaKey) view.zoom(Math.exp(-e.deltaY * unit * 0.004), p.x, p.y);
    else view.pan(-(e.shiftKey ? e.deltaY : e.deltaX) * unit, e.shiftKey ? 0 : -e.deltaY * unit);
  };
  const key = (e: KeyboardEvent) => {
    if (e.target !== host || e.ctrlKey || e.metaKey || e.altKey) return;
    const step = e.shiftKey ? 200 : 50;
    const does: Record<string, () => void> = {
      ArrowLeft: () => view.pan(step, 0),
      ArrowRight: () => view.pan(-step, 0),
      ArrowUp: () => view.pan(0, step),
      ArrowDown: () => view.pan(0, -step),
      '+': () => view.zoom(1.25),
      '=': () => view.zoom(1.25),
      '-': () => view.zoom(0.8),
      '0': () => view.fit(),
    };
    const d = does[e.key];
    if (d) {
      d();
      e.preventDefault();
      e.stopPropagation();
    }
  };
  const leave = () => on.leave();
  host.addEventListener('pointerdown', down);
  host.addEventListener('pointermove', move);
  host.addEventListener('pointerup', up);
  host.addEventListener('pointercancel', up);
  host.addEventListener('pointerleave', leave);
  host.addEventListener('wheel', wheel, { passive: false });
  host.addEventListener('keydown', key);
  return () => {
    host.removeEventListener('pointerdown', down);
    host.removeEventListener('pointermove', move);
    host.removeEventListener('pointerup', up);
    host.removeEventListener('pointercancel', up);
    host.removeEventListener('pointerleave', leave);
    host.removeEventListener('wheel', wheel);
    host.removeEventListener('keydown', key);
    view.stop();
  };
}
