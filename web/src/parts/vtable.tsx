// A table of any length: only the rows in view are in the page. The area scrolls natively (the
// reader's keys, wheel and touch work as everywhere); beyond what a browser can make high, positions
// are scaled (parts/span.ts).
//
// Keyboard: one row is in the tab order; arrows, page keys, Home and End move; Enter opens.

import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Span } from './span';

export interface Column<T> {
  id: string;
  title: ComponentChildren;
  width: string;
  num?: boolean;
  cell: (row: T) => ComponentChildren;
}

interface Props<T> {
  label: string;
  columns: Column<T>[];
  /** How many rows there are; those not loaded are undefined and drawn as skeletons. */
  length: number;
  row: (i: number) => T | undefined;
  keyOf: (row: T) => string;
  current?: string | null;
  onOpen?: (row: T) => void;
  onKey?: (e: KeyboardEvent, row: T) => boolean;
  onRange?: (from: number, to: number) => void;
  rowHeight?: number;
  height?: string;
}

export function VTable<T>({
  label,
  columns,
  length,
  row,
  keyOf,
  current,
  onOpen,
  onKey,
  onRange,
  rowHeight = 32,
  height,
}: Props<T>) {
  const area = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [active, setActive] = useState(0);
  const refocus = useRef(false);
  const span = new Span(length, rowHeight, view.height - rowHeight);

  useLayoutEffect(() => {
    const el = area.current;
    if (!el) return;
    const measure = () => setView({ top: el.scrollTop, height: el.clientHeight });
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(el);
    let waiting = false;
    const scrolled = () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        measure();
      });
    };
    el.addEventListener('scroll', scrolled, { passive: true });
    return () => {
      watch.disconnect();
      el.removeEventListener('scroll', scrolled);
    };
  }, []);

  const [first, last] = span.visible(view.top, 8);
  useEffect(() => onRange?.(first, last), [first, last, length]);
  useEffect(() => {
    if (!refocus.current) return;
    refocus.current = false;
    area.current
      ?.querySelector<HTMLElement>(`[data-row="${active}"]`)
      ?.focus({ preventScroll: true });
  });

  const show = (i: number) => {
    const el = area.current;
    if (!el) return;
    const to = Math.max(0, Math.min(length - 1, i));
    setActive(to);
    refocus.current = true;
    el.scrollTop = span.scrollTo(to, el.scrollTop);
    setView({ top: el.scrollTop, height: el.clientHeight });
  };

  const keydown = (e: KeyboardEvent) => {
    if (!(e.target as Element).matches('[data-row]')) return;
    const page = Math.max(1, Math.floor(view.height / rowHeight) - 2);
    const r = row(active);
    const moves: Record<string, number> = {
      ArrowDown: active + 1,
      j: active + 1,
      ArrowUp: active - 1,
      k: active - 1,
      PageDown: active + page,
      PageUp: active - page,
      Home: 0,
      End: length - 1,
    };
    const to = e.ctrlKey || e.metaKey || e.altKey ? undefined : moves[e.key];
    if (to !== undefined) show(to);
    else if (e.key === 'Enter' && r) onOpen?.(r);
    else if (!r || !onKey?.(e, r)) return;
    e.preventDefault();
  };

  // Rows and head agree on columns: each is at least as wide as the columns' least widths.
  const least = columns.reduce((n, c) => n + Number(/(\d+)px/.exec(c.width)?.[1] ?? 80), 0);
  const rows = [];
  const tabbable = active >= first && active < last ? active : first;
  for (let i = first; i < last; i++) {
    const r = row(i);
    const top = span.top(i, view.top) + rowHeight;
    const k = r ? keyOf(r) : `#${i}`;
    rows.push(
      <div
        key={k}
        role="row"
        aria-rowindex={i + 2}
        data-row={i}
        tabIndex={i === tabbable ? 0 : -1}
        class={`vrow ${r && current === k ? 'current' : ''}`}
        style={{ transform: `translateY(${top}px)` }}
        onFocus={(e) => {
          if (e.target === e.currentTarget) setActive(i);
        }}
        onClick={(e) => {
          if (
            r &&
            onOpen &&
            !(e.target as Element).closest('a,button,input,label') &&
            !getSelection()?.toString()
          )
            onOpen(r);
        }}
      >
        {columns.map((c) => (
          <div key={c.id} role="cell" class={c.num ? 'num' : undefined}>
            {r ? c.cell(r) : <span class="skeleton w2" />}
          </div>
        ))}
      </div>,
    );
  }
  return (
    <div
      class="vtable"
      ref={area}
      role="table"
      aria-label={label}
      aria-rowcount={length + 1}
      aria-colcount={columns.length}
      onKeyDown={keydown}
      style={{
        '--cols': columns.map((c) => c.width).join(' '),
        '--least': `${least}px`,
        height: height ?? '',
      }}
    >
      <div role="rowgroup">
        <div class="vhead" role="row" aria-rowindex={1}>
          {columns.map((c) => (
            <div key={c.id} role="columnheader" class={c.num ? 'num' : undefined}>
              {c.title}
            </div>
          ))}
        </div>
      </div>
      <div role="rowgroup" style={{ height: `${span.height}px` }}>
        {rows}
      </div>
    </div>
  );
}
