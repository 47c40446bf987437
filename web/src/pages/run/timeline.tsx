// Who ran when, and who waited for whom: a row a task, drawn on a canvas that holds what is in view. A
// hit is a mark where it could have begun, with the time that it saved as an outline. The same facts
// as text are in the table of tasks.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { count, duration } from '../../base/format';
import { now } from '../../base/clock';
import { place, setQuery } from '../../base/route';
import { colour, colours } from '../../base/theme';
import { words } from '../../base/words';
import { tone } from '../../graph/canvas';
import { Check, Empty, Skeleton, stateWord } from '../../parts/bits';
import { Span } from '../../parts/span';
import { ticks } from '../../charts/ticks';
import type { RunModel, Task } from './model';

const ROW = 18;
const AXIS = 26;

/** Where its row begins: its start, else when it could have begun, or now where it still waits. */
function atOf(model: RunModel, t: Task): number {
  if (t.start !== null) return t.start;
  if (t.state === 'waiting') return Infinity;
  for (let a = t.after; a !== null;) {
    const need = model.tasks.get(a);
    if (!need) break;
    if (need.end !== null) return need.end;
    a = need.after;
  }
  return 0;
}

export default function Timeline({
  model,
  task,
  onOpen,
}: {
  model: RunModel;
  task: string | null;
  onOpen: (t: string) => void;
}) {
  const [version, setVersion] = useState(model.version);
  useEffect(() => {
    setVersion(model.version);
    return model.onChange(() => setVersion(model.version));
  }, [model]);
  const query = place.value.query;
  const bySteps = query.get('lanes') === '1';
  const onlyCritical = query.get('critical') === '1';
  const onlyStarted = query.get('started') === '1';
  const rows = useMemo(() => {
    const list = [...model.tasks.values()].filter(
      (t) =>
        (t.start !== null || (!onlyStarted && (t.state !== 'waiting' || model.running))) &&
        (!onlyCritical || model.critical.has(t.task)),
    );
    const rank = new Map((model.graph?.steps ?? []).map((s, i) => [s.step, i]));
    list.sort(
      (a, b) =>
        (bySteps ? (rank.get(a.step) ?? 0) - (rank.get(b.step) ?? 0) : 0) ||
        atOf(model, a) - atOf(model, b) ||
        (a.task < b.task ? -1 : 1),
    );
    return list;
  }, [version, bySteps, onlyCritical, onlyStarted]);
  const area = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [size, setSize] = useState({ w: 0, h: 0 });
  const [top, setTop] = useState(0);
  const [range, setRange] = useState<[number, number] | null>(null);
  const [tip, setTip] = useState<{ x: number; y: number; t: Task } | null>(null);
  const live = model.running;
  const end = Math.max(
    1e6,
    live ? (now.value.getTime() - model.startedAt) * 1e6 : 0,
    ...(rows.length < 50_000
      ? rows.map((t) => t.end ?? t.start ?? 0)
      : [rows.reduce((m, t) => Math.max(m, t.end ?? 0), 0)]),
    // Nothing ran: what was saved gives the scale.
    ...(rows.some((t) => t.start !== null) ? [] : [rows.reduce((m, t) => Math.max(m, t.saved), 0)]),
  );
  const [from, to] = range ?? [0, end * 1.01];
  const names = Math.min(220, Math.max(90, size.w * 0.22));
  const span = new Span(rows.length, ROW, Math.max(1, size.h - AXIS));

  useEffect(() => {
    const el = area.current;
    if (!el) return;
    const measure = () => setSize({ w: el.clientWidth, h: el.clientHeight });
    const watch = new ResizeObserver(measure);
    watch.observe(el);
    measure();
    return () => watch.disconnect();
  }, [rows.length > 0]);

  /** From the end of the task that this one waited for down to its start. */
  const link = (ctx: CanvasRenderingContext2D, name: string | null | undefined) => {
    const i = name ? rows.findIndex((t) => t.task === name) : -1;
    const k = i < 0 || !rows[i]!.after ? -1 : rows.findIndex((t) => t.task === rows[i]!.after);
    if (k < 0) return;
    const at = (row: number) => AXIS + row * ROW - span.at(top) + ROW / 2;
    const x0 = x(rows[k]!.end ?? atOf(model, rows[k]!));
    ctx.strokeStyle = colour('--accent');
    ctx.beginPath();
    ctx.moveTo(x0, at(k));
    ctx.lineTo(x0, at(i));
    ctx.lineTo(x(atOf(model, rows[i]!)), at(i));
    ctx.stroke();
  };

  const x = (ns: number) => names + ((ns - from) / (to - from)) * (size.w - names - 12);

  useEffect(() => {
    const c = canvas.current;
    const ctx = c?.getContext('2d');
    if (!c || !ctx || size.w === 0) return;
    const d = devicePixelRatio || 1;
    c.width = Math.round(size.w * d);
    c.height = Math.round(size.h * d);
    ctx.setTransform(d, 0, 0, d, 0, 0);
    ctx.clearRect(0, 0, size.w, size.h);
    const sans = colour('--sans');
    ctx.font = `11px ${sans}`;
    ctx.textBaseline = 'middle';
    for (const t of ticks(from / 1e9, to / 1e9, Math.max(2, Math.floor((size.w - names) / 110)))) {
      const px = x(t * 1e9);
      if (px < names) continue;
      ctx.fillStyle = colour('--line');
      ctx.fillRect(Math.round(px), AXIS - 4, 1, size.h);
      ctx.fillStyle = colour('--text-3');
      ctx.fillText(duration(t * 1e9), px + 4, AXIS / 2);
    }
    const [first, last] = span.visible(top, 1);
    const live = (now.peek().getTime() - model.startedAt) * 1e6;
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, AXIS, size.w, size.h - AXIS);
    ctx.clip();
    let step = '';
    for (let i = first; i < last; i++) {
      const t = rows[i]!;
      const y = AXIS + i * ROW - span.at(top);
      if (t.task === task) {
        ctx.fillStyle = colour('--accent-soft');
        ctx.fillRect(0, y, size.w, ROW);
      }
      if (bySteps && t.step !== step) {
        if (i > 0) {
          ctx.fillStyle = colour('--line-strong');
          ctx.fillRect(0, Math.round(y), size.w, 1);
        }
        step = t.step;
      }
      ctx.save();
      ctx.beginPath();
      ctx.rect(names, y, size.w - names, ROW);
      ctx.clip();
      const a = x(Math.min(atOf(model, t), live));
      const b = t.start === null ? a : t.end === null ? x(live) : x(t.end);
      if (t.start !== null && t.waited > 0 && t.start - t.waited < to) {
        ctx.fillStyle = colour('--pressed');
        const w0 = x(t.start - t.waited);
        ctx.fillRect(w0, y + ROW / 2 - 1, a - w0, 2);
      }
      ctx.fillStyle = tone(t.state);
      if (t.start === null) {
        ctx.strokeStyle = tone(t.state);
        if (t.saved > 0) ctx.strokeRect(a + 0.5, y + 5.5, x(from + t.saved) - x(from), ROW - 11);
        ctx.beginPath();
        ctx.moveTo(a, y + 3);
        ctx.lineTo(a + 6, y + ROW / 2);
        ctx.lineTo(a, y + ROW - 3);
        ctx.lineTo(a - 6, y + ROW / 2);
        ctx.closePath();
        if (t.state === 'waiting') ctx.stroke();
        else ctx.fill();
      } else {
        ctx.beginPath();
        ctx.roundRect(a, y + 4, Math.max(2, b - a), ROW - 8, 2);
        ctx.fill();
      }
      if (model.critical.has(t.task) && t.start !== null) {
        ctx.fillStyle = colour('--s-attention');
        ctx.fillRect(a, y + ROW - 3, Math.max(2, b - a), 2);
      }
      ctx.restore();
      ctx.fillStyle = t.task === task ? colour('--text') : colour('--text-2');
      let label = t.task;
      if (ctx.measureText(label).width > names - 16) {
        let n = label.length;
        while (n > 4 && ctx.measureText(`${label.slice(0, n)}…`).width > names - 16) n -= 2;
        label = `${label.slice(0, n)}…`;
      }
      ctx.fillText(label, 8, y + ROW / 2 + 0.5);
    }
    for (const t of new Set([tip?.t.task, task])) link(ctx, t);
    ctx.restore();
    ctx.fillStyle = colour('--line');
    ctx.fillRect(Math.round(names), 0, 1, size.h);
    ctx.fillRect(0, AXIS - 1, size.w, 1);
  }, [version, size, top, range, task, tip?.t.task, rows, colours.value, live ? now.value : 0]);

  const rowAt = (clientY: number) => {
    const r = area.current!.getBoundingClientRect();
    const y = clientY - r.top - AXIS;
    return y < 0 ? undefined : rows[Math.floor((y + span.at(top)) / ROW)];
  };

  if (model.tasks.size === 0 && !model.loadedTasks) return <Skeleton lines={10} />;
  if (rows.length === 0 && !onlyCritical && !onlyStarted)
    return <Empty title={words.run.timelineNothing} />;
  const saved = model.run?.counts.hits ?? 0;
  return (
    <div class="card timeline">
      <div class="row bar">
        <Check
          label={words.run.lanes}
          checked={bySteps}
          onChange={(on) => setQuery({ lanes: on })}
        />
        <Check
          label={words.run.critical}
          checked={onlyCritical}
          onChange={(on) => setQuery({ critical: on })}
        />
        <Check
          label={words.run.onlyStarted}
          checked={onlyStarted}
          onChange={(on) => setQuery({ started: on })}
        />
        {range && (
          <button type="button" class="btn small" onClick={() => setRange(null)}>
            {words.run.zoomFit}
          </button>
        )}
        <span class="quiet">{words.run.zoomHint}</span>
        <span class="grow" />
        {saved > 0 && (
          <span class="second">
            {count(saved)} {words.tasks.hits as string},{' '}
            {words.run.savedBy(duration(model.run?.saved_ns))}
          </span>
        )}
      </div>
      {rows.length === 0 && <Empty title={words.run.timelineNoneRan} />}
      <div
        class="timearea"
        ref={area}
        tabIndex={0}
        role="group"
        aria-label={words.run.timelineLabel(rows.length)}
        onScroll={(e) => setTop(e.currentTarget.scrollTop)}
        onWheel={(e) => {
          if (!e.ctrlKey && !e.metaKey && Math.abs(e.deltaX) <= Math.abs(e.deltaY)) return;
          e.preventDefault();
          const r = e.currentTarget.getBoundingClientRect();
          const at =
            from + (Math.max(0, e.clientX - r.left - names) / (size.w - names - 12)) * (to - from);
          const f = e.ctrlKey || e.metaKey ? Math.exp(e.deltaY * 0.004) : 1;
          const shift = e.ctrlKey || e.metaKey ? 0 : (e.deltaX / (size.w - names)) * (to - from);
          setRange([at - (at - from) * f + shift, at + (to - at) * f + shift]);
        }}
        onKeyDown={(e) => {
          const w = to - from;
          const to_: Record<string, [number, number] | null> = {
            '+': [from + w * 0.1, to - w * 0.1],
            '=': [from + w * 0.1, to - w * 0.1],
            '-': [from - w * 0.125, to + w * 0.125],
            ArrowLeft: [from - w * 0.1, to - w * 0.1],
            ArrowRight: [from + w * 0.1, to + w * 0.1],
            '0': null,
          };
          if (!(e.key in to_) || e.ctrlKey || e.metaKey) return;
          e.preventDefault();
          setRange(to_[e.key] ?? null);
        }}
        onPointerMove={(e) => {
          const t = rowAt(e.clientY);
          const r = e.currentTarget.getBoundingClientRect();
          setTip(t ? { x: e.clientX - r.left, y: e.clientY - r.top, t } : null);
        }}
        onPointerLeave={() => setTip(null)}
        onClick={(e) => {
          const t = rowAt(e.clientY);
          if (t) onOpen(t.task);
        }}
      >
        <canvas ref={canvas} aria-hidden="true" />
        <div style={{ height: `${Math.max(0, span.height + AXIS - size.h)}px` }} />
      </div>
      {tip && (
        <div
          class="tip"
          style={{ left: `${Math.min(tip.x + 14, size.w - 240)}px`, top: `${tip.y + 52}px` }}
          aria-hidden="true"
        >
          <strong>{tip.t.task}</strong>
          <span class="second">
            {stateWord(tip.t.state)}
            {tip.t.start !== null &&
              tip.t.waited > 1e6 &&
              ` · ${words.run.waited} ${duration(tip.t.waited)}`}
            {tip.t.after && ` · ${words.run.after(tip.t.after)}`}
            {tip.t.start !== null &&
              ` · ${words.run.ran} ${duration((tip.t.end ?? (now.peek().getTime() - model.startedAt) * 1e6) - tip.t.start)}`}
            {tip.t.saved > 0 && ` · ${words.run.savedBy(duration(tip.t.saved))}`}
          </span>
        </div>
      )}
    </div>
  );
}
